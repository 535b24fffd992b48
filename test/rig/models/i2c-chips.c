/*
 * i2c-chips NAME FAULT CHIP[=VALUES] …: an adapter behind /dev/NAME, which speaks the kernel's i2c-dev interface, and the chips
 * on it: sht3x (at 0x44), ads1115 (0x48), ina219 (0x40), with their values as numbers separated by commas.
 *   sht3x=23.5,41          °C and % of humidity
 *   ads1115=0.5,1,2.5,3.3  V at A0 to A3
 *   ina219=12,0.8          V of the bus and A through 0.1 Ω
 * While the file FAULT exists no transfer ends; with a number in it every transfer fails with that errno immediately.
 * Made with CUSE: gcc -o i2c-chips i2c-chips.c $(pkg-config --cflags --libs fuse3) -lm
 */
#define FUSE_USE_VERSION 35
#define _GNU_SOURCE
#include <fuse3/cuse_lowlevel.h>

#include <errno.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHIPS = 4, REGISTERS = 8, ANSWER = 6 };

struct chip {
    /* the written bytes: the number of a register or a command, and its data. 0, or the errno of a byte not acknowledged */
    int (*put)(struct chip *self, const uint8_t *bytes, unsigned length);
    int (*get)(struct chip *self, uint8_t *bytes, unsigned length);
    uint16_t address;
    double values[4];
    uint16_t registers[REGISTERS];
    unsigned at;            /* the register to read next */
    uint8_t answer[ANSWER]; /* sht3x: the bytes to read next */
    unsigned answers;
    double ready; /* when the running measurement is done */
};

static struct chip chips[CHIPS];
static unsigned count;
static const char *fault;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Two bytes and their CRC-8 (polynomial 0x31, from 0xff). */
static void sht3x_word(struct chip *self, double value) {
    uint16_t word = (uint16_t)lround(fmin(fmax(value, 0), 65535));
    uint8_t *to = self->answer + self->answers, crc = 0xff;
    to[0] = (uint8_t)(word >> 8);
    to[1] = (uint8_t)word;
    for (int k = 0; k < 2; k++) {
        crc ^= to[k];
        for (int bit = 0; bit < 8; bit++)
            crc = (uint8_t)(crc & 0x80 ? crc << 1 ^ 0x31 : crc << 1);
    }
    to[2] = crc;
    self->answers += 3;
}

static int sht3x_put(struct chip *self, const uint8_t *bytes, unsigned length) {
    unsigned command = length == 2 ? (unsigned)bytes[0] << 8 | bytes[1] : 0;
    self->answers = 0;
    self->ready = 0;
    if (command == 0x3093) /* break */
        return 0;
    if (command == 0xf32d) /* status */
        sht3x_word(self, 0x8010);
    else if (command == 0x2400 || command == 0x240b || command == 0x2416) {
        self->ready = now() + (command == 0x2400 ? 0.0125 : command == 0x240b ? 0.0045 : 0.0025);
        sht3x_word(self, (self->values[0] + 45) / 175 * 65535);
        sht3x_word(self, self->values[1] / 100 * 65535);
    } else
        return EREMOTEIO;
    return 0;
}

/* Without clock stretching the chip does not answer to its address while it measures. */
static int sht3x_get(struct chip *self, uint8_t *bytes, unsigned length) {
    if (self->answers == 0 || now() < self->ready)
        return EREMOTEIO;
    memset(bytes, 0xff, length);
    memcpy(bytes, self->answer, length < self->answers ? length : self->answers);
    self->answers = 0;
    return 0;
}

/* Both other chips: registers of two bytes, the high one first. */
static int register_put(struct chip *self, const uint8_t *bytes, unsigned length) {
    if (length == 0)
        return 0;
    self->at = bytes[0] % REGISTERS;
    if (length == 3)
        self->registers[self->at] = (uint16_t)(bytes[1] << 8 | bytes[2]);
    return 0;
}

