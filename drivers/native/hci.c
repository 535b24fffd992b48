/* Sockets of Bluetooth adapters. A bound socket is read and written like any datagram socket: one HCI packet per
 * datagram. The structures are from the kernel's bluetooth.h, hci_sock.h and l2cap.h, which the C library lacks. */
#define _GNU_SOURCE
#include "descriptor.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { L2CAP = 0, HCI = 1, SOL_HCI_LEVEL = 0, HCI_FILTER_OPTION = 2, ADDRESS = 6 };
/* kernel/include/net/bluetooth/l2cap.h: attribute protocol; hci_sock.h: bit of a device that is up */
enum { ATT_CHANNEL = 4, LE_PUBLIC = 1, IS_UP = 1 };

struct hci_address {
    sa_family_t family;
    uint16_t device, channel;
};

struct l2cap_address {
    sa_family_t family;
    uint16_t psm;
    uint8_t address[ADDRESS];
    uint16_t channel;
    uint8_t address_type;
};

struct hci_filter {
    uint32_t types, events[2];
    uint16_t opcode;
};

/* the kernel writes the whole of its own structure, whatever the size here */
struct hci_device_info {
    uint16_t device;
    char name[8];
    uint8_t address[ADDRESS];
    uint32_t flags;
    uint8_t others[72];
};
_Static_assert(sizeof(struct hci_device_info) == 92, "struct hci_dev_info of hci_sock.h");
#define GET_DEVICE_INFO _IOR('H', 211, int)

/* openHci(device, channel) → descriptor; channel 0: raw, in parallel with the kernel; 1: user, instead of the kernel
 * (CAP_NET_ADMIN) */
static int64_t open_hci(napi_env env, napi_value *args) {
    int32_t device, channel;
    if (!addon_number(env, args[0], &device) || !addon_number(env, args[1], &channel) || device < 0 || device > UINT16_MAX ||
        channel < 0 || channel > 1)
        return -EINVAL;
    int fd = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, HCI);
    if (fd < 0)
        return -errno;
    const struct hci_address at = {AF_BLUETOOTH, (uint16_t)device, (uint16_t)channel};
    return descriptor_if(bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 ? 0 : -errno, fd);
}

/* hciInfo(descriptor, device, address) → 1 when the adapter is up, else 0; its address, 6 bytes in HCI order, is stored
 * in `address` */
static int64_t hci_info(napi_env env, napi_value *args) {
    int32_t device;
    void *address;
    size_t bytes;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_number(env, args[1], &device) || !addon_bytes(env, args[2], 1, &address, &bytes) || bytes != ADDRESS)
        return -EINVAL;
    struct hci_device_info found = {.device = (uint16_t)device};
    if (ioctl(fd, GET_DEVICE_INFO, &found) < 0)
        return -errno;
    memcpy(address, found.address, ADDRESS);
    return found.flags & IS_UP;
}

/* hciFilter(descriptor, filter) → 0; the 14 or 16 bytes of struct hci_filter */
static int64_t hci_filter(napi_env env, napi_value *args) {
    void *data;
    size_t bytes;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    struct hci_filter filter = {0};
    if (!addon_bytes(env, args[1], 1, &data, &bytes) || bytes > sizeof filter)
        return -EINVAL;
    memcpy(&filter, data, bytes);
    int result = setsockopt(fd, SOL_HCI_LEVEL, HCI_FILTER_OPTION, &filter, sizeof filter);
    return result < 0 ? -errno : 0;
}

/* holdLe(adapter, peer, peerType) → descriptor; addresses of 6 bytes, type 1 public, 2 random. The kernel ends a
 * connection that none of its own sockets uses: this socket uses it until it is closed. */
static int64_t hold_le(napi_env env, napi_value *args) {
    int32_t type;
    void *adapter, *peer;
    size_t adapter_bytes, peer_bytes;
    if (!addon_bytes(env, args[0], 1, &adapter, &adapter_bytes) || !addon_bytes(env, args[1], 1, &peer, &peer_bytes) ||
        !addon_number(env, args[2], &type) || adapter_bytes != ADDRESS || peer_bytes != ADDRESS || type < 1 || type > 2)
        return -EINVAL;
    struct l2cap_address from = {.family = AF_BLUETOOTH, .channel = ATT_CHANNEL, .address_type = LE_PUBLIC};
    struct l2cap_address to = {.family = AF_BLUETOOTH, .channel = ATT_CHANNEL, .address_type = (uint8_t)type};
    memcpy(from.address, adapter, ADDRESS);
    memcpy(to.address, peer, ADDRESS);
    int fd = socket(AF_BLUETOOTH, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, L2CAP);
    if (fd < 0)
        return -errno;
    bool failed = bind(fd, (const struct sockaddr *)&from, sizeof from) != 0 ||
                  (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS);
    return descriptor_if(failed ? -errno : 0, fd);
}

void addon_hci(napi_env env, napi_value exports) {
    addon_export_opening(env, exports, "openHci", open_hci);
    addon_export(env, exports, "hciInfo", hci_info);
    addon_export(env, exports, "hciFilter", hci_filter);
    addon_export_opening(env, exports, "holdLe", hold_le);
}
