/*
 * cp2112 PINS CHIP[=VALUES] …: a CP2112 (USB to I2C and eight GPIO lines) for a kernel that has no simulated buses of its own. Its
 * driver hid-cp2112 makes an I2C adapter with the chips (chips.h, ds2482.h) and a GPIO chip "cp2112_gpio", whose lines lie in the
 * folder PINS as the kernel's gpio-sim shows its own: sim_gpioN/pull is the level from outside ("pull-up", "pull-down"),
 * sim_gpioN/value the level at the pin. Reports as in Silicon Labs' AN495, by /dev/uhid. The driver waits 50 ms for an answer: on the one
 * processor of the machine this program runs before all others.
 */
#define _GNU_SOURCE
#include "ds2482.h"

#include <fcntl.h>
#include <linux/uhid.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES = 8, MOST = 61, REPORT = 64 };
enum { GPIO_CONFIG = 2, GPIO_GET = 3, GPIO_SET = 4, VERSION = 5, READ = 0x10, WRITE_READ = 0x11, SEND = 0x12, ANSWER_DATA = 0x13 };
enum { WRITE = 0x14, STATUS_REQUEST = 0x15, STATUS_ANSWER = 0x16, NOT_ACKNOWLEDGED = 3, COMPLETE = 2 };

/* two reports of the maker's own that go to the machine, each of 63 bytes */
static const uint8_t descriptor[] = {0x06, 0x00, 0xff, 0x09, 0x01, 0xa1, 0x01, 0x15, 0x00, 0x26, 0xff, 0x00, 0x75, 0x08, 0x95, 0x3f, 0x85,
                                     ANSWER_DATA, 0x09, 0x01, 0x81, 0x02, 0x85, STATUS_ANSWER, 0x09, 0x02, 0x81, 0x02, 0xc0};

static int device;
static const char *pins;
static uint8_t outputs, latch, pulls;
static uint8_t answer[512];
static unsigned answered, sent;
static int failed;

static void send_event(struct uhid_event *event) {
    if (write(device, event, sizeof *event) < 0)
        exit(1);
}

static void input(const uint8_t *report) {
    struct uhid_event event = {.type = UHID_INPUT2, .u.input2.size = REPORT};
    memcpy(event.u.input2.data, report, REPORT);
    send_event(&event);
}

static int open_pin(int line, const char *what, int flags) {
    char path[128];
    snprintf(path, sizeof path, "%s/sim_gpio%d/%s", pins, line, what);
    return open(path, flags, 0644);
}

/* A file that is being written keeps the level of before. */
static uint8_t levels(void) {
    for (int line = 0; line < LINES; line++) {
        char text[8] = "";
        int file = open_pin(line, "pull", O_RDONLY);
        if (read(file, text, 6) == 6)
            pulls = (uint8_t)(text[5] == 'u' ? pulls | 1 << line : pulls & ~(1 << line));
        close(file);
    }
    return (uint8_t)((pulls & ~outputs) | (latch & outputs));
}

static void show(void) {
    const uint8_t all = levels();
    for (int line = 0; line < LINES; line++) {
        int file = open_pin(line, "value", O_WRONLY | O_CREAT);
        if (write(file, all >> line & 1 ? "1\n" : "0\n", 2) != 2)
            exit(1);
        close(file);
    }
}

/* One transfer: `length` bytes to the chip, then `want` from it. */
static void transfer(uint8_t address, const uint8_t *bytes, unsigned length, unsigned want) {
    struct chip *chip = chip_at(address >> 1);
    answered = sent = 0;
    failed = chip == NULL || (length > 0 && chip->put(chip, bytes, length) != 0) ||
             (want > 0 && (want > sizeof answer || chip->get(chip, answer, want) != 0));
    if (!failed)
        answered = want;
}

static void output(const uint8_t *report) {
    uint8_t reply[REPORT] = {0};
    switch (report[0]) {
    case READ:
        transfer(report[1], NULL, 0, (unsigned)report[2] << 8 | report[3]);
        return;
    case WRITE_READ:
        transfer(report[1], report + 5, report[4], (unsigned)report[2] << 8 | report[3]);
        return;
    case WRITE:
        transfer(report[1], report + 3, report[2], 0);
        return;
    case STATUS_REQUEST:
        reply[0] = STATUS_ANSWER;
        reply[1] = failed ? NOT_ACKNOWLEDGED : COMPLETE;
        reply[5] = (uint8_t)(answered >> 8);
        reply[6] = (uint8_t)answered;
        break;
    case SEND:
        reply[0] = ANSWER_DATA;
        reply[1] = COMPLETE;
        reply[2] = (uint8_t)(answered - sent < MOST ? answered - sent : MOST);
        memcpy(reply + 3, answer + sent, reply[2]);
        sent += reply[2];
        break;
    default:
        return;
    }
    input(reply);
}

static void get_report(const struct uhid_event *asked) {
    struct uhid_event event = {.type = UHID_GET_REPORT_REPLY, .u.get_report_reply.id = asked->u.get_report.id};
    uint8_t *data = event.u.get_report_reply.data;
    uint16_t size = 14; /* the SMBus configuration */
    data[0] = asked->u.get_report.rnum;
    if (data[0] == GPIO_CONFIG) {
        size = 5;
        data[1] = outputs;
    } else if (data[0] == GPIO_GET) {
        size = 2;
        data[1] = levels();
    } else if (data[0] == VERSION) {
        size = 3;
        data[1] = 0x0c;
        data[2] = 2;
    } else if (data[0] == 0x20)
        size = 2;
    event.u.get_report_reply.size = size;
    send_event(&event);
}

static void set_report(const struct uhid_event *asked) {
    struct uhid_event event = {.type = UHID_SET_REPORT_REPLY, .u.set_report_reply.id = asked->u.set_report.id};
    const uint8_t *data = asked->u.set_report.data;
    if (data[0] == GPIO_CONFIG)
        outputs = data[1];
    else if (data[0] == GPIO_SET)
        latch = (uint8_t)((latch & ~data[2]) | (data[1] & data[2]));
    show();
    send_event(&event);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    pins = argv[1];
    for (int k = 2; k < argc; k++) {
        if (strncmp(argv[k], "ds2482=", 7) == 0 && count < CHIPS)
            chips[count++] = (struct chip){.address = 0x18, .put = ds2482_put, .get = ds2482_get, .values = {atof(argv[k] + 7)}};
        else if (!add(argv[k]))
            return 2;
    }
    mkdir(pins, 0755);
    for (int line = 0; line < LINES; line++) {
        char path[128];
        snprintf(path, sizeof path, "%s/sim_gpio%d", pins, line);
        mkdir(path, 0755);
        int file = open_pin(line, "pull", O_WRONLY | O_CREAT);
        if (write(file, "pull-down", 9) != 9)
            return 1;
        close(file);
    }
    show();
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 50});
    device = open("/dev/uhid", O_RDWR | O_CLOEXEC);
    struct uhid_event event = {.type = UHID_CREATE2};
    struct uhid_create2_req *create = &event.u.create2;
    strcpy((char *)create->name, "CP2112");
    create->bus = 3; /* USB */
    create->vendor = 0x10c4;
    create->product = 0xea90;
    create->rd_size = sizeof descriptor;
    memcpy(create->rd_data, descriptor, sizeof descriptor);
    send_event(&event);
    while (read(device, &event, sizeof event) > 0)
        if (event.type == UHID_OUTPUT)
            output(event.u.output.data);
        else if (event.type == UHID_GET_REPORT)
            get_report(&event);
        else if (event.type == UHID_SET_REPORT)
            set_report(&event);
    return 1;
}
