/* The registers of chip.h: the effects of writing and reading them, and of the modem over time. Written from the data sheet
 * (SX1276/77/78/79 rev. 7, chapters 4.1 and 6.4). Of FSK only the image calibration. Left out: single reception's time-out, frequency hopping. */
#include "chip.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIFO = 0x00, OP_MODE = 0x01, FRF = 0x06, PA_CONFIG = 0x09, OCP = 0x0b, LNA = 0x0c, FIFO_ADDR = 0x0d, TX_BASE = 0x0e,
    RX_BASE = 0x0f, RX_CURRENT = 0x10, FLAGS_MASK = 0x11, FLAGS = 0x12, RX_BYTES = 0x13, PACKETS = 0x16, MODEM_STAT = 0x18, PKT_SNR = 0x19,
    PKT_RSSI = 0x1a, RSSI = 0x1b, HOP_CHANNEL = 0x1c, CONFIG_1 = 0x1d, CONFIG_2 = 0x1e, PREAMBLE = 0x20, LENGTH = 0x22,
    MAX_LENGTH = 0x23, CONFIG_3 = 0x26, FEI = 0x28, DETECT = 0x31, INVERT_IQ = 0x33, THRESHOLD = 0x37, SYNC = 0x39,
    INVERT_IQ_2 = 0x3b, DIO_MAPPING = 0x40, VERSION = 0x42, PA_DAC = 0x4d
};
enum { SLEEP, STANDBY, FS_TX, TX, FS_RX, RX_CONTINUOUS, RX_SINGLE, CAD };
enum { RX_DONE = 0x40, CRC_ERROR = 0x20, VALID_HEADER = 0x10, TX_DONE = 0x08, CAD_DONE = 0x04, CAD_DETECTED = 0x01 };
enum { LONG_RANGE = 0x80, HEARABLE = 16 };

static const double bandwidths[16] = {7812.5, 10416.7, 15625, 20833.3, 31250, 41666.7, 62500, 125000, 250000, 500000,
                                      500000, 500000, 500000, 500000, 500000, 500000};

struct heard {
    struct transmission what;
    double from, to;
    bool collided, lost;
};

struct chip_counts chip_counts;
static const struct world *world;
static uint8_t reg[128], fifo[256];
static struct heard air[HEARABLE];
static int on_air;
static double image_cal_end = -INFINITY, tx_end = INFINITY, cad_end = INFINITY, rx_since, occupied_until = -INFINITY;
static int address = -1;
static bool writing, held, deaf, jammed, dio_level[2];
static uint8_t stuck;
static int version = -1, lose;
static uint8_t last_length;
static double link_rssi = -60, link_snr = 9, link_offset;

static double symbol_ms(void) { return ldexp(1000, reg[CONFIG_2] >> 4) / bandwidths[reg[CONFIG_1] >> 4]; }
static int mode(void) { return reg[OP_MODE] & 7; }
static bool listening(void) { return mode() == RX_CONTINUOUS || mode() == RX_SINGLE; }

static void update_lines(void) {
    static const uint8_t first[4] = {RX_DONE, TX_DONE, CAD_DONE, 0};
    static const uint8_t second[4] = {0x80, 0x02, CAD_DETECTED, 0};
    const uint8_t set = reg[FLAGS];
    const bool level[2] = {set & first[reg[DIO_MAPPING] >> 6], set & second[(reg[DIO_MAPPING] >> 4) & 3]};
    for (int k = 0; k < 2; k++) {
        if (level[k] == dio_level[k]) continue;
        dio_level[k] = level[k];
        world->dio(k, level[k]);
    }
}

static void raise_flags(uint8_t flags) {
    reg[FLAGS] |= flags & ~reg[FLAGS_MASK];
    update_lines();
}

