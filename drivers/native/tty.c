/* Serial ports: opening, settings, modem lines and closing, all of which may block in a driver that waits for its
 * hardware, so all run on the thread of a bus; also the direction switching of an RS485 driver. Other code reads and
 * writes the bytes, on a duplicate of the non-blocking descriptor. */
#define _GNU_SOURCE
#include "bus.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/major.h>
#include <linux/serial.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { FLAGS, DELAY_BEFORE, DELAY_AFTER, STATE_WORDS };
enum { BAUDRATE, DATA_BITS, PARITY, STOP_BITS, FLOW, SETTINGS };
enum { NO_PARITY, EVEN, ODD };
enum { NO_FLOW, RTS_CTS, XON_XOFF };
enum { LINES_ON, LINES_OFF, LINES };

static int64_t open_port(int *fd, struct bus_job *job) {
    /* non-blocking: otherwise a port without carrier waits for one */
    *fd = open((const char *)job->bytes, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

/* A pseudo-terminal keeps TIOCEXCL as long as its other end is open, even after its user was killed. */
static bool is_pseudo(int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISCHR(about.st_mode))
        return false;
    unsigned driver = major(about.st_rdev);
    return driver >= UNIX98_PTY_SLAVE_MAJOR && driver < UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT;
}

/* flock excludes programs that request a lock, root included; TIOCEXCL excludes everyone but root. */
static int64_t lock_port(int fd) {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    return !is_pseudo(fd) && ioctl(fd, TIOCEXCL) < 0 ? -errno : 0;
}

/* Raw bytes at any baud rate; the result is the rate that the driver set. A byte with a parity or framing error is read
 * as FF 00 X, a break as FF 00 00, a byte FF as FF FF (drivers/serial/parity-marks.ts). */
static int64_t set_port(int fd, const uint32_t *words) {
    static const tcflag_t sizes[] = {CS5, CS6, CS7, CS8}, parities[] = {[EVEN] = PARENB, [ODD] = PARENB | PARODD};
    struct termios2 state;
    if (ioctl(fd, TCGETS2, &state) < 0)
        return -errno;
    state.c_iflag = INPCK | PARMRK | (words[FLOW] == XON_XOFF ? IXON | IXOFF : 0);
    state.c_oflag = state.c_lflag = 0;
    state.c_cflag &= ~(tcflag_t)(CSIZE | CSTOPB | PARENB | PARODD | CMSPAR | CRTSCTS | CBAUD | CIBAUD);
    state.c_cflag |= CREAD | CLOCAL | HUPCL | BOTHER | sizes[words[DATA_BITS] - 5] | parities[words[PARITY]] |
                     (words[STOP_BITS] == 2 ? CSTOPB : 0) | (words[FLOW] == RTS_CTS ? CRTSCTS : 0);
    state.c_ispeed = state.c_ospeed = words[BAUDRATE];
    state.c_cc[VMIN] = 1;
    state.c_cc[VTIME] = 0;
    state.c_cc[VSTART] = 0x11;
    state.c_cc[VSTOP] = 0x13;
    /* bytes received before had other settings */
    if (ioctl(fd, TCSETS2, &state) < 0 || ioctl(fd, TCFLSH, TCIOFLUSH) < 0 || ioctl(fd, TCGETS2, &state) < 0)
        return -errno;
    return state.c_ospeed;
}

/* In one job: bytes that a peer sends once the port is open must not arrive before the old ones are flushed. */
static int64_t take_port(int *fd, struct bus_job *job) {
    int64_t result = open_port(fd, job);
    if (result >= 0)
        result = lock_port(*fd);
    if (result >= 0)
        result = set_port(*fd, job->words);
    if (result >= 0 && (job->file = fcntl(*fd, F_DUPFD_CLOEXEC, 0)) < 0)
        result = -errno;
    if (result < 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return result;
}

static int64_t set_lines(int *fd, struct bus_job *job) {
    int on = (int)job->words[LINES_ON], off = (int)job->words[LINES_OFF];
    if ((on != 0 && ioctl(*fd, TIOCMBIS, &on) < 0) || (off != 0 && ioctl(*fd, TIOCMBIC, &off) < 0))
        return -errno;
    return 0;
}

/* Discards unsent bytes; a driver that cannot do so blocks until they are sent. When everything was sent nothing is
 * discarded: on a pseudo-terminal that would take bytes from the reader at its other end. */
static int64_t close_port(int *fd, struct bus_job *job) {
    int closing = *fd, waiting = 0;
    *fd = -1;
    ioctl(closing, TIOCNXCL); /* otherwise the exclusive mode would stay as long as root has the port open too */
    bool sent = ioctl(closing, TIOCOUTQ, &waiting) == 0 && waiting == 0;
    ioctl(closing, TCFLSH, sent ? TCIFLUSH : TCIOFLUSH);
    return close(closing) < 0 ? -errno : 0;
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

/* Queues work with non-negative numbers: the arguments after the bus. */
static int64_t numbers_job(napi_env env, napi_value *args, size_t count, bus_work *work) {
    int32_t numbers[STATE_WORDS];
    int error;
    for (size_t k = 0; k < count; k++)
        if (!addon_number(env, args[1 + k], &numbers[k]) || numbers[k] < 0)
            return -EINVAL;
    struct bus_job *job = bus_take(env, args[0], 0, &error);
    if (job == NULL)
        return error;
    for (size_t k = 0; k < count; k++)
        job->words[k] = (uint32_t)numbers[k];
    return bus_queue(env, args[0], job, work);
}

/* ttyTake(bus, path, baudrate, dataBits, parity, stopBits, flow) → job that opens, locks and configures the port; its
 * result is the actual baud rate, its file a duplicate to read and write; -EBUSY: another program has the port. Parity:
 * 0 none, 1 even, 2 odd; flow: 0 none, 1 RTS and CTS, 2 XON and XOFF. */
static int64_t tty_take(napi_env env, napi_value *args) {
    static const int32_t least[SETTINGS] = {1, 5, NO_PARITY, 1, NO_FLOW}, most[SETTINGS] = {INT32_MAX, 8, ODD, 2, XON_XOFF};
    int32_t numbers[SETTINGS];
    int error;
    for (int k = 0; k < SETTINGS; k++)
        if (!addon_number(env, args[2 + k], &numbers[k]) || numbers[k] < least[k] || numbers[k] > most[k])
            return -EINVAL;
    struct bus_job *job = bus_take_path(env, args[0], args[1], &error);
    if (job == NULL)
        return error;
    for (int k = 0; k < SETTINGS; k++)
        job->words[k] = (uint32_t)numbers[k];
    return bus_queue(env, args[0], job, take_port);
}

/* ttyLines(bus, on, off) → job; TIOCM_… bits of the lines to switch */
static int64_t tty_lines(napi_env env, napi_value *args) {
    return numbers_job(env, args, LINES, set_lines);
}

/* ttyClose(bus) → job; call it when no process has the duplicate any more: before that, it closes only its own descriptor */
static int64_t tty_close(napi_env env, napi_value *args) {
    return numbers_job(env, args, 0, close_port);
}

/* rs485Set(bus, flags, delayBefore, delayAfter) → job; SER_RS485_… flags, ms. The kernel applies what it supports. */
static int64_t rs485_set(napi_env env, napi_value *args) {
    return numbers_job(env, args, STATE_WORDS, set_state);
}

/* rs485Get(bus) → job; its answer is flags, delayBefore and delayAfter as 32-bit numbers */
static int64_t rs485_get(napi_env env, napi_value *args) {
    int error;
    struct bus_job *job = bus_take(env, args[0], STATE_WORDS * sizeof(uint32_t), &error);
    if (job == NULL)
        return error;
    job->answer_length = job->length;
    return bus_queue(env, args[0], job, get_state);
}

void addon_tty(napi_env env, napi_value exports) {
    addon_export(env, exports, "ttyTake", tty_take);
    addon_export(env, exports, "ttyLines", tty_lines);
    addon_export(env, exports, "ttyClose", tty_close);
    addon_export(env, exports, "rs485Set", rs485_set);
    addon_export(env, exports, "rs485Get", rs485_get);
}
