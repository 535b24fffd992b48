#define _GNU_SOURCE
#include "bus.h"
#include "descriptor.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* enough for the deepest call, and small enough for a board with many buses */
enum { STACK = 256 * 1024 };

/* a queue of job numbers; there are only BUS_JOBS of them, so it cannot overflow */
struct line {
    uint8_t numbers[BUS_JOBS];
    unsigned first, count;
};

struct bus {
    pthread_mutex_t lock;
    pthread_cond_t work;
    int owners; /* 2 with the JavaScript value and the thread; the last one frees */
    bool closing, ended;
    int events; /* the eventfd until it is passed to JavaScript, then -1 */
    int wake;   /* a duplicate of it, open as long as the thread may write to it */
    struct bus_job *jobs; /* owned by the thread once closing */
    struct line waiting, done;
};

static void line_put(struct line *line, unsigned number) {
    line->numbers[(line->first + line->count++) % BUS_JOBS] = (uint8_t)number;
}

static unsigned line_get(struct line *line) {
    unsigned number = line->numbers[line->first];
    line->first = (line->first + 1) % BUS_JOBS;
    line->count--;
    return number;
}

static void close_file(struct bus_job *job) {
    if (job->file >= 0)
        close(job->file);
    job->file = -1;
}

/* Frees everything except the struct itself, which JavaScript may keep much longer. */
static void empty(struct bus *self) {
    int *const open[] = {&self->events, &self->wake};
    for (unsigned k = 0; k < sizeof open / sizeof *open; k++) {
        if (*open[k] >= 0)
            close(*open[k]);
        *open[k] = -1;
    }
    for (unsigned k = 0; self->jobs != NULL && k < BUS_JOBS; k++) {
        close_file(&self->jobs[k]);
        free(self->jobs[k].bytes);
    }
    free(self->jobs);
    self->jobs = NULL;
}

/* Unlocks, and frees if this was the last owner. */
static void leave(struct bus *self, bool owner_goes) {
    bool last = owner_goes && --self->owners == 0;
    pthread_mutex_unlock(&self->lock);
    if (!last)
        return;
    empty(self);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static void *run(void *data) {
    struct bus *self = data;
    int fd = -1;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (self->waiting.count == 0 && !self->closing)
            pthread_cond_wait(&self->work, &self->lock);
        if (self->closing)
            break;
        unsigned number = line_get(&self->waiting);
        struct bus_job *job = &self->jobs[number];
        job->state = BUS_RUNNING;
        pthread_mutex_unlock(&self->lock);
        int64_t result = job->work(&fd, job);
        pthread_mutex_lock(&self->lock);
        job->result = result;
        job->state = BUS_DONE;
        /* signalled once; JavaScript then reads until the queue is empty */
        if (self->done.count == 0)
            eventfd_write(self->wake, 1);
        line_put(&self->done, number);
    }
    pthread_mutex_unlock(&self->lock);
    if (fd >= 0)
        close(fd); /* may block on the hardware too */
    pthread_mutex_lock(&self->lock);
    self->ended = true;
    empty(self);
    leave(self, true);
    return NULL;
}

static int start(struct bus *self) {
    pthread_attr_t how;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&how) != 0)
        return -ENOMEM;
    pthread_attr_setstacksize(&how, STACK);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    /* only Node's own threads handle signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    self->owners++;
    int result = -pthread_create(&thread, &how, run, self);
    if (result != 0)
        self->owners--;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return result;
}

/* Starts no further jobs; the thread ends after the current one. */
static void close_bus(struct bus *self, bool owner_goes) {
    pthread_mutex_lock(&self->lock);
    self->closing = true;
    pthread_cond_signal(&self->work);
    leave(self, owner_goes);
}

static void on_collected(napi_env env, void *data, void *hint) {
    close_bus(data, true);
}

static struct bus *bus_of(napi_env env, napi_value value) {
    void *data = NULL;
    return napi_get_value_external(env, value, &data) == napi_ok ? data : NULL;
}

