/* An open descriptor owned by JavaScript. */
#ifndef OS_NODE_DESCRIPTOR_H
#define OS_NODE_DESCRIPTOR_H

#include "addon.h"
#include "uv_poll.h"

struct descriptor {
    int fd; /* -1 once closed */
    /* the JavaScript value, plus the poll handle if any; the last one frees */
    int owners;
    napi_env env;
    uv_poll_t *poll;
    int events; /* events being watched */
    napi_ref callback;
    napi_async_context context;
    napi_async_cleanup_hook_handle hook;
};

/* Passes `fd` to JavaScript, which owns it from then on: close(), the garbage collector or the end of the thread closes
 * it. On failure the fd is closed and the result is minus errno. */
napi_value descriptor_new(napi_env env, int fd);
/* `fd`, or `result` if that is negative: the fd is closed then. */
int64_t descriptor_if(int result, int fd);
/* The fd of a value, or minus errno: -EINVAL for any other value, -EBADF when closed. */
int descriptor_fd(napi_env env, napi_value value);
void addon_descriptor(napi_env env, napi_value exports);

#endif
