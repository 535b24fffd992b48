/* SPI by the kernel's spidev: full-duplex transfers. */
#define _GNU_SOURCE
#include "bus.h"

#include <fcntl.h>
#include <linux/spi/spidev.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
    uint64_t buffer = (uint64_t)(uintptr_t)job->bytes;
    struct spi_ioc_transfer segment = {
        .tx_buf = buffer, .rx_buf = job->answer_length > 0 ? buffer : 0, .len = (uint32_t)job->length};
    if (*fd < 0)
        return -EBADF;
    int result = ioctl(*fd, SPI_IOC_MESSAGE(1), &segment);
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

/* spiTransfer(bus, bytes, receives) → job; if `receives` is not 0, the answer is the bytes received meanwhile */
static int64_t spi_transfer(napi_env env, napi_value *args) {
    void *bytes;
    size_t length;
    int32_t receives;
    int error;
    if (!addon_bytes(env, args[1], 1, &bytes, &length) || !addon_number(env, args[2], &receives))
        return -EINVAL;
    struct bus_job *job = bus_take(env, args[0], length, &error);
    if (job == NULL)
        return error;
    if (length > 0)
        memcpy(job->bytes, bytes, length);
    job->answer_length = receives != 0 ? length : 0;
    return bus_queue(env, args[0], job, transfer);
}

void addon_spi(napi_env env, napi_value exports) {
    addon_export(env, exports, "spiOpen", spi_open);
    addon_export(env, exports, "spiTransfer", spi_transfer);
}
