/* A connection: ngtcp2's state machine with its callbacks, datagrams, and how it ends. */
#include "quic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* overhead of a packet besides the connection id and the payload of its datagram: flags, packet number, frame header, AEAD tag */
enum { PACKET_OVERHEAD = 1 + 4 + 16, FRAME_OVERHEAD = 3, VECS = 8 };

static ngtcp2_tstamp now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (ngtcp2_tstamp)time.tv_sec * NGTCP2_SECONDS + (ngtcp2_tstamp)time.tv_nsec;
}

socklen_t quic_address_length(const union quic_address *address) {
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

static ngtcp2_path path_of(struct quic *quic, const union quic_address *remote) {
    return (ngtcp2_path){
        .local = {.addr = &quic->local.any, .addrlen = quic_address_length(&quic->local)},
        .remote = {.addr = (ngtcp2_sockaddr *)&remote->any, .addrlen = quic_address_length(remote)},
    };
}

static void random_bytes(uint8_t *out, size_t length, const ngtcp2_rand_ctx *context) {
    RAND_bytes(out, (int)length);
}

/* A listener finds the connection of an additional id by the id's first half. */
static int on_new_id(ngtcp2_conn *conn, ngtcp2_cid *id, ngtcp2_stateless_reset_token *token, size_t length,
                     void *user) {
    const struct quic *quic = user;
    *id = quic->scid;
    id->datalen = length;
    if (RAND_bytes(id->data + length / 2, (int)(length - length / 2)) != 1)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    return RAND_bytes((uint8_t *)token, TOKEN_LENGTH) == 1 ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_handshake(ngtcp2_conn *conn, void *user) {
    struct quic *quic = user;
    const unsigned char *protocol;
    unsigned length;
    SSL_get0_alpn_selected(quic->ssl, &protocol, &length);
    quic->no_protocol = length == 0; /* QUIC requires a protocol (RFC 9001, 8.1); OpenSSL accepts none */
    return quic->no_protocol ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_datagram(ngtcp2_conn *conn, uint32_t flags, const uint8_t *data, size_t length, void *user) {
    struct quic *quic = user;
    if (quic->datagrams_in.count < quic->config.queue && !queue_put(&quic->datagrams_in, data, length))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    return 0;
}

static int on_stateless_reset(ngtcp2_conn *conn, const ngtcp2_pkt_stateless_reset2 *packet, void *user) {
    ((struct quic *)user)->reset = true;
    return 0;
}

static ngtcp2_callbacks callbacks_of(bool server) {
    ngtcp2_callbacks callbacks = {
        .client_initial = server ? NULL : ngtcp2_crypto_client_initial_cb,
        .recv_client_initial = server ? ngtcp2_crypto_recv_client_initial_cb : NULL,
        .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
        .encrypt = ngtcp2_crypto_encrypt_cb,
        .decrypt = ngtcp2_crypto_decrypt_cb,
        .hp_mask = ngtcp2_crypto_hp_mask_cb,
        .recv_retry = ngtcp2_crypto_recv_retry_cb,
        .update_key = ngtcp2_crypto_update_key_cb,
        .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
        .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
        .get_path_challenge_data2 = ngtcp2_crypto_get_path_challenge_data2_cb,
        .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
        .rand = random_bytes,
        .get_new_connection_id2 = on_new_id,
        .handshake_completed = on_handshake,
        .recv_datagram = on_datagram,
        .recv_stateless_reset2 = on_stateless_reset,
    };
    stream_callbacks(&callbacks);
    return callbacks;
}

static ngtcp2_settings settings_of(const struct quic *quic) {
    ngtcp2_settings settings;
    ngtcp2_settings_default(&settings);
    settings.initial_ts = now();
    settings.max_tx_udp_payload_size = quic->config.max_send_payload;
    settings.no_tx_udp_payload_size_shaping = 1;
    settings.no_pmtud = 1;
    return settings;
}

int quic_connect(struct quic *quic) {
    ngtcp2_cid dcid = {.datalen = 16};
    if (RAND_bytes(dcid.data, 16) != 1)
        return NGTCP2_ERR_INTERNAL;
    ngtcp2_callbacks callbacks = callbacks_of(false);
    ngtcp2_settings settings = settings_of(quic);
    ngtcp2_path path = path_of(quic, &quic->remote);
    int result = ngtcp2_conn_client_new(&quic->conn, &dcid, &quic->scid, &path, NGTCP2_PROTO_VER_V1, &callbacks,
                                        &settings, &quic->config.params, NULL, quic);
    if (result == 0)
        ngtcp2_conn_set_tls_native_handle(quic->conn, quic->tls);
    return result;
}

/* The server's connection ids come from the first packet. */
static int accept_first(struct quic *quic, const uint8_t *bytes, size_t length) {
    ngtcp2_pkt_hd head;
    int result = ngtcp2_accept(&head, bytes, length);
    if (result != 0)
        return result;
    ngtcp2_transport_params params = quic->config.params;
    params.original_dcid = quic->retried ? quic->odcid : head.dcid;
    params.original_dcid_present = 1;
    ngtcp2_callbacks callbacks = callbacks_of(true);
    ngtcp2_settings settings = settings_of(quic);
    if (quic->retried) {
        params.retry_scid = head.dcid;
        params.retry_scid_present = 1;
        settings.token = head.token;
        settings.tokenlen = head.tokenlen;
        settings.token_type = NGTCP2_TOKEN_TYPE_RETRY;
    }
    ngtcp2_path path = path_of(quic, &quic->remote);
    result = ngtcp2_conn_server_new(&quic->conn, &head.scid, &quic->scid, &path, head.version, &callbacks, &settings,
                                    &params, NULL, quic);
    if (result == 0)
        ngtcp2_conn_set_tls_native_handle(quic->conn, quic->tls);
    return result;
}

/* Ends the connection with this error of ngtcp2. */
static void fail(struct quic *quic, int result) {
    if (quic->failed)
        return;
    quic->failed = true;
    if (quic->no_protocol)
        ngtcp2_ccerr_set_tls_alert(&quic->error, SSL_AD_NO_APPLICATION_PROTOCOL, NULL, 0);
    else if (result == NGTCP2_ERR_CRYPTO && ngtcp2_conn_get_tls_alert2(quic->conn) != 0)
        ngtcp2_ccerr_set_tls_alert(&quic->error, ngtcp2_conn_get_tls_alert2(quic->conn), NULL, 0);
    else
        ngtcp2_ccerr_set_liberr(&quic->error, result, NULL, 0);
}

int quic_recv(struct quic *quic, const union quic_address *from, const uint8_t *bytes, size_t length) {
    if (quic_closed(quic) || quic->failed)
        return 0;
    ERR_clear_error();
    int result = quic->conn ? 0 : accept_first(quic, bytes, length);
    if (result != 0)
        return result;
    ngtcp2_path path = path_of(quic, from);
    ngtcp2_pkt_info info = {0};
    result = ngtcp2_conn_read_pkt(quic->conn, &path, &info, bytes, length, now());
    ERR_clear_error(); /* otherwise Node's own TLS would read these errors */
    if (result == 0 || result == NGTCP2_ERR_DRAINING || result == NGTCP2_ERR_CLOSING)
        return 0;
    if (result == NGTCP2_ERR_DROP_CONN)
        quic->gone = true;
    else
        fail(quic, result);
    return result;
}

static ngtcp2_ssize send_close(struct quic *quic, ngtcp2_path *path, uint8_t *out, size_t size) {
    if (quic->close_sent || !quic->conn)
        return 0;
    quic->close_sent = true;
    return ngtcp2_conn_write_connection_close(quic->conn, path, NULL, out, size, &quic->error, now());
}

/* One packet, as full as possible; 0: nothing to send now. */
static ngtcp2_ssize write_packet(struct quic *quic, ngtcp2_path *path, uint8_t *out, size_t size) {
    ngtcp2_tstamp time = now();
    ngtcp2_vec vec[VECS];
    bool open = ngtcp2_conn_get_handshake_completed(quic->conn);
    for (;;) {
        ngtcp2_ssize written;
        size_t count = VECS;
        bool fin = false;
        struct chunk *datagram = open ? quic->datagrams_out.first : NULL;
        struct stream *stream = datagram ? NULL : stream_next(quic, vec, &count, &fin);
        if (datagram) {
            int accepted = 0;
            vec[0] = (ngtcp2_vec){.base = datagram->bytes, .len = datagram->length};
            written = ngtcp2_conn_writev_datagram(quic->conn, path, NULL, out, size, &accepted,
                                                  NGTCP2_WRITE_DATAGRAM_FLAG_MORE, 0, vec, 1, time);
            if (accepted || written == NGTCP2_ERR_INVALID_ARGUMENT)
                queue_drop(&quic->datagrams_out);
            if (written == NGTCP2_ERR_INVALID_ARGUMENT)
                continue;
        } else {
            ngtcp2_ssize taken = -1;
            uint32_t flags = stream ? NGTCP2_WRITE_STREAM_FLAG_MORE : 0;
            if (fin)
                flags |= NGTCP2_WRITE_STREAM_FLAG_FIN;
            written = ngtcp2_conn_writev_stream(quic->conn, path, NULL, out, size, &taken, flags,
                                                stream ? stream->id : -1, vec, stream ? count : 0, time);
            if (stream && taken >= 0) {
                stream->sent += (uint64_t)taken;
                stream->fin_sent = fin && stream->sent == stream->end;
            }
            if (written == NGTCP2_ERR_STREAM_SHUT_WR || written == NGTCP2_ERR_STREAM_NOT_FOUND) {
                stream->shut = true;
                continue;
            }
            if (written == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
                stream->blocked = true;
                continue;
            }
        }
        if (written != NGTCP2_ERR_WRITE_MORE)
            return written;
    }
}

ngtcp2_ssize quic_send(struct quic *quic, uint8_t *out, size_t size, union quic_address *to) {
    ngtcp2_path_storage storage;
    ngtcp2_path_storage_zero(&storage);
    ngtcp2_ssize written = 0;
    if (quic_draining(quic) || quic->timed_out || quic->gone)
        return 0;
    if (!quic->failed && quic->conn) {
        if (size > quic->config.max_send_payload)
            size = quic->config.max_send_payload;
        for (struct stream *stream = quic->streams; stream; stream = stream->next)
            stream->blocked = false;
        if (quic->ping) /* due immediately, if anything was sent or received before */
            ngtcp2_conn_set_keep_alive_timeout(quic->conn, 1);
        written = write_packet(quic, &storage.path, out, size);
        if (quic->ping)
            ngtcp2_conn_set_keep_alive_timeout(quic->conn, 0);
        quic->ping = false;
        if (written < 0)
            fail(quic, (int)written);
    }
    if (quic->failed)
        written = send_close(quic, &storage.path, out, size);
    if (written <= 0)
        return 0;
    *to = quic->remote;
    if (storage.path.remote.addrlen > 0)
        memcpy(to, storage.path.remote.addr, storage.path.remote.addrlen);
    return written;
}

void quic_due(struct quic *quic) {
    ngtcp2_tstamp time = now();
    if (!quic->conn || quic_closed(quic) || quic->failed || quic_draining(quic))
        return;
    int result = ngtcp2_conn_get_expiry2(quic->conn) <= time ? ngtcp2_conn_handle_expiry(quic->conn, time) : 0;
    if (result == NGTCP2_ERR_IDLE_CLOSE || result == NGTCP2_ERR_HANDSHAKE_TIMEOUT)
        quic->timed_out = true;
    else if (result != 0)
        fail(quic, result);
}

double quic_timeout(struct quic *quic) {
    if (!quic->conn || quic_closed(quic))
        return -1;
    ngtcp2_tstamp due = ngtcp2_conn_get_expiry2(quic->conn), time = now();
    if (due == UINT64_MAX)
        return -1;
    return due <= time ? 0 : (double)(due - time) / NGTCP2_MILLISECONDS;
}

bool quic_draining(const struct quic *quic) {
    return quic->conn && ngtcp2_conn_in_draining_period2(quic->conn);
}

bool quic_closed(const struct quic *quic) {
    return quic->timed_out || quic->gone || (quic->failed && quic->close_sent);
}

int64_t quic_datagram_room(struct quic *quic) {
    const ngtcp2_transport_params *peer = quic->conn ? ngtcp2_conn_get_remote_transport_params2(quic->conn) : NULL;
    if (!peer || peer->max_datagram_frame_size == 0)
        return -1;
    uint64_t payload = quic->config.max_send_payload;
    if (peer->max_udp_payload_size < payload)
        payload = peer->max_udp_payload_size;
    uint64_t frame = payload - PACKET_OVERHEAD - ngtcp2_conn_get_dcid2(quic->conn)->datalen;
    if (peer->max_datagram_frame_size < frame)
        frame = peer->max_datagram_frame_size;
    return frame > FRAME_OVERHEAD ? (int64_t)(frame - FRAME_OVERHEAD) : 0;
}

void quic_free(struct quic *quic) {
    if (quic->ssl)
        SSL_set_app_data(quic->ssl, NULL); /* OpenSSL makes callbacks while it is freed */
    ngtcp2_conn_del(quic->conn);
    ngtcp2_crypto_ossl_ctx_del(quic->tls);
    SSL_free(quic->ssl);
    SSL_CTX_free(quic->config.tls);
    stream_free_all(quic);
    queue_clear(&quic->datagrams_in);
    queue_clear(&quic->datagrams_out);
    free(quic);
}
