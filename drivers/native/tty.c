/* What serial ports have beyond bytes: who switches the direction of an RS485 driver, and that nobody else opens the port. */
#define _GNU_SOURCE
#include "bus.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/serial.h>
#include <string.h>
#include <sys/ioctl.h>

enum { FLAGS, DELAY_BEFORE, DELAY_AFTER, STATE_WORDS };

static int64_t open_port(int *fd, struct bus_job *job) {
    /* non-blocking: a port without carrier would wait for one */
    *fd = open((const char *)job->bytes, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

static int64_t set_state(int *fd, struct bus_job *job) {
    const uint32_t *words = job->words;
    struct serial_rs485 state = {.flags = words[FLAGS],
                                 .delay_rts_before_send = words[DELAY_BEFORE],
                                 .delay_rts_after_send = words[DELAY_AFTER]};
    return ioctl(*fd, TIOCSRS485, &state) < 0 ? -errno : 0;
}

static int64_t get_state(int *fd, struct bus_job *job) {
    struct serial_rs485 state;
    memset(&state, 0, sizeof state);
    if (ioctl(*fd, TIOCGRS485, &state) < 0)
        return -errno;
    const uint32_t words[STATE_WORDS] = {state.flags, state.delay_rts_before_send, state.delay_rts_after_send};
    memcpy(job->bytes, words, sizeof words);
    return 0;
}

/* ttyOpen(bus, path) → job */
static napi_value tty_open(napi_env env, napi_callback_info info) {
    napi_value args[2];
    int error;
    addon_args(env, info, 2, args);
    struct bus_job *job = bus_take_path(env, args[0], args[1], &error);
    return job == NULL ? addon_int(env, error) : bus_queue(env, args[0], job, open_port);
}

/* rs485Set(bus, flags, delayBefore, delayAfter) → job; SER_RS485_… flags, ms. The kernel takes of it what it can. */
static napi_value rs485_set(napi_env env, napi_callback_info info) {
    napi_value args[4];
    int32_t numbers[STATE_WORDS];
    int error;
    addon_args(env, info, 4, args);
    for (int k = 0; k < STATE_WORDS; k++)
        if (!addon_number(env, args[1 + k], &numbers[k]) || numbers[k] < 0)
            return addon_int(env, -EINVAL);
    struct bus_job *job = bus_take(env, args[0], 0, &error);
    if (job == NULL)
        return addon_int(env, error);
    for (int k = 0; k < STATE_WORDS; k++)
        job->words[k] = (uint32_t)numbers[k];
    return bus_queue(env, args[0], job, set_state);
}

/* rs485Get(bus) → job, whose answer is flags, delayBefore and delayAfter as 32-bit numbers */
static napi_value rs485_get(napi_env env, napi_callback_info info) {
    napi_value args[1];
    int error;
    addon_args(env, info, 1, args);
    struct bus_job *job = bus_take(env, args[0], STATE_WORDS * sizeof(uint32_t), &error);
    if (job == NULL)
        return addon_int(env, error);
    job->answer_length = job->length;
    return bus_queue(env, args[0], job, get_state);
}

/* ttyExclusive(fd, on) → 0; whoever opens the port now gets EBUSY, root excepted. Sets a bit: it cannot block. */
static napi_value tty_exclusive(napi_env env, napi_callback_info info) {
    napi_value args[2];
    int32_t fd, on;
    addon_args(env, info, 2, args);
    if (!addon_number(env, args[0], &fd) || !addon_number(env, args[1], &on))
        return addon_int(env, -EINVAL);
    return addon_int(env, ioctl(fd, on != 0 ? TIOCEXCL : TIOCNXCL) < 0 ? -errno : 0);
}

void addon_tty(napi_env env, napi_value exports) {
    addon_export(env, exports, "ttyOpen", tty_open);
    addon_export(env, exports, "rs485Set", rs485_set);
    addon_export(env, exports, "rs485Get", rs485_get);
    addon_export(env, exports, "ttyExclusive", tty_exclusive);
}
