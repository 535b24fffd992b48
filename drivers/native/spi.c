/* SPI by the kernel's spidev: full-duplex transfers, several per call while the chip stays selected. */
#define _GNU_SOURCE
#include "bus.h"

#include <fcntl.h>
#include <linux/spi/spidev.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* words of one segment */
enum { LENGTH, FLAGS, SPEED, DELAY_AND_BITS, SEGMENT_WORDS };
enum { SENDS = 1, RECEIVES = 2, RELEASES_CHIP = 4 };
enum { SEGMENTS = BUS_WORDS / SEGMENT_WORDS };

static int64_t open_device(int *fd, struct bus_job *job) {
    uint32_t mode = job->words[0], speed = job->words[1];
    uint8_t bits = (uint8_t)job->words[2], narrow = (uint8_t)mode;
    int opened = open((const char *)job->bytes, O_RDWR | O_CLOEXEC);
    if (opened < 0)
        return -errno;
    /* kernels before 3.15 support only the 8-bit form */
    if ((ioctl(opened, SPI_IOC_WR_MODE32, &mode) < 0 && (mode > 0xff || ioctl(opened, SPI_IOC_WR_MODE, &narrow) < 0)) ||
        ioctl(opened, SPI_IOC_WR_BITS_PER_WORD, &bits) < 0 || ioctl(opened, SPI_IOC_WR_MAX_SPEED_HZ, &speed) < 0) {
        int error = errno;
        close(opened);
        return -error;
    }
    *fd = opened;
    return 0;
}

static int64_t transfer(int *fd, struct bus_job *job) {
    struct spi_ioc_transfer segments[SEGMENTS];
    unsigned count = job->words[0];
    uint8_t *at = job->bytes;
    if (*fd < 0)
        return -EBADF;
    memset(segments, 0, count * sizeof *segments);
    for (unsigned k = 0; k < count; k++) {
        const uint32_t *words = job->words + 1 + k * SEGMENT_WORDS;
        uint64_t buffer = (uint64_t)(uintptr_t)at;
        segments[k].tx_buf = (words[FLAGS] & SENDS) != 0 ? buffer : 0;
        segments[k].rx_buf = (words[FLAGS] & RECEIVES) != 0 ? buffer : 0;
        segments[k].len = words[LENGTH];
        segments[k].cs_change = (words[FLAGS] & RELEASES_CHIP) != 0;
        segments[k].speed_hz = words[SPEED];
        segments[k].delay_usecs = (uint16_t)words[DELAY_AND_BITS];
        segments[k].bits_per_word = (uint8_t)(words[DELAY_AND_BITS] >> 16);
        at += words[LENGTH];
    }
    int result = ioctl(*fd, SPI_IOC_MESSAGE(count), segments);
    return result < 0 ? -errno : result;
}

/* spiOpen(bus, path, mode, speedHz, bitsPerWord) → job */
static int64_t spi_open(napi_env env, napi_value *args) {
    int32_t mode, speed, bits;
    int error;
    if (!addon_number(env, args[2], &mode) || !addon_number(env, args[3], &speed) || !addon_number(env, args[4], &bits) ||
        mode < 0 || speed <= 0 || bits < 0 || bits > 32)
        return -EINVAL;
    struct bus_job *job = bus_take_path(env, args[0], args[1], &error);
    if (job == NULL)
        return error;
    job->words[0] = (uint32_t)mode;
    job->words[1] = (uint32_t)speed;
    job->words[2] = (uint32_t)bits;
    return bus_queue(env, args[0], job, open_device);
}

/* spiTransfer(bus, segments: Uint32Array, bytes, length) → job
 * Four words per segment: length, flags (1 sends, 2 receives, 4 deselects the chip after it), speed (0: the bus's),
 * delay µs | bits per word << 16. The first `length` of `bytes` are those of all segments in order; received bytes
 * replace them, and all of them are the answer. */
static int64_t spi_transfer(napi_env env, napi_value *args) {
    void *words, *bytes;
    size_t words_bytes, size;
    int32_t length;
    uint64_t sum = 0;
    int error;
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &words, &words_bytes) ||
        !addon_bytes(env, args[2], 1, &bytes, &size) || !addon_number(env, args[3], &length) || length < 0 ||
        (size_t)length > size)
        return -EINVAL;
    size_t count = words_bytes / (SEGMENT_WORDS * sizeof(uint32_t));
    if (count == 0 || count >= SEGMENTS)
        return -EINVAL;
    for (size_t k = 0; k < count; k++)
        sum += ((uint32_t *)words)[k * SEGMENT_WORDS + LENGTH];
    if (sum != (uint64_t)length)
        return -EINVAL;
    struct bus_job *job = bus_take(env, args[0], (size_t)length, &error);
    if (job == NULL)
        return error;
    job->words[0] = (uint32_t)count;
    memcpy(job->words + 1, words, count * SEGMENT_WORDS * sizeof(uint32_t));
    if (length > 0)
        memcpy(job->bytes, bytes, (size_t)length);
    job->answer_length = (size_t)length;
    return bus_queue(env, args[0], job, transfer);
}

void addon_spi(napi_env env, napi_value exports) {
    addon_export(env, exports, "spiOpen", spi_open);
    addon_export(env, exports, "spiTransfer", spi_transfer);
}
