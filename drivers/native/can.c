/*
 * Raw CAN sockets: classic and FD frames, filters, error frames and timestamps, many frames per system call.
 *
 * A frame is a slot of 72 bytes as the kernel has it: id u32 (native order, with the flags EFF, RTR and ERR), length u8, flags
 * u8 (FDF set for every FD frame, also by old kernels), way u8 (1: sent by this machine, 2: by this very socket), u8, data.
 */
#define _GNU_SOURCE
#include "can.h"
#include "descriptor.h"

#include <linux/can.h>
#include <linux/can/raw.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef CANFD_FDF
#define CANFD_FDF 0x04
#endif
#ifndef SO_TIMESTAMPING
#define SO_TIMESTAMPING 37
#endif

enum { BATCH = 64, SLOT = CANFD_MTU };
enum { OPEN_FD = 1, OPEN_OWN = 2, OPEN_NO_LOOPBACK = 4 };
enum { WAY_HOST = 1, WAY_SELF = 2 };
/* offsets of `flags` and `way` in a slot */
enum { FLAGS_AT = 5, WAY_AT = 6 };
/* timestamps as the kernel returns them: software, unused, hardware */
struct stamps {
    struct timespec at[3];
};

int can_interface(napi_env env, napi_value value) {
    char name[IF_NAMESIZE];
    if (addon_text(env, value, name, sizeof name) <= 0)
        return -EINVAL;
    unsigned index = if_nametoindex(name);
    return index == 0 ? -errno : (int)index;
}

