/* Shared by the files of the addon. The addon only moves bytes: no policy, no retries, no strings on hot paths.
 *
 * All functions visible to JavaScript follow one rule: the result is a number; zero or more is the answer, less than
 * zero is minus errno (a function that opens something returns a descriptor instead). They never throw, so an error
 * costs no more than a result; src/native turns the number into a stable code. Buffers belong to the caller and are
 * used only during the call. Wrong arguments are -EINVAL. */
#ifndef OS_NODE_ADDON_H
#define OS_NODE_ADDON_H

#define NAPI_VERSION 8
#include <errno.h>
#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function visible to JavaScript. Missing arguments are undefined. */
typedef int64_t addon_function(napi_env env, napi_value *args);
enum { ADDON_ARGS = 8 };

void addon_export(napi_env env, napi_value exports, const char *name, addon_function *function);
/* The same for a function that opens something: its answer is an fd, which JavaScript gets as a descriptor. */
void addon_export_opening(napi_env env, napi_value exports, const char *name, addon_function *function);
/* For the few that return another value. `data`: for napi_get_cb_info. */
void addon_export_raw(napi_env env, napi_value exports, const char *name, napi_callback function, void *data);

/* A result. */
napi_value addon_int(napi_env env, int64_t value);
/* The bytes of a typed array or Buffer; false if it is neither. `unit`: required size of one element, 0: any. */
bool addon_bytes(napi_env env, napi_value value, size_t unit, void **data, size_t *bytes);
/* Copies a string with its NUL to `out`; its length, or -1 if it is not a string, is too long or contains a NUL. */
int addon_text(napi_env env, napi_value value, char *out, size_t size);
/* A whole number; false if it is not one. */
bool addon_number(napi_env env, napi_value value, int32_t *out);

void addon_unix(napi_env env, napi_value exports);
void addon_time(napi_env env, napi_value exports);
void addon_address(napi_env env, napi_value exports);
void addon_udp(napi_env env, napi_value exports);
void addon_batch(napi_env env, napi_value exports);
void addon_gpio(napi_env env, napi_value exports);
void addon_bus(napi_env env, napi_value exports);
void addon_spi(napi_env env, napi_value exports);
void addon_i2c(napi_env env, napi_value exports);
void addon_tty(napi_env env, napi_value exports);
void addon_file(napi_env env, napi_value exports);
void addon_memory(napi_env env, napi_value exports);
void addon_can(napi_env env, napi_value exports);
void addon_can_isotp(napi_env env, napi_value exports);
void addon_can_link(napi_env env, napi_value exports);
void addon_hci(napi_env env, napi_value exports);

#endif
