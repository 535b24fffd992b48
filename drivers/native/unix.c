/*
 * Datagrams to AF_UNIX sockets, which Node has none of (sd_notify, syslog). The socket never blocks: with a full queue at the
 * other end the caller gets -EAGAIN.
 */
#define _GNU_SOURCE
#include "addon.h"

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

/* sendUnixDatagram(path, bytes) → bytes sent; a path that begins with @ is in the abstract name space */
static napi_value send_unix_datagram(napi_env env, napi_callback_info info) {
    napi_value args[2];
    void *data;
    size_t bytes;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    addon_args(env, info, 2, args);
    int length = addon_text(env, args[0], to.sun_path, sizeof to.sun_path);
    if (length <= 0 || !addon_bytes(env, args[1], 0, &data, &bytes))
        return addon_int(env, -EINVAL);
    if (to.sun_path[0] == '@')
        to.sun_path[0] = '\0';
    /* an abstract name ends with its length, a path with its NUL */
    size_t name = (size_t)length + (to.sun_path[0] == '\0' ? 0 : 1);
    return addon_int(env, send_to(&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name), data, bytes));
}

void addon_unix(napi_env env, napi_value exports) {
    addon_export(env, exports, "sendUnixDatagram", send_unix_datagram);
}