static int register_get(struct chip *self, uint8_t *bytes, unsigned length) {
    for (unsigned k = 0; k < length; k++)
        bytes[k] = (uint8_t)(k % 2 == 0 ? self->registers[self->at] >> 8 : self->registers[self->at]);
    return 0;
}

/* Writing the config word with bit 15 starts a conversion; it reads 0 until that is done. */
static int ads1115_put(struct chip *self, const uint8_t *bytes, unsigned length) {
    static const int plus[] = {0, 0, 1, 2, 0, 1, 2, 3}, minus[] = {1, 3, 3, 3, -1, -1, -1, -1};
    static const int rates[] = {8, 16, 32, 64, 128, 250, 475, 860};
    static const double ranges[] = {6.144, 4.096, 2.048, 1.024, 0.512, 0.256, 0.256, 0.256};
    register_put(self, bytes, length);
    if (length != 3 || self->at != 1 || (bytes[1] & 0x80) == 0)
        return 0;
    unsigned config = self->registers[1], mux = config >> 12 & 7;
    double volts = self->values[plus[mux]] - (minus[mux] < 0 ? 0 : self->values[minus[mux]]);
    double steps = volts / ranges[config >> 9 & 7] * 32768;
    self->registers[0] = (uint16_t)(int16_t)lround(fmin(fmax(steps, -32768), 32767));
    self->registers[1] = config & 0x7fff;
    self->ready = now() + 1.0 / rates[config >> 5 & 7];
    return 0;
}

static int ads1115_get(struct chip *self, uint8_t *bytes, unsigned length) {
    if (now() >= self->ready)
        self->registers[1] |= 0x8000;
    return register_get(self, bytes, length);
}

/* The chip computes current and power from the shunt's voltage and its calibration register (8.5.1). */
static int ina219_get(struct chip *self, uint8_t *bytes, unsigned length) {
    uint16_t *registers = self->registers;
    int shunt = (int)lround(self->values[1] * 0.1 * 1e5), volts = (int)lround(self->values[0] * 250);
    int current = shunt * registers[5] / 4096;
    registers[1] = (uint16_t)shunt;
    registers[2] = (uint16_t)(volts << 3 | 2);
    registers[3] = (uint16_t)(current * volts / 5000);
    registers[4] = (uint16_t)current;
    return register_get(self, bytes, length);
}

/* One chip of the command line; false if it is unknown. */
static bool add(char *text) {
    static const struct {
        const char *name;
        struct chip chip;
    } known[] = {{"sht3x", {.address = 0x44, .put = sht3x_put, .get = sht3x_get}},
                 {"ads1115", {.address = 0x48, .put = ads1115_put, .get = ads1115_get, .registers = {0, 0x8583, 0x8000}}},
                 {"ina219", {.address = 0x40, .put = register_put, .get = ina219_get, .registers = {0x399f}}}};
    const char *name = strtok(text, "=");
    for (unsigned k = 0; name != NULL && count < CHIPS && k < sizeof known / sizeof *known; k++) {
        if (strcmp(name, known[k].name) != 0)
            continue;
        struct chip *chip = &chips[count++];
        *chip = known[k].chip;
        for (unsigned v = 0; v < 4 && (name = strtok(NULL, ",")) != NULL; v++)
            chip->values[v] = atof(name);
        return true;
    }
    return false;
}

static struct chip *chip_at(uint16_t address) {
    for (unsigned k = 0; k < count; k++)
        if (chips[k].address == address)
            return &chips[k];
    return NULL;
}

/* Waits while the bus is stuck; returns the errno to fail with, or 0. */
static int faulty(void) {
    for (FILE *file; (file = fopen(fault, "r")) != NULL;) {
        int number = 0, found = fscanf(file, "%d", &number);
        fclose(file);
        if (found == 1)
            return number;
        usleep(2000);
    }
    return 0;
}

static void adapter_open(fuse_req_t request, struct fuse_file_info *file) {
    fuse_reply_open(request, file);
}

