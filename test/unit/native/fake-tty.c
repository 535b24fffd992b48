/*
 * A serial port whose driver can hang, preloaded before the C library (LD_PRELOAD): the terminal that FAKE_TTY names. Its calls are written
 * to FAKE_TTY_DIR/calls, one a line; while FAKE_TTY_DIR/hang contains the name of one, that call waits. It accepts every setting and
 * divides 16 MHz for its baud rate. Bytes go through the real terminal.
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024 };
static char ours[MOST];
static struct termios2 state;

static int real_open(const char *path, int flags, int mode) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

static int real_close(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    return real(fd);
}

static int file(const char *name, int flags) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_TTY_DIR"), name);
    return real_open(path, flags | O_CLOEXEC, 0600);
}

static int hangs(const char *call) {
    char held[32] = "";
    int fd = file("hang", O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, held, sizeof held - 1);
    real_close(fd);
    return length > 0 && strcmp(held, call) == 0;
}

/* Records the call, and waits while it is blocked. */
static void called(const char *call, const char *how) {
    int fd = file("calls", O_WRONLY | O_CREAT | O_APPEND);
    if (fd >= 0) {
        dprintf(fd, "%s%s%s\n", call, *how ? " " : "", how);
        real_close(fd);
    }
    while (hangs(call))
        usleep(2000);
}

static int open_it(const char *path, int flags, int mode) {
    const char *fake = getenv("FAKE_TTY");
    if (fake == NULL || strcmp(path, fake) != 0)
        return real_open(path, flags, mode);
    char how[64];
    const int wanted = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    snprintf(how, sizeof how, "%s", (flags & wanted) == wanted ? "nonblock noctty cloexec" : "without a flag it needs");
    called("open", how);
    int fd = real_open(path, flags, mode);
    if (fd >= 0 && fd < MOST)
        ours[fd] = 1;
    return fd;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    return open_it(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    return open_it(path, flags, mode);
}

int close(int fd) {
    if (fd >= 0 && fd < MOST && ours[fd]) {
        ours[fd] = 0;
        called("close", "");
    }
    return real_close(fd);
}

static int set(const struct termios2 *to) {
    char how[160];
    const unsigned *size = &to->c_cflag;
    state = *to;
    state.c_ospeed = 16000000 / (16000000 / to->c_ospeed);
    snprintf(how, sizeof how, "%u %s%d%s%s%s%s%s%s%s%s min %d", to->c_ospeed, (*size & CBAUD) == BOTHER ? "" : "standard ",
             5 + (int)((*size & CSIZE) >> 4), (*size & PARENB) == 0 ? "N" : (*size & PARODD) != 0 ? "O" : "E",
             (*size & CSTOPB) != 0 ? "2" : "1", (*size & CRTSCTS) != 0 ? " rtscts" : "",
             (to->c_iflag & (IXON | IXOFF)) == (IXON | IXOFF) ? " xonxoff" : "", (*size & HUPCL) != 0 ? " hupcl" : "",
             (*size & (CLOCAL | CREAD)) == (CLOCAL | CREAD) ? " local" : "", to->c_oflag == 0 && to->c_lflag == 0 ? " raw" : "",
             (to->c_iflag & ~(tcflag_t)(IXON | IXOFF)) == (INPCK | PARMRK) ? " marked" : "",
             to->c_cc[VMIN]);
    called("TCSETS2", how);
    return 0;
}

int ioctl(int fd, unsigned long request, ...) {
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (fd < 0 || fd >= MOST || !ours[fd])
        return real(fd, request, argument);
    char how[32] = "";
    switch (request) {
    case TCGETS2:
        *(struct termios2 *)argument = state;
        return 0;
    case TCSETS2:
        return set(argument);
    case TIOCMBIS:
    case TIOCMBIC:
        snprintf(how, sizeof how, "%d", *(int *)argument);
        called(request == TIOCMBIS ? "TIOCMBIS" : "TIOCMBIC", how);
        return 0;
    case TIOCEXCL:
    case TIOCNXCL:
        called(request == TIOCEXCL ? "TIOCEXCL" : "TIOCNXCL", "");
        return 0;
    case TCFLSH:
        called("TCFLSH", "");
        return real(fd, request, argument);
    default:
        return real(fd, request, argument);
    }
}
