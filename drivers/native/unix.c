/*
 * Datagrams to AF_UNIX sockets, which Node has none of (sd_notify, syslog). The socket never blocks: with a full queue at the
 * other end the caller gets -EAGAIN.
 */
#define _GNU_SOURCE
#include "descriptor.h"

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

/* Reads a path into `to`; the length of the address, or 0. A path that begins with @ is in the abstract name space. */
static socklen_t read_path(napi_env env, napi_value value, struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    int length = addon_text(env, value, to->sun_path, sizeof to->sun_path);
    if (length <= 0)
        return 0;
    if (to->sun_path[0] == '@')
        to->sun_path[0] = '\0';
    /* an abstract name ends with its length, a path with its NUL */
    size_t name = (size_t)length + (to->sun_path[0] == '\0' ? 0 : 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name);
}

/* sendUnixDatagram(path, bytes) → bytes sent */
static napi_value send_unix_datagram(napi_env env, napi_callback_info info) {
    napi_value args[2];
    void *data;
    size_t bytes;
    struct sockaddr_un to;
    addon_args(env, info, 2, args);
    socklen_t length = read_path(env, args[0], &to);
    if (length == 0 || !addon_bytes(env, args[1], 0, &data, &bytes))
        return addon_int(env, -EINVAL);
    return addon_int(env, send_to(&to, length, data, bytes));
}

/* openUnixDatagram(path) → descriptor that receive() reads */
static napi_value open_unix_datagram(napi_env env, napi_callback_info info) {
    napi_value args[1];
    struct sockaddr_un at;
    addon_args(env, info, 1, args);
    socklen_t length = read_path(env, args[0], &at);
    if (length == 0)
        return addon_int(env, -EINVAL);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return addon_int(env, -errno);
    if (bind(fd, (const struct sockaddr *)&at, length) != 0) {
        int result = -errno;
        close(fd);
        return addon_int(env, result);
    }
    return descriptor_new(env, fd);
}

void addon_unix(napi_env env, napi_value exports) {
    addon_export(env, exports, "sendUnixDatagram", send_unix_datagram);
    addon_export(env, exports, "openUnixDatagram", open_unix_datagram);
}
