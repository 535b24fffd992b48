/*
 * spi-registers NAME HOLD: a chip of 128 registers behind /dev/NAME, which speaks the kernel's spidev interface. A message's
 * first byte is the register (bit 7: write), the following ones continue from there; deselecting the chip ends the message.
 * While the file HOLD exists the chip answers no message: the caller waits in the kernel.
 * Made with CUSE: gcc -o spi-registers spi-registers.c $(pkg-config --cflags --libs fuse3)
 */
#define FUSE_USE_VERSION 35
#define _GNU_SOURCE
#include <fuse3/cuse_lowlevel.h>

#include <errno.h>
#include <linux/spi/spidev.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 32 };

static uint8_t registers[128];
static uint32_t mode, speed = 500000;
static uint8_t bits = 8;
static const char *hold;

static void chip_open(fuse_req_t request, struct fuse_file_info *file) {
    fuse_reply_open(request, file);
}

/* One segment: `at` is the register, -1 before its number was received. */
static void shift(int *at, bool *writes, const uint8_t *tx, uint8_t *rx, size_t length) {
    for (size_t k = 0; k < length; k++) {
        uint8_t in = tx != NULL ? tx[k] : 0, out = 0;
        if (*at < 0) {
            *at = in & 0x7f;
            *writes = in >> 7;
        } else {
            out = registers[*at];
            if (*writes)
                registers[*at] = in;
            *at = (*at + 1) & 0x7f;
        }
        if (rx != NULL)
            rx[k] = out;
    }
}

/* The kernel copies what we request in a second call: first the segments, then the bytes they point to. */
static void message(fuse_req_t request, void *argument, unsigned size, const uint8_t *in, size_t in_size, size_t out_size) {
    struct iovec reads[1 + MOST] = {{argument, size}}, writes[MOST];
    size_t want = size, wanted_out = 0, from = 1, to = 0, total = 0;
    unsigned count = size / sizeof(struct spi_ioc_transfer);
    if (count > MOST)
        return (void)fuse_reply_err(request, EMSGSIZE);
    if (in_size < size)
        return (void)fuse_reply_ioctl_retry(request, reads, 1, NULL, 0);
    const struct spi_ioc_transfer *segments = (const void *)in;
    for (unsigned k = 0; k < count; k++) {
        if (segments[k].tx_buf != 0)
            reads[from++] = (struct iovec){(void *)(uintptr_t)segments[k].tx_buf, segments[k].len};
        if (segments[k].rx_buf != 0)
            writes[to++] = (struct iovec){(void *)(uintptr_t)segments[k].rx_buf, segments[k].len};
        want += segments[k].tx_buf != 0 ? segments[k].len : 0;
        wanted_out += segments[k].rx_buf != 0 ? segments[k].len : 0;
    }
    if (in_size < want || out_size < wanted_out)
        return (void)fuse_reply_ioctl_retry(request, reads, from, writes, to);
    uint8_t *answer = calloc(1, wanted_out + 1), *rx = answer;
    const uint8_t *tx = in + size;
    int at = -1;
    bool put = false;
    for (unsigned k = 0; k < count; k++) {
        bool sends = segments[k].tx_buf != 0, receives = segments[k].rx_buf != 0;
        shift(&at, &put, sends ? tx : NULL, receives ? rx : NULL, segments[k].len);
        tx += sends ? segments[k].len : 0;
        rx += receives ? segments[k].len : 0;
        total += segments[k].len;
        if (segments[k].cs_change)
            at = -1;
    }
    while (access(hold, F_OK) == 0)
        usleep(2000);
    fuse_reply_ioctl(request, (int)total, answer, wanted_out);
    free(answer);
}

static void chip_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *file, unsigned flags,
                       const void *in, size_t in_size, size_t out_size) {
    unsigned size = _IOC_SIZE((unsigned)command), number = _IOC_NR((unsigned)command);
    uint32_t value = 0;
    struct iovec word = {argument, size};
    (void)file;
    (void)flags;
    if (_IOC_TYPE((unsigned)command) != SPI_IOC_MAGIC)
        return (void)fuse_reply_err(request, ENOTTY);
    if (number == 0)
        return message(request, argument, size, in, in_size, out_size);
    void *place = number == 3 ? (void *)&bits : number == 4 ? (void *)&speed : (void *)&mode;
    if (_IOC_DIR((unsigned)command) == _IOC_READ) {
        if (out_size < size)
            return (void)fuse_reply_ioctl_retry(request, NULL, 0, &word, 1);
        memcpy(&value, place, number == 3 ? 1 : 4);
        return (void)fuse_reply_ioctl(request, 0, &value, size);
    }
    if (in_size < size)
        return (void)fuse_reply_ioctl_retry(request, &word, 1, NULL, 0);
    memcpy(place, in, number == 3 ? 1 : size);
    fuse_reply_ioctl(request, 0, NULL, 0);
}

int main(int count, char **arguments) {
    static const struct cuse_lowlevel_ops chip = {.open = chip_open, .ioctl = chip_ioctl};
    char name[80];
    if (count != 3)
        return 2;
    hold = arguments[2];
    registers[0x42] = 0x12;
    snprintf(name, sizeof name, "DEVNAME=%s", arguments[1]);
    const char *info[] = {name};
    struct cuse_info device = {.dev_info_argc = 1, .dev_info_argv = info, .flags = CUSE_UNRESTRICTED_IOCTL};
    char *fuse[] = {arguments[0], "-f", "-s", NULL};
    return cuse_lowlevel_main(3, fuse, &device, &chip, NULL);
}