static void defaults(void) {
    static const uint8_t values[][2] = {
        {OP_MODE, 0x09}, {FRF, 0x6c}, {FRF + 1, 0x80}, {PA_CONFIG, 0x4f}, {0x0a, 0x09}, {OCP, 0x2b}, {LNA, 0x20},
        {TX_BASE, 0x80}, {CONFIG_1, 0x72}, {CONFIG_2, 0x70}, {0x1f, 0x64}, {PREAMBLE + 1, 0x08}, {LENGTH, 0x01},
        {MAX_LENGTH, 0xff}, {CONFIG_3, 0x04}, {0x2f, 0x20}, {DETECT, 0xc3}, {INVERT_IQ, 0x27}, {0x36, 0x03},
        {THRESHOLD, 0x0a}, {SYNC, 0x12}, {INVERT_IQ_2, 0x1d}, {VERSION, 0x12}, {PA_DAC, 0x84}};
    memset(reg, 0, sizeof reg);
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) reg[values[k][0]] = values[k][1];
    tx_end = cad_end = INFINITY;
    update_lines();
}

void chip_start(const struct world *around) {
    world = around;
    defaults();
}

void chip_brown_out(void) { defaults(); }

void chip_reset(bool low) {
    if (low == held) return;
    held = low;
    if (!low) return;
    chip_counts.resets++;
    stuck = 0;
    version = -1;
    deaf = jammed = false;
    defaults();
}

static double airtime_ms(int length) {
    const int sf = reg[CONFIG_2] >> 4, coding = (reg[CONFIG_1] >> 1) & 7;
    const int implicit = reg[CONFIG_1] & 1, crc = (reg[CONFIG_2] >> 2) & 1, slow = (reg[CONFIG_3] >> 3) & 1;
    const double groups = ceil((8.0 * length - 4 * sf + 28 + 16 * crc - 20 * implicit) / (4.0 * (sf - 2 * slow)));
    const double symbols = (reg[PREAMBLE] << 8 | reg[PREAMBLE + 1]) + 4.25 + 8 + fmax(0, groups) * (coding + 4);
    return symbols * symbol_ms();
}

void chip_describe(struct transmission *t, const uint8_t *payload, size_t length) {
    memset(t, 0, sizeof *t);
    t->frf = reg[FRF] << 16 | reg[FRF + 1] << 8 | reg[FRF + 2];
    t->airtime_ms = airtime_ms((int)length);
    t->preamble_ms = ((reg[PREAMBLE] << 8 | reg[PREAMBLE + 1]) + 4.25) * symbol_ms();
    t->power_dbm = (int8_t)(reg[PA_CONFIG] & 0x80 ? (reg[PA_CONFIG] & 15) + (reg[PA_DAC] == 0x87 ? 5 : 2)
                                                  : (reg[PA_CONFIG] & 15) - (reg[PA_CONFIG] & 0x70 ? 0 : 4));
    t->sf = reg[CONFIG_2] >> 4;
    t->bandwidth = reg[CONFIG_1] >> 4;
    t->coding = (reg[CONFIG_1] >> 1) & 7;
    t->sync = reg[SYNC];
    t->inverted = !(reg[INVERT_IQ] & 1);
    t->implicit = reg[CONFIG_1] & 1;
    t->crc = (reg[CONFIG_2] >> 2) & 1;
    t->length = (uint8_t)length;
    memcpy(t->payload, payload, length);
}

static void begin_sending(void) {
    struct transmission t;
    uint8_t payload[256];
    for (int k = 0; k < reg[LENGTH]; k++) payload[k] = fifo[(uint8_t)(reg[TX_BASE] + k)];
    chip_describe(&t, payload, reg[LENGTH]);
    chip_counts.sent++;
    world->send(&t);
    tx_end = jammed ? INFINITY : world->now_ms() + t.airtime_ms;
    jammed = false;
}

static void set_mode(uint8_t value) {
    // the modem mode changes only in sleep
    if (((reg[OP_MODE] ^ value) & LONG_RANGE) && mode() != SLEEP) value = (uint8_t)((value & ~LONG_RANGE) | (reg[OP_MODE] & LONG_RANGE));
    const int before = mode();
    reg[OP_MODE] = value;
    if (mode() != TX) tx_end = INFINITY;
    if (mode() != CAD) cad_end = INFINITY;
    if (mode() == SLEEP) {
        stuck = 0;
        deaf = false;
        reg[FLAGS] = 0;
        memset(fifo, 0, sizeof fifo);
        reg[PACKETS] = reg[PACKETS + 1] = 0;
        update_lines();
    }
    if (!(value & LONG_RANGE)) return;
    if (mode() == TX && before != TX) begin_sending();
    if (mode() == CAD && before != CAD) cad_end = world->now_ms() + 2 * symbol_ms();
    if (listening() && before != mode()) {
        rx_since = world->now_ms();
        reg[RX_CURRENT] = reg[RX_BASE];
        last_length = 0;
    }
}

