/*
 * Receives the datagrams that are sent to an AF_UNIX socket: unix-socket PATH (@NAME: in the abstract name space). Writes each to
 * standard output as [time u64][length u16][bytes], big-endian; the time is CLOCK_MONOTONIC in µs. The first one is empty: the
 * socket is bound.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 10, MOST = 65535 };

int main(int argc, char **argv) {
    static uint8_t out[HEAD + MOST];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 2 || strlen(argv[1]) >= sizeof at.sun_path) return 2;
    size_t name = strlen(argv[1]);
    memcpy(at.sun_path, argv[1], name);
    /* an abstract name ends at its length, a path at its NUL */
    if (at.sun_path[0] == '@') at.sun_path[0] = '\0';
    else name++;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name)) < 0) {
        perror(argv[1]);
        return 3;
    }
    for (ssize_t length = 0; length >= 0; length = recv(fd, out + HEAD, MOST, 0)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        for (int k = 0; k < 8; k++) out[k] = (uint8_t)(us >> (56 - 8 * k));
        out[8] = (uint8_t)(length >> 8);
        out[9] = (uint8_t)length;
        for (ssize_t sent = 0, total = HEAD + length; sent < total;) {
            ssize_t n = write(1, out + sent, (size_t)(total - sent));
            if (n < 0) return 4;
            sent += n;
        }
    }
    return 5;
}
