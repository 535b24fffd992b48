/* Datagrams to AF_UNIX sockets, which Node does not support (sd_notify, syslog), and descriptors that another process
 * opened for this one. The sockets never block: if the queue at the other end is full, the caller gets -EAGAIN. */
#define _GNU_SOURCE
#include "descriptor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int send_to(const struct sockaddr_un *to, socklen_t to_length, const void *data, size_t bytes) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    ssize_t sent = sendto(fd, data, bytes, MSG_NOSIGNAL, (const struct sockaddr *)to, to_length);
    int result = sent < 0 ? -errno : (int)sent;
    close(fd);
    return result;
}

/* Reads a path into `to`; the length of the address, or 0. A path with a leading @ is in the abstract name space. */
static socklen_t read_path(napi_env env, napi_value value, struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    int length = addon_text(env, value, to->sun_path, sizeof to->sun_path);
    if (length <= 0)
        return 0;
    if (to->sun_path[0] == '@')
        to->sun_path[0] = '\0';
    /* an abstract name ends at its length, a path at its NUL */
    size_t name = (size_t)length + (to->sun_path[0] == '\0' ? 0 : 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name);
}

/* sendUnixDatagram(path, bytes) → bytes sent */
static int64_t send_unix_datagram(napi_env env, napi_value *args) {
    void *data;
    size_t bytes;
    struct sockaddr_un to;
    socklen_t length = read_path(env, args[0], &to);
    if (length == 0 || !addon_bytes(env, args[1], 0, &data, &bytes))
        return -EINVAL;
    return send_to(&to, length, data, bytes);
}

/* connectUnixPackets(path) → descriptor of a connection that preserves packet boundaries; for sendOne(), passDescriptor() and takeDescriptor() */
static int64_t connect_unix_packets(napi_env env, napi_value *args) {
    struct sockaddr_un at;
    socklen_t length = read_path(env, args[0], &at);
    if (length == 0)
        return -EINVAL;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    return descriptor_if(connect(fd, (const struct sockaddr *)&at, length) == 0 ? 0 : -errno, fd);
}

/* passDescriptor(connection, byte, descriptor) → 1: a packet of one byte, with a copy of the descriptor */
static int64_t pass_descriptor(napi_env env, napi_value *args) {
    int32_t byte;
    int fd = descriptor_fd(env, args[0]);
    int passed = descriptor_fd(env, args[2]);
    if (fd < 0 || passed < 0 || !addon_number(env, args[1], &byte))
        return fd < 0 ? fd : passed < 0 ? passed : -EINVAL;
    char bytes = (char)byte;
    struct iovec part = {&bytes, 1};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof passed)];
    } control = {.head = {CMSG_LEN(sizeof passed), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &passed, sizeof passed);
    const struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t sent = sendmsg(fd, &packet, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* takeDescriptor(connection) → the descriptor in the next packet; without one, minus the errno in the packet, or 0 */
static napi_value take_descriptor(napi_env env, napi_callback_info info) {
    napi_value connection = NULL;
    size_t count = 1;
    napi_get_cb_info(env, info, &count, &connection, NULL, NULL);
    int fd = descriptor_fd(env, connection);
    if (fd < 0)
        return addon_int(env, fd);
    int32_t result = 0;
    int taken = -1;
    struct iovec part = {&result, sizeof result};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof taken)];
    } control;
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t bytes = recvmsg(fd, &packet, MSG_CMSG_CLOEXEC);
    if (bytes < 0)
        return addon_int(env, -errno);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    if (bytes == 0 || !head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof taken))
        return addon_int(env, bytes == sizeof result && result >= 0 ? -result : -ECONNRESET);
    memcpy(&taken, CMSG_DATA(head), sizeof taken);
    fcntl(taken, F_SETFL, fcntl(taken, F_GETFL) | O_NONBLOCK);
    return descriptor_new(env, taken);
}

void addon_unix(napi_env env, napi_value exports) {
    addon_export(env, exports, "sendUnixDatagram", send_unix_datagram);
    addon_export_opening(env, exports, "connectUnixPackets", connect_unix_packets);
    addon_export(env, exports, "passDescriptor", pass_descriptor);
    addon_export_raw(env, exports, "takeDescriptor", take_descriptor, NULL);
}
