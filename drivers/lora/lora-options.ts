// Options of the LoRa medium, as in Config.json: meaning, bounds and defaults. Both ends must agree on frequency,
// bandwidth, spreading factor, coding rate, header, sync word and IQ.
import { type InferOutput, metadata, object, optional, picklist, pipe } from 'valibot'
import { choice, flag, int, maxPacket, maybe, maybeInt, num, text } from '../../src/config/fields'
import { pinSpec } from '../board/board-options'
import { REGIONS } from './region'

/** kHz, in the order of the chip's codes */
export const BANDWIDTHS_KHZ = [7.8, 10.4, 15.6, 20.8, 31.25, 41.7, 62.5, 125, 250, 500] as const

/** longest packet the chip's buffer holds */
const MAX_PACKET = 255

const bandwidth = optional(
  pipe(picklist(BANDWIDTHS_KHZ), metadata({ help: 'kHz; half of it doubles the time on the air for 3 dB more range' })),
  125,
)

export const loraOptions = object({
  mode: choice(['send', 'listen'], 'send', 'send: answers come back; listen: receives'),
  spi: text('/dev/spidev0.0', 'device of the SPI bus and its chip select'),
  spi_speed_hz: int(1_000_000, 'clock of the SPI bus', { min: 10_000, max: 10_000_000 }),
  chip: choice(
    ['sx1276', 'sx1277', 'sx1278', 'sx1279'],
    'sx1276',
    'sets the possible frequencies and spreading factors',
  ),
  reset_pin: maybe(pinSpec, 'line wired to RESET; left out: the chip is only put to sleep and set up again'),
  dio0_pin: maybe(pinSpec, 'line wired to DIO0; left out: the chip is polled every few milliseconds'),
  region: choice(REGIONS, 'EU868', 'limits of frequency, power and time on the air; none: no limits'),
  fixed_channel_allowed: flag(
    false,
    'US915, AU915: true says that you know the rule for one fixed channel narrower than 500 kHz and may use it',
  ),
  frequency_hz: maybeInt('middle of the channel; left out: the usual one of the region', {
    min: 137_000_000,
    max: 1_020_000_000,
  }),
  bandwidth_khz: bandwidth,
  spreading_factor: int(7, 'each step adds 2.5 dB of range and doubles the time on the air; 6 needs implicit_bytes', {
    min: 6,
    max: 12,
  }),
  coding_rate: choice(['4/5', '4/6', '4/7', '4/8'], '4/5', 'error correction'),
  implicit_bytes: maybeInt('every packet is this long and goes without a header: a length byte, the packet, zeros', {
    min: 2,
    max: MAX_PACKET,
  }),
  crc: flag(true, "the chip's own check sum at the end of each packet"),
  sync_word: int(0x12, 'sync word of the network: 18 (0x12) is the usual private one, 52 (0x34) LoRaWAN', { max: 255 }),
  preamble_symbols: int(8, 'symbols before a packet', { min: 6, max: 65_535 }),
  low_data_rate: choice(['auto', 'on', 'off'], 'auto', 'auto: on where a symbol takes longer than 16 ms'),
  invert_iq: flag(false, 'inverted IQ, as LoRaWAN uses it from gateway to node'),
  power_dbm: int(14, 'power at the pin of the chip; above 17 it may send 1 % of the time at most', {
    min: -4,
    max: 20,
  }),
  power_pin: choice(
    ['PA_BOOST', 'RFO'],
    'PA_BOOST',
    'pin the antenna is wired to; most modules: PA_BOOST, 2 to 20 dBm',
  ),
  antenna_gain_dbi: num(2, 'antenna gain minus cable loss; counts towards the limit of the region', {
    min: -20,
    max: 30,
  }),
  ocp_ma: maybeInt('over-current protection; left out: by power', { min: 45, max: 240 }),
  lna_gain: int(0, '0: automatic; 1 (most) to 6', { max: 6 }),
  lna_boost: flag(true, '3 dB of sensitivity above 779 MHz for some more current'),
  listen_before_talk: flag(true, 'listens before each packet, and backs off while the channel is busy'),
  max_packet: maxPacket(MAX_PACKET, MAX_PACKET, 32),
  check_interval_ms: int(2000, 'how often registers and settings are compared', {
    min: 100,
    max: 60_000,
  }),
  deaf_after_s: int(900, 'reset the chip after this long a silence; 0: never', { max: 86_400 }),
})

export type LoraOptions = InferOutput<typeof loraOptions>
