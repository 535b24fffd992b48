/*
 * GPIO by the kernel's character devices, second version of the interface (Linux 5.10 and newer; the first one goes away).
 * A chip is opened to be asked about its lines and to request some; requested lines are a descriptor of their own, which
 * keeps them for as long as it is open. Edges wait in the kernel's queue with their times and are read many at once.
 */
#define _GNU_SOURCE
#include "descriptor.h"

#include <fcntl.h>
#include <linux/gpio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* openGpioChip(path) → descriptor */
static napi_value open_chip(napi_env env, napi_callback_info info) {
    napi_value args[1];
    char path[256];
    struct gpiochip_info chip;
    addon_args(env, info, 1, args);
    if (addon_text(env, args[0], path, sizeof path) <= 0)
        return addon_int(env, -EINVAL);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return addon_int(env, -errno);
    /* whatever else has this name must not be taken for a chip */
    if (ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &chip) != 0) {
        int result = -errno;
        close(fd);
        return addon_int(env, result);
    }
    return descriptor_new(env, fd);
}

/* gpioChipInfo(chip, out: Uint8Array) → number of lines; out gets name and label, 32 bytes each */
static napi_value chip_info(napi_env env, napi_callback_info info) {
    napi_value args[2];
    void *out;
    size_t bytes;
    struct gpiochip_info chip;
    addon_args(env, info, 2, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    if (!addon_bytes(env, args[1], 1, &out, &bytes) || bytes < sizeof chip.name + sizeof chip.label)
        return addon_int(env, -EINVAL);
    memset(&chip, 0, sizeof chip);
    if (ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &chip) != 0)
        return addon_int(env, -errno);
    memcpy(out, chip.name, sizeof chip.name);
    memcpy((uint8_t *)out + sizeof chip.name, chip.label, sizeof chip.label);
    return addon_int(env, chip.lines);
}

/* gpioLineInfo(chip, line, out: Uint8Array) → its flags; out gets name and consumer, 32 bytes each */
static napi_value line_info(napi_env env, napi_callback_info info) {
    napi_value args[3];
    void *out;
    size_t bytes;
    int32_t line;
    struct gpio_v2_line_info found;
    addon_args(env, info, 3, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    if (!addon_number(env, args[1], &line) || line < 0 || !addon_bytes(env, args[2], 1, &out, &bytes) ||
        bytes < sizeof found.name + sizeof found.consumer)
        return addon_int(env, -EINVAL);
    memset(&found, 0, sizeof found);
    found.offset = (uint32_t)line;
    if (ioctl(fd, GPIO_V2_GET_LINEINFO_IOCTL, &found) != 0)
        return addon_int(env, -errno);
    memcpy(out, found.name, sizeof found.name);
    memcpy((uint8_t *)out + sizeof found.name, found.consumer, sizeof found.consumer);
    return addon_int(env, (int64_t)found.flags);
}

static void add_attribute(struct gpio_v2_line_config *config, struct gpio_v2_line_attribute attribute, uint64_t mask) {
    config->attrs[config->num_attrs++] = (struct gpio_v2_line_config_attribute){.attr = attribute, .mask = mask};
}

/*
 * requestGpio(chip, lines: Uint32Array, flags, debounceUs, values: Uint8Array, events, consumer) → descriptor
 * All lines get the same flags (GPIO_V2_LINE_FLAG_…) and debounce time (0: none); outputs begin with `values`, one byte for
 * each line. `events` is how many edges the kernel is to keep until they are read (0: its own choice).
 */
static napi_value request_lines(napi_env env, napi_callback_info info) {
    napi_value args[7];
    void *lines, *values;
    size_t lines_bytes, values_bytes;
    int32_t flags, debounce, events;
    struct gpio_v2_line_request request;
    addon_args(env, info, 7, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    memset(&request, 0, sizeof request);
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &lines, &lines_bytes) || !addon_number(env, args[2], &flags) ||
        !addon_number(env, args[3], &debounce) || !addon_bytes(env, args[4], 1, &values, &values_bytes) ||
        !addon_number(env, args[5], &events) ||
        addon_text(env, args[6], request.consumer, sizeof request.consumer) < 0 || debounce < 0 || events < 0)
        return addon_int(env, -EINVAL);
    size_t count = lines_bytes / sizeof(uint32_t);
    if (count == 0 || count > GPIO_V2_LINES_MAX || values_bytes < count)
        return addon_int(env, -EINVAL);
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
    if (ioctl(fd, GPIO_V2_GET_LINE_IOCTL, &request) != 0)
        return addon_int(env, -errno);
    int kept = fcntl(request.fd, F_GETFL);
    if (kept < 0 || fcntl(request.fd, F_SETFL, kept | O_NONBLOCK) != 0) {
        int result = -errno;
        close(request.fd);
        return addon_int(env, result);
    }
    return descriptor_new(env, request.fd);
}

