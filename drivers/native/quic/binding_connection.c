/* Connection: the JavaScript interface of one QUIC connection. */
#include "binding.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

/* memory of a connection outside the heap of JavaScript, reported to the garbage collector */
enum { CONNECTION_MEMORY = 128 * 1024 };

static void connection_free(napi_env env, void *object, void *hint) {
    int64_t total;
    quic_free(object);
    napi_adjust_external_memory(env, -CONNECTION_MEMORY, &total);
}

/* Reads {host, port}. */
static bool address_of(napi_env env, napi_value value, union quic_address *out) {
    napi_value host, port;
    char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
    uint32_t number = 0;
    if (napi_get_named_property(env, value, "host", &host) != napi_ok ||
        napi_get_named_property(env, value, "port", &port) != napi_ok ||
        napi_get_value_string_utf8(env, host, text, sizeof text, NULL) != napi_ok ||
        napi_get_value_uint32(env, port, &number) != napi_ok)
        return false;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)number);
        return true;
    }
    char *zone = strchr(text, '%');
    if (zone)
        *zone++ = 0;
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons((uint16_t)number);
    out->v6.sin6_scope_id = zone ? if_nametoindex(zone) : 0;
    return inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1;
}

static napi_value address_value(napi_env env, const union quic_address *address) {
    char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
    napi_value out, host;
    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, text, INET6_ADDRSTRLEN);
        char zone[IF_NAMESIZE];
        if (address->v6.sin6_scope_id != 0 && if_indextoname(address->v6.sin6_scope_id, zone))
            strcat(strcat(text, "%"), zone);
    } else
        inet_ntop(AF_INET, &address->v4.sin_addr, text, INET6_ADDRSTRLEN);
    napi_create_object(env, &out);
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &host);
    binding_set(env, out, "host", host);
    binding_set(env, out, "port", binding_number(env, ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port
                                                                              : address->v4.sin_port)));
    return out;
}

/* connect(name, scid, local, remote, config), accept(scid, odcid, local, remote, config); odcid: the id of the packet
 * that a Retry answered, null if there was none */
static napi_value make_connection(napi_env env, bool server, napi_callback_info info) {
    napi_value args[5];
    size_t count = 5, length;
    uint8_t *id;
    void *config = NULL;
    char name[256];
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    napi_unwrap(env, args[4], &config);
    struct quic *quic = calloc(1, sizeof *quic);
    if (!quic || !config || !binding_bytes(env, args[server ? 0 : 1], &id, &length) || length > NGTCP2_MAX_CIDLEN ||
        !address_of(env, args[2], &quic->local) || !address_of(env, args[3], &quic->remote)) {
        free(quic);
        return binding_fail(env, "wrong arguments of a QUIC connection");
    }
    bool named = !server && napi_get_value_string_utf8(env, args[0], name, sizeof name, NULL) == napi_ok;
    quic->config = *(struct quic_config *)config;
    SSL_CTX_up_ref(quic->config.tls);
    quic->server = server;
    ngtcp2_cid_init(&quic->scid, id, length);
    if (server && binding_bytes(env, args[1], &id, &length) && length <= NGTCP2_MAX_CIDLEN) {
        ngtcp2_cid_init(&quic->odcid, id, length);
        quic->retried = true;
    }
    ERR_clear_error();
    int result = tls_session(quic, named ? name : NULL) == 0 ? 0 : NGTCP2_ERR_CRYPTO;
    if (result == 0 && !server)
        result = quic_connect(quic);
    ERR_clear_error();
    if (result != 0) {
        quic_free(quic);
        return binding_refusal(env, result);
    }
    int64_t total;
    napi_adjust_external_memory(env, CONNECTION_MEMORY, &total);
    return binding_made(env, BINDING_CONNECTION, quic, connection_free);
}

static napi_value connect_to(napi_env env, napi_callback_info info) {
    return make_connection(env, false, info);
}

static napi_value accept_from(napi_env env, napi_callback_info info) {
    return make_connection(env, true, info);
}

static napi_value pair(napi_env env, napi_value first, napi_value second) {
    napi_value out;
    napi_create_array_with_length(env, 2, &out);
    napi_set_element(env, out, 0, first);
    napi_set_element(env, out, 1, second);
    return out;
}

/* recv(datagram, from) → its length */
static napi_value recv_datagram(napi_env env, struct quic *quic, napi_value *args) {
    union quic_address from;
    uint8_t *bytes;
    size_t length;
    if (!binding_bytes(env, args[0], &bytes, &length) || !address_of(env, args[1], &from))
        return binding_fail(env, "recv() takes a datagram and its address");
    int result = quic_recv(quic, &from, bytes, length);
    return result == 0 ? binding_number(env, (double)length) : binding_refusal(env, result);
}

