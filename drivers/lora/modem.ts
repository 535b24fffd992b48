// Converts settings to register values (SX1276/77/78/79 data sheet rev. 7; errata note rev. 1). Pure. Throws
// CONFIG_INVALID with the key for values that the chip or the region's regulations do not allow. Only the frequency is
// rounded silently (61 Hz steps).
import { OsError } from '../../src/lib/errors'
import { type AirSettings, airtimeMs, bytesWithin, symbolMs } from './airtime'
import { BANDWIDTHS_KHZ, type LoraOptions } from './lora-options'
import { type Band, bandOf, HIGH_POWER, usualFrequency, withLimit } from './region'
import { REG } from './registers'

/** Hz of one step of the synthesizer: 32 MHz / 2^19 */
const STEP_HZ = 32_000_000 / 2 ** 19
/** the low frequency port is used below it */
const HIGH_PORT_HZ = 779_000_000
const MHZ = 1_000_000
/** exact bandwidths, Hz; the names of the three narrow ones are rounded */
const BANDWIDTHS_HZ = [7812.5, 10_416.7, 15_625, 20_833.3, 31_250, 41_666.7, 62_500, 125_000, 250_000, 500_000]

type Range = readonly [fromMhz: number, toMhz: number]
const VHF: Range = [137, 175]
const UHF: Range = [410, 525]
const HIGH: Range = [862, 1020]
const CHIPS: Readonly<Record<LoraOptions['chip'], { bandsMhz: readonly Range[]; maxSf: number }>> = {
  sx1276: { bandsMhz: [VHF, UHF, HIGH], maxSf: 12 },
  sx1277: { bandsMhz: [VHF, UHF, HIGH], maxSf: 9 },
  sx1278: { bandsMhz: [VHF, UHF], maxSf: 12 },
  sx1279: {
    bandsMhz: [
      [137, 160],
      [410, 480],
      [779, 960],
    ],
    maxSf: 12,
  },
}

/** All settings of a radio. */
export interface Modem {
  readonly air: AirSettings
  readonly band: Band
  readonly frequencyHz: number
  readonly lowPort: boolean
  /** 0: explicit header; else the size of every packet on the air */
  readonly implicitBytes: number
  /** largest packet in bytes */
  readonly maxPacket: number
  /** [register, value]: written at set-up, and must read back the same; sending changes FRF if rxFrf differs */
  readonly registers: readonly (readonly [number, number])[]
  /** frequency words; receiving has its own where the errata require it */
  readonly txFrf: number
  readonly rxFrf: number
  /** ms on the air of a packet of that many bytes */
  airtime(bytes: number): number
}

const wrong = (message: string, key: string): OsError =>
  new OsError('CONFIG_INVALID', `LoRa ${key}: ${message}`, { details: { keys: [key] } })

export const frequencyWord = (hz: number): number => Math.round(hz / STEP_HZ)

/** PA_CONFIG and PA_DAC for a power in dBm. */
export function powerRegisters(dbm: number, pin: LoraOptions['power_pin']): { config: number; dac: number } {
  const NORMAL_DAC = 0x84
  if (pin === 'RFO') {
    if (dbm < -4 || dbm > 15) throw wrong(`RFO gives -4 to 15 dBm, not ${dbm}`, 'power_dbm')
    // Pmax = 10.8 + 0.6 * MaxPower; Pout = Pmax - (15 - OutputPower)
    return { config: dbm > 0 ? 0x70 | dbm : dbm + 4, dac: NORMAL_DAC }
  }
  if (dbm < 2 || dbm > 20) throw wrong(`PA_BOOST gives 2 to 20 dBm, not ${dbm}`, 'power_dbm')
  // Pout = 17 - (15 - OutputPower), with the high power setting 3 dB more
  return dbm > 17 ? { config: 0xf0 | (dbm - 5), dac: 0x87 } : { config: 0xf0 | (dbm - 2), dac: NORMAL_DAC }
}

/** OCP for a current in mA (data sheet table 34): steps of 5 to 120, then of 10 from 130 to 240. */
export const currentRegister = (ma: number): number =>
  0x20 | (ma <= 120 ? Math.ceil((Math.max(45, ma) - 45) / 5) : Math.min(27, Math.ceil((ma + 30) / 10)))

