/* See model.h. */
#define _GNU_SOURCE
#include "model.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { RESET_POLL_MS = 2 };
static struct model_options options;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int air_socket = -1, control_socket = -1, wake[2], failing, hanging;
static FILE *log_file;
static double real_base, model_base;

static double real_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

double model_now(void) { return model_base + (real_ms() - real_base) * options.speed; }

void model_speed(double speed) {
    const double real = real_ms();
    model_base += (real - real_base) * options.speed;
    real_base = real;
    options.speed = speed;
}

void model_jump(double ms) { model_base += ms; }

void model_lock(void) {
    pthread_mutex_lock(&lock);
    chip_run(model_now());
}

/* The call may have set a new wake time for the thread. */
void model_unlock(void) {
    pthread_mutex_unlock(&lock);
    if (write(wake[1], "", 1) < 0 && errno != EAGAIN) perror("sx127x: wake");
}

void bus_fail(int messages) { failing = messages; }
void bus_hang(int ms) { hanging = ms; }

int bus_fault(void) {
    pthread_mutex_lock(&lock);
    const int wait = hanging, error = failing > 0 ? EIO : 0;
    hanging = 0;
    if (failing > 0) failing--;
    pthread_mutex_unlock(&lock);
    if (wait > 0) usleep((useconds_t)wait * 1000);
    return error;
}

static _Noreturn void die(const char *what) {
    fprintf(stderr, "sx127x: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void write_text(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) perror(path);
    if (fd >= 0) close(fd);
}

static void dio(int line, bool high) {
    if (options.dio[line]) write_text(options.dio[line], high ? "pull-up" : "pull-down");
}

/* To every other model in the folder; an absent or slow one misses it. */
static void send_to_all(const struct transmission *t) {
    if (log_file) {
        fprintf(log_file, "{\"at_ms\":%.3f,\"airtime_ms\":%.3f,\"frequency_hz\":%.0f,\"power_dbm\":%d,\"bytes\":\"",
                model_now(), t->airtime_ms, t->frf * 32e6 / 524288, t->power_dbm);
        for (int k = 0; k < t->length; k++) fprintf(log_file, "%02x", t->payload[k]);
        fputs("\"}\n", log_file);
        fflush(log_file);
    }
    DIR *folder = options.air ? opendir(options.air) : NULL;
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, options.name) == 0) continue;
        snprintf(to.sun_path, sizeof to.sun_path, "%.60s/%.40s", options.air, entry->d_name);
        sendto(air_socket, t, sizeof *t, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
    }
    closedir(folder);
}

static int bound(int type, const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0) die(path);
    return fd;
}

static void serve_control(void) {
    char command[1200], answer[4096] = "ok";
    const int fd = accept(control_socket, NULL, NULL);
    if (fd < 0) return;
    const ssize_t n = read(fd, command, sizeof command - 1);
    if (n > 0) {
        command[n] = 0;
        command[strcspn(command, "\r\n")] = 0;
        model_lock();
        control(command, answer, sizeof answer - 1);
        model_unlock();
        strcat(answer, "\n");
        if (write(fd, answer, strlen(answer)) < 0) perror("sx127x: control");
    }
    close(fd);
}

static void look_at_reset(void) {
    char path[256], value = '1';
    snprintf(path, sizeof path, "%s/value", options.reset);
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, &value, 1) != 1) value = '1';
    if (fd >= 0) close(fd);
    chip_reset(value == '0');
}

static void *run(void *unused) {
    struct pollfd ready[3] = {{wake[0], POLLIN, 0}, {air_socket, POLLIN, 0}, {control_socket, POLLIN, 0}};
    for (;;) {
        pthread_mutex_lock(&lock);
        const double next = chip_run(model_now()), now = model_now();
        double wait = isinf(next) ? 1000 : (next - now) / options.speed;
        if (options.reset) {
            look_at_reset();
            wait = fmin(wait, RESET_POLL_MS);
        }
        pthread_mutex_unlock(&lock);
        poll(ready, 3, wait <= 0 ? 0 : (int)ceil(wait));
        char drained[64];
        while (read(wake[0], drained, sizeof drained) > 0) {}
        struct transmission t;
        while (air_socket >= 0 && recv(air_socket, &t, sizeof t, MSG_DONTWAIT) == sizeof t) {
            pthread_mutex_lock(&lock);
            chip_hear(&t, model_now());
            pthread_mutex_unlock(&lock);
        }
        if (ready[2].revents & POLLIN) serve_control();
    }
    return unused;
}

void model_start(const struct model_options *given) {
    static const struct world world = {model_now, send_to_all, dio};
    pthread_t thread;
    char path[128];
    options = *given;
    real_base = real_ms();
    srand((unsigned)getpid());
    if (pipe2(wake, O_NONBLOCK | O_CLOEXEC) != 0) die("pipe");
    if (options.log && !(log_file = fopen(options.log, "a"))) die(options.log);
    if (options.air) {
        snprintf(path, sizeof path, "%.60s/%.40s", options.air, options.name);
        air_socket = bound(SOCK_DGRAM, path);
    }
    if (options.control) {
        control_socket = bound(SOCK_STREAM, options.control);
        if (listen(control_socket, 8) != 0) die(options.control);
    }
    for (int k = 0; k < 2; k++) dio(k, false);
    if (options.reset) {
        snprintf(path, sizeof path, "%s/pull", options.reset);
        write_text(path, "pull-up");
    }
    chip_start(&world);
    if (pthread_create(&thread, NULL, run, NULL) != 0) die("thread");
}
