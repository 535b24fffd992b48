/* UDP sockets. They never block: an operation that cannot be done now is -EAGAIN, and watch() reports when it can.
 * Families are 4 and 6; an IPv6 socket bound to :: also receives IPv4. */
#define _GNU_SOURCE
#include "address.h"
#include "descriptor.h"

#include <netinet/in.h>
#include <sys/socket.h>

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
/* indexes of SO_MEMINFO's table */
enum { MEM_RCVBUF = 1, MEM_SNDBUF = 3, MEM_DROPS = 8, MEM_COUNT = 9 };

/* Only root can exceed net.core.*mem_max; for others the kernel reduces the buffer to that. */
static void set_buffer(int fd, int option, int forced, int32_t bytes) {
    if (bytes > 0 && setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes);
}

/* openUdp(family, receiveBuffer, sendBuffer) → descriptor or minus errno; a buffer of 0 bytes is unchanged */
static int64_t open_udp(napi_env env, napi_value *args) {
    int32_t family, receive, send;
    const int off = 0;
    if (!addon_number(env, args[0], &family) || !addon_number(env, args[1], &receive) ||
        !addon_number(env, args[2], &send) || (family != 4 && family != 6))
        return -EINVAL;
    int fd = socket(family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (family == 6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, receive);
    set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, send);
    return fd;
}

static int family_of(int fd) {
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 ? domain : AF_UNSPEC;
}

/* Reads (descriptor, address, port); the fd, or minus errno. */
static int target(napi_env env, napi_value *args, union address *out) {
    char text[80];
    int32_t port;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (addon_text(env, args[1], text, sizeof text) < 0 || !addon_number(env, args[2], &port) || port < 0 || port > 65535)
        return -EINVAL;
    int result = address_parse(text, family_of(fd), (uint16_t)port, out);
    return result < 0 ? result : fd;
}

/* bindUdp(descriptor, address, port) → 0 */
static int64_t bind_udp(napi_env env, napi_value *args) {
    union address address;
    int fd = target(env, args, &address);
    if (fd < 0)
        return fd;
    return bind(fd, &address.any, address_length(&address)) == 0 ? 0 : -errno;
}

/* connectUdp(descriptor, address, port) → 0; from then on only packets of that peer are received */
static int64_t connect_udp(napi_env env, napi_value *args) {
    union address address;
    int fd = target(env, args, &address);
    if (fd < 0)
        return fd;
    return connect(fd, &address.any, address_length(&address)) == 0 ? 0 : -errno;
}

/* socketState(descriptor, Uint32Array(4)) → 0; fills local port, receive and send buffer in bytes, packets the kernel dropped */
static int64_t socket_state(napi_env env, napi_value *args) {
    void *data;
    size_t bytes;
    union address address = {.bytes = {0}};
    socklen_t size = sizeof address;
    uint32_t memory[MEM_COUNT] = {0};
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], sizeof(uint32_t), &data, &bytes) || bytes < 4 * sizeof(uint32_t))
        return -EINVAL;
    if (getsockname(fd, &address.any, &size) != 0)
        return -errno;
    size = sizeof memory;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0)
        return -errno;
    uint32_t *out = data;
    out[0] = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    out[1] = memory[MEM_RCVBUF];
    out[2] = memory[MEM_SNDBUF];
    out[3] = memory[MEM_DROPS];
    return 0;
}

void addon_udp(napi_env env, napi_value exports) {
    addon_export_opening(env, exports, "openUdp", open_udp);
    addon_export(env, exports, "bindUdp", bind_udp);
    addon_export(env, exports, "connectUdp", connect_udp);
    addon_export(env, exports, "socketState", socket_state);
}