/* I2C_RDWR. The kernel copies what we request: first the call, then its messages, then the bytes they point to. */
static void transfer(fuse_req_t request, void *argument, const uint8_t *in, size_t in_size, size_t out_size) {
    struct iovec from[2 + I2C_RDWR_IOCTL_MAX_MSGS], to[I2C_RDWR_IOCTL_MAX_MSGS];
    const struct i2c_rdwr_ioctl_data *call = (const void *)in;
    const struct i2c_msg *messages = (const void *)(in + sizeof *call);
    size_t want = sizeof *call, give = 0, sources = 1, sinks = 0;
    from[0] = (struct iovec){argument, sizeof *call};
    if (in_size < want)
        return (void)fuse_reply_ioctl_retry(request, from, 1, NULL, 0);
    if (call->nmsgs == 0 || call->nmsgs > I2C_RDWR_IOCTL_MAX_MSGS)
        return (void)fuse_reply_err(request, EINVAL);
    from[sources++] = (struct iovec){call->msgs, call->nmsgs * sizeof *messages};
    want += call->nmsgs * sizeof *messages;
    if (in_size < want)
        return (void)fuse_reply_ioctl_retry(request, from, sources, NULL, 0);
    const uint8_t *bytes = in + want;
    for (unsigned k = 0; k < call->nmsgs; k++) {
        struct iovec part = {messages[k].buf, messages[k].len};
        bool reads = (messages[k].flags & I2C_M_RD) != 0;
        want += reads ? 0 : part.iov_len;
        give += reads ? part.iov_len : 0;
        if (part.iov_len > 0)
            *(reads ? &to[sinks++] : &from[sources++]) = part;
    }
    if (in_size < want || out_size < give)
        return (void)fuse_reply_ioctl_retry(request, from, sources, to, sinks);
    uint8_t *answer = calloc(1, give + 1), *next = answer;
    int error = faulty();
    for (unsigned k = 0; k < call->nmsgs && error == 0; k++) {
        struct chip *chip = chip_at(messages[k].addr);
        bool reads = (messages[k].flags & I2C_M_RD) != 0;
        if (chip == NULL)
            error = EREMOTEIO;
        else
            error = reads ? chip->get(chip, next, messages[k].len) : chip->put(chip, bytes, messages[k].len);
        if (reads)
            next += messages[k].len;
        else
            bytes += messages[k].len;
    }
    if (error != 0)
        fuse_reply_err(request, error);
    else
        fuse_reply_ioctl(request, (int)call->nmsgs, answer, give);
    free(answer);
}

static void adapter_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *file, unsigned flags,
                          const void *in, size_t in_size, size_t out_size) {
    unsigned long functions = I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
    struct iovec word = {argument, sizeof functions};
    (void)file;
    (void)flags;
    if (command == I2C_RDWR)
        transfer(request, argument, in, in_size, out_size);
    else if (command != I2C_FUNCS)
        fuse_reply_err(request, ENOTTY);
    else if (out_size < sizeof functions)
        fuse_reply_ioctl_retry(request, NULL, 0, &word, 1);
    else
        fuse_reply_ioctl(request, 0, &functions, sizeof functions);
}

int main(int argc, char **argv) {
    static const struct cuse_lowlevel_ops adapter = {.open = adapter_open, .ioctl = adapter_ioctl};
    char name[80];
    if (argc < 3)
        return 2;
    fault = argv[2];
    for (int k = 3; k < argc; k++)
        if (!add(argv[k]))
            return 2;
    snprintf(name, sizeof name, "DEVNAME=%s", argv[1]);
    const char *info[] = {name};
    struct cuse_info device = {.dev_info_argc = 1, .dev_info_argv = info, .flags = CUSE_UNRESTRICTED_IOCTL};
    char *fuse[] = {argv[0], "-f", "-s", NULL};
    return cuse_lowlevel_main(3, fuse, &device, &adapter, NULL);
}
