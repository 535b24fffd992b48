/* Descriptors and their readiness. One call of JavaScript per wake-up of the event loop, none per packet.
 *
 * The fd is closed exactly once, by the first of: close(), the garbage collector (only without a watcher), the end of
 * the thread. The poll handle exists until libuv releases it, one turn of the loop later; everything it refers to
 * exists as long. */
#include "descriptor.h"

#include <stdlib.h>
#include <unistd.h>

static void release(struct descriptor *self) {
    if (--self->owners == 0)
        free(self);
}

static void on_closed(uv_handle_t *handle) {
    struct descriptor *self = uv_handle_get_data(handle);
    free(handle);
    napi_delete_reference(self->env, self->callback);
    napi_async_destroy(self->env, self->context);
    /* last: without the hook, an ending thread may end */
    napi_remove_async_cleanup_hook(self->hook);
    release(self);
}

static void close_now(struct descriptor *self) {
    if (self->fd < 0)
        return;
    if (self->poll != NULL)
        uv_close((uv_handle_t *)self->poll, on_closed); /* stops watching immediately, so the fd can be closed */
    self->poll = NULL;
    close(self->fd);
    self->fd = -1;
}

static void on_collected(napi_env env, void *data, void *hint) {
    close_now(data);
    release(data);
}

static void on_thread_end(napi_async_cleanup_hook_handle hook, void *data) {
    close_now(data);
}

napi_value descriptor_new(napi_env env, int fd) {
    struct descriptor *self = calloc(1, sizeof *self);
    napi_value value;
    if (self != NULL) {
        *self = (struct descriptor){.fd = fd, .owners = 1, .env = env};
        if (napi_create_external(env, self, on_collected, NULL, &value) == napi_ok)
            return value;
        free(self);
    }
    close(fd);
    return addon_int(env, -ENOMEM);
}

int64_t descriptor_if(int result, int fd) {
    if (result >= 0)
        return fd;
    close(fd);
    return result;
}

static struct descriptor *descriptor_of(napi_env env, napi_value value) {
    void *data = NULL;
    return napi_get_value_external(env, value, &data) == napi_ok ? data : NULL;
}

int descriptor_fd(napi_env env, napi_value value) {
    struct descriptor *self = descriptor_of(env, value);
    if (self == NULL)
        return -EINVAL;
    return self->fd < 0 ? -EBADF : self->fd;
}

static void notify(struct descriptor *self, int events) {
    napi_handle_scope scope;
    napi_value callback, this, argument, result, error;
    if (napi_open_handle_scope(self->env, &scope) != napi_ok)
        return;
    if (napi_get_reference_value(self->env, self->callback, &callback) == napi_ok &&
        napi_get_global(self->env, &this) == napi_ok &&
        napi_create_int32(self->env, events, &argument) == napi_ok &&
        napi_make_callback(self->env, self->context, this, callback, 1, &argument, &result) == napi_pending_exception &&
        napi_get_and_clear_last_exception(self->env, &error) == napi_ok)
        napi_fatal_exception(self->env, error);
    napi_close_handle_scope(self->env, scope);
}

static void on_wake(uv_poll_t *poll, int status, int events) {
    struct descriptor *self = uv_handle_get_data((uv_handle_t *)poll);
    if (status < 0) {
        /* libuv stops a handle that had an error without saying which: reading reports and clears it */
        uv_poll_start(poll, self->events, on_wake);
        events = UV_READABLE;
    }
    notify(self, events);
}

static int start_watching(napi_env env, struct descriptor *self, napi_value callback) {
    uv_loop_t *loop;
    napi_value name;
    if (napi_get_uv_event_loop(env, (struct uv_loop_s **)&loop) != napi_ok ||
        napi_create_string_utf8(env, "os_node", NAPI_AUTO_LENGTH, &name) != napi_ok)
        return -EINVAL;
    uv_poll_t *poll = calloc(1, uv_handle_size(UV_POLL));
    if (poll == NULL)
        return -ENOMEM;
    int result = uv_poll_init(loop, poll, self->fd);
    if (result < 0) {
        free(poll);
        return result;
    }
    uv_handle_set_data((uv_handle_t *)poll, self);
    napi_create_reference(env, callback, 1, &self->callback);
    napi_async_init(env, NULL, name, &self->context);
    napi_add_async_cleanup_hook(env, on_thread_end, self, &self->hook);
    self->poll = poll;
    self->owners++;
    return 0;
}

/* watch(descriptor, events, callback) → 0; events: 1 readable, 2 writable. callback(events) runs whenever they occur; a
 * second call changes only the events (the first callback stays). While watched, the descriptor keeps itself and the
 * process alive. */
static int64_t watch(napi_env env, napi_value *args) {
    napi_valuetype type;
    int32_t events;
    struct descriptor *self = descriptor_of(env, args[0]);
    if (self == NULL || !addon_number(env, args[1], &events) || events <= 0 || events > (UV_READABLE | UV_WRITABLE))
        return -EINVAL;
    if (self->fd < 0)
        return -EBADF;
    if (self->poll == NULL) {
        if (napi_typeof(env, args[2], &type) != napi_ok || type != napi_function)
            return -EINVAL;
        int result = start_watching(env, self, args[2]);
        if (result < 0)
            return result;
    }
    self->events = events;
    return uv_poll_start(self->poll, events, on_wake);
}

/* unref(descriptor) → 0; still watched, but the process may end */
static int64_t unref(napi_env env, napi_value *args) {
    struct descriptor *self = descriptor_of(env, args[0]);
    if (self == NULL)
        return -EINVAL;
    if (self->poll != NULL)
        uv_unref((uv_handle_t *)self->poll);
    return 0;
}

/* descriptorNumber(descriptor) → the fd, for Node's non-blocking calls; only the descriptor closes it */
static int64_t descriptor_number(napi_env env, napi_value *args) {
    return descriptor_fd(env, args[0]);
}

/* close(descriptor) → 0, also if it is already closed */
static int64_t close_descriptor(napi_env env, napi_value *args) {
    struct descriptor *self = descriptor_of(env, args[0]);
    if (self == NULL)
        return -EINVAL;
    close_now(self);
    return 0;
}

void addon_descriptor(napi_env env, napi_value exports) {
    addon_export(env, exports, "watch", watch);
    addon_export(env, exports, "unref", unref);
    addon_export(env, exports, "descriptorNumber", descriptor_number);
    addon_export(env, exports, "close", close_descriptor);
}
