/* Many datagrams per system call, from and to buffers of the caller. No allocation; what does not fit into a batch is
 * left for the next call. */
#define _GNU_SOURCE
#include "address.h"
#include "descriptor.h"

#include <string.h>
#include <sys/socket.h>

/* messages per system call: more bring no gain, and 64 of them fit on the stack */
enum { BATCH = 64 };

/* receive(descriptor, slab, lengths: Uint32Array, peers: Uint8Array | null) → packets received
 * The slab is divided into as many equal slots as `lengths` has elements; `peers` gets 28 bytes per packet (null: not
 * needed). A packet longer than its slot is truncated. */
static int64_t receive(napi_env env, napi_value *args) {
    void *slab, *lengths, *peers = NULL;
    size_t slab_bytes, lengths_bytes, peers_bytes = 0;
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &slab, &slab_bytes) ||
        !addon_bytes(env, args[2], sizeof(uint32_t), &lengths, &lengths_bytes))
        return -EINVAL;
    bool named = addon_bytes(env, args[3], 1, &peers, &peers_bytes);
    size_t count = lengths_bytes / sizeof(uint32_t);
    if (count == 0 || (named && peers_bytes < count * ADDRESS_SIZE))
        return -EINVAL;
    size_t slot = slab_bytes / count;
    if (count > BATCH)
        count = BATCH;
    memset(messages, 0, count * sizeof *messages);
    for (size_t k = 0; k < count; k++) {
        parts[k] = (struct iovec){.iov_base = (uint8_t *)slab + k * slot, .iov_len = slot};
        messages[k].msg_hdr.msg_iov = &parts[k];
        messages[k].msg_hdr.msg_iovlen = 1;
        if (named) {
            messages[k].msg_hdr.msg_name = (uint8_t *)peers + k * ADDRESS_SIZE;
            messages[k].msg_hdr.msg_namelen = ADDRESS_SIZE;
        }
    }
    int got = recvmmsg(fd, messages, (unsigned)count, MSG_DONTWAIT, NULL);
    if (got < 0)
        return -errno;
    for (int k = 0; k < got; k++) {
        ((uint32_t *)lengths)[k] = messages[k].msg_len;
        if (named)
            address_clean(messages[k].msg_hdr.msg_name, messages[k].msg_hdr.msg_namelen);
    }
    return got;
}

/* Sends the packets in `parts` in order, to one `to` address each, or to none (NULL); returns how many were sent, or
 * minus errno for the first. */
static int send_all(int fd, const uint8_t *slab, const uint32_t *offsets, const uint32_t *lengths, size_t count, uint8_t *to) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    size_t done = 0;
    while (done < count) {
        size_t batch = count - done < BATCH ? count - done : BATCH;
        memset(messages, 0, batch * sizeof *messages);
        for (size_t k = 0; k < batch; k++) {
            parts[k] = (struct iovec){.iov_base = (void *)(slab + offsets[done + k]), .iov_len = lengths[done + k]};
            messages[k].msg_hdr.msg_iov = &parts[k];
            messages[k].msg_hdr.msg_iovlen = 1;
            if (to != NULL) {
                union address *peer = (union address *)(to + (done + k) * ADDRESS_SIZE);
                sa_family_t family;
                memcpy(&family, peer, sizeof family);
                messages[k].msg_hdr.msg_name = peer;
                messages[k].msg_hdr.msg_namelen = family == AF_INET ? sizeof peer->v4 : sizeof peer->v6;
            }
        }
        int sent = sendmmsg(fd, messages, (unsigned)batch, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return done > 0 ? (int)done : -errno;
        done += (size_t)sent;
        if ((size_t)sent < batch)
            break;
    }
    return (int)done;
}

/* send(descriptor, slab, offsets: Uint32Array, lengths: Uint32Array, count, peers: Uint8Array | null) → packets sent
 * If fewer than `count` were sent, the next call reports the error of the next packet. An earlier asynchronous error is
 * cleared by that (the kernel reports it once, to the next call) and occurs again. peers null: to the connected peer.
 */
static int64_t send_batch(napi_env env, napi_value *args) {
    void *slab, *offsets, *lengths, *peers = NULL;
    size_t slab_bytes, offsets_bytes, lengths_bytes, peers_bytes = 0;
    int32_t count;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &slab, &slab_bytes) ||
        !addon_bytes(env, args[2], sizeof(uint32_t), &offsets, &offsets_bytes) ||
        !addon_bytes(env, args[3], sizeof(uint32_t), &lengths, &lengths_bytes) || !addon_number(env, args[4], &count) ||
        count < 0 || (size_t)count > offsets_bytes / sizeof(uint32_t) || (size_t)count > lengths_bytes / sizeof(uint32_t))
        return -EINVAL;
    bool named = addon_bytes(env, args[5], 1, &peers, &peers_bytes);
    if (named && (size_t)count > peers_bytes / ADDRESS_SIZE)
        return -EINVAL;
    for (int32_t k = 0; k < count; k++) {
        uint64_t end = (uint64_t)((uint32_t *)offsets)[k] + ((uint32_t *)lengths)[k];
        if (end > slab_bytes)
            return -EINVAL;
    }
    return send_all(fd, slab, offsets, lengths, (size_t)count, named ? peers : NULL);
}

/* sendOne(descriptor, packet, peer: Uint8Array | null) → bytes sent */
static int64_t send_one(napi_env env, napi_value *args) {
    void *packet, *peer;
    size_t bytes, peer_bytes;
    union address to;
    int fd = descriptor_fd(env, args[0]);
    if (fd < 0)
        return fd;
    if (!addon_bytes(env, args[1], 1, &packet, &bytes))
        return -EINVAL;
    ssize_t sent;
    if (addon_bytes(env, args[2], 1, &peer, &peer_bytes)) {
        if (peer_bytes < ADDRESS_SIZE)
            return -EINVAL;
        memcpy(&to, peer, sizeof to);
        sent = sendto(fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, address_length(&to));
    } else
        sent = send(fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

void addon_batch(napi_env env, napi_value exports) {
    addon_export(env, exports, "receive", receive);
    addon_export(env, exports, "send", send_batch);
    addon_export(env, exports, "sendOne", send_one);
}
