/* An open descriptor as JavaScript holds it. */
#ifndef OS_NODE_DESCRIPTOR_H
#define OS_NODE_DESCRIPTOR_H

#include "addon.h"
#include "uv_poll.h"

struct descriptor {
    int fd; /* -1 once closed */
    /* the JavaScript value, and the poll handle while there is one; freed with the last */
    int owners;
    napi_env env;
    uv_poll_t *poll;
    int events; /* what is watched for */
    napi_ref callback;
    napi_async_context context;
    napi_async_cleanup_hook_handle hook;
};

/* Hands `fd` to JavaScript, which from then on owns it: it is closed by close(), by the garbage collector, or when the
   thread ends. On failure the fd is closed and the result is minus errno. */
napi_value descriptor_new(napi_env env, int fd);
/* The fd behind a value, or minus errno: -EINVAL for any other value, -EBADF when closed. */
int descriptor_fd(napi_env env, napi_value value);
void addon_descriptor(napi_env env, napi_value exports);

#endif