int can_socket(int type, int protocol) {
    int fd = socket(PF_CAN, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    return fd < 0 ? -errno : fd;
}

int can_bind(int fd, int index, uint32_t rx_id, uint32_t tx_id) {
    struct sockaddr_can address = {.can_family = AF_CAN, .can_ifindex = index};
    address.can_addr.tp.rx_id = rx_id;
    address.can_addr.tp.tx_id = tx_id;
    return bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno;
}

static bool set(int fd, int level, int option, const void *value, size_t size) {
    return setsockopt(fd, level, option, value, (socklen_t)size) == 0;
}

/* If it fails, frames have no timestamp; everything else works. */
static void stamp(int fd) {
    const int stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_HARDWARE |
                       SOF_TIMESTAMPING_RAW_HARDWARE;
    set(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps);
}

static int prepare(int fd, int32_t flags, int32_t errors, int32_t buffer, const void *filters, size_t filter_bytes) {
    const int on = 1, off = 0;
    const can_err_mask_t mask = (can_err_mask_t)errors;
    if ((flags & OPEN_FD) != 0 && !set(fd, SOL_CAN_RAW, CAN_RAW_FD_FRAMES, &on, sizeof on))
        return -errno;
    if ((flags & OPEN_OWN) != 0 && !set(fd, SOL_CAN_RAW, CAN_RAW_RECV_OWN_MSGS, &on, sizeof on))
        return -errno;
    if ((flags & OPEN_NO_LOOPBACK) != 0 && !set(fd, SOL_CAN_RAW, CAN_RAW_LOOPBACK, &off, sizeof off))
        return -errno;
    if (!set(fd, SOL_CAN_RAW, CAN_RAW_ERR_FILTER, &mask, sizeof mask))
        return -errno;
    if (filters != NULL && !set(fd, SOL_CAN_RAW, CAN_RAW_FILTER, filters, filter_bytes))
        return -errno;
    if (buffer > 0 && !set(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        set(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    stamp(fd);
    return 0;
}

/* openCanRaw(interface, flags, errorMask, receiveBuffer, filters: Uint32Array | null) → descriptor or minus errno
 * flags: 1 also receive FD frames, 2 receive what this socket sends, 4 other sockets of this machine do not receive
 * what it sends. `filters` are pairs of id and mask; length 0 receives nothing, null receives everything. Receive
 * buffer in bytes, 0: unchanged. */
static int64_t open_can_raw(napi_env env, napi_value *args) {
    int32_t flags, errors, buffer;
    void *filters = NULL;
    size_t filter_bytes = 0;
    if (!addon_number(env, args[1], &flags) || !addon_number(env, args[2], &errors) || !addon_number(env, args[3], &buffer))
        return -EINVAL;
    bool filtered = addon_bytes(env, args[4], sizeof(uint32_t), &filters, &filter_bytes);
    if (filtered && filter_bytes % sizeof(struct can_filter) != 0)
        return -EINVAL;
    int index = can_interface(env, args[0]);
    if (index < 0)
        return index;
    int fd = can_socket(SOCK_RAW, CAN_RAW);
    if (fd < 0)
        return fd;
    /* an empty array may have no address */
    int result = prepare(fd, flags, errors, buffer, filtered && filters == NULL ? "" : filters, filter_bytes);
    if (result == 0)
        result = can_bind(fd, index, 0, 0);
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

static double milliseconds(struct timespec time) { return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6; }

/* The timestamps of a message, 0 if it has none. */
static void read_times(struct msghdr *message, double *software, double *hardware) {
    struct stamps stamps;
    *software = 0;
    if (hardware != NULL)
        *hardware = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SO_TIMESTAMPING)
            continue;
        memcpy(&stamps, CMSG_DATA(part), sizeof stamps);
        *software = milliseconds(stamps.at[0]);
        if (hardware != NULL)
            *hardware = milliseconds(stamps.at[2]);
    }
}

/* receiveCan(descriptor, frames: Uint8Array, times: Float64Array, hardware: Float64Array | null) → frames received
 * As many as fit into both, at most 64. `times` are ms since 1970 of the system clock; `hardware` ms of the
 * controller's clock, 0 if it has none. */
static int64_t receive_can(napi_env env, napi_value *args) {
    void *frames, *times, *hardware = NULL;
    size_t frame_bytes, time_bytes, hardware_bytes = 0;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(struct stamps))];
    } controls[BATCH];
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &frames, &frame_bytes) || !addon_bytes(env, args[2], sizeof(double), &times, &time_bytes))
        return -EINVAL;
    size_t count = frame_bytes / SLOT < time_bytes / sizeof(double) ? frame_bytes / SLOT : time_bytes / sizeof(double);
    bool timed = addon_bytes(env, args[3], sizeof(double), &hardware, &hardware_bytes);
    if (count == 0 || (timed && hardware_bytes < count * sizeof(double)))
        return -EINVAL;
    if (count > BATCH)
        count = BATCH;
    memset(messages, 0, count * sizeof *messages);
    for (size_t k = 0; k < count; k++) {
        parts[k] = (struct iovec){.iov_base = (uint8_t *)frames + k * SLOT, .iov_len = SLOT};
        messages[k].msg_hdr.msg_iov = &parts[k];
        messages[k].msg_hdr.msg_iovlen = 1;
        messages[k].msg_hdr.msg_control = controls[k].bytes;
        messages[k].msg_hdr.msg_controllen = sizeof controls[k].bytes;
    }
    int got = recvmmsg(fd, messages, (unsigned)count, MSG_DONTWAIT, NULL);
    if (got < 0)
        return -errno;
    for (int k = 0; k < got; k++) {
        uint8_t *frame = (uint8_t *)frames + (size_t)k * SLOT;
        struct msghdr *message = &messages[k].msg_hdr;
        /* the kernel does not set the flags of a classic frame */
        frame[FLAGS_AT] = messages[k].msg_len == CANFD_MTU ? frame[FLAGS_AT] | CANFD_FDF : 0;
        frame[WAY_AT] = (message->msg_flags & MSG_DONTROUTE ? WAY_HOST : 0) | (message->msg_flags & MSG_CONFIRM ? WAY_SELF : 0);
        read_times(message, (double *)times + k, timed ? (double *)hardware + k : NULL);
    }
    return got;
}

/* sendCan(descriptor, frames: Uint8Array, first, count) → frames sent, or minus errno if the first one failed
 * Sends `count` slots from number `first` on. The flag FDF makes a slot an FD frame. */
static int64_t send_can(napi_env env, napi_value *args) {
    void *frames;
    size_t bytes;
    int32_t first, count;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &frames, &bytes) || !addon_number(env, args[2], &first) ||
        !addon_number(env, args[3], &count) || first < 0 || count < 1 ||
        (uint64_t)(uint32_t)first + (uint32_t)count > bytes / SLOT)
        return -EINVAL;
    if (count > BATCH)
        count = BATCH;
    memset(messages, 0, (size_t)count * sizeof *messages);
    for (int32_t k = 0; k < count; k++) {
        uint8_t *frame = (uint8_t *)frames + (size_t)(first + k) * SLOT;
        parts[k] = (struct iovec){.iov_base = frame, .iov_len = (frame[FLAGS_AT] & CANFD_FDF) != 0 ? CANFD_MTU : CAN_MTU};
        messages[k].msg_hdr.msg_iov = &parts[k];
        messages[k].msg_hdr.msg_iovlen = 1;
    }
    int sent = sendmmsg(fd, messages, (unsigned)count, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

void addon_can(napi_env env, napi_value exports) {
    addon_export_opening(env, exports, "openCanRaw", open_can_raw);
    addon_export(env, exports, "receiveCan", receive_can);
    addon_export(env, exports, "sendCan", send_can);
}
