/*
 * hci-uart DATA: a Bluetooth adapter on a serial line (H4), for a kernel without virtual ones: hci_uart makes hci0 of it, which this program
 * switches on. A controller of Bluetooth LE only, that while it scans hears one device, 00:aa:01:01:00:01, five times a second: DATA in
 * hex, with the number of the report in its last four bytes, low byte first.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum { COMMAND = 1, EVENT = 4, PERIOD_MS = 200, BTPROTO_HCI = 1, H4 = 0 };
#define SET_PROTOCOL _IOW('U', 200, int)
#define DEVICE_UP _IOW('H', 201, int)

static int line;
static uint8_t data[31];
static unsigned length;
static int scans;

static void send_event(uint8_t code, const uint8_t *bytes, unsigned size) {
    uint8_t packet[260] = {EVENT, code, (uint8_t)size};
    memcpy(packet + 3, bytes, size);
    if (write(line, packet, size + 3) != (ssize_t)size + 3)
        exit(1);
}

/* What a command answers after its status; the others answer zeros. */
static const struct {
    uint16_t opcode;
    uint8_t size, bytes[8];
} answers[] = {
    {0x1001, 8, {9, 0, 0, 9, 0xff, 0xff, 0, 0}}, /* version 5.0, no maker */
    {0x1002, 64, {0}},                           /* commands: none but the necessary */
    {0x1003, 8, {0, 0, 0, 0, 0x60, 0, 0, 0}},    /* features: LE, no BR/EDR */
    {0x1005, 7, {0xfd, 0x03, 0, 8, 0, 0, 0}},    /* buffers */
    {0x1009, 6, {0, 0, 0, 1, 0xaa, 0}},          /* address */
    {0x2002, 3, {251, 0, 8}},                    /* buffers of LE */
};

static void command(const uint8_t *packet) {
    const uint16_t opcode = (uint16_t)(packet[1] | packet[2] << 8);
    uint8_t reply[80] = {1, packet[1], packet[2], 0};
    unsigned size = 8;
    for (unsigned k = 0; k < sizeof answers / sizeof *answers; k++)
        if (answers[k].opcode == opcode) {
            size = answers[k].size;
            memcpy(reply + 4, answers[k].bytes, 8);
        }
    if (opcode == 0x200c)
        scans = packet[4];
    send_event(0x0e, reply, 4 + size);
}

static void report(void) {
    static uint32_t number;
    uint8_t event[64] = {0x02, 1, 3, 0, 1, 0, 1, 1, 0xaa, 0, (uint8_t)length};
    number++;
    for (int k = 0; k < 4; k++)
        data[length - 4 + (unsigned)k] = (uint8_t)(number >> 8 * k);
    memcpy(event + 11, data, length);
    event[11 + length] = (uint8_t)-60;
    send_event(0x3e, event, 12 + length);
}

int main(int argc, char **argv) {
    uint8_t heard[600];
    unsigned have = 0;
    int discipline = 15; /* N_HCI */
    struct termios raw;
    for (const char *hex = argc > 1 ? argv[1] : ""; length < sizeof data && sscanf(hex, "%2hhx", &data[length]) == 1; hex += 2)
        length++;
    line = posix_openpt(O_RDWR | O_NOCTTY);
    if (length < 4 || line < 0 || grantpt(line) != 0 || unlockpt(line) != 0)
        return 2;
    int port = open(ptsname(line), O_RDWR | O_NOCTTY);
    tcgetattr(port, &raw);
    cfmakeraw(&raw);
    tcsetattr(port, TCSANOW, &raw);
    if (ioctl(port, TIOCSETD, &discipline) != 0 || ioctl(port, SET_PROTOCOL, H4) != 0) {
        perror("hci_uart");
        return 1;
    }
    if (fork() == 0) {
        int socket_ = socket(AF_BLUETOOTH, SOCK_RAW, BTPROTO_HCI);
        /* EALREADY: the kernel itself has begun */
        while (ioctl(socket_, DEVICE_UP, 0) != 0 && usleep(100000) == 0)
            ;
        _exit(0);
    }
    for (;;) {
        struct pollfd ready = {line, POLLIN, 0};
        if (poll(&ready, 1, scans ? PERIOD_MS : -1) == 0)
            report();
        if ((ready.revents & POLLIN) == 0)
            continue;
        ssize_t got = read(line, heard + have, sizeof heard - have);
        if (got <= 0)
            return 1;
        have += (unsigned)got;
        while (have >= 4 && heard[0] == COMMAND && have >= 4u + heard[3]) {
            const unsigned size = 4u + heard[3];
            command(heard);
            memmove(heard, heard + size, have -= size);
        }
        if (have > 0 && heard[0] != COMMAND)
            have = 0; /* data of a connection: there is none */
    }
}
