/*
 * One thread for one thing that can block: a bus, a file whose read waits for a chip. JavaScript hands it jobs and is woken
 * when some are done; it never waits. What a job reads and writes is memory of the job, copied from and to the caller's
 * buffers on the caller's thread: a call that comes back late, or after its caller has gone, finds its memory there.
 *
 * A call into the kernel cannot be taken back. A caller that stops waiting for one leaves the thread to itself: it holds nothing but
 * its own, and cleans up when the call returns. The thread never keeps the process, nor a thread of Node, from ending.
 */
#ifndef OS_NODE_BUS_H
#define OS_NODE_BUS_H

#include "addon.h"

/* jobs waiting and done together, words and bytes of one of them */
enum { BUS_JOBS = 64, BUS_WORDS = 128, BUS_BYTES = 65536 };

struct bus_job;

/* What the thread does for a job: a result of zero or more, or minus errno. `fd` is the bus's own, -1 while it has none; a
   work that opens stores it there. */
typedef int64_t bus_work(int *fd, struct bus_job *job);

struct bus_job {
    bus_work *work;
    uint32_t words[BUS_WORDS];
    uint8_t *bytes; /* kept from job to job, so that a bus at work allocates nothing */
    size_t length, room;
    /* which part of bytes the caller gets */
    size_t answer_at, answer_length;
    /* of the job alone, -1: none; what a work leaves here is handed out by busFile, or closed with the job */
    int file;
    /* done in any case: cannot be cancelled */
    bool certain;
    int64_t result;
    enum { BUS_FREE, BUS_QUEUED, BUS_RUNNING, BUS_DONE } state;
};

/* A free job with room for `length` bytes, of which `answer_length` at `answer_at` are the answer. NULL: *error tells why
   (-EINVAL no bus, -EBADF closed, -EAGAIN 64 are waiting, -EMSGSIZE, -ENOMEM). The caller fills it and passes it to bus_queue at once. */
struct bus_job *bus_take(napi_env env, napi_value bus, size_t length, int *error);
/* Puts it behind the others; the result for JavaScript: which job it is. */
napi_value bus_queue(napi_env env, napi_value bus, struct bus_job *job, bus_work *work);
/* A text with its NUL as the bytes of a job that opens it. NULL as bus_take. */
struct bus_job *bus_take_path(napi_env env, napi_value bus, napi_value path, int *error);

#endif
