/* The addon's entry point and its argument parsing. */
#include "addon.h"
#include "descriptor.h"

#include <stdlib.h>
#include <string.h>

napi_value addon_int(napi_env env, int64_t value) {
    napi_value out = NULL;
    if (value >= INT32_MIN && value <= INT32_MAX)
        napi_create_int32(env, (int32_t)value, &out);
    else
        napi_create_int64(env, value, &out);
    return out;
}

bool addon_bytes(napi_env env, napi_value value, size_t unit, void **data, size_t *bytes) {
    static const uint8_t sizes[] = {
        [napi_int8_array] = 1,    [napi_uint8_array] = 1,   [napi_uint8_clamped_array] = 1, [napi_int16_array] = 2,
        [napi_uint16_array] = 2,  [napi_int32_array] = 4,   [napi_uint32_array] = 4,        [napi_float32_array] = 4,
        [napi_float64_array] = 8, [napi_bigint64_array] = 8, [napi_biguint64_array] = 8,
    };
    napi_typedarray_type type;
    size_t length;
    /* fails on anything that is not a typed array */
    if (napi_get_typedarray_info(env, value, &type, &length, data, NULL, NULL) != napi_ok)
        return false;
    if ((size_t)type >= sizeof sizes || (unit != 0 && sizes[type] != unit))
        return false;
    *bytes = length * sizes[type];
    return true;
}

int addon_text(napi_env env, napi_value value, char *out, size_t size) {
    size_t length;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok || length >= size)
        return -1;
    if (napi_get_value_string_utf8(env, value, out, size, &length) != napi_ok || strlen(out) != length)
        return -1;
    return (int)length;
}

bool addon_number(napi_env env, napi_value value, int32_t *out) {
    return napi_get_value_int32(env, value, out) == napi_ok;
}

static int64_t call(napi_env env, napi_callback_info info) {
    napi_value args[ADDON_ARGS];
    size_t count = ADDON_ARGS;
    void *function;
    if (napi_get_cb_info(env, info, &count, args, NULL, &function) != napi_ok)
        return -EINVAL;
    return ((addon_function *)function)(env, args);
}

static napi_value answer(napi_env env, napi_callback_info info) { return addon_int(env, call(env, info)); }

static napi_value open_descriptor(napi_env env, napi_callback_info info) {
    int64_t fd = call(env, info);
    return fd < 0 ? addon_int(env, fd) : descriptor_new(env, (int)fd);
}

void addon_export_raw(napi_env env, napi_value exports, const char *name, napi_callback function, void *data) {
    napi_value value;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, function, data, &value) == napi_ok)
        napi_set_named_property(env, exports, name, value);
}

void addon_export(napi_env env, napi_value exports, const char *name, addon_function *function) {
    addon_export_raw(env, exports, name, answer, (void *)function);
}

void addon_export_opening(napi_env env, napi_value exports, const char *name, addon_function *function) {
    addon_export_raw(env, exports, name, open_descriptor, (void *)function);
}

/* Called once per thread that loads the addon: it keeps no state between calls. */
NAPI_MODULE_INIT() {
    addon_unix(env, exports);
    addon_time(env, exports);
    addon_descriptor(env, exports);
    addon_address(env, exports);
    addon_udp(env, exports);
    addon_batch(env, exports);
    addon_gpio(env, exports);
    addon_bus(env, exports);
    addon_spi(env, exports);
    addon_i2c(env, exports);
    addon_tty(env, exports);
    addon_file(env, exports);
    addon_memory(env, exports);
    addon_can(env, exports);
    addon_can_isotp(env, exports);
    addon_can_link(env, exports);
    addon_hci(env, exports);
    return exports;
}
