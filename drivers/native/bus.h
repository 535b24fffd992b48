/* One thread for each device that can block: a bus, a file whose read waits for a chip. JavaScript queues jobs and is
 * woken when some are done; it never waits. Data of a job is in memory of the job, copied from and to the caller's
 * buffers on the caller's thread: so a call that returns late, even after its caller has gone, still has valid memory.
 *
 * A call into the kernel cannot be cancelled. A caller that stops waiting abandons the thread: the thread uses only its
 * own memory, and cleans up when the call returns. It never keeps the process, or a thread of Node, from ending. */
#ifndef OS_NODE_BUS_H
#define OS_NODE_BUS_H

#include "addon.h"

/* limits: queued and finished jobs together; words and bytes of one job */
enum { BUS_JOBS = 64, BUS_WORDS = 128, BUS_BYTES = 65536 };

struct bus_job;

/* Performs a job: returns a result of zero or more, or minus errno. `fd` belongs to the bus, -1 while it has none; a
 * work function that opens a device stores it there. */
typedef int64_t bus_work(int *fd, struct bus_job *job);

struct bus_job {
    bus_work *work;
    uint32_t words[BUS_WORDS];
    uint8_t *bytes; /* reused for later jobs, so that a busy bus allocates nothing */
    size_t length, room;
    /* the part of bytes that is returned to the caller */
    size_t answer_at, answer_length;
    /* file of this job only, -1: none; busFile returns it, otherwise it is closed with the job */
    int file;
    /* cannot be cancelled */
    bool certain;
    int64_t result;
    enum { BUS_FREE, BUS_QUEUED, BUS_RUNNING, BUS_DONE } state;
};

/* A free job with room for `length` bytes, of which `answer_length` at `answer_at` are the answer. NULL: *error has the
 * reason (-EINVAL no bus, -EBADF closed, -EAGAIN 64 are queued, -EMSGSIZE, -ENOMEM). The caller fills the job and
 * passes it to bus_queue immediately. */
struct bus_job *bus_take(napi_env env, napi_value bus, size_t length, int *error);
/* Appends it to the queue; returns its number. */
int64_t bus_queue(napi_env env, napi_value bus, struct bus_job *job, bus_work *work);
/* A job whose bytes are a path with its NUL. NULL like bus_take. */
struct bus_job *bus_take_path(napi_env env, napi_value bus, napi_value path, int *error);

#endif
