/* A model of the SX1276 in LoRa mode, register by register, for tests of drivers: see main.c. Not thread safe: the caller
 * holds the one lock of the program. Times are milliseconds of the model, which may run faster than the real ones. */
#ifndef SX127X_CHIP_H
#define SX127X_CHIP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A transmission: everything that decides who receives it. */
struct transmission {
    uint32_t frf;
    double airtime_ms;
    double preamble_ms;
    int8_t power_dbm;
    uint8_t sf, bandwidth, coding, sync, inverted, implicit, crc;
    uint8_t length;
    uint8_t payload[256];
};

/* What the model needs from its environment. */
struct world {
    double (*now_ms)(void);
    /* the chip starts to send */
    void (*send)(const struct transmission *);
    /* level of DIO0 or DIO1 changed */
    void (*dio)(int line, bool high);
};

void chip_start(const struct world *);
/* The line RESET is low, or was: everything as after power-up, faults of the chip included. */
void chip_reset(bool held);
/* One message on SPI: select, bytes, release. `in` NULL: zeros; `out` NULL: not needed. */
void chip_select(void);
uint8_t chip_byte(uint8_t in);
/* Another chip starts to send. */
void chip_hear(const struct transmission *, double now_ms);
/* The transmission this chip would make of that payload with its current settings. */
void chip_describe(struct transmission *, const uint8_t *payload, size_t length);
/* Runs due events; returns the time of the next one, or infinity. */
double chip_run(double now_ms);

/* faults and environment */
void chip_stick_flags(uint8_t flags); /* set, and cannot be cleared, until sleep or reset */
void chip_fake_version(int version);  /* until reset; -1: ends it */
void chip_flip(uint8_t reg, int bit);
void chip_deafen(void); /* receives nothing, its noise is constant; until sleep or reset */
void chip_brown_out(void); /* all registers as after power-up, nothing else */
void chip_jam(void);    /* the next transmission does not end */
void chip_lose(int count); /* so many transmissions are not received */
void chip_link(double rssi_dbm, double snr_db, double offset_hz); /* of packets received from now on */
void chip_occupy(double until_ms); /* a foreign carrier is on the channel */
uint8_t chip_register(uint8_t reg);

struct chip_counts {
    unsigned heard, delivered, collided, missed, sent, resets, calibrated_frf;
};
extern struct chip_counts chip_counts;
#endif
