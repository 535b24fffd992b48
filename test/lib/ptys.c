/*
 * Pseudo-terminals for tests. Commands on standard input, events on standard output, both as [op u8][id u8][length u16][bytes]:
 *   o id path   creates a pseudo-terminal and a link to it at path; answered by o id name
 *   c id        closes it, like unplugging; answered by c id
 *   w id bytes  bytes for its user to read
 *   d id bytes  (event) bytes its user wrote
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { PORTS = 64 };
static struct {
    int master, slave;
    char link[256];
} ports[PORTS];

static void all(int fd, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            /* a port without a reader loses excess bytes, as a wire does */
            if (poll(&wait, 1, 2000) == 0) return;
            continue;
        }
        if (n < 0) return;
        bytes += n;
        length -= (size_t)n;
    }
}

static void tell(char op, int id, const void *bytes, size_t length) {
    uint8_t head[4] = {(uint8_t)op, (uint8_t)id, (uint8_t)(length >> 8), (uint8_t)length};
    all(1, head, 4);
    all(1, bytes, length);
}

static void shut(int id) {
    if (ports[id].master < 0) return;
    unlink(ports[id].link);
    close(ports[id].master);
    close(ports[id].slave);
    ports[id].master = -1;
}

static void make(int id, const char *path) {
    char name[128];
    struct termios raw;
    shut(id);
    if (openpty(&ports[id].master, &ports[id].slave, name, NULL, NULL) < 0) exit(3);
    tcgetattr(ports[id].slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(ports[id].slave, TCSANOW, &raw);
    fcntl(ports[id].master, F_SETFL, O_NONBLOCK);
    snprintf(ports[id].link, sizeof ports[id].link, "%s", path);
    unlink(path);
    if (symlink(name, path) < 0) exit(4);
    tell('o', id, name, strlen(name));
}

static int whole(uint8_t *into, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t n = read(0, into + got, length - got);
        if (n <= 0) return 0;
        got += (size_t)n;
    }
    return 1;
}

int main(void) {
    static uint8_t bytes[65536];
    for (int k = 0; k < PORTS; k++) ports[k].master = -1;
    for (;;) {
        struct pollfd wait[PORTS + 1] = {{.fd = 0, .events = POLLIN}};
        for (int k = 0; k < PORTS; k++) wait[k + 1] = (struct pollfd){.fd = ports[k].master, .events = POLLIN};
        if (poll(wait, PORTS + 1, -1) < 0) continue;
        for (int k = 0; k < PORTS; k++) {
            if (!(wait[k + 1].revents & POLLIN)) continue;
            ssize_t n = read(ports[k].master, bytes, 4096);
            if (n > 0) tell('d', k, bytes, (size_t)n);
        }
        if (!wait[0].revents) continue;
        uint8_t head[4];
        if (!whole(head, 4)) break;
        size_t length = (size_t)head[2] << 8 | head[3];
        if (head[1] >= PORTS || !whole(bytes, length)) break;
        if (head[0] == 'w' && ports[head[1]].master >= 0) all(ports[head[1]].master, bytes, length);
        if (head[0] == 'o') {
            bytes[length] = 0;
            make(head[1], (char *)bytes);
        }
        if (head[0] == 'c') {
            shut(head[1]);
            tell('c', head[1], "", 0);
        }
    }
    for (int k = 0; k < PORTS; k++) shut(k);
    return 0;
}
