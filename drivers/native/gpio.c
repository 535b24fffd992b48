/* GPIO by the kernel's character devices, version 2 of the interface (Linux 5.10 and newer; version 1 is deprecated).
 * Requested lines are a descriptor, which owns them while it is open. Calls that can reach the hardware are jobs of the
 * chip's thread (bus.h), because a chip behind I2C is slow and may hang: request, read, set and release lines. What the
 * kernel knows without the hardware is queried directly: the lines of a chip, and the edges in its queue. */
#define _GNU_SOURCE
#include "bus.h"
#include "descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/gpio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* openGpioChip(path) → descriptor */
static int64_t open_chip(napi_env env, napi_value *args) {
    char path[256];
    struct gpiochip_info chip;
    if (addon_text(env, args[0], path, sizeof path) <= 0)
        return -EINVAL;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* another kind of device with this name must not count as a chip */
    return descriptor_if(ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &chip) == 0 ? 0 : -errno, fd);
}

/* gpioChipInfo(chip, out: Uint8Array) → number of lines; out gets name and label, 32 bytes each */
static int64_t chip_info(napi_env env, napi_value *args) {
    void *out;
    size_t bytes;
    struct gpiochip_info chip;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &out, &bytes) || bytes < sizeof chip.name + sizeof chip.label)
        return -EINVAL;
    memset(&chip, 0, sizeof chip);
    if (ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &chip) != 0)
        return -errno;
    memcpy(out, chip.name, sizeof chip.name);
    memcpy((uint8_t *)out + sizeof chip.name, chip.label, sizeof chip.label);
    return chip.lines;
}

/* gpioLineInfo(chip, line, out: Uint8Array) → its flags; out gets name and consumer, 32 bytes each */
static int64_t line_info(napi_env env, napi_value *args) {
    void *out;
    size_t bytes;
    int32_t line;
    struct gpio_v2_line_info found;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_number(env, args[1], &line) || line < 0 || !addon_bytes(env, args[2], 1, &out, &bytes) ||
        bytes < sizeof found.name + sizeof found.consumer)
        return -EINVAL;
    memset(&found, 0, sizeof found);
    found.offset = (uint32_t)line;
    if (ioctl(fd, GPIO_V2_GET_LINEINFO_IOCTL, &found) != 0)
        return -errno;
    memcpy(out, found.name, sizeof found.name);
    memcpy((uint8_t *)out + sizeof found.name, found.consumer, sizeof found.consumer);
    return (int64_t)found.flags;
}

static void add_attribute(struct gpio_v2_line_config *config, struct gpio_v2_line_attribute attribute, uint64_t mask) {
    config->attrs[config->num_attrs++] = (struct gpio_v2_line_config_attribute){.attr = attribute, .mask = mask};
}

/* The data of a job: the request, followed by the path of the chip. */
static int64_t request_work(int *fd, struct bus_job *job) {
    struct gpiochip_info chip;
    struct gpio_v2_line_request request;
    memcpy(&request, job->bytes, sizeof request);
    int opened = open((const char *)job->bytes + sizeof request, O_RDWR | O_CLOEXEC);
    if (opened < 0)
        return -errno;
    int result = ioctl(opened, GPIO_GET_CHIPINFO_IOCTL, &chip) != 0 || ioctl(opened, GPIO_V2_GET_LINE_IOCTL, &request) != 0
                     ? -errno
                     : 0;
    close(opened);
    if (result < 0)
        return result;
    job->file = request.fd;
    int kept = fcntl(request.fd, F_GETFL);
    return kept < 0 || fcntl(request.fd, F_SETFL, kept | O_NONBLOCK) != 0 ? -errno : 0;
}

/* gpioRequest(bus, path, lines: Uint32Array, flags, debounceUs, values: Uint8Array, events, consumer) → job; its file
 * is the requested lines. All get the same flags (GPIO_V2_LINE_FLAG_…) and debounce time (0: none); outputs start with
 * `values`, one byte per line. `events`: number of edges that the kernel buffers (0: its default). */
static int64_t request_lines(napi_env env, napi_value *args) {
    char path[PATH_MAX];
    void *lines, *values;
    size_t lines_bytes, values_bytes;
    int32_t flags, debounce, events;
    int error;
    struct gpio_v2_line_request request;
    memset(&request, 0, sizeof request);
    int length = addon_text(env, args[1], path, sizeof path);
    if (length <= 0 || !addon_bytes(env, args[2], sizeof(uint32_t), &lines, &lines_bytes) ||
        !addon_number(env, args[3], &flags) || !addon_number(env, args[4], &debounce) ||
        !addon_bytes(env, args[5], 1, &values, &values_bytes) || !addon_number(env, args[6], &events) ||
        addon_text(env, args[7], request.consumer, sizeof request.consumer) < 0 || debounce < 0 || events < 0)
        return -EINVAL;
    size_t count = lines_bytes / sizeof(uint32_t);
    if (count == 0 || count > GPIO_V2_LINES_MAX || values_bytes < count)
        return -EINVAL;
    uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    uint64_t initial = 0;
    for (size_t k = 0; k < count; k++)
        initial |= (uint64_t)(((uint8_t *)values)[k] != 0) << k;
    memcpy(request.offsets, lines, count * sizeof(uint32_t));
    request.num_lines = (uint32_t)count;
    request.event_buffer_size = (uint32_t)events;
    request.config.flags = (uint64_t)flags;
    if (flags & (int32_t)GPIO_V2_LINE_FLAG_OUTPUT)
        add_attribute(&request.config,
            (struct gpio_v2_line_attribute){.id = GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES, .values = initial}, all);
    if (debounce > 0)
        add_attribute(&request.config,
            (struct gpio_v2_line_attribute){.id = GPIO_V2_LINE_ATTR_ID_DEBOUNCE, .debounce_period_us = (uint32_t)debounce},
            all);
    struct bus_job *job = bus_take(env, args[0], sizeof request + (size_t)length + 1, &error);
    if (job == NULL)
        return error;
    memcpy(job->bytes, &request, sizeof request);
    memcpy(job->bytes + sizeof request, path, (size_t)length + 1);
    return bus_queue(env, args[0], job, request_work);
}