static bool same(const struct transmission *t) {
    const double bandwidth = bandwidths[reg[CONFIG_1] >> 4];
    double hz = (reg[FRF] << 16 | reg[FRF + 1] << 8 | reg[FRF + 2]) * 32e6 / 524288;
    // errata 2.3: below 62.5 kHz a receiver is offset by one bandwidth when its intermediate frequency is fixed
    if (listening() && !(reg[DETECT] & 0x80) && (reg[CONFIG_1] >> 4) < 6) hz -= bandwidth;
    if (fabs(hz - t->frf * 32e6 / 524288) > bandwidth / 4) return false;
    const bool inverted = mode() == CAD ? !(reg[INVERT_IQ] & 1) : reg[INVERT_IQ] & 0x40;
    return t->sf == reg[CONFIG_2] >> 4 && t->bandwidth == reg[CONFIG_1] >> 4 && t->inverted == inverted;
}

/* The detector does not receive six with the setting of the others. */
static bool detector_fits(void) {
    const bool six = reg[CONFIG_2] >> 4 == 6;
    return (reg[DETECT] & 7) == (six ? 5 : 3) && reg[THRESHOLD] == (six ? 0x0c : 0x0a) && (!six || reg[CONFIG_1] & 1);
}

void chip_hear(const struct transmission *t, double now_ms) {
    chip_counts.heard++;
    if (on_air == HEARABLE) return;
    struct heard *h = &air[on_air++];
    *h = (struct heard){*t, now_ms, now_ms + t->airtime_ms, now_ms < occupied_until, lose > 0};
    if (lose > 0) lose--;
    for (int k = 0; k < on_air - 1; k++)
        if (air[k].what.frf == t->frf && air[k].what.sf == t->sf) air[k].collided = h->collided = true;
}

static void deliver(const struct heard *h) {
    const struct transmission *t = &h->what;
    const bool whole = listening() && rx_since <= h->from + t->preamble_ms / 2;
    if (!whole || deaf || h->lost || !detector_fits() || !same(t) || t->sync != reg[SYNC] ||
        t->implicit != (reg[CONFIG_1] & 1)) {
        chip_counts.missed++;
        return;
    }
    const uint8_t length = t->implicit ? reg[LENGTH] : t->length;
    const bool bad = h->collided || length != t->length || (t->implicit && t->crc != ((reg[CONFIG_2] >> 2) & 1));
    // each packet is stored after the previous one, as long as the chip keeps receiving
    uint8_t at = reg[RX_CURRENT] = (uint8_t)(reg[RX_CURRENT] + last_length);
    last_length = length;
    for (int k = 0; k < length; k++) fifo[at++] = bad ? (uint8_t)rand() : t->payload[k];
    reg[RX_BYTES] = length;
    reg[HOP_CHANNEL] = t->crc ? 0x40 : 0;
    reg[PKT_SNR] = (uint8_t)(int8_t)lround(link_snr * 4);
    const double above = link_rssi + (reg[OP_MODE] & 0x08 ? 164 : 157);
    reg[PKT_RSSI] = (uint8_t)lround(link_snr < 0 ? above - link_snr : above * 15 / 16);
    const long fei = lround(link_offset * 32e6 / 16777216 * 500000 / bandwidths[t->bandwidth]);
    for (int k = 0; k < 3; k++) reg[FEI + k] = (uint8_t)((fei & 0xfffff) >> (16 - 8 * k));
    if (bad) chip_counts.collided++;
    else {
        chip_counts.delivered++;
        if (++reg[PACKETS + 1] == 0) reg[PACKETS]++;
    }
    if (mode() == RX_SINGLE) reg[OP_MODE] = (uint8_t)((reg[OP_MODE] & ~7) | STANDBY);
    raise_flags((uint8_t)(RX_DONE | VALID_HEADER | (bad && t->crc ? CRC_ERROR : 0)));
}

