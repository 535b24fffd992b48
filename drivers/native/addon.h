/*
 * What the files of the addon share. The addon moves bytes and nothing else: no policy, no retries, no strings on hot paths.
 *
 * One rule for all functions that JavaScript sees: the result is a number; zero or more is the answer, less than zero is
 * minus errno (who opens something answers with a descriptor instead). Nothing is thrown, so an error costs no more than a result; src/native turns the number into a stable code.
 * Buffers belong to the caller and are used during the call only. Wrong arguments are -EINVAL.
 */
#ifndef OS_NODE_ADDON_H
#define OS_NODE_ADDON_H

#define NAPI_VERSION 8
#include <errno.h>
#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fetches up to `want` arguments; missing ones are undefined. */
void addon_args(napi_env env, napi_callback_info info, size_t want, napi_value *args);
/* A result. */
napi_value addon_int(napi_env env, int64_t value);
/* The bytes of a typed array or Buffer; false when it is none. `unit` is the size of one element it must have, 0: any. */
bool addon_bytes(napi_env env, napi_value value, size_t unit, void **data, size_t *bytes);
/* A string with its NUL in `out`; its length, or -1 when it is none, too long or holds a NUL. */
int addon_text(napi_env env, napi_value value, char *out, size_t size);
/* A whole number; false when it is none. */
bool addon_number(napi_env env, napi_value value, int32_t *out);
void addon_export(napi_env env, napi_value exports, const char *name, napi_callback function);

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
