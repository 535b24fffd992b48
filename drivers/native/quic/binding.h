/* Shared by the files of the binding: argument parsing, values for JavaScript, the classes. */
#ifndef OS_NODE_BINDING_H
#define OS_NODE_BINDING_H

#define NAPI_VERSION 8
#include "quic.h"

#include <node_api.h>

/* Throws. */
napi_value binding_fail(napi_env env, const char *message);
/* Throws ngtcp2's text for this error. */
napi_value binding_refusal(napi_env env, ngtcp2_ssize error);
/* The bytes of a Uint8Array or Buffer; false if it is neither. */
bool binding_bytes(napi_env env, napi_value value, uint8_t **data, size_t *length);
napi_value binding_number(napi_env env, double value);
napi_value binding_boolean(napi_env env, bool value);
napi_value binding_null(napi_env env);
napi_value binding_buffer(napi_env env, const void *bytes, size_t length);
void binding_set(napi_env env, napi_value object, const char *name, napi_value value);

enum binding_class { BINDING_CONFIG, BINDING_CONNECTION, BINDING_CLASSES };
/* Adds a class to the exports of the file. */
napi_value binding_define(napi_env env, napi_value exports, const char *name, size_t count,
                          const napi_property_descriptor *list);
/* A new object of a class, which owns `object` from then on. */
napi_value binding_made(napi_env env, enum binding_class kind, void *object, napi_finalize finalize);

napi_value binding_config(napi_env env, napi_value exports);
napi_value binding_connection(napi_env env, napi_value exports);

#define STATIC(name, function) {name, NULL, function, NULL, NULL, NULL, napi_static, NULL}
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

#endif
