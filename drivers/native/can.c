/*
 * Raw CAN sockets: classic and FD frames, filters and error frames, many frames per system call.
 *
 * A frame is a slot of 72 bytes as the kernel has it: id u32 (native order, with the flags EFF, RTR and ERR), length u8, flags
 * u8 (FDF set for every FD frame, also by old kernels), u16, data.
 */
#define _GNU_SOURCE
#include "can.h"
#include "descriptor.h"

#include <linux/can.h>
#include <linux/can/raw.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#ifndef CANFD_FDF
#define CANFD_FDF 0x04
#endif

/* FLAGS_AT: offset of `flags` in a slot */
enum { BATCH = 64, SLOT = CANFD_MTU, FLAGS_AT = 5 };

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

static int prepare(int fd, int32_t fd_frames, int32_t errors, int32_t buffer, const void *filters, size_t filter_bytes) {
    const int on = 1;
    const can_err_mask_t mask = (can_err_mask_t)errors;
    if (fd_frames != 0 && !set(fd, SOL_CAN_RAW, CAN_RAW_FD_FRAMES, &on, sizeof on))
        return -errno;
    if (!set(fd, SOL_CAN_RAW, CAN_RAW_ERR_FILTER, &mask, sizeof mask))
        return -errno;
    if (filters != NULL && !set(fd, SOL_CAN_RAW, CAN_RAW_FILTER, filters, filter_bytes))
        return -errno;
    if (buffer > 0 && !set(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer))
        set(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    return 0;
}

/* openCanRaw(interface, fdFrames, errorMask, receiveBuffer, filters: Uint32Array | null) → descriptor or minus errno
 * fdFrames: 1 also receive FD frames. `filters` are pairs of id and mask; length 0 receives nothing, null receives
 * everything. Receive buffer in bytes, 0: unchanged. */
static int64_t open_can_raw(napi_env env, napi_value *args) {
    int32_t fd_frames, errors, buffer;
    void *filters = NULL;
    size_t filter_bytes = 0;
    if (!addon_number(env, args[1], &fd_frames) || !addon_number(env, args[2], &errors) || !addon_number(env, args[3], &buffer))
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
    int result = prepare(fd, fd_frames, errors, buffer, filtered && filters == NULL ? "" : filters, filter_bytes);
    return descriptor_if(result < 0 ? result : can_bind(fd, index, 0, 0), fd);
}

/* receiveCan(descriptor, frames: Uint8Array) → frames received, as many as fit, at most 64 */
static int64_t receive_can(napi_env env, napi_value *args) {
    void *frames;
    size_t bytes;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &frames, &bytes) || bytes < SLOT)
        return -EINVAL;
    size_t count = bytes / SLOT < BATCH ? bytes / SLOT : BATCH;
    memset(messages, 0, count * sizeof *messages);
    for (size_t k = 0; k < count; k++) {
        parts[k] = (struct iovec){.iov_base = (uint8_t *)frames + k * SLOT, .iov_len = SLOT};
        messages[k].msg_hdr.msg_iov = &parts[k];
        messages[k].msg_hdr.msg_iovlen = 1;
    }
    int got = recvmmsg(fd, messages, (unsigned)count, MSG_DONTWAIT, NULL);
    if (got < 0)
        return -errno;
    for (int k = 0; k < got; k++) {
        uint8_t *frame = (uint8_t *)frames + (size_t)k * SLOT;
        /* the kernel does not set the flags of a classic frame */
        frame[FLAGS_AT] = messages[k].msg_len == CANFD_MTU ? frame[FLAGS_AT] | CANFD_FDF : 0;
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