/* busStart() → bus, or minus errno; a job of the bus opens its device */
static napi_value bus_start(napi_env env, napi_callback_info info) {
    napi_value value;
    struct bus *self = calloc(1, sizeof *self);
    if (self == NULL)
        return addon_int(env, -ENOMEM);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    self->owners = 1;
    self->jobs = calloc(BUS_JOBS, sizeof *self->jobs);
    for (unsigned k = 0; self->jobs != NULL && k < BUS_JOBS; k++)
        self->jobs[k].file = -1;
    self->wake = -1;
    self->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->events >= 0)
        self->wake = fcntl(self->events, F_DUPFD_CLOEXEC, 0);
    int result = self->jobs == NULL ? -ENOMEM : self->wake < 0 ? -errno : start(self);
    if (result == 0 && napi_create_external(env, self, on_collected, NULL, &value) == napi_ok)
        return value;
    close_bus(self, true);
    return addon_int(env, result < 0 ? result : -ENOMEM);
}

/* busEvents(bus) → descriptor that is readable when jobs are done. Call it only once. */
static int64_t bus_events(napi_env env, napi_value *args) {
    struct bus *self = bus_of(env, args[0]);
    if (self == NULL || self->events < 0)
        return -EINVAL;
    int events = self->events;
    self->events = -1;
    return events;
}

/* NULL if there is none, or if the bus is closed. */
static struct bus_job *job_of(struct bus *self, napi_env env, napi_value value) {
    int32_t number;
    return self != NULL && !self->closing && addon_number(env, value, &number) && number >= 0 && number < BUS_JOBS ? &self->jobs[number] : NULL;
}

struct bus_job *bus_take(napi_env env, napi_value bus, size_t length, int *error) {
    struct bus *self = bus_of(env, bus);
    struct bus_job *job = NULL;
    *error = -EINVAL;
    if (self == NULL)
        return NULL;
    *error = self->closing ? -EBADF : length > BUS_BYTES ? -EMSGSIZE : -EAGAIN;
    if (*error != -EAGAIN)
        return NULL;
    /* the thread frees no job, so a free one stays free; the last one first, because its memory is allocated and cached */
    pthread_mutex_lock(&self->lock);
    for (unsigned k = 0; k < BUS_JOBS && job == NULL; k++)
        if (self->jobs[k].state == BUS_FREE)
            job = &self->jobs[k];
    pthread_mutex_unlock(&self->lock);
    if (job == NULL)
        return NULL;
    if (job->room < length) {
        uint8_t *more = realloc(job->bytes, length);
        *error = -ENOMEM;
        if (more == NULL)
            return NULL;
        job->bytes = more;
        job->room = length;
    }
    job->length = length;
    job->answer_at = job->answer_length = 0;
    job->certain = false;
    return job;
}

struct bus_job *bus_take_path(napi_env env, napi_value bus, napi_value path, int *error) {
    char text[PATH_MAX];
    int length = addon_text(env, path, text, sizeof text);
    *error = -EINVAL;
    struct bus_job *job = length < 0 ? NULL : bus_take(env, bus, (size_t)length + 1, error);
    if (job != NULL)
        memcpy(job->bytes, text, (size_t)length + 1);
    return job;
}

int64_t bus_queue(napi_env env, napi_value bus, struct bus_job *job, bus_work *work) {
    struct bus *self = bus_of(env, bus);
    unsigned number = (unsigned)(job - self->jobs);
    pthread_mutex_lock(&self->lock);
    job->work = work;
    job->state = BUS_QUEUED;
    line_put(&self->waiting, number);
    pthread_cond_signal(&self->work);
    pthread_mutex_unlock(&self->lock);
    return number;
}

/* busDone(bus) → the number of the next finished job, or -EAGAIN: wait for the descriptor */
static int64_t bus_done(napi_env env, napi_value *args) {
    eventfd_t count;
    struct bus *self = bus_of(env, args[0]);
    if (self == NULL)
        return -EINVAL;
    int result = -EAGAIN;
    pthread_mutex_lock(&self->lock);
    if (self->done.count > 0)
        result = (int)line_get(&self->done);
    else
        eventfd_read(self->wake, &count);
    pthread_mutex_unlock(&self->lock);
    return result;
}

