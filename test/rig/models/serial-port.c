/*
 * serial-port NAME HOLD: a serial port /dev/NAME that accepts every setting and receives nothing. While the file HOLD exists its
 * driver answers no call, opening included: the caller waits in the kernel.
 * Made with CUSE: gcc -o serial-port serial-port.c $(pkg-config --cflags --libs fuse3)
 */
#define FUSE_USE_VERSION 35
#define _GNU_SOURCE
#include <fuse3/cuse_lowlevel.h>
#include <fuse3/fuse_lowlevel.h>

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct termios2 state;
static const char *hold;

static void held(void) {
    while (access(hold, F_OK) == 0)
        usleep(2000);
}

static void port_open(fuse_req_t request, struct fuse_file_info *file) {
    held();
    fuse_reply_open(request, file);
}

static void port_release(fuse_req_t request, struct fuse_file_info *file) {
    (void)file;
    held();
    fuse_reply_err(request, 0);
}

/* never anything to read */
static void port_poll(fuse_req_t request, struct fuse_file_info *file, struct fuse_pollhandle *poll) {
    (void)file;
    if (poll != NULL)
        fuse_pollhandle_destroy(poll);
    fuse_reply_poll(request, 0);
}

static void port_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *file, unsigned flags,
                       const void *in, size_t in_size, size_t out_size) {
    struct iovec whole = {argument, sizeof state};
    (void)file;
    (void)flags;
    held();
    switch ((unsigned)command) {
    case TCGETS2:
        if (out_size < sizeof state)
            return (void)fuse_reply_ioctl_retry(request, NULL, 0, &whole, 1);
        return (void)fuse_reply_ioctl(request, 0, &state, sizeof state);
    case TCSETS2:
        if (in_size < sizeof state)
            return (void)fuse_reply_ioctl_retry(request, &whole, 1, NULL, 0);
        memcpy(&state, in, sizeof state);
        return (void)fuse_reply_ioctl(request, 0, NULL, 0);
    case TIOCEXCL:
    case TIOCNXCL:
    case TCFLSH:
        return (void)fuse_reply_ioctl(request, 0, NULL, 0);
    default:
        fuse_reply_err(request, ENOTTY);
    }
}

int main(int count, char **arguments) {
    static const struct cuse_lowlevel_ops port = {
        .open = port_open, .release = port_release, .ioctl = port_ioctl, .poll = port_poll};
    char name[80];
    if (count != 3)
        return 2;
    hold = arguments[2];
    snprintf(name, sizeof name, "DEVNAME=%s", arguments[1]);
    const char *info[] = {name};
    struct cuse_info device = {.dev_info_argc = 1, .dev_info_argv = info, .flags = CUSE_UNRESTRICTED_IOCTL};
    char *fuse[] = {arguments[0], "-f", "-s", NULL};
    return cuse_lowlevel_main(3, fuse, &device, &port, NULL);
}
