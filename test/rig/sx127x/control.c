/* Commands of the control socket, a word and its numbers. They inject faults and report the chip's counters:
 *
 *   stick HEX        interrupt flags that stay set, until sleep or reset     version HEX | version off
 *   flip HEX BIT     a register's bit is flipped      deafen   receives nothing, until sleep or reset
 *   brownout         registers as after power-up      jam      the next transmission does not end
 *   lose N           so many transmissions are not received
 *   eio N            so many messages on the bus fail with EIO               hang MS   the next one takes that long
 *   link RSSI SNR HZ signal of received packets       occupy MS  a foreign carrier
 *   hear HEX         a packet of another chip with the settings of this one
 *   jump MS          its time jumps
 *   speed N          how fast its time runs           counts, register HEX    answers */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t from_hex(const char *text, uint8_t *out, size_t most) {
    size_t n = 0;
    for (unsigned byte; n < most && sscanf(text, "%2x", &byte) == 1; text += 2) out[n++] = (uint8_t)byte;
    return n;
}

void control(char *command, char *out, size_t size) {
    char word[16] = "";
    int used = 0;
    double a = 0, b = 0, c = 0;
    sscanf(command, "%15s%n", word, &used);
    const char *rest = command + used;
    sscanf(rest, "%lf %lf %lf", &a, &b, &c);
    const unsigned long first = strtoul(rest, NULL, 16);
    snprintf(out, size, "ok");
    if (!strcmp(word, "stick")) chip_stick_flags((uint8_t)first);
    else if (!strcmp(word, "version")) chip_fake_version(strstr(rest, "off") ? -1 : (int)first);
    else if (!strcmp(word, "flip")) {
        unsigned at = 0;
        int bit = 0;
        sscanf(rest, "%x %d", &at, &bit);
        chip_flip((uint8_t)at, bit);
    } else if (!strcmp(word, "deafen")) chip_deafen();
    else if (!strcmp(word, "brownout")) chip_brown_out();
    else if (!strcmp(word, "jam")) chip_jam();
    else if (!strcmp(word, "lose")) chip_lose((int)a);
    else if (!strcmp(word, "eio")) bus_fail((int)a);
    else if (!strcmp(word, "hang")) bus_hang((int)a);
    else if (!strcmp(word, "link")) chip_link(a, b, c);
    else if (!strcmp(word, "occupy")) chip_occupy(model_now() + a);
    else if (!strcmp(word, "speed")) model_speed(a);
    else if (!strcmp(word, "jump")) model_jump(a);
    else if (!strcmp(word, "register")) snprintf(out, size, "%02x", chip_register((uint8_t)first));
    else if (!strcmp(word, "hear")) {
        struct transmission t;
        uint8_t payload[256];
        while (*rest == ' ') rest++;
        const size_t length = from_hex(rest, payload, 255);
        chip_describe(&t, payload, length);
        chip_hear(&t, model_now());
    } else if (!strcmp(word, "counts"))
        snprintf(out, size,
                 "{\"heard\":%u,\"delivered\":%u,\"collided\":%u,\"missed\":%u,\"sent\":%u,\"resets\":%u,"
                 "\"calibrated_frf\":%u,\"now_ms\":%.3f}",
                 chip_counts.heard, chip_counts.delivered, chip_counts.collided, chip_counts.missed, chip_counts.sent,
                 chip_counts.resets, chip_counts.calibrated_frf, model_now());
    else snprintf(out, size, "no such command: %s", word);
}
