/* The JavaScript interface: the classes Config, Connection and Header of src/media/quic/native.ts. Wrong arguments and
 * ngtcp2's errors are thrown. Buffers belong to the caller and are used only during the call. */
#include "binding.h"

#include <pthread.h>
#include <stdlib.h>

napi_value binding_fail(napi_env env, const char *message) {
    napi_throw_error(env, NULL, message);
    return NULL;
}

bool binding_bytes(napi_env env, napi_value value, uint8_t **data, size_t *length) {
    napi_typedarray_type type;
    void *start;
    if (napi_get_typedarray_info(env, value, &type, length, &start, NULL, NULL) != napi_ok || type != napi_uint8_array)
        return false;
    *data = start;
    return true;
}

napi_value binding_number(napi_env env, double value) {
    napi_value out;
    napi_create_double(env, value, &out);
    return out;
}

napi_value binding_boolean(napi_env env, bool value) {
    napi_value out;
    napi_get_boolean(env, value, &out);
    return out;
}

napi_value binding_null(napi_env env) {
    napi_value out;
    napi_get_null(env, &out);
    return out;
}

napi_value binding_buffer(napi_env env, const void *bytes, size_t length) {
    napi_value out;
    napi_create_buffer_copy(env, length, bytes, NULL, &out);
    return out;
}

void binding_set(napi_env env, napi_value object, const char *name, napi_value value) {
    napi_set_named_property(env, object, name, value);
}

napi_value binding_refusal(napi_env env, ngtcp2_ssize error) {
    return binding_fail(env, ngtcp2_strerror((int)error));
}

static napi_value nothing(napi_env env, napi_callback_info info) {
    return NULL;
}

/* one per thread that loaded the file */
struct instance {
    napi_ref classes[BINDING_CLASSES];
};

napi_value binding_made(napi_env env, enum binding_class kind, void *object, napi_finalize finalize) {
    struct instance *instance;
    napi_value class, self;
    napi_get_instance_data(env, (void **)&instance);
    if (napi_get_reference_value(env, instance->classes[kind], &class) != napi_ok ||
        napi_new_instance(env, class, 0, NULL, &self) != napi_ok ||
        napi_wrap(env, self, object, finalize, NULL, NULL) != napi_ok) {
        finalize(env, object, NULL);
        return NULL;
    }
    return self;
}

/* Header.fromSlice(datagram, idLength) */
static napi_value read_header(napi_env env, napi_callback_info info) {
    napi_value args[2], out;
    size_t count = 2, length;
    uint8_t *bytes;
    uint32_t id_length = 0;
    ngtcp2_version_cid ids = {0};
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    napi_get_value_uint32(env, args[1], &id_length);
    if (!binding_bytes(env, args[0], &bytes, &length) || length == 0)
        return binding_fail(env, "fromSlice() takes a datagram");
    int result = ngtcp2_pkt_decode_version_cid(&ids, bytes, length, id_length);
    if (result != 0 && result != NGTCP2_ERR_VERSION_NEGOTIATION)
        return binding_refusal(env, result);
    napi_create_object(env, &out);
    binding_set(env, out, "ty", binding_number(env, bytes[0] & 0x80 ? bytes[0] >> 4 & 3 : 5));
    binding_set(env, out, "version", binding_number(env, ids.version));
    binding_set(env, out, "dcid", binding_buffer(env, ids.dcid, ids.dcidlen));
    binding_set(env, out, "scid", binding_buffer(env, ids.scid, ids.scidlen));
    ngtcp2_pkt_hd head = {0};
    if (result == 0 && (bytes[0] & 0xf0) == 0xc0) {
        ngtcp2_ssize read = ngtcp2_pkt_decode_hd_long(&head, bytes, length);
        if (read < 0)
            return binding_refusal(env, read);
    }
    binding_set(env, out, "token", binding_buffer(env, head.token, head.tokenlen));
    return out;
}

