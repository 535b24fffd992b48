/*
 * A DS2482-100 (I2C to 1-Wire) as a chip of chips.h, with one DS18B20 on its wire: ds2482=21.5, in °C.
 */
#pragma once
#include "chips.h"

enum { STATUS = 0xf0, DATA = 0xe1, CONFIG = 0xc3, PRESENT = 0x02, LEVEL_HIGH = 0x08, WAS_RESET = 0x10 };

/* family 28, serial number 0316a2795fff with the low byte first, CRC */
static uint8_t thermometer[8] = {0x28, 0xff, 0x5f, 0x79, 0xa2, 0x16, 0x03};

static struct {
    uint8_t status, data, config, pointer;
    /* of the thermometer: the command it obeys, the bit of the search or the byte of its answer that is next */
    uint8_t obeys;
    unsigned next;
    uint8_t scratchpad[9];
} wire = {.status = WAS_RESET | LEVEL_HIGH, .pointer = STATUS};

/* CRC-8 of 1-Wire (polynomial 0x31, low bit first). */
static uint8_t wire_crc(const uint8_t *bytes, unsigned length) {
    uint8_t crc = 0;
    for (unsigned k = 0; k < length; k++) {
        crc ^= bytes[k];
        for (int bit = 0; bit < 8; bit++)
            crc = (uint8_t)(crc & 1 ? crc >> 1 ^ 0x8c : crc >> 1);
    }
    return crc;
}

static void wire_write(double celsius, uint8_t byte) {
    if (byte == 0x33)
        thermometer[7] = wire_crc(thermometer, 7);
    if (byte == 0xbe) {
        int16_t sixteenths = (int16_t)lround(celsius * 16);
        const uint8_t content[] = {(uint8_t)sixteenths, (uint8_t)(sixteenths >> 8), 0x4b, 0x46, 0x7f, 0xff, 0x0c, 0x10};
        memcpy(wire.scratchpad, content, sizeof content);
        wire.scratchpad[8] = wire_crc(content, sizeof content);
    }
    /* match ROM: its eight bytes are no commands */
    if (wire.obeys == 0x55 && wire.next < sizeof thermometer) {
        wire.next++;
        return;
    }
    wire.obeys = byte;
    wire.next = 0;
}

static uint8_t wire_read(void) {
    if (wire.obeys == 0x33 && wire.next < sizeof thermometer)
        return thermometer[wire.next++];
    if (wire.obeys == 0xbe && wire.next < sizeof wire.scratchpad)
        return wire.scratchpad[wire.next++];
    return 0xff; /* also: it has power of its own, and has converted */
}

/* One step of a search: the thermometer's bit, its complement, and the direction that is taken. */
static uint8_t triplet(void) {
    thermometer[7] = wire_crc(thermometer, 7);
    if (wire.obeys != 0xf0 || wire.next >= 64)
        return 0xe0;
    unsigned bit = thermometer[wire.next / 8] >> wire.next % 8 & 1;
    wire.next++;
    return (uint8_t)(bit ? 0xa0 : 0x40);
}

static int ds2482_put(struct chip *self, const uint8_t *bytes, unsigned length) {
    const uint8_t argument = length > 1 ? bytes[1] : 0;
    wire.pointer = STATUS;
    wire.status = (uint8_t)(wire.status & 0x1f);
    switch (length > 0 ? bytes[0] : 0) {
    case 0xf0: /* reset of the bridge */
        wire.status = WAS_RESET | LEVEL_HIGH;
        wire.config = 0;
        return 0;
    case 0xe1: /* read pointer */
        wire.pointer = argument;
        return 0;
    case 0xd2: /* configuration */
        wire.config = argument & 0x0f;
        wire.status = (uint8_t)(wire.status & ~WAS_RESET);
        wire.pointer = CONFIG;
        return 0;
    case 0xb4: /* reset of the wire */
        wire.obeys = 0;
        wire.status |= PRESENT;
        return 0;
    case 0x87: /* one bit: a slot to read gives 1 */
        wire.status |= argument & 0x80 ? 0x20 : 0;
        return 0;
    case 0x78:
        wire.status |= triplet();
        return 0;
    case 0xa5:
        wire_write(self->values[0], argument);
        return 0;
    case 0x96:
        wire.data = wire_read();
        return 0;
    default:
        return EREMOTEIO;
    }
}

static int ds2482_get(struct chip *self, uint8_t *bytes, unsigned length) {
    (void)self;
    memset(bytes, wire.pointer == DATA ? wire.data : wire.pointer == CONFIG ? wire.config : wire.status, length);
    return 0;
}