const inRange = ([from, to]: Range, hz: number): boolean => hz >= from * MHZ && hz <= to * MHZ

/** Errata 2.3: intermediate frequency and receiver offset, by bandwidth. */
function spurious(bandwidth: number): { ifFreq: number | null; offsetHz: number } {
  if (bandwidth === 9) return { ifFreq: null, offsetHz: 0 }
  if (bandwidth >= 6) return { ifFreq: 0x40, offsetHz: 0 }
  return { ifFreq: bandwidth === 0 ? 0x48 : 0x44, offsetHz: BANDWIDTHS_HZ[bandwidth]! }
}

/** Errata 2.1: sensitivity at 500 kHz. */
function highBandwidth(bandwidth: number, hz: number): readonly (readonly [number, number])[] {
  if (bandwidth !== 9) return [[REG.HIGH_BW_OPTIMIZE_1, 0x03]]
  const second = inRange(HIGH, hz) ? 0x64 : inRange(UHF, hz) ? 0x7f : null
  if (second === null) return [[REG.HIGH_BW_OPTIMIZE_1, 0x03]]
  return [
    [REG.HIGH_BW_OPTIMIZE_1, 0x02],
    [REG.HIGH_BW_OPTIMIZE_2, second],
  ]
}

/** Throws CONFIG_INVALID. */
export function modemOf(options: LoraOptions): Modem {
  const { chip, region, spreading_factor: sf, implicit_bytes: implicitBytes = 0, power_dbm, power_pin } = options
  const { bandsMhz, maxSf } = CHIPS[chip]
  const frequencyHz = options.frequency_hz ?? usualFrequency(region)
  if (!bandsMhz.some(range => inRange(range, frequencyHz))) {
    const ranges = bandsMhz.map(([from, to]) => `${from}-${to}`).join(', ')
    throw wrong(`${frequencyHz / MHZ} MHz, but the ${chip} does ${ranges} MHz`, 'frequency_hz')
  }
  if (sf > maxSf) throw wrong(`${sf}, but the ${chip} does 6 to ${maxSf}`, 'spreading_factor')
  if (sf === 6 && implicitBytes === 0) throw wrong('6 works only with implicit_bytes', 'spreading_factor')
  const bandwidth = BANDWIDTHS_KHZ.indexOf(options.bandwidth_khz)
  const bandwidthHz = BANDWIDTHS_HZ[bandwidth]!
  const lowPort = frequencyHz < HIGH_PORT_HZ
  const legal = bandOf(region, frequencyHz, bandwidthHz, options.fixed_channel_allowed)
  // the chip's own limit (data sheet 5.4.3), whatever the regulations allow
  const band = power_pin === 'PA_BOOST' && power_dbm > 17 ? withLimit(legal, HIGH_POWER) : legal
  const eirp = power_dbm + options.antenna_gain_dbi
  if (eirp > band.maxEirpDbm) {
    const why = `${power_dbm} dBm and ${options.antenna_gain_dbi} dBi are ${eirp} dBm EIRP`
    throw wrong(`${why}, band ${band.name} allows ${band.maxEirpDbm}`, 'power_dbm')
  }
  const { low_data_rate } = options
  const air: AirSettings = {
    spreadingFactor: sf,
    bandwidthHz,
    codingRate: Number(options.coding_rate[2]) - 4,
    preambleSymbols: options.preamble_symbols,
    implicitHeader: implicitBytes > 0,
    crc: options.crc,
    lowDataRate: low_data_rate === 'auto' ? symbolMs(sf, bandwidthHz) > 16 : low_data_rate === 'on',
  }
  const longest = Math.min(band.dwellMs, ...band.limits.map(({ budgetMs }) => budgetMs))
  const fits = bytesWithin(longest, air)
  const most = implicitBytes > 0 ? implicitBytes - 1 : options.max_packet
  const maxPacket = implicitBytes > fits ? 0 : Math.min(most, fits)
  if (maxPacket < 32) {
    const reason =
      implicitBytes > 0 && implicitBytes <= 32 ? 'implicit_bytes is too small' : `at most ${longest} ms may be sent`
    throw wrong(`leaves packets of ${maxPacket} bytes, 32 are needed (${reason})`, 'spreading_factor')
  }
  const { ifFreq, offsetHz } = spurious(bandwidth)
  const txFrf = frequencyWord(frequencyHz)
  const rxFrf = frequencyWord(frequencyHz + offsetHz)
  const power = powerRegisters(power_dbm, power_pin)
  const preamble = options.preamble_symbols
  const ocp = options.ocp_ma ?? (power_dbm > 17 ? 140 : 100)
  const gain = options.lna_gain
  return {
    air,
    band,
    frequencyHz,
    lowPort,
    implicitBytes,
    maxPacket,
    txFrf,
    rxFrf,
    registers: [
      ...frfRegisters(rxFrf),
      [REG.PA_CONFIG, power.config],
      [REG.PA_RAMP, 0x09],
      [REG.OCP, currentRegister(ocp)],
      // with automatic gain the chip changes the upper bits: see strictBits
      [REG.LNA, ((gain || 1) << 5) | (options.lna_boost && !lowPort ? 0x03 : 0x00)],
      [REG.FIFO_TX_BASE, 0],
      [REG.FIFO_RX_BASE, 0],
      [REG.IRQ_FLAGS_MASK, 0],
      [REG.MODEM_CONFIG_1, (bandwidth << 4) | (air.codingRate << 1) | (air.implicitHeader ? 1 : 0)],
      [REG.MODEM_CONFIG_2, (sf << 4) | (air.crc ? 0x04 : 0)],
      [REG.SYMB_TIMEOUT, 0x64],
      [REG.PREAMBLE_MSB, preamble >>> 8],
      [REG.PREAMBLE_LSB, preamble & 0xff],
      [REG.MAX_PAYLOAD_LENGTH, 0xff],
      [REG.HOP_PERIOD, 0],
      [REG.MODEM_CONFIG_3, (air.lowDataRate ? 0x08 : 0) | (gain === 0 ? 0x04 : 0)],
      ...(ifFreq === null
        ? []
        : ([
            [REG.IF_FREQ_1, ifFreq],
            [REG.IF_FREQ_2, 0],
          ] as const)),
      // reserved bits keep their values after a reset; bit 7 is the automatic intermediate frequency
      [REG.DETECT_OPTIMIZE, (ifFreq === null ? 0xc0 : 0x40) | (sf === 6 ? 0x05 : 0x03)],
      [REG.DETECTION_THRESHOLD, sf === 6 ? 0x0c : 0x0a],
      ...highBandwidth(bandwidth, frequencyHz),
      [REG.INVERT_IQ, options.invert_iq ? 0x66 : 0x27],
      [REG.INVERT_IQ_2, options.invert_iq ? 0x19 : 0x1d],
      [REG.SYNC_WORD, options.sync_word],
      [REG.PA_DAC, power.dac],
    ],
    airtime: bytes => airtimeMs(implicitBytes > 0 ? implicitBytes : bytes, air),
  }
}

