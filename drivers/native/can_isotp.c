/* ISO-TP sockets: the kernel splits packets into CAN frames and reassembles them. receive() and sendOne() transfer
 * packets like other datagrams. One packet is in transit at a time: sendOne() returns -EAGAIN until the peer has the
 * complete previous packet, and watch() reports when. A later transmission error is the next result of receive() or
 * socketError(). */
#define _GNU_SOURCE
#include "can.h"
#include "descriptor.h"

#include <linux/can.h>
#include <linux/can/isotp.h>
#include <sys/socket.h>

/* indexes of `settings` */
enum { TX_ID, RX_ID, FLAGS, TX_PAD, RX_PAD, BLOCK_SIZE, ST_MIN, WAIT_MAX, MTU, TX_DL, TX_FLAGS, SETTINGS };

static int prepare(int fd, const uint32_t *settings, int32_t buffer) {
    struct can_isotp_options options = {
        .flags = settings[FLAGS],
        .txpad_content = (uint8_t)settings[TX_PAD],
        .rxpad_content = (uint8_t)settings[RX_PAD],
    };
    struct can_isotp_fc_options flow = {
        .bs = (uint8_t)settings[BLOCK_SIZE],
        .stmin = (uint8_t)settings[ST_MIN],
        .wftmax = (uint8_t)settings[WAIT_MAX],
    };
    struct can_isotp_ll_options link = {
        .mtu = (uint8_t)settings[MTU],
        .tx_dl = (uint8_t)settings[TX_DL],
        .tx_flags = (uint8_t)settings[TX_FLAGS],
    };
    if (setsockopt(fd, SOL_CAN_ISOTP, CAN_ISOTP_OPTS, &options, sizeof options) != 0 ||
        setsockopt(fd, SOL_CAN_ISOTP, CAN_ISOTP_RECV_FC, &flow, sizeof flow) != 0 ||
        setsockopt(fd, SOL_CAN_ISOTP, CAN_ISOTP_LL_OPTS, &link, sizeof link) != 0)
        return -errno;
    if (buffer > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    return 0;
}

/*
 * openIsotp(interface, settings: Uint32Array(11), receiveBuffer) → descriptor or minus errno
 * -EPROTONOSUPPORT: the kernel's module is missing. Ids of 29 bits have the flag EFF.
 */
static int64_t open_isotp(napi_env env, napi_value *args) {
    void *settings;
    size_t bytes;
    int32_t buffer;
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &settings, &bytes) || bytes < SETTINGS * sizeof(uint32_t) ||
        !addon_number(env, args[2], &buffer))
        return -EINVAL;
    int fd = can_socket(SOCK_DGRAM, CAN_ISOTP);
    if (fd < 0)
        return fd;
    int index = can_interface(env, args[0]);
    int result = index < 0 ? index : prepare(fd, settings, buffer);
    if (result == 0)
        result = can_bind(fd, index, ((uint32_t *)settings)[RX_ID], ((uint32_t *)settings)[TX_ID]);
    return descriptor_if(result, fd);
}

/* socketError(descriptor) → 0, or minus the pending error, which is cleared */
static int64_t socket_error(napi_env env, napi_value *args) {
    int error = 0;
    socklen_t size = sizeof error;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
}

void addon_can_isotp(napi_env env, napi_value exports) {
    addon_export_opening(env, exports, "openIsotp", open_isotp);
    addon_export(env, exports, "socketError", socket_error);
}
