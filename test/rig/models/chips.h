/*
 * The chips of an I2C bus, for the programs that play its adapter: sht3x (at 0x44), ads1115 (0x48), ina219 (0x40), with their values as
 * numbers separated by commas.
 *   sht3x=23.5,41          °C and % of humidity
 *   ads1115=0.5,1,2.5,3.3  V at A0 to A3
 *   ina219=12,0.8          V of the bus and A through 0.1 Ω
 */
#pragma once
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