/* busResult(bus, job, answer: Uint8Array | null) → the job's result; unless it failed, its answer is copied to `answer`
 * as far as it fits, and the job is free again */
static int64_t bus_result(napi_env env, napi_value *args) {
    void *answer;
    size_t bytes;
    struct bus *self = bus_of(env, args[0]);
    struct bus_job *job = job_of(self, env, args[1]);
    if (job == NULL)
        return -EINVAL;
    pthread_mutex_lock(&self->lock);
    bool done = job->state == BUS_DONE;
    pthread_mutex_unlock(&self->lock);
    if (!done)
        return -EBUSY;
    if (job->result >= 0 && addon_bytes(env, args[2], 1, &answer, &bytes) && bytes > 0 && job->answer_length > 0)
        memcpy(answer, job->bytes + job->answer_at, bytes < job->answer_length ? bytes : job->answer_length);
    int64_t result = job->result;
    close_file(job);
    pthread_mutex_lock(&self->lock);
    job->state = BUS_FREE;
    pthread_mutex_unlock(&self->lock);
    return result;
}

/* busFile(bus, job) → the file that a finished job opened, as a descriptor; -EBADF: none. Call it before busResult. */
static int64_t bus_file(napi_env env, napi_value *args) {
    struct bus *self = bus_of(env, args[0]);
    struct bus_job *job = job_of(self, env, args[1]);
    if (job == NULL)
        return -EINVAL;
    pthread_mutex_lock(&self->lock);
    int file = job->state == BUS_DONE ? job->file : -1;
    if (file >= 0)
        job->file = -1;
    pthread_mutex_unlock(&self->lock);
    return file < 0 ? -EBADF : file;
}

/* busCancel(bus, job) → 0 it will not start, -EBUSY it runs or cannot be cancelled, -EALREADY it is done, -EINVAL no such job */
static int64_t bus_cancel(napi_env env, napi_value *args) {
    struct bus *self = bus_of(env, args[0]);
    struct bus_job *job = job_of(self, env, args[1]);
    if (job == NULL)
        return -EINVAL;
    static const int results[] = {[BUS_FREE] = -EINVAL, [BUS_QUEUED] = 0, [BUS_RUNNING] = -EBUSY, [BUS_DONE] = -EALREADY};
    pthread_mutex_lock(&self->lock);
    int result = job->state == BUS_QUEUED && job->certain ? -EBUSY : results[job->state];
    if (result == 0) {
        for (unsigned left = self->waiting.count; left > 0; left--) {
            unsigned number = line_get(&self->waiting);
            if (&self->jobs[number] != job)
                line_put(&self->waiting, number);
        }
        close_file(job);
        job->state = BUS_FREE;
    }
    pthread_mutex_unlock(&self->lock);
    return result;
}

/* busClose(bus) → 1 the thread has ended, 0 it ends when its current call returns; safe to call again */
static int64_t bus_close(napi_env env, napi_value *args) {
    struct bus *self = bus_of(env, args[0]);
    if (self == NULL)
        return -EINVAL;
    close_bus(self, false);
    pthread_mutex_lock(&self->lock);
    bool ended = self->ended;
    pthread_mutex_unlock(&self->lock);
    return ended ? 1 : 0;
}

void addon_bus(napi_env env, napi_value exports) {
    addon_export_raw(env, exports, "busStart", bus_start, NULL);
    addon_export_opening(env, exports, "busEvents", bus_events);
    addon_export(env, exports, "busDone", bus_done);
    addon_export(env, exports, "busResult", bus_result);
    addon_export_opening(env, exports, "busFile", bus_file);
    addon_export(env, exports, "busCancel", bus_cancel);
    addon_export(env, exports, "busClose", bus_close);
}
