/* Files whose read can wait for hardware (sysfs attributes of sensor chips, 1-Wire), and the space of file systems on a
 * slow disk or network: on the thread of a bus. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "bus.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The path follows the space for the answer. */
static int64_t read_file(int *fd, struct bus_job *job) {
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

/* The text is in the place of an answer; the path follows it. */
static int64_t write_file(int *fd, struct bus_job *job) {
    int opened = open((const char *)job->bytes + job->answer_length, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (opened < 0)
        return -errno;
    ssize_t done = write(opened, job->bytes, job->answer_length);
    int error = errno;
    close(opened);
    return done < 0 ? -error : (int64_t)done;
}

enum { DEVICE, TOTAL, FREE, AVAILABLE, SPACE };

/* The path follows the space for the answer. */
static int64_t read_space(int *fd, struct bus_job *job) {
    const char *path = (const char *)job->bytes + job->answer_length;
    struct stat about;
    struct statfs space;
    if (stat(path, &about) != 0 || statfs(path, &space) != 0)
        return -errno;
    const double block = (double)space.f_bsize;
    const double answer[SPACE] = {(double)about.st_dev, block * (double)space.f_blocks, block * (double)space.f_bfree,
                                  block * (double)space.f_bavail};
    memcpy(job->bytes, answer, sizeof answer);
    return 0;
}

/* Queues work on a path, after `size` bytes: space for the answer, or `content` unless it is NULL. */
static int64_t path_job(napi_env env, napi_value bus, napi_value text, const void *content, size_t size, bus_work *work) {
    char path[PATH_MAX];
    int error, length = addon_text(env, text, path, sizeof path);
    if (length < 0)
        return -EINVAL;
    struct bus_job *job = bus_take(env, bus, size + (size_t)length + 1, &error);
    if (job == NULL)
        return error;
    memcpy(job->bytes + size, path, (size_t)length + 1);
    if (content != NULL)
        memcpy(job->bytes, content, size);
    job->answer_length = size;
    return bus_queue(env, bus, job, work);
}

/* fileRead(bus, path, size) → job; its answer is the file's first `size` bytes, its result their number */
static int64_t file_read(napi_env env, napi_value *args) {
    int32_t size;
    if (!addon_number(env, args[2], &size) || size < 0)
        return -EINVAL;
    return path_job(env, args[0], args[1], NULL, (size_t)size, read_file);
}

/* fileWrite(bus, path, text) → job that writes the text, at most 255 bytes, in one call; its result is the number of
 * bytes written */
static int64_t file_write(napi_env env, napi_value *args) {
    char content[256];
    int length = addon_text(env, args[2], content, sizeof content);
    return length < 0 ? -EINVAL : path_job(env, args[0], args[1], content, (size_t)length, write_file);
}

/* fileSpace(bus, path) → job; its answer is four doubles: device number, total bytes, free, and free for users */
static int64_t file_space(napi_env env, napi_value *args) {
    return path_job(env, args[0], args[1], NULL, SPACE * sizeof(double), read_space);
}

void addon_file(napi_env env, napi_value exports) {
    addon_export(env, exports, "fileRead", file_read);
    addon_export(env, exports, "fileWrite", file_write);
    addon_export(env, exports, "fileSpace", file_space);
}