/* readGpio(lines, out: Uint8Array) → how many lines; out gets 1 for each active one, else 0. `out` is as long as the request. */
static napi_value read_values(napi_env env, napi_callback_info info) {
    napi_value args[2];
    void *out;
    size_t count;
    addon_args(env, info, 2, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    if (!addon_bytes(env, args[1], 1, &out, &count) || count == 0 || count > GPIO_V2_LINES_MAX)
        return addon_int(env, -EINVAL);
    struct gpio_v2_line_values values = {.mask = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1};
    if (ioctl(fd, GPIO_V2_LINE_GET_VALUES_IOCTL, &values) != 0)
        return addon_int(env, -errno);
    for (size_t k = 0; k < count; k++)
        ((uint8_t *)out)[k] = (uint8_t)(values.bits >> k & 1);
    return addon_int(env, (int64_t)count);
}

/* setGpio(lines, index, value) → 0; index: its place in the request */
static napi_value set_value(napi_env env, napi_callback_info info) {
    napi_value args[3];
    int32_t index, value;
    addon_args(env, info, 3, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    if (!addon_number(env, args[1], &index) || !addon_number(env, args[2], &value) || index < 0 ||
        index >= GPIO_V2_LINES_MAX)
        return addon_int(env, -EINVAL);
    struct gpio_v2_line_values values = {.mask = UINT64_C(1) << index, .bits = value == 0 ? 0 : UINT64_C(1) << index};
    return addon_int(env, ioctl(fd, GPIO_V2_LINE_SET_VALUES_IOCTL, &values) != 0 ? -errno : 0);
}

/*
 * readGpioEvents(lines, out: Uint32Array) → how many edges (-EAGAIN: none)
 * Twelve words for each, as the kernel has them: time in ns (low, high), 1 rising or 2 falling, line, number among all edges
 * of this request, number among those of the line, six reserved.
 */
static napi_value read_events(napi_env env, napi_callback_info info) {
    napi_value args[2];
    void *out;
    size_t bytes;
    addon_args(env, info, 2, args);
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return addon_int(env, fd);
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &out, &bytes) || bytes < sizeof(struct gpio_v2_line_event))
        return addon_int(env, -EINVAL);
    ssize_t got = read(fd, out, bytes - bytes % sizeof(struct gpio_v2_line_event));
    return addon_int(env, got < 0 ? -errno : got / (ssize_t)sizeof(struct gpio_v2_line_event));
}

void addon_gpio(napi_env env, napi_value exports) {
    addon_export(env, exports, "openGpioChip", open_chip);
    addon_export(env, exports, "gpioChipInfo", chip_info);
    addon_export(env, exports, "gpioLineInfo", line_info);
    addon_export(env, exports, "requestGpio", request_lines);
    addon_export(env, exports, "readGpio", read_values);
    addon_export(env, exports, "setGpio", set_value);
    addon_export(env, exports, "readGpioEvents", read_events);
}
