/*
 * A program on a separate terminal, for tests: tty COLUMNS ROWS PROGRAM ARGUMENT... Commands on standard input, events on
 * standard output, both as [op u8][length u16][bytes]:
 *   w bytes            keys
 *   r columns rows     (u16 each) the terminal gets another size
 *   k signal           (u8) a signal to the program
 *   h                  hangs up, as a lost connection does
 *   m                  queries the line settings; answered by m flags (1 lines, 2 echo, 4 signals)
 *   d bytes            (event) output of the program
 *   x code signal      (event) the program has exited
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <utmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static int master = -1, slave = -1;

static void all(int fd, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        bytes += n;
        length -= (size_t)n;
    }
}

static void tell(char op, const void *bytes, size_t length) {
    uint8_t head[3] = {(uint8_t)op, (uint8_t)(length >> 8), (uint8_t)length};
    all(1, head, 3);
    all(1, bytes, length);
}

static void size(uint16_t columns, uint16_t rows) {
    struct winsize to = {.ws_col = columns, .ws_row = rows};
    ioctl(master, TIOCSWINSZ, &to);
}

static int full(uint8_t *into, size_t length) {
    size_t have = 0;
    while (have < length) {
        ssize_t n = read(0, into + have, length - have);
        if (n <= 0) return 0;
        have += (size_t)n;
    }
    return 1;
}

/* one command; 0 at the end of input */
static int command(pid_t child) {
    static uint8_t bytes[65536];
    uint8_t head[3];
    if (!full(head, 3)) return 0;
    size_t length = (size_t)(head[1] << 8 | head[2]);
    if (!full(bytes, length)) return 0;
    switch (head[0]) {
    case 'w':
        all(master, bytes, length);
        break;
    case 'r':
        size((uint16_t)(bytes[0] << 8 | bytes[1]), (uint16_t)(bytes[2] << 8 | bytes[3]));
        break;
    case 'k':
        kill(child, bytes[0]);
        break;
    case 'h':
        close(master);
        master = -1;
        break;
    case 'm': {
        struct termios now;
        uint8_t flags = 0;
        if (tcgetattr(slave, &now) == 0)
            flags = (uint8_t)((now.c_lflag & ICANON ? 1 : 0) | (now.c_lflag & ECHO ? 2 : 0) | (now.c_lflag & ISIG ? 4 : 0));
        tell('m', &flags, 1);
        break;
    }
    }
    return 1;
}

static void drain(void) {
    static uint8_t bytes[32768];
    ssize_t n;
    while (master >= 0 && (n = read(master, bytes, sizeof bytes)) > 0) tell('d', bytes, (size_t)n);
}

int main(int argc, char **argv) {
    if (argc < 4 || openpty(&master, &slave, NULL, NULL, NULL) < 0) return 3;
    size((uint16_t)atoi(argv[1]), (uint16_t)atoi(argv[2]));
    pid_t child = fork();
    if (child == 0) {
        close(master);
        login_tty(slave);
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    fcntl(master, F_SETFL, O_NONBLOCK);
    for (int ended = 0;;) {
        struct pollfd wait[2] = {{.fd = 0, .events = POLLIN}, {.fd = master, .events = POLLIN}};
        poll(wait, 2, ended ? -1 : 20);
        drain();
        int status;
        if (!ended && waitpid(child, &status, WNOHANG) == child) {
            ended = 1;
            drain();
            uint8_t how[2] = {WIFEXITED(status) ? (uint8_t)WEXITSTATUS(status) : 0,
                              WIFSIGNALED(status) ? (uint8_t)WTERMSIG(status) : 0};
            tell('x', how, 2);
        }
        if ((wait[0].revents & (POLLIN | POLLHUP)) && !command(child)) break;
    }
    kill(child, SIGKILL);
    return 0;
}
