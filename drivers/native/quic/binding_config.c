/* Config: certificates and transport settings; each connection copies them. */
#include "binding.h"

#include <stdlib.h>

static void config_free(napi_env env, void *object, void *hint) {
    (void)env, (void)hint;
    SSL_CTX_free(((struct quic_config *)object)->tls);
    free(object);
}

/* config.set…(number), by index in the table below */
static napi_value set_number(napi_env env, napi_callback_info info) {
    struct call call;
    void *place;
    int64_t value;
    if (!binding_enter(&call, env, info) || napi_get_cb_info(env, info, NULL, NULL, NULL, &place) != napi_ok)
        return NULL;
    if (napi_get_value_int64(env, call.args[0], &value) != napi_ok || value < 0)
        return binding_fail(env, "a number is needed");
    struct quic_config *config = call.object;
    switch ((intptr_t)place) {
    case 0:
        config->params.max_idle_timeout = (uint64_t)value * NGTCP2_MILLISECONDS;
        break;
    case 1:
        config->params.max_udp_payload_size = (uint64_t)value;
        break;
    case 2:
        config->max_send_payload = (size_t)value < 1200 ? 1200 : (size_t)value;
        break;
    case 3:
        config->params.initial_max_data = (uint64_t)value;
        break;
    case 4:
        config->params.initial_max_stream_data_bidi_local = (uint64_t)value;
        break;
    case 5:
        config->params.initial_max_stream_data_bidi_remote = (uint64_t)value;
        break;
    case 6:
        config->params.initial_max_streams_bidi = (uint64_t)value;
        break;
    }
    return NULL;
}

static napi_value set_migration(napi_env env, napi_callback_info info) {
    struct call call;
    bool disabled = false;
    if (!binding_enter(&call, env, info))
        return NULL;
    napi_get_value_bool(env, call.args[0], &disabled);
    ((struct quic_config *)call.object)->params.disable_active_migration = disabled;
    return NULL;
}

static napi_value set_datagrams(napi_env env, napi_callback_info info) {
    struct call call;
    bool enabled = false;
    uint32_t in = 0, out = 0;
    if (!binding_enter(&call, env, info))
        return NULL;
    napi_get_value_bool(env, call.args[0], &enabled);
    napi_get_value_uint32(env, call.args[1], &in);
    napi_get_value_uint32(env, call.args[2], &out);
    struct quic_config *config = call.object;
    config->params.max_datagram_frame_size = enabled ? 65535 : 0;
    config->queue_in = in;
    config->queue_out = out;
    return NULL;
}

static napi_value set_protocols(napi_env env, napi_callback_info info) {
    struct call call;
    uint32_t count = 0;
    if (!binding_enter(&call, env, info))
        return NULL;
    struct quic_config *config = call.object;
    napi_get_array_length(env, call.args[0], &count);
    config->protos_length = 0;
    for (uint32_t k = 0; k < count; k++) {
        napi_value name;
        size_t length = 0, room = PROTOS_MAX - config->protos_length;
        napi_get_element(env, call.args[0], k, &name);
        napi_get_value_string_utf8(env, name, NULL, 0, &length);
        if (length == 0 || length + 2 > room)
            return binding_fail(env, "a protocol's name is too long");
        uint8_t *at = config->protos + config->protos_length;
        at[0] = (uint8_t)length;
        napi_get_value_string_utf8(env, name, (char *)at + 1, room - 1, NULL);
        config->protos_length += length + 1;
    }
    return NULL;
}

static napi_value set_token(napi_env env, napi_callback_info info) {
    struct call call;
    int sign;
    size_t count = 2;
    uint64_t words[2] = {0};
    if (!binding_enter(&call, env, info))
        return NULL;
    if (napi_get_value_bigint_words(env, call.args[0], &sign, &count, words) != napi_ok || count > 2)
        return binding_fail(env, "a token has 128 bits");
    ngtcp2_transport_params *params = &((struct quic_config *)call.object)->params;
    for (int k = 0; k < TOKEN_LENGTH; k++)
        params->stateless_reset_token[k] = (uint8_t)(words[k < 8 ? 1 : 0] >> (8 * (7 - k % 8)));
    params->stateless_reset_token_present = 1;
    return NULL;
}

static bool is_array(napi_env env, napi_value value) {
    bool array = false;
    return napi_is_array(env, value, &array) == napi_ok && array;
}

/* Passes a PEM text, or each of an array of them, to `take`. */
static bool each_pem(napi_env env, napi_value value, SSL_CTX *tls, int (*take)(SSL_CTX *, const uint8_t *, size_t)) {
    uint8_t *pem;
    size_t length;
    uint32_t count = 0;
    if (binding_bytes(env, value, &pem, &length))
        return take(tls, pem, length) == 0;
    if (!is_array(env, value))
        return true; /* null: none */
    napi_get_array_length(env, value, &count);
    for (uint32_t k = 0; k < count; k++) {
        napi_value one;
        napi_get_element(env, value, k, &one);
        if (!binding_bytes(env, one, &pem, &length) || take(tls, pem, length) != 0)
            return false;
    }
    return true;
}

/* Config.of(verify, judgedElsewhere, ca, keys, certs) */
static napi_value make_config(napi_env env, napi_callback_info info) {
    napi_value args[ARGS];
    size_t count = ARGS;
    bool check = false, elsewhere = false;
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    napi_get_value_bool(env, args[0], &check);
    napi_get_value_bool(env, args[1], &elsewhere);
    struct quic_config *config = calloc(1, sizeof *config);
    if (!config)
        return binding_fail(env, "out of memory");
    ngtcp2_transport_params_default(&config->params);
    config->max_send_payload = 1200;
    ERR_clear_error();
    if (tls_context(config, check, elsewhere) != 0 || !each_pem(env, args[2], config->tls, tls_trust) ||
        !each_pem(env, args[4], config->tls, tls_chain) || !each_pem(env, args[3], config->tls, tls_key)) {
        char text[200];
        ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
        ERR_clear_error();
        config_free(env, config, NULL);
        return binding_fail(env, text);
    }
    return binding_made(env, BINDING_CONFIG, config, config_free);
}

static const napi_property_descriptor CONFIG[] = {
    STATIC("of", make_config),
    METHOD_OF("setMaxIdleTimeout", set_number, 0),
    METHOD_OF("setMaxRecvUdpPayloadSize", set_number, 1),
    METHOD_OF("setMaxSendUdpPayloadSize", set_number, 2),
    METHOD_OF("setInitialMaxData", set_number, 3),
    METHOD_OF("setInitialMaxStreamDataBidiLocal", set_number, 4),
    METHOD_OF("setInitialMaxStreamDataBidiRemote", set_number, 5),
    METHOD_OF("setInitialMaxStreamsBidi", set_number, 6),
    METHOD("setApplicationProtos", set_protocols),
    METHOD("setDisableActiveMigration", set_migration),
    METHOD("enableDgram", set_datagrams),
    METHOD("setStatelessResetToken", set_token),
};

napi_value binding_config(napi_env env, napi_value exports) {
    return binding_define(env, exports, "Config", COUNT(CONFIG), CONFIG);
}
