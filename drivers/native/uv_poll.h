/* The few names of libuv that the addon uses. No package has libuv's header; these declarations are part of its stable
 * interface (1.x), and node exports the functions. The handle is opaque: a function returns its size. */
#ifndef OS_NODE_UV_POLL_H
#define OS_NODE_UV_POLL_H

#include <stddef.h>

typedef struct uv_loop_s uv_loop_t;
typedef struct uv_handle_s uv_handle_t;
typedef struct uv_poll_s uv_poll_t;

enum { UV_POLL = 8 };
enum { UV_READABLE = 1, UV_WRITABLE = 2 };

size_t uv_handle_size(int type);
void *uv_handle_get_data(const uv_handle_t *handle);
void uv_handle_set_data(uv_handle_t *handle, void *data);
int uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd);
int uv_poll_start(uv_poll_t *handle, int events, void (*wake)(uv_poll_t *handle, int status, int events));
void uv_unref(uv_handle_t *handle);
void uv_close(uv_handle_t *handle, void (*closed)(uv_handle_t *handle));

#endif