/* A job with its own duplicate of the lines: closing the original meanwhile does not affect it. NULL: *error has the reason. */
static struct bus_job *take_lines(napi_env env, napi_value bus, napi_value lines, int *error) {
    int fd = descriptor_fd(env, lines);
    *error = fd;
    struct bus_job *job = fd < 0 ? NULL : bus_take(env, bus, 0, error);
    if (job == NULL)
        return NULL;
    job->file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *error = -errno;
    return job->file < 0 ? NULL : job;
}

/* The kernel frees the lines when the last process closes them, which may take long: never on Node's thread. */
static int64_t close_work(int *fd, struct bus_job *job) {
    close(job->file);
    job->file = -1;
    return 0;
}

static int64_t read_work(int *fd, struct bus_job *job) {
    uint32_t count = job->words[0];
    struct gpio_v2_line_values values = {.mask = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1};
    int result = ioctl(job->file, GPIO_V2_LINE_GET_VALUES_IOCTL, &values) != 0 ? -errno : 0;
    close_work(fd, job);
    return result < 0 ? result : (int64_t)(values.bits & values.mask);
}

/* gpioRead(bus, lines, count) → job; its result has a bit for each of the first `count` lines, at most 32: 1 is active. */
static int64_t read_values(napi_env env, napi_value *args) {
    int32_t count;
    int error;
    if (!addon_number(env, args[2], &count) || count < 1 || count > 32)
        return -EINVAL;
    struct bus_job *job = take_lines(env, args[0], args[1], &error);
    if (job == NULL)
        return error;
    job->words[0] = (uint32_t)count;
    return bus_queue(env, args[0], job, read_work);
}

static int64_t set_work(int *fd, struct bus_job *job) {
    uint64_t line = UINT64_C(1) << job->words[0];
    struct gpio_v2_line_values values = {.mask = line, .bits = job->words[1] == 0 ? 0 : line};
    int result = ioctl(job->file, GPIO_V2_LINE_SET_VALUES_IOCTL, &values) != 0 ? -errno : 0;
    close_work(fd, job);
    return result;
}

/* gpioSet(bus, lines, index, value) → job; index: the line's position in the request */
static int64_t set_value(napi_env env, napi_value *args) {
    int32_t index, value;
    int error;
    if (!addon_number(env, args[2], &index) || !addon_number(env, args[3], &value) || index < 0 ||
        index >= GPIO_V2_LINES_MAX)
        return -EINVAL;
    struct bus_job *job = take_lines(env, args[0], args[1], &error);
    if (job == NULL)
        return error;
    job->words[0] = (uint32_t)index;
    job->words[1] = (uint32_t)value;
    return bus_queue(env, args[0], job, set_work);
}

/* gpioRelease(bus, lines) → job that releases the lines and cannot be cancelled: call it before closing the lines. */
static int64_t release_lines(napi_env env, napi_value *args) {
    int error;
    struct bus_job *job = take_lines(env, args[0], args[1], &error);
    if (job == NULL)
        return error;
    job->certain = true;
    return bus_queue(env, args[0], job, close_work);
}

/* readGpioEvents(lines, out: Uint32Array) → number of edges (-EAGAIN: none)
 * Twelve words for each, in the kernel's form: time in ns (low, high), 1 rising or 2 falling, line, number among all
 * edges of this request, number among those of the line, six reserved. */
static int64_t read_events(napi_env env, napi_value *args) {
    void *out;
    size_t bytes;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &out, &bytes) || bytes < sizeof(struct gpio_v2_line_event))
        return -EINVAL;
    ssize_t got = read(fd, out, bytes - bytes % sizeof(struct gpio_v2_line_event));
    return got < 0 ? -errno : got / (ssize_t)sizeof(struct gpio_v2_line_event);
}

void addon_gpio(napi_env env, napi_value exports) {
    addon_export_opening(env, exports, "openGpioChip", open_chip);
    addon_export(env, exports, "gpioChipInfo", chip_info);
    addon_export(env, exports, "gpioLineInfo", line_info);
    addon_export(env, exports, "gpioRequest", request_lines);
    addon_export(env, exports, "gpioRead", read_values);
    addon_export(env, exports, "gpioSet", set_value);
    addon_export(env, exports, "gpioRelease", release_lines);
    addon_export(env, exports, "readGpioEvents", read_events);
}
