/* Files whose reading or writing can wait for hardware (sysfs attributes of sensor chips, 1-Wire): on a thread of a bus. */
#define _GNU_SOURCE
#include "bus.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* The path lies behind the room for the answer. */
static int64_t read_file(int *fd, struct bus_job *job) {
    (void)fd;
    size_t done = 0, room = job->answer_length;
    int opened = open((const char *)job->bytes + room, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (opened < 0)
        return -errno;
    while (done < room) {
        ssize_t got = read(opened, job->bytes + done, room - done);
        if (got < 0) {
            int error = errno;
            close(opened);
            return -error;
        }
        if (got == 0)
            break;
        done += (size_t)got;
    }
    close(opened);
    job->answer_length = done;
    return (int64_t)done;
}

/* fileRead(bus, path, size) → job, whose answer is the file's first `size` bytes and whose result is how many there are */
static napi_value file_read(napi_env env, napi_callback_info info) {
    napi_value args[3];
    char path[PATH_MAX];
    int32_t size;
    int error;
    addon_args(env, info, 3, args);
    int length = addon_text(env, args[1], path, sizeof path);
    if (length < 0 || !addon_number(env, args[2], &size) || size < 0)
        return addon_int(env, -EINVAL);
    struct bus_job *job = bus_take(env, args[0], (size_t)size + (size_t)length + 1, &error);
    if (job == NULL)
        return addon_int(env, error);
    memcpy(job->bytes + size, path, (size_t)length + 1);
    job->answer_length = (size_t)size;
    return bus_queue(env, args[0], job, read_file);
}

void addon_file(napi_env env, napi_value exports) {
    addon_export(env, exports, "fileRead", file_read);
}
