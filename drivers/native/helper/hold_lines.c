/* hold-lines: keeps GPIO lines at their level while no gateway has them, where the kernel would let go of them.
 * systemd starts it at the first connection to /run/os-node-lines, and passes that listening packet socket as
 * descriptor 3. Each connection sends one packet of one byte: 'k' with a descriptor, which is kept open; 'f' to close
 * all of them; '?' for whether there are any. The answer is four bytes: 0 or the system's error, for '?' ENOENT when
 * there are none. It ends when it keeps none, and starts with the next connection. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { LISTENING = 3, LINES = 256 };

static int kept[LINES], lines;

/* Reads a request: its byte, and its descriptor or -1. Returns 0, or the error. */
static int read_request(int connection, char *request, int *fd) {
    const struct timeval timeout = {1, 0};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    struct iovec part = {request, 1};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof *fd)];
    } control;
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t bytes = recvmsg(connection, &packet, MSG_CMSG_CLOEXEC);
    *fd = -1;
    if (bytes < 0)
        return errno;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(head), sizeof *fd);
    return bytes == 1 ? 0 : EINVAL;
}

static int answer_to(char request, int fd) {
    if (request == 'k' && fd >= 0 && lines < LINES) {
        kept[lines++] = fd;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    if (request == 'f')
        while (lines > 0)
            close(kept[--lines]);
    return request == 'f' ? 0 : request == '?' ? (lines > 0 ? 0 : ENOENT) : request == 'k' && fd >= 0 ? EMFILE : EINVAL;
}

int main(void) {
    do {
        char request = 0;
        int fd, connection = accept4(LISTENING, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0 && errno != ECONNABORTED && errno != EINTR)
            return 1;
        int error = read_request(connection, &request, &fd);
        int32_t answer = answer_to(error ? 0 : request, fd);
        if (error)
            answer = error;
        send(connection, &answer, sizeof answer, MSG_NOSIGNAL);
        close(connection);
    } while (lines > 0);
    return 0;
}
