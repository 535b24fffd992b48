/*
 * i2c-chips NAME FAULT CHIP[=VALUES] …: an adapter behind /dev/NAME, which speaks the kernel's i2c-dev interface, and the chips
 * on it (chips.h).
 * While the file FAULT exists no transfer ends; with a number in it every transfer fails with that errno immediately.
 * Made with CUSE: gcc -o i2c-chips i2c-chips.c $(pkg-config --cflags --libs fuse3) -lm
 */
#define FUSE_USE_VERSION 35
#define _GNU_SOURCE
#include "chips.h"
#include <fuse3/cuse_lowlevel.h>

#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <stdio.h>
#include <unistd.h>

static const char *fault;

/* Waits while the bus is stuck; returns the errno to fail with, or 0. */
static int faulty(void) {
    for (FILE *file; (file = fopen(fault, "r")) != NULL;) {
        int number = 0, found = fscanf(file, "%d", &number);
        fclose(file);
        if (found == 1)
            return number;
        usleep(2000);
    }
    return 0;
}

static void adapter_open(fuse_req_t request, struct fuse_file_info *file) {
    fuse_reply_open(request, file);
}

/* I2C_RDWR. The kernel copies what we request: first the call, then its messages, then the bytes they point to. */
static void transfer(fuse_req_t request, void *argument, const uint8_t *in, size_t in_size, size_t out_size) {
    struct iovec from[2 + I2C_RDWR_IOCTL_MAX_MSGS], to[I2C_RDWR_IOCTL_MAX_MSGS];
    const struct i2c_rdwr_ioctl_data *call = (const void *)in;
    const struct i2c_msg *messages = (const void *)(in + sizeof *call);
    size_t want = sizeof *call, give = 0, sources = 1, sinks = 0;
    from[0] = (struct iovec){argument, sizeof *call};
    if (in_size < want)
        return (void)fuse_reply_ioctl_retry(request, from, 1, NULL, 0);
    if (call->nmsgs == 0 || call->nmsgs > I2C_RDWR_IOCTL_MAX_MSGS)
        return (void)fuse_reply_err(request, EINVAL);
    from[sources++] = (struct iovec){call->msgs, call->nmsgs * sizeof *messages};
    want += call->nmsgs * sizeof *messages;
    if (in_size < want)
        return (void)fuse_reply_ioctl_retry(request, from, sources, NULL, 0);
    const uint8_t *bytes = in + want;
    for (unsigned k = 0; k < call->nmsgs; k++) {
        struct iovec part = {messages[k].buf, messages[k].len};
        bool reads = (messages[k].flags & I2C_M_RD) != 0;
        want += reads ? 0 : part.iov_len;
        give += reads ? part.iov_len : 0;
        if (part.iov_len > 0)
            *(reads ? &to[sinks++] : &from[sources++]) = part;
    }
    if (in_size < want || out_size < give)
        return (void)fuse_reply_ioctl_retry(request, from, sources, to, sinks);
    uint8_t *answer = calloc(1, give + 1), *next = answer;
    int error = faulty();
    for (unsigned k = 0; k < call->nmsgs && error == 0; k++) {
        struct chip *chip = chip_at(messages[k].addr);
        bool reads = (messages[k].flags & I2C_M_RD) != 0;
        if (chip == NULL)
            error = EREMOTEIO;
        else
            error = reads ? chip->get(chip, next, messages[k].len) : chip->put(chip, bytes, messages[k].len);
        if (reads)
            next += messages[k].len;
        else
            bytes += messages[k].len;
    }
    if (error != 0)
        fuse_reply_err(request, error);
    else
        fuse_reply_ioctl(request, (int)call->nmsgs, answer, give);
    free(answer);
}

static void adapter_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *file, unsigned flags,
                          const void *in, size_t in_size, size_t out_size) {
    unsigned long functions = I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
    struct iovec word = {argument, sizeof functions};
    (void)file;
    (void)flags;
    if (command == I2C_RDWR)
        transfer(request, argument, in, in_size, out_size);
    else if (command != I2C_FUNCS)
        fuse_reply_err(request, ENOTTY);
    else if (out_size < sizeof functions)
        fuse_reply_ioctl_retry(request, NULL, 0, &word, 1);
    else
        fuse_reply_ioctl(request, 0, &functions, sizeof functions);
}

int main(int argc, char **argv) {
    static const struct cuse_lowlevel_ops adapter = {.open = adapter_open, .ioctl = adapter_ioctl};
    char name[80];
    if (argc < 3)
        return 2;
    fault = argv[2];
    for (int k = 3; k < argc; k++)
        if (!add(argv[k]))
            return 2;
    snprintf(name, sizeof name, "DEVNAME=%s", argv[1]);
    const char *info[] = {name};
    struct cuse_info device = {.dev_info_argc = 1, .dev_info_argv = info, .flags = CUSE_UNRESTRICTED_IOCTL};
    char *fuse[] = {argv[0], "-f", "-s", NULL};
    return cuse_lowlevel_main(3, fuse, &device, &adapter, NULL);
}
