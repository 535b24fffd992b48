/* hci-open: opens the user channel of a Bluetooth adapter for the gateway, which lacks the right (CAP_NET_ADMIN).
 * systemd starts one for each connection to /run/os-node-hci, a packet socket on standard input. It reads one packet,
 * the number of the adapter in decimal, and sends one of four bytes: 0 with the descriptor, or the system's error. It
 * switches the adapter off first, as the kernel requires; opening the channel switches it on, closing it switches it
 * off. EBUSY: another program has the channel. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HCI = 1, USER = 1, DIGITS = 3 };
#define SWITCH_OFF _IOW('H', 202, int)

struct hci_address {
    sa_family_t family;
    uint16_t device, channel;
};

/* The number, or -1 for anything else. */
static int device_of(const char *text, ssize_t length) {
    int device = 0;
    if (length < 1 || length > DIGITS)
        return -1;
    for (ssize_t at = 0; at < length; at++) {
        if (text[at] < '0' || text[at] > '9')
            return -1;
        device = device * 10 + text[at] - '0';
    }
    return device;
}

/* The channel's descriptor, or minus errno. */
static int open_channel(int device) {
    int fd = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC, HCI);
    const struct hci_address at = {AF_BLUETOOTH, (uint16_t)device, USER};
    if (fd < 0 || ioctl(fd, SWITCH_OFF, device) < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) != 0)
        return -errno;
    return fd;
}

int main(void) {
    char request[DIGITS + 1];
    int device = device_of(request, recv(STDIN_FILENO, request, sizeof request, 0));
    int fd = device < 0 ? -EINVAL : open_channel(device);
    int32_t result = fd < 0 ? -fd : 0;
    struct iovec part = {&result, sizeof result};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {.head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    struct msghdr answer = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        answer.msg_control = control.bytes;
        answer.msg_controllen = sizeof control.bytes;
    }
    return sendmsg(STDIN_FILENO, &answer, MSG_NOSIGNAL) < 0;
}