static napi_value version_is_supported(napi_env env, napi_callback_info info) {
    napi_value version;
    size_t count = 1;
    uint32_t value = 0;
    napi_get_cb_info(env, info, &count, &version, NULL, NULL);
    napi_get_value_uint32(env, version, &value);
    return binding_boolean(env, value == NGTCP2_PROTO_VER_V1);
}

/* negotiateVersion(scid, dcid, into) → length */
static napi_value negotiate_version(napi_env env, napi_callback_info info) {
    napi_value args[3];
    size_t count = 3, lengths[3];
    uint8_t *bytes[3], chance = 0;
    const uint32_t version = NGTCP2_PROTO_VER_V1;
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    for (int k = 0; k < 3; k++)
        if (!binding_bytes(env, args[k], &bytes[k], &lengths[k]))
            return binding_fail(env, "negotiateVersion() takes three buffers");
    RAND_bytes(&chance, 1);
    ngtcp2_ssize length = ngtcp2_pkt_write_version_negotiation(bytes[2], lengths[2], chance, bytes[0], lengths[0],
                                                              bytes[1], lengths[1], &version, 1);
    return length < 0 ? binding_refusal(env, length) : binding_number(env, (double)length);
}

/* retry(scid, dcid, newScid, token, version, into) → length */
static napi_value write_retry(napi_env env, napi_callback_info info) {
    napi_value args[6];
    size_t count = 6, lengths[6] = {0};
    uint8_t *bytes[6];
    uint32_t version = 0;
    ngtcp2_cid ids[3];
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    napi_get_value_uint32(env, args[4], &version);
    for (int k = 0; k < 6; k++)
        if (k != 4 && (!binding_bytes(env, args[k], &bytes[k], &lengths[k]) || (k < 3 && lengths[k] > NGTCP2_MAX_CIDLEN)))
            return binding_fail(env, "retry() takes three ids, a token, a version and a buffer");
    for (int k = 0; k < 3; k++)
        ngtcp2_cid_init(&ids[k], bytes[k], lengths[k]);
    ngtcp2_ssize length = ngtcp2_crypto_write_retry(bytes[5], lengths[5], version, &ids[0], &ids[2], &ids[1], bytes[3],
                                                    lengths[3]);
    return length < 0 ? binding_fail(env, "retry() has too small a buffer") : binding_number(env, (double)length);
}

static const napi_property_descriptor HEADER[] = {STATIC("fromSlice", read_header)};
static const napi_property_descriptor EXPORTS[] = {
    STATIC("versionIsSupported", version_is_supported),
    STATIC("negotiateVersion", negotiate_version),
    STATIC("retry", write_retry),
};

napi_value binding_define(napi_env env, napi_value exports, const char *name, size_t count,
                          const napi_property_descriptor *list) {
    napi_value class;
    napi_define_class(env, name, NAPI_AUTO_LENGTH, nothing, NULL, count, list, &class);
    binding_set(env, exports, name, class);
    return class;
}

static void instance_free(napi_env env, void *instance, void *hint) {
    free(instance);
}

static int started = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void start(void) {
    started = ngtcp2_crypto_ossl_init();
}

/* Called once per thread that loads the file. */
NAPI_MODULE_INIT() {
    struct instance *instance = calloc(1, sizeof *instance);
    pthread_once(&once, start);
    if (!instance || started != 0) {
        free(instance);
        return binding_fail(env, "OpenSSL lacks what QUIC needs");
    }
    napi_set_instance_data(env, instance, instance_free, NULL);
    napi_create_reference(env, binding_config(env, exports), 1, &instance->classes[BINDING_CONFIG]);
    napi_create_reference(env, binding_connection(env, exports), 1, &instance->classes[BINDING_CONNECTION]);
    binding_define(env, exports, "Header", COUNT(HEADER), HEADER);
    napi_define_properties(env, exports, COUNT(EXPORTS), EXPORTS);
    return exports;
}
