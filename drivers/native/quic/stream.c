/* Streams: sent data is kept until the peer acknowledges it, received data until it is read. */
#include "quic.h"

#include <stdlib.h>
#include <string.h>

/* limit of unacknowledged bytes per stream */
enum { UNACKED_MAX = 256 * 1024 };

struct stream *stream_find(struct quic *quic, int64_t id) {
    for (struct stream *stream = quic->streams; stream; stream = stream->next)
        if (stream->id == id)
            return stream;
    return NULL;
}

static struct stream *stream_new(struct quic *quic, int64_t id) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->id = id;
    struct stream **last = &quic->streams;
    while (*last)
        last = &(*last)->next;
    return *last = stream;
}

static void stream_free(struct stream *stream) {
    queue_clear(&stream->in);
    queue_clear(&stream->out);
    free(stream);
}

void stream_free_all(struct quic *quic) {
    for (struct stream *next; quic->streams; quic->streams = next) {
        next = quic->streams->next;
        stream_free(quic->streams);
    }
}

bool stream_readable(const struct stream *stream) {
    return stream->in.first || (!stream->in_over && (stream->in_end || stream->in_reset));
}

/* Frees the stream when ngtcp2 has closed it and all of it was read. */
static void stream_tidy(struct quic *quic, struct stream *stream) {
    if (!stream->closed || stream_readable(stream))
        return;
    struct stream **at = &quic->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream_free(stream);
}

static int on_open(ngtcp2_conn *conn, int64_t id, void *user) {
    struct stream *stream = stream_new(user, id);
    if (!stream)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    return ngtcp2_conn_set_stream_user_data(conn, id, stream);
}

static int on_data(ngtcp2_conn *conn, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *data, size_t length,
                   void *user, void *of_stream) {
    struct stream *stream = of_stream;
    if (length > 0 && !queue_put(&stream->in, data, length))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    if (flags & NGTCP2_STREAM_DATA_FLAG_FIN)
        stream->in_end = true;
    return 0;
}

static int on_acked(ngtcp2_conn *conn, int64_t id, uint64_t offset, uint64_t length, void *user, void *of_stream) {
    struct stream *stream = of_stream;
    while (stream->out.first && stream->base + stream->out.first->length <= offset + length) {
        stream->base += stream->out.first->length;
        queue_drop(&stream->out);
    }
    return 0;
}

static int on_reset(ngtcp2_conn *conn, int64_t id, uint64_t size, uint64_t error, void *user, void *of_stream) {
    struct stream *stream = of_stream;
    stream->in_reset = true;
    return 0;
}

static int on_close(ngtcp2_conn *conn, uint32_t flags, int64_t id, uint64_t error, void *user, void *of_stream) {
    struct stream *stream = of_stream;
    if (!ngtcp2_conn_is_local_stream(conn, id))
        ngtcp2_conn_extend_max_streams_bidi(conn, 1);
    if (!stream)
        return 0;
    stream->closed = stream->shut = true;
    queue_clear(&stream->out);
    stream_tidy(user, stream);
    return 0;
}

void stream_callbacks(ngtcp2_callbacks *callbacks) {
    callbacks->stream_open = on_open;
    callbacks->recv_stream_data = on_data;
    callbacks->acked_stream_data_offset = on_acked;
    callbacks->stream_reset = on_reset;
    callbacks->stream_close = on_close;
}

ngtcp2_ssize stream_send(struct quic *quic, int64_t id, const uint8_t *bytes, size_t length, bool fin) {
    struct stream *stream = stream_find(quic, id);
    while (!stream) {
        int64_t opened;
        int result = ngtcp2_conn_open_bidi_stream(quic->conn, &opened, NULL);
        if (result != 0)
            return result;
        struct stream *made = stream_new(quic, opened);
        if (!made)
            return NGTCP2_ERR_NOMEM;
        ngtcp2_conn_set_stream_user_data(quic->conn, opened, made);
        if (opened > id)
            return NGTCP2_ERR_STREAM_NOT_FOUND;
        if (opened == id)
            stream = made;
    }
    if (stream->shut || stream->fin)
        return NGTCP2_ERR_STREAM_SHUT_WR;
    size_t room = UNACKED_MAX - (size_t)(stream->end - stream->base);
    size_t taken = length < room ? length : room;
    if (taken > 0 && !queue_put(&stream->out, bytes, taken))
        return NGTCP2_ERR_NOMEM;
    stream->end += taken;
    stream->fin = fin && taken == length;
    return (ngtcp2_ssize)taken;
}

ngtcp2_ssize stream_recv(struct quic *quic, struct stream *stream, uint8_t *out, size_t size, bool *end) {
    size_t length = 0;
    *end = false;
    if (!stream_readable(stream))
        return -1;
    if (stream->in_reset) {
        queue_clear(&stream->in);
        stream->in_over = true;
        stream_tidy(quic, stream);
        return -2;
    }
    for (struct chunk *first; length < size && (first = stream->in.first);) {
        size_t left = first->length - first->taken;
        size_t part = left < size - length ? left : size - length;
        memcpy(out + length, first->bytes + first->taken, part);
        length += part;
        first->taken += part;
        if (part == left)
            queue_drop(&stream->in);
    }
    ngtcp2_conn_extend_max_offset(quic->conn, length);
    if (!stream->closed)
        ngtcp2_conn_extend_max_stream_offset(quic->conn, stream->id, length);
    if (!stream->in.first && stream->in_end) {
        *end = stream->in_over = true;
        stream_tidy(quic, stream);
    }
    return (ngtcp2_ssize)length;
}

struct stream *stream_next(struct quic *quic, ngtcp2_vec *vec, size_t *count, bool *fin) {
    for (struct stream *stream = quic->streams; stream; stream = stream->next) {
        if (stream->blocked || stream->shut || (stream->sent == stream->end && (!stream->fin || stream->fin_sent)))
            continue;
        uint64_t skip = stream->sent - stream->base;
        size_t used = 0;
        struct chunk *chunk = stream->out.first;
        for (; chunk && used < *count; chunk = chunk->next) {
            if (skip < chunk->length)
                vec[used++] = (ngtcp2_vec){.base = chunk->bytes + skip, .len = chunk->length - (size_t)skip};
            skip -= skip < chunk->length ? skip : chunk->length;
        }
        *fin = stream->fin && !chunk;
        *count = used;
        return stream;
    }
    return NULL;
}