/* send(into) → [length, to], null */
static napi_value send_datagram(napi_env env, struct quic *quic, napi_value *args) {
    union quic_address to;
    uint8_t *bytes;
    size_t size;
    if (!binding_bytes(env, args[0], &bytes, &size))
        return binding_fail(env, "send() takes a buffer");
    ngtcp2_ssize length = quic_send(quic, bytes, size, &to);
    ERR_clear_error();
    if (length <= 0)
        return binding_null(env);
    return pair(env, binding_number(env, (double)length), address_value(env, &to));
}

/* streamRecv(id, into) → [length, end], null */
static napi_value stream_read(napi_env env, struct quic *quic, napi_value *args) {
    int64_t id;
    uint8_t *bytes;
    size_t size;
    bool end;
    if (napi_get_value_int64(env, args[0], &id) != napi_ok || !binding_bytes(env, args[1], &bytes, &size))
        return binding_fail(env, "streamRecv() takes a stream and a buffer");
    struct stream *stream = stream_find(quic, id);
    ngtcp2_ssize length = stream ? stream_recv(quic, stream, bytes, size, &end) : -1;
    if (length == -1)
        return binding_null(env);
    if (length < 0)
        return binding_fail(env, "StreamReset");
    return pair(env, binding_number(env, (double)length), binding_boolean(env, end));
}

/* streamSend(id, bytes, fin) → number of bytes accepted, null: none now */
static napi_value stream_write(napi_env env, struct quic *quic, napi_value *args) {
    int64_t id;
    uint8_t *bytes;
    size_t length;
    bool fin = false;
    napi_get_value_bool(env, args[2], &fin);
    if (napi_get_value_int64(env, args[0], &id) != napi_ok || !binding_bytes(env, args[1], &bytes, &length))
        return binding_fail(env, "streamSend() takes a stream and bytes");
    if (!quic->conn || quic->failed || quic_closed(quic))
        return binding_fail(env, "the connection is over");
    ngtcp2_ssize took = stream_send(quic, id, bytes, length, fin);
    if (took < 0)
        return binding_refusal(env, took);
    return took == 0 && length > 0 ? binding_null(env) : binding_number(env, (double)took);
}

static napi_value readable(napi_env env, struct quic *quic, napi_value *args) {
    napi_value out;
    uint32_t count = 0;
    napi_create_array(env, &out);
    for (struct stream *stream = quic->streams; stream; stream = stream->next)
        if (stream_readable(stream))
            napi_set_element(env, out, count++, binding_number(env, (double)stream->id));
    return out;
}

static napi_value datagram_read(napi_env env, struct quic *quic, napi_value *args) {
    uint8_t *bytes;
    size_t size;
    struct queue *queue = &quic->datagrams_in;
    if (!queue->first)
        return binding_null(env);
    size_t length = queue->first->length;
    if (!binding_bytes(env, args[0], &bytes, &size) || size < length)
        return binding_fail(env, "dgramRecv() takes a larger buffer");
    memcpy(bytes, queue->first->bytes, length);
    queue_drop(queue);
    return binding_number(env, (double)length);
}

static napi_value datagram_write(napi_env env, struct quic *quic, napi_value *args) {
    uint8_t *bytes;
    size_t length;
    if (!binding_bytes(env, args[0], &bytes, &length) || (int64_t)length > quic_datagram_room(quic))
        return binding_fail(env, "the datagram is too long");
    if (quic->datagrams_out.count >= quic->config.queue || !queue_put(&quic->datagrams_out, bytes, length))
        return binding_fail(env, "the queue is full");
    return NULL;
}

static napi_value send_ping(napi_env env, struct quic *quic, napi_value *args) {
    quic->ping = true;
    return NULL;
}

static napi_value on_timeout(napi_env env, struct quic *quic, napi_value *args) {
    quic_due(quic);
    return NULL;
}

/* close(reason): as an application */
static napi_value close_connection(napi_env env, struct quic *quic, napi_value *args) {
    uint8_t *reason;
    size_t length = 0;
    if (quic->failed || quic_closed(quic) || quic_draining(quic))
        return binding_fail(env, "it is closed already");
    if (binding_bytes(env, args[0], &reason, &length)) {
        if (length > sizeof quic->reason)
            length = sizeof quic->reason;
        memcpy(quic->reason, reason, length);
    }
    ngtcp2_ccerr_set_application_error(&quic->error, 0, (uint8_t *)quic->reason, length);
    quic->failed = true;
    return NULL;
}