static bool occupied(double now_ms) {
    if (now_ms < occupied_until) return true;
    for (int k = 0; k < on_air; k++)
        if (air[k].from <= now_ms && now_ms < air[k].to && same(&air[k].what)) return true;
    return false;
}

double chip_run(double now_ms) {
    double next = INFINITY;
    if (now_ms >= tx_end) {
        tx_end = INFINITY;
        reg[OP_MODE] = (uint8_t)((reg[OP_MODE] & ~7) | STANDBY);
        raise_flags(TX_DONE);
    }
    if (now_ms >= cad_end) {
        const bool busy = !deaf && occupied(cad_end);
        cad_end = INFINITY;
        reg[OP_MODE] = (uint8_t)((reg[OP_MODE] & ~7) | STANDBY);
        raise_flags((uint8_t)(CAD_DONE | (busy ? CAD_DETECTED : 0)));
    }
    for (int k = 0; k < on_air;) {
        if (now_ms < air[k].to) {
            next = fmin(next, air[k++].to);
            continue;
        }
        const struct heard done = air[k];
        memmove(&air[k], &air[k + 1], (size_t)(--on_air - k) * sizeof *air);
        deliver(&done);
    }
    return fmin(next, fmin(tx_end, cad_end));
}

static uint8_t read_register(int at) {
    switch (at) {
    case FIFO: return fifo[reg[FIFO_ADDR]++];
    case VERSION: return version >= 0 ? (uint8_t)version : reg[VERSION];
    case FLAGS: return reg[FLAGS] | stuck;
    case INVERT_IQ_2:
        if (reg[OP_MODE] & LONG_RANGE) return reg[at];
        return 0x02 | (world->now_ms() < image_cal_end ? 0x20 : 0);
    case MODEM_STAT: return listening() && !deaf && occupied(world->now_ms()) ? 0x0b : 0x10;
    case RSSI: return deaf ? 30 : (uint8_t)(occupied(world->now_ms()) ? 97 : 40 + rand() % 9);
    default: return reg[at];
    }
}

static void write_register(int at, uint8_t value) {
    switch (at) {
    case FIFO: fifo[reg[FIFO_ADDR]++] = value; break;
    case OP_MODE: set_mode(value); break;
    case FLAGS:
        reg[FLAGS] &= (uint8_t)~value;
        update_lines();
        break;
    case INVERT_IQ_2:
        if (reg[OP_MODE] & LONG_RANGE) reg[at] = value;
        else if ((value & 0x40) && mode() == STANDBY) {
            // 10 ms, at the current frequency
            image_cal_end = world->now_ms() + 10;
            chip_counts.calibrated_frf = (unsigned)(reg[FRF] << 16 | reg[FRF + 1] << 8 | reg[FRF + 2]);
        }
        break;
    case RX_CURRENT: case RX_BYTES: case PACKETS: case PACKETS + 1: case MODEM_STAT: case PKT_SNR: case PKT_RSSI: case RSSI: case HOP_CHANNEL: case VERSION:
        break; // read only
    case DIO_MAPPING:
        reg[at] = value;
        update_lines();
        break;
    default: reg[at] = value;
    }
}

void chip_select(void) { address = -1; }

uint8_t chip_byte(uint8_t in) {
    if (held) return 0;
    if (address < 0) {
        address = in & 0x7f;
        writing = in & 0x80;
        return 0;
    }
    uint8_t out = 0;
    if (writing) write_register(address, in);
    else out = read_register(address);
    if (address != FIFO) address = (address + 1) & 0x7f;
    return out;
}

void chip_stick_flags(uint8_t flags) { stuck = flags; }
void chip_fake_version(int v) { version = v; }
void chip_flip(uint8_t at, int bit) { reg[at & 0x7f] ^= (uint8_t)(1 << bit); }
void chip_deafen(void) { deaf = true; }
void chip_jam(void) { jammed = true; }
void chip_lose(int count) { lose = count; }
void chip_occupy(double until_ms) { occupied_until = until_ms; }
uint8_t chip_register(uint8_t at) { return reg[at & 0x7f]; }
void chip_link(double rssi_dbm, double snr_db, double offset_hz) {
    link_rssi = rssi_dbm;
    link_snr = snr_db;
    link_offset = offset_hz;
}
