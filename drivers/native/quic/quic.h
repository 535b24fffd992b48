/* Shared by the files of the QUIC addon: ngtcp2 with the TLS of Node's own OpenSSL, behind the interface described in
 * src/media/quic/native.ts. A connection is a state machine without sockets and timers: JavaScript passes in UDP
 * datagrams, fetches those to send, and wakes it. All of it runs on the thread that loaded the addon. */
#ifndef OS_NODE_QUIC_H
#define OS_NODE_QUIC_H

#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_ossl.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROTOS_MAX = 64, TOKEN_LENGTH = 16 };

/* The settings of a connection; each has its own copy. `tls` is reference-counted by OpenSSL. */
struct quic_config {
    SSL_CTX *tls;
    bool verify;
    /* protocols in the format of the TLS extension */
    uint8_t protos[PROTOS_MAX];
    size_t protos_length;
    ngtcp2_transport_params params;
    size_t max_send_payload;
    size_t queue; /* datagrams that wait, in each direction */
};

union quic_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct chunk {
    struct chunk *next;
    size_t length, taken;
    uint8_t bytes[];
};

/* Chunks of memory in order. */
struct queue {
    struct chunk *first, *last;
    size_t count;
};

struct stream {
    struct stream *next;
    int64_t id;
    struct queue in, out;
    /* stream offsets: of the first byte in `out`, of the first unsent one, and of the end */
    uint64_t base, sent, end;
    bool fin, fin_sent, shut, blocked;
    bool in_end, in_reset, in_over, closed;
};

struct quic {
    struct quic_config config;
    bool server;
    ngtcp2_conn *conn;
    SSL *ssl;
    ngtcp2_crypto_ossl_ctx *tls;
    ngtcp2_crypto_conn_ref ref;
    ngtcp2_cid scid;
    /* id of the packet that a Retry answered, if `retried` */
    ngtcp2_cid odcid;
    union quic_address local, remote;
    struct stream *streams;
    struct queue datagrams_in, datagrams_out;
    /* the reason for closing, if `failed` */
    ngtcp2_ccerr error;
    char reason[128];
    bool retried, failed, close_sent, timed_out, gone, reset, ping, no_protocol;
};

/* queue.c */
bool queue_put(struct queue *queue, const uint8_t *bytes, size_t length);
void queue_drop(struct queue *queue);
void queue_clear(struct queue *queue);

/* tls.c: 0, or -1 with OpenSSL's reason in its queue */
int tls_context(struct quic_config *config, bool verify, bool judged_elsewhere);
int tls_trust(SSL_CTX *tls, const uint8_t *pem, size_t length);
int tls_chain(SSL_CTX *tls, const uint8_t *pem, size_t length);
int tls_key(SSL_CTX *tls, const uint8_t *pem, size_t length);
/* The TLS side of a connection; `name` is checked against the server's certificate, NULL: not checked. */
int tls_session(struct quic *quic, const char *name);

/* connection.c: negative results are ngtcp2's errors */
socklen_t quic_address_length(const union quic_address *address);
int quic_connect(struct quic *quic);
int quic_recv(struct quic *quic, const union quic_address *from, const uint8_t *bytes, size_t length);
/* The next UDP datagram to send, and its destination; 0: none. */
ngtcp2_ssize quic_send(struct quic *quic, uint8_t *out, size_t size, union quic_address *to);
void quic_due(struct quic *quic);
/* Milliseconds to the next quic_due(); negative: none. */
double quic_timeout(struct quic *quic);
bool quic_closed(const struct quic *quic);
bool quic_draining(const struct quic *quic);
/* Bytes of the largest datagram; negative: the peer accepts none. */
int64_t quic_datagram_room(struct quic *quic);
void quic_free(struct quic *quic);

/* stream.c */
void stream_callbacks(ngtcp2_callbacks *callbacks);
struct stream *stream_find(struct quic *quic, int64_t id);
/* Number of bytes accepted; negative: an error. */
ngtcp2_ssize stream_send(struct quic *quic, int64_t id, const uint8_t *bytes, size_t length, bool fin);
/* Copies received bytes; `*end`: the stream ended with them. -1: nothing available. Less: the peer reset it. */
ngtcp2_ssize stream_recv(struct quic *quic, struct stream *stream, uint8_t *out, size_t size, bool *end);
bool stream_readable(const struct stream *stream);
/* The next stream with data to send; fills at most `*count` of `vec`. */
struct stream *stream_next(struct quic *quic, ngtcp2_vec *vec, size_t *count, bool *fin);
void stream_free_all(struct quic *quic);

#endif