static napi_value peer_chain(napi_env env, struct quic *quic, napi_value *args) {
    napi_value out;
    STACK_OF(X509) *chain = SSL_get_peer_cert_chain(quic->ssl);
    if (!chain)
        return binding_null(env);
    napi_create_array(env, &out);
    for (int k = 0; k < sk_X509_num(chain); k++) {
        uint8_t *der = NULL;
        int length = i2d_X509(sk_X509_value(chain, k), &der);
        if (length > 0)
            napi_set_element(env, out, (uint32_t)k, binding_buffer(env, der, (size_t)length));
        OPENSSL_free(der);
    }
    return out;
}

static napi_value error_value(napi_env env, const ngtcp2_ccerr *error) {
    napi_value out;
    napi_create_object(env, &out);
    binding_set(env, out, "isApp", binding_boolean(env, error->type == NGTCP2_CCERR_TYPE_APPLICATION));
    binding_set(env, out, "errorCode", binding_number(env, (double)error->error_code));
    binding_set(env, out, "reason", binding_buffer(env, error->reason, error->reasonlen));
    return out;
}

static napi_value local_error(napi_env env, struct quic *quic, napi_value *args) {
    return quic->failed ? error_value(env, &quic->error) : binding_null(env);
}

static napi_value peer_error(napi_env env, struct quic *quic, napi_value *args) {
    return quic_draining(quic) && !quic->reset ? error_value(env, ngtcp2_conn_get_ccerr2(quic->conn))
                                               : binding_null(env);
}

static napi_value streams_left(napi_env env, struct quic *quic, napi_value *args) {
    ngtcp2_conn *conn = quic->conn;
    return binding_number(env, conn ? (double)ngtcp2_conn_get_streams_bidi_left2(conn) : 0);
}

static napi_value queue_full(napi_env env, struct quic *quic, napi_value *args) {
    return binding_boolean(env, quic->datagrams_out.count >= quic->config.queue);
}

/* Negative: null. */
static napi_value number_or_null(napi_env env, double value) {
    return value < 0 ? binding_null(env) : binding_number(env, value);
}

static napi_value datagram_room(napi_env env, struct quic *quic, napi_value *args) {
    return number_or_null(env, (double)quic_datagram_room(quic));
}

static napi_value timeout(napi_env env, struct quic *quic, napi_value *args) { return number_or_null(env, quic_timeout(quic)); }

static napi_value is_established(napi_env env, struct quic *quic, napi_value *args) {
    ngtcp2_conn *conn = quic->conn;
    return binding_boolean(env, conn && ngtcp2_conn_get_handshake_completed2(conn));
}

static napi_value is_draining(napi_env env, struct quic *quic, napi_value *args) { return binding_boolean(env, quic_draining(quic)); }

static napi_value is_closed(napi_env env, struct quic *quic, napi_value *args) { return binding_boolean(env, quic_closed(quic)); }

static napi_value is_timed_out(napi_env env, struct quic *quic, napi_value *args) { return binding_boolean(env, quic->timed_out); }

typedef napi_value method(napi_env env, struct quic *quic, napi_value *args);

static napi_value call_method(napi_env env, napi_callback_info info) {
    napi_value args[3], self;
    size_t count = 3;
    void *function, *quic = NULL;
    if (napi_get_cb_info(env, info, &count, args, &self, &function) != napi_ok)
        return NULL;
    napi_unwrap(env, self, &quic);
    return quic ? ((method *)function)(env, quic, args) : binding_fail(env, "not a QUIC object");
}

#define METHOD(name, function) {name, NULL, call_method, NULL, NULL, NULL, napi_default_method, (void *)(function)}

static const napi_property_descriptor CONNECTION[] = {
    STATIC("connect", connect_to),
    STATIC("accept", accept_from),
    METHOD("recv", recv_datagram),
    METHOD("send", send_datagram),
    METHOD("streamRecv", stream_read),
    METHOD("streamSend", stream_write),
    METHOD("readable", readable),
    METHOD("dgramRecv", datagram_read),
    METHOD("dgramSend", datagram_write),
    METHOD("onTimeout", on_timeout),
    METHOD("sendAckEliciting", send_ping),
    METHOD("close", close_connection),
    METHOD("peerCertChain", peer_chain),
    METHOD("localError", local_error),
    METHOD("peerError", peer_error),
    METHOD("peerStreamsLeftBidi", streams_left),
    METHOD("isDgramSendQueueFull", queue_full),
    METHOD("dgramMaxWritableLen", datagram_room),
    METHOD("timeout", timeout),
    METHOD("isEstablished", is_established),
    METHOD("isDraining", is_draining),
    METHOD("isClosed", is_closed),
    METHOD("isTimedOut", is_timed_out),
};

napi_value binding_connection(napi_env env, napi_value exports) {
    return binding_define(env, exports, "Connection", COUNT(CONNECTION), CONNECTION);
}
