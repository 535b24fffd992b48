/* The state of a CAN interface from netlink, which needs no rights: whether it is up, state of the bus, error counters,
 * bit rates and number of restarts. The kernel answers while the query is sent, so nothing waits. */
#define _GNU_SOURCE
#include "can.h"
#include "descriptor.h"

#include <linux/can/netlink.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* indexes of `out` */
enum { INDEX, FLAGS, LINK_MTU, KIND, STATE, TX_ERRORS, RX_ERRORS, BITRATE, DATA_BITRATE, RESTART_MS, XSTATS };
enum { XSTATS_COUNT = 6, PLACES = XSTATS + XSTATS_COUNT };
enum { KIND_OTHER, KIND_VIRTUAL, KIND_CAN };
/* state of an interface whose driver reports none */
enum { NO_STATE = 0xff };

static uint32_t word(const struct rtattr *attribute) {
    uint32_t value = 0;
    if (RTA_PAYLOAD(attribute) >= sizeof value)
        memcpy(&value, RTA_DATA(attribute), sizeof value);
    return value;
}

static void read_data(struct rtattr *in, uint32_t *out) {
    int left = (int)RTA_PAYLOAD(in);
    for (struct rtattr *at = RTA_DATA(in); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        struct can_berr_counter errors;
        switch (at->rta_type & NLA_TYPE_MASK) {
        case IFLA_CAN_STATE: out[STATE] = word(at); break;
        case IFLA_CAN_RESTART_MS: out[RESTART_MS] = word(at); break;
        /* both begin with the bit rate */
        case IFLA_CAN_BITTIMING: out[BITRATE] = word(at); break;
        case IFLA_CAN_DATA_BITTIMING: out[DATA_BITRATE] = word(at); break;
        case IFLA_CAN_BERR_COUNTER:
            if (RTA_PAYLOAD(at) < sizeof errors)
                break;
            memcpy(&errors, RTA_DATA(at), sizeof errors);
            out[TX_ERRORS] = errors.txerr;
            out[RX_ERRORS] = errors.rxerr;
            break;
        }
    }
}

static void read_info(struct rtattr *in, uint32_t *out) {
    int left = (int)RTA_PAYLOAD(in);
    struct rtattr *data = NULL;
    for (struct rtattr *at = RTA_DATA(in); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        const char *kind = RTA_DATA(at);
        size_t bytes = RTA_PAYLOAD(at);
        switch (at->rta_type & NLA_TYPE_MASK) {
        case IFLA_INFO_KIND:
            if (bytes >= 4 && memcmp(kind, "can", 4) == 0)
                out[KIND] = KIND_CAN;
            else if ((bytes >= 5 && memcmp(kind, "vcan", 5) == 0) || (bytes >= 6 && memcmp(kind, "vxcan", 6) == 0))
                out[KIND] = KIND_VIRTUAL;
            break;
        case IFLA_INFO_DATA: data = at; break;
        case IFLA_INFO_XSTATS:
            memcpy(out + XSTATS, RTA_DATA(at), bytes < XSTATS_COUNT * sizeof *out ? bytes : XSTATS_COUNT * sizeof *out);
            break;
        }
    }
    if (data != NULL && out[KIND] == KIND_CAN)
        read_data(data, out);
}

static int read_answer(struct nlmsghdr *header, size_t bytes, uint32_t *out) {
    if (!NLMSG_OK(header, bytes))
        return -EIO;
    if (header->nlmsg_type == NLMSG_ERROR)
        return header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) ? ((struct nlmsgerr *)NLMSG_DATA(header))->error : -EIO;
    if (header->nlmsg_type != RTM_NEWLINK || header->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)))
        return -EIO;
    struct ifinfomsg *link = NLMSG_DATA(header);
    int left = (int)IFLA_PAYLOAD(header);
    out[INDEX] = (uint32_t)link->ifi_index;
    out[FLAGS] = link->ifi_flags;
    for (struct rtattr *at = IFLA_RTA(link); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if ((at->rta_type & NLA_TYPE_MASK) == IFLA_MTU)
            out[LINK_MTU] = word(at);
        else if ((at->rta_type & NLA_TYPE_MASK) == IFLA_LINKINFO)
            read_info(at, out);
    }
    return 0;
}

static int ask(int fd, int index, uint32_t *out) {
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } question = {
        .header = {.nlmsg_len = sizeof question, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = 1},
        .link = {.ifi_family = AF_UNSPEC, .ifi_index = index},
    };
    union {
        struct nlmsghdr header;
        uint8_t bytes[16384];
    } answer;
    if (send(fd, &question, sizeof question, 0) < 0)
        return -errno;
    ssize_t got = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    return got < 0 ? -errno : read_answer(&answer.header, (size_t)got, out);
}

/* canLink(interface, out: Uint32Array(16)) → 0; -ENODEV: no such interface
 * out: index, IFF_ flags, mtu, kind (0 not CAN, 1 virtual, 2 CAN), CAN_STATE_ (255: unknown), transmit and receive
 * error counter, bit rate, bit rate of FD data, restart-ms, then totals of the interface: bus errors, times in warning,
 * passive and bus-off, arbitrations lost, restarts. */
static int64_t can_link(napi_env env, napi_value *args) {
    void *out;
    size_t bytes;
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &out, &bytes) || bytes < PLACES * sizeof(uint32_t))
        return -EINVAL;
    int index = can_interface(env, args[0]);
    if (index < 0)
        return index;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    memset(out, 0, PLACES * sizeof(uint32_t));
    ((uint32_t *)out)[STATE] = NO_STATE;
    int result = ask(fd, index, out);
    close(fd);
    return result;
}

/* openLinkChanges() → descriptor, readable when an interface was added, removed or changed; the bytes that receive()
 * reads are irrelevant */
static int64_t open_link_changes(napi_env env, napi_value *args) {
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    return descriptor_if(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno, fd);
}

void addon_can_link(napi_env env, napi_value exports) {
    addon_export(env, exports, "canLink", can_link);
    addon_export_opening(env, exports, "openLinkChanges", open_link_changes);
}
