/*
 * A fake GPIO chip for the addon, preloaded before the C library (LD_PRELOAD), so that the same calls run with
 * sanitizers: /fake/gpio has eight lines, of which each pair (0 and 1, 2 and 3 …) is joined by a wire: a level set on one
 * is read, and reported as an edge, on the other. Reading line 7, and requesting lines for "slow", creates the file
 * FAKE_GPIO_HANGS and blocks until it is removed, as on a bus that hangs. All other calls go to the kernel.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, LINES = 8, REQUESTS = 16, CHIP = -1, SLOW = 7 };

struct held {
    int users; /* descriptors; 0: free */
    int edges; /* descriptor for its edges */
    struct gpio_v2_line_request lines;
    uint32_t seqno;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int whose[MOST]; /* by descriptor: CHIP, number of the request + 1, or 0 */
static struct held requests[REQUESTS];
static bool levels[LINES];

static int real_close(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    return real(fd);
}

static int fail(int error) {
    errno = error;
    return -1;
}

int open(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    if (strcmp(path, "/fake/gpio") != 0)
        return real(path, flags, mode);
    int fd = real("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fd < MOST)
        whose[fd] = CHIP;
    return fd;
}

int close(int fd) {
    int edges = -1;
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < MOST) {
        if (whose[fd] > 0 && --requests[whose[fd] - 1].users == 0)
            edges = requests[whose[fd] - 1].edges;
        whose[fd] = 0;
    }
    pthread_mutex_unlock(&lock);
    if (edges >= 0)
        real_close(edges);
    return real_close(fd);
}

int fcntl(int fd, int command, ...) {
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, "fcntl");
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    int result = real(fd, command, argument);
    if (command == F_DUPFD_CLOEXEC && fd >= 0 && fd < MOST && result >= 0 && result < MOST && whose[fd] > 0) {
        pthread_mutex_lock(&lock);
        whose[result] = whose[fd];
        requests[whose[fd] - 1].users++;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

static int holder(uint32_t line) {
    for (int n = 0; n < REQUESTS; n++)
        for (uint32_t k = 0; requests[n].users > 0 && k < requests[n].lines.num_lines; k++)
            if (requests[n].lines.offsets[k] == line)
                return n;
    return -1;
}

static void put(uint32_t line, bool level) {
    uint32_t other = line ^ 1;
    int n = holder(other);
    struct timespec now;
    if (levels[line] != level && n >= 0 && (requests[n].lines.config.flags & GPIO_V2_LINE_FLAG_EDGE_RISING) != 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        struct gpio_v2_line_event event = {
            .timestamp_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
            .id = level ? GPIO_V2_LINE_EVENT_RISING_EDGE : GPIO_V2_LINE_EVENT_FALLING_EDGE,
            .offset = other,
            .seqno = ++requests[n].seqno,
        };
        if (write(requests[n].edges, &event, sizeof event) != sizeof event)
            levels[other] = level; /* the queue is full: the edge is dropped, its number is used */
    }
    levels[line] = levels[other] = level;
}

static int request_lines(struct gpio_v2_line_request *asked) {
    int ends[2], n = 0;
    for (uint32_t k = 0; k < asked->num_lines; k++)
        if (asked->offsets[k] >= LINES || holder(asked->offsets[k]) >= 0)
            return fail(asked->offsets[k] >= LINES ? EINVAL : EBUSY);
    if ((asked->config.flags & GPIO_V2_LINE_FLAG_BIAS_DISABLED) != 0)
        return fail(EOPNOTSUPP);
    while (n < REQUESTS && requests[n].users > 0)
        n++;
    if (n == REQUESTS || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return fail(ENOMEM);
    requests[n] = (struct held){.users = 1, .edges = ends[1], .lines = *asked};
    whose[ends[0]] = n + 1;
    asked->fd = ends[0];
    for (uint32_t a = 0; a < asked->config.num_attrs; a++)
        if (asked->config.attrs[a].attr.id == GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES)
            for (uint32_t k = 0; k < asked->num_lines; k++)
                put(asked->offsets[k], (asked->config.attrs[a].attr.values >> k & 1) != 0);
    return 0;
}

static int chip(unsigned long request, void *argument) {
    if (request == GPIO_GET_CHIPINFO_IOCTL) {
        *(struct gpiochip_info *)argument = (struct gpiochip_info){.name = "gpiochip7", .label = "fake", .lines = LINES};
        return 0;
    }
    if (request == GPIO_V2_GET_LINE_IOCTL)
        return request_lines(argument);
    struct gpio_v2_line_info *info = argument;
    if (request != GPIO_V2_GET_LINEINFO_IOCTL || info->offset >= LINES)
        return fail(request == GPIO_V2_GET_LINEINFO_IOCTL ? EINVAL : ENOTTY);
    int n = holder(info->offset);
    memset(info->name, 'N', sizeof info->name); /* no NUL, as a name may be that long */
    if (n >= 0)
        memcpy(info->consumer, requests[n].lines.consumer, sizeof info->consumer);
    info->flags = n < 0 ? GPIO_V2_LINE_FLAG_INPUT : GPIO_V2_LINE_FLAG_USED | requests[n].lines.config.flags;
    return 0;
}

static int lines(const struct held *held, unsigned long request, struct gpio_v2_line_values *values) {
    for (uint32_t k = 0; k < held->lines.num_lines; k++) {
        uint32_t line = held->lines.offsets[k];
        if ((values->mask >> k & 1) == 0)
            continue;
        if (request == GPIO_V2_LINE_SET_VALUES_IOCTL)
            put(line, (values->bits >> k & 1) != 0);
        else
            values->bits |= (uint64_t)levels[line] << k;
    }
    return 0;
}

static void hang(void) {
    const char *path = getenv("FAKE_GPIO_HANGS");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        real_close(fd);
    while (access(path, F_OK) == 0)
        usleep(2000);
}

int ioctl(int fd, unsigned long request, ...) {
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    int who = fd >= 0 && fd < MOST ? whose[fd] : 0;
    if (who == 0)
        return real(fd, request, argument);
    if ((who > 0 && requests[who - 1].lines.offsets[0] == SLOW && request == GPIO_V2_LINE_GET_VALUES_IOCTL) ||
        (who == CHIP && request == GPIO_V2_GET_LINE_IOCTL &&
         strcmp(((struct gpio_v2_line_request *)argument)->consumer, "slow") == 0))
        hang();
    pthread_mutex_lock(&lock);
    int result = who == CHIP ? chip(request, argument) : lines(&requests[who - 1], request, argument);
    pthread_mutex_unlock(&lock);
    return result;
}
