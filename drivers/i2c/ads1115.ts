// ADS1115 (four voltages or differences, 16 bits), Texas Instruments SBAS444: conversions run one after the other in
// single-shot mode, each with its own range. A value at the end of the range is an error: the voltage is beyond it.
import { OsError } from '../../src/lib/errors'
import { type ChipIo, hex, type I2cChip, wrongChip } from './device'

/** input → MUX bits (table 8-3) */
export const INPUTS = { 'A0-A1': 0, 'A0-A3': 1, 'A1-A3': 2, 'A2-A3': 3, A0: 4, A1: 5, A2: 6, A3: 7 } as const
export type Ads1115Input = keyof typeof INPUTS
/** full scale in V; the index is the PGA bits */
export const RANGES = [6.144, 4.096, 2.048, 1.024, 0.512, 0.256]
/** samples per second; the index is the DR bits */
export const RATES = [8, 16, 32, 64, 128, 250, 475, 860]

/** The config word that starts one conversion: single shot, comparator off. */
export const configWord = (input: Ads1115Input, range: number, rate: number): number =>
  0x8103 | (INPUTS[input] << 12) | (RANGES.indexOf(range) << 9) | (RATES.indexOf(rate) << 5)

/** Conversion register to volts; null at the ends of the range. */
export function volts(word: number, range: number): number | null {
  const value = (word << 16) >> 16
  return value === 0x7fff || value === -0x8000 ? null : (value * range) / 32768
}

interface AdsInput {
  input: Ads1115Input
  range: number
}

export class Ads1115 implements I2cChip {
  constructor(
    readonly inputs: readonly AdsInput[],
    readonly rate: number,
  ) {}

  async setUp(io: ChipIo): Promise<void> {
    // the chip has no id; this driver never writes the comparator's low threshold, so it has its reset value
    const threshold = await io.read(0x02, 2)
    if (hex(threshold) !== '80 00') throw wrongChip('ADS1115', `register 2 holds ${hex(threshold)}, not 80 00`)
  }

  async sample(io: ChipIo) {
    const samples = []
    for (const { input, range } of this.inputs) {
      const config = configWord(input, range, this.rate)
      await io.write(0x01, config >> 8, config & 0xff)
      // the oscillator is within 10 %, and the chip wakes up first
      await io.sleep(1100 / this.rate + 0.1)
      await this.#done(io, config)
      const bytes = await io.read(0x00, 2)
      const value = volts((bytes[0]! << 8) | bytes[1]!, range)
      const beyond = value === null && { error: `the voltage is beyond ${range} V` }
      samples.push({ raw: hex(bytes), value, ...beyond })
    }
    return samples
  }

  async #done(io: ChipIo, config: number): Promise<void> {
    for (let tries = 0; ; tries++) {
      const [high, low] = await io.read(0x01, 2)
      if (((high! << 8) | low!) === config) return // bit 15 is set again after the conversion
      if (tries >= 3) throw new OsError('BAD_REPLY', 'the chip lost its settings or does not convert')
      await io.sleep(1100 / this.rate)
    }
  }
}
