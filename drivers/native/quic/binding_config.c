/* Config: certificates and transport settings; each connection copies them. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static void config_free(napi_env env, void *object, void *hint) {
    SSL_CTX_free(((struct quic_config *)object)->tls);
    free(object);
}

/* indexes of `numbers`; a queue of 0 accepts no datagrams */
enum { IDLE_MS, UDP_PAYLOAD, DATA, STREAM_DATA, STREAMS, QUEUE, NUMBERS };

static void transport(struct quic_config *config, const uint32_t *numbers) {
    ngtcp2_transport_params *params = &config->params;
    ngtcp2_transport_params_default(params);
    params->max_idle_timeout = numbers[IDLE_MS] * NGTCP2_MILLISECONDS;
    params->max_udp_payload_size = config->max_send_payload = numbers[UDP_PAYLOAD];
    params->initial_max_data = numbers[DATA];
    params->initial_max_stream_data_bidi_local = params->initial_max_stream_data_bidi_remote = numbers[STREAM_DATA];
    params->initial_max_streams_bidi = numbers[STREAMS];
    params->disable_active_migration = 1;
    config->queue = numbers[QUEUE];
    params->max_datagram_frame_size = config->queue > 0 ? 65535 : 0;
}

/* Copies exactly `size` bytes; false if the value has another length. */
static bool copied(napi_env env, napi_value value, void *out, size_t size) {
    uint8_t *bytes;
    size_t length;
    if (!binding_bytes(env, value, &bytes, &length) || length != size)
        return false;
    memcpy(out, bytes, size);
    return true;
}

/* Passes a PEM text to `take`; null: none. */
static bool take_pem(napi_env env, napi_value value, SSL_CTX *tls, int (*take)(SSL_CTX *, const uint8_t *, size_t)) {
    uint8_t *pem;
    size_t length;
    return !binding_bytes(env, value, &pem, &length) || take(tls, pem, length) == 0;
}

/* Config.of(verify, judgedElsewhere, ca, key, cert, protocols, numbers, resetToken), documented in native.ts */
static napi_value make_config(napi_env env, napi_callback_info info) {
    napi_value args[8];
    size_t count = 8;
    uint8_t *protos;
    uint32_t numbers[NUMBERS];
    bool check = false, elsewhere = false;
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    napi_get_value_bool(env, args[0], &check);
    napi_get_value_bool(env, args[1], &elsewhere);
    struct quic_config *config = calloc(1, sizeof *config);
    if (!config)
        return binding_fail(env, "out of memory");
    if (!binding_bytes(env, args[5], &protos, &config->protos_length) || config->protos_length > PROTOS_MAX ||
        !copied(env, args[6], numbers, sizeof numbers)) {
        free(config);
        return binding_fail(env, "wrong arguments of a QUIC configuration");
    }
    if (config->protos_length > 0)
        memcpy(config->protos, protos, config->protos_length);
    transport(config, numbers);
    config->params.stateless_reset_token_present =
        copied(env, args[7], config->params.stateless_reset_token, TOKEN_LENGTH);
    ERR_clear_error();
    if (tls_context(config, check, elsewhere) != 0 || !take_pem(env, args[2], config->tls, tls_trust) ||
        !take_pem(env, args[4], config->tls, tls_chain) || !take_pem(env, args[3], config->tls, tls_key)) {
        char text[200];
        ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
        ERR_clear_error();
        config_free(env, config, NULL);
        return binding_fail(env, text);
    }
    return binding_made(env, BINDING_CONFIG, config, config_free);
}

static const napi_property_descriptor CONFIG[] = {STATIC("of", make_config)};

napi_value binding_config(napi_env env, napi_value exports) {
    return binding_define(env, exports, "Config", COUNT(CONFIG), CONFIG);
}
