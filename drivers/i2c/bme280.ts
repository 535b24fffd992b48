// BME280 (temperature, humidity, pressure) and BMP280 (without humidity), Bosch BST-BME280-DS002: floating-point
// compensation (appendix 8.1), forced mode: the chip sleeps between reads. Pure codec; an output that the chip skipped
// has no value.
import { type ChipIo, hex, type I2cChip, wrongChip } from './device'

export interface Calibration {
  T: readonly [number, number, number]
  P: readonly [number, number, number, number, number, number, number, number, number]
  H: readonly [number, number, number, number, number, number]
}

const u16 = (b: Uint8Array, at: number): number => b[at]! | (b[at + 1]! << 8)
const s16 = (b: Uint8Array, at: number): number => (u16(b, at) << 16) >> 16
const s8 = (b: Uint8Array, at: number): number => (b[at]! << 24) >> 24
/** 12-bit two's complement */
const s12 = (value: number): number => (value << 20) >> 20

/** Registers 0x88 to 0xA1 and 0xE1 to 0xE7 (table 16). */
export function calibrationOf(low: Uint8Array, high: Uint8Array): Calibration {
  const p = (k: number): number => s16(low, 6 + 2 * k)
  return {
    T: [u16(low, 0), s16(low, 2), s16(low, 4)],
    P: [u16(low, 6), p(1), p(2), p(3), p(4), p(5), p(6), p(7), p(8)],
    H: [
      low[25]!,
      s16(high, 0),
      high[2]!,
      s12((high[3]! << 4) | (high[4]! & 15)),
      s12((high[5]! << 4) | (high[4]! >> 4)),
      s8(high, 6),
    ],
  }
}

/** The temperature that all formulas use, in 1/5120 °C. */
export function fine(adc: number, { T }: Calibration): number {
  const a = (adc / 16384 - T[0] / 1024) * T[1]
  const b = adc / 131072 - T[0] / 8192
  return a + b * b * T[2]
}

export const celsius = (fineT: number): number => fineT / 5120

/** Pa; null if the calibration would divide by zero. */
export function pascal(adc: number, fineT: number, { P }: Calibration): number | null {
  let a = fineT / 2 - 64000
  let b = (a * a * P[5]) / 32768 + a * P[4] * 2
  b = b / 4 + P[3] * 65536
  a = ((P[2] * a * a) / 524288 + P[1] * a) / 524288
  a = (1 + a / 32768) * P[0]
  if (a === 0) return null
  let p = ((1048576 - adc - b / 4096) * 6250) / a
  a = (P[8] * p * p) / 2147483648
  b = (p * P[7]) / 32768
  p += (a + b + P[6]) / 16
  return p
}

/** % relative humidity, 0 to 100. */
export function humidity(adc: number, fineT: number, { H }: Calibration): number {
  let h = fineT - 76800
  h =
    (adc - (H[3] * 64 + (H[4] / 16384) * h)) *
    ((H[1] / 65536) * (1 + (H[5] / 67108864) * h * (1 + (H[2] / 67108864) * h)))
  h *= 1 - (H[0] * h) / 524288
  return Math.min(100, Math.max(0, h))
}

/** value of an output that was not measured */
const SKIPPED = 0x80000
const SKIPPED_HUMIDITY = 0x8000

export const BME280_CHANNELS = [
  { key: 'temperature', unit: 'Cel' },
  { key: 'humidity', unit: '%' },
  { key: 'pressure', unit: 'Pa' },
]

const BME280_ID = 0x60
const BMP280_IDS = [0x56, 0x57, 0x58]
/** oversampling → register code */
export const OVERSAMPLINGS = [1, 2, 4, 8, 16]

export class Bme280 implements I2cChip {
  #calibration: Calibration | undefined
  #humid = true

  constructor(readonly oversampling: number) {}

  async setUp(io: ChipIo): Promise<void> {
    const [id] = await io.read(0xd0, 1)
    this.#humid = id === BME280_ID
    if (!this.#humid && !BMP280_IDS.includes(id!))
      throw wrongChip('BME280', `the chip there has the id 0x${id!.toString(16)}`)
    const low = await io.read(0x88, 26)
    const high = this.#humid ? await io.read(0xe1, 7) : new Uint8Array(7)
    this.#calibration = calibrationOf(low, high)
    if (this.#calibration.T[0] === 0) throw wrongChip('BME280', 'its calibration is empty')
  }

  async sample(io: ChipIo) {
    const calibration = this.#calibration!
    const code = OVERSAMPLINGS.indexOf(this.oversampling) + 1
    if (this.#humid) await io.write(0xf2, code)
    await io.write(0xf4, (code << 5) | (code << 2) | 1)
    // longest measurement (9.1): 1.25 ms, plus 2.3 ms per sample, plus 0.575 ms for two of the three quantities
    await io.sleep(1.25 + 3 * 2.3 * this.oversampling + 2 * 0.575)
    for (let tries = 0; tries < 5 && (await io.read(0xf3, 1))[0]! & 8; tries++) await io.sleep(2)
    const data = await io.read(0xf7, this.#humid ? 8 : 6)
    const adcP = (data[0]! << 12) | (data[1]! << 4) | (data[2]! >> 4)
    const adcT = (data[3]! << 12) | (data[4]! << 4) | (data[5]! >> 4)
    const adcH = this.#humid ? (data[6]! << 8) | data[7]! : SKIPPED_HUMIDITY
    const t = fine(adcT, calibration)
    const cold = adcT === SKIPPED
    return [
      { raw: hex(data.subarray(3, 6)), ...(cold ? SKIP : { value: celsius(t) }) },
      {
        raw: hex(data.subarray(6)),
        ...(this.#humid
          ? cold || adcH === SKIPPED_HUMIDITY
            ? SKIP
            : { value: humidity(adcH, t, calibration) }
          : { value: null, error: 'this chip is a BMP280, which measures no humidity' }),
      },
      { raw: hex(data.subarray(0, 3)), ...(cold || adcP === SKIPPED ? SKIP : { value: pascal(adcP, t, calibration) }) },
    ]
  }
}

const SKIP = { value: null, error: 'the chip did not measure' }