export const frfRegisters = (word: number): [number, number][] => [
  [REG.FRF_MSB, (word >>> 16) & 0xff],
  [REG.FRF_MSB + 1, (word >>> 8) & 0xff],
  [REG.FRF_MSB + 2, word & 0xff],
]

/** Bits of a register that must read back as written: with automatic gain the chip changes those of the LNA. */
export const strictBits = (register: number, autoGain: boolean): number =>
  register === REG.LNA && autoGain ? 0x1f : register === REG.HIGH_BW_OPTIMIZE_2 ? 0 : 0xff

/** Received power of a packet in dBm (data sheet 5.5.5); below the noise its SNR is included. */
export function packetRssi(raw: number, snr: number, lowPort: boolean): number {
  const floor = lowPort ? -164 : -157
  return snr >= 0 ? Math.round(floor + (16 / 15) * raw) : floor + raw + snr
}

/** SNR in dB from PKT_SNR: two's complement in quarter dB. */
export const packetSnr = (raw: number): number => ((raw << 24) >> 24) / 4

/** Frequency error of a packet's sender in Hz, from the three FEI registers: 20 bits, two's complement. */
export function frequencyError(msb: number, mid: number, lsb: number, bandwidthHz: number): number {
  const raw = ((((msb & 0x0f) << 16) | (mid << 8) | lsb) << 12) >> 12
  return Math.round(((raw * 2 ** 24) / 32_000_000) * (bandwidthHz / 500_000))
}
