/* sx127x: an SX1276 behind a fake /dev/spidevX.Y, made with CUSE, for tests of drivers in a kernel without the chip.
 *
 *   sx127x NAME [-a DIR] [-c SOCKET] [-l LOG] [-0 PULL] [-1 PULL] [-r LINE] [-s SPEED]
 *     NAME  spidev0.0: the device; -a  folder of the air: all models in it receive each other; -c  control socket, one command
 *     per connection (control.c); -l  each transmission as a line of JSON; -0, -1  the `pull` files of gpio-sim lines that are
 *     DIO0 and DIO1; -r  folder of the gpio-sim line that is RESET; -s  how much faster than real time it runs
 *
 * It speaks the kernel's spidev ABI: SPI_IOC_MESSAGE(n) in full, mode, word and speed as numbers. Errors: a device that
 * cannot be created ends the program with the reason. */
#define FUSE_USE_VERSION 35
#include "model.h"
#include <errno.h>
#include <fuse3/cuse_lowlevel.h>
#include <fuse3/fuse_opt.h>
#include <linux/spi/spidev.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENTS = 64 };
static uint32_t spi_mode, spi_bits = 8, spi_speed = 500000;

static void spi_open(fuse_req_t request, struct fuse_file_info *info) { fuse_reply_open(request, info); }

/* Runs the segments through the chip; `in` are all tx bytes in a row, `out` gets all rx bytes. */
static int run_message(const struct spi_ioc_transfer *segments, int count, const uint8_t *in, uint8_t *out) {
    int total = 0;
    model_lock();
    chip_select();
    for (int k = 0; k < count; k++) {
        for (uint32_t i = 0; i < segments[k].len; i++) {
            const uint8_t byte = chip_byte(segments[k].tx_buf ? *in++ : 0);
            if (segments[k].rx_buf) *out++ = byte;
        }
        total += (int)segments[k].len;
        if (segments[k].cs_change) chip_select();
    }
    model_unlock();
    return total;
}

/* SPI_IOC_MESSAGE(n): the kernel copies what we request, first the segments, then the buffers they name. */
static void message(fuse_req_t request, void *argument, size_t size, const void *in, size_t in_size, size_t out_size) {
    const int count = (int)(size / sizeof(struct spi_ioc_transfer));
    struct iovec from[1 + SEGMENTS] = {{argument, size}}, to[SEGMENTS];
    if (count > SEGMENTS) {
        fuse_reply_err(request, EMSGSIZE);
        return;
    }
    if (in_size < size) {
        fuse_reply_ioctl_retry(request, from, 1, NULL, 0);
        return;
    }
    const struct spi_ioc_transfer *segments = in;
    size_t want = size, give = 0;
    int sources = 1, sinks = 0;
    for (int k = 0; k < count; k++) {
        if (segments[k].tx_buf) from[sources++] = (struct iovec){(void *)(uintptr_t)segments[k].tx_buf, segments[k].len};
        if (segments[k].rx_buf) to[sinks++] = (struct iovec){(void *)(uintptr_t)segments[k].rx_buf, segments[k].len};
        want += segments[k].tx_buf ? segments[k].len : 0;
        give += segments[k].rx_buf ? segments[k].len : 0;
    }
    if (in_size < want || out_size < give) {
        fuse_reply_ioctl_retry(request, from, (size_t)sources, to, (size_t)sinks);
        return;
    }
    const int fault = bus_fault();
    if (fault) {
        fuse_reply_err(request, fault);
        return;
    }
    uint8_t *out = calloc(1, give + 1);
    const int total = run_message(segments, count, (const uint8_t *)in + size, out);
    fuse_reply_ioctl(request, total, out, give);
    free(out);
}

static uint32_t *setting(unsigned number) {
    switch (number) {
    case 1: case 5: return &spi_mode;
    case 3: return &spi_bits;
    case 4: return &spi_speed;
    default: return NULL;
    }
}

static void spi_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *info, unsigned flags,
                      const void *in, size_t in_size, size_t out_size) {
    const unsigned cmd = (unsigned)command, size = _IOC_SIZE(cmd);
    struct iovec whole = {argument, size};
    (void)info;
    (void)flags; /* a process of 32 bits has the same structure */
    if (_IOC_TYPE(cmd) != SPI_IOC_MAGIC) fuse_reply_err(request, ENOTTY);
    else if (_IOC_NR(cmd) == 0) message(request, argument, size, in, in_size, out_size);
    else if (size > sizeof(uint32_t)) fuse_reply_err(request, ENOTTY);
    else if (_IOC_DIR(cmd) == _IOC_READ) {
        if (out_size < size) {
            fuse_reply_ioctl_retry(request, NULL, 0, &whole, 1);
            return;
        }
        const uint32_t *of = setting(_IOC_NR(cmd)), value = of ? *of : 0;
        fuse_reply_ioctl(request, 0, &value, size);
    } else if (in_size < size) fuse_reply_ioctl_retry(request, &whole, 1, NULL, 0);
    else {
        uint32_t value = 0, *of = setting(_IOC_NR(cmd));
        memcpy(&value, in, size);
        if (of) *of = value;
        fuse_reply_ioctl(request, 0, NULL, 0);
    }
}

/* The session's threads may only start once fuse has set up the process. */
static void ready(void *data) { model_start(data); }

static const struct cuse_lowlevel_ops operations = {.init_done = ready, .open = spi_open, .ioctl = spi_ioctl};

int main(int count, char **words) {
    struct model_options options = {.speed = 1};
    char device[80];
    for (int word; (word = getopt(count, words, "a:c:l:0:1:r:s:")) >= 0;)
        switch (word) {
        case 'a': options.air = optarg; break;
        case 'c': options.control = optarg; break;
        case 'l': options.log = optarg; break;
        case '0': options.dio[0] = optarg; break;
        case '1': options.dio[1] = optarg; break;
        case 'r': options.reset = optarg; break;
        case 's': options.speed = atof(optarg); break;
        default: return 2;
        }
    if (optind >= count || options.speed <= 0) return 2;
    options.name = words[optind];
    snprintf(device, sizeof device, "DEVNAME=%s", options.name);
    const char *about[] = {device};
    const struct cuse_info info = {.dev_info_argc = 1, .dev_info_argv = about, .flags = CUSE_UNRESTRICTED_IOCTL};
    char *arguments[] = {words[0], "-f", "-s"};
    return cuse_lowlevel_main(3, arguments, &info, &operations, &options);
}
