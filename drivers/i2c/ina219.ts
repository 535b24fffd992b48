// INA219 (voltage, current, power over a shunt), Texas Instruments SBOS448: calibrated so that the chip computes
// current and power. Errors: a chip that lost power has lost its calibration (it is set again); a result out of range
// (no value).
import { OsError } from '../../src/lib/errors'
import { type ChipIo, hex, type I2cChip } from './device'

export const INA219_CHANNELS = [
  { key: 'voltage', unit: 'V' },
  { key: 'current', unit: 'A' },
  { key: 'power', unit: 'W' },
  { key: 'shunt_voltage', unit: 'V' },
]

interface Ina219Settings {
  shuntOhm: number
  maxA: number
}

/** Calibration register for a current LSB in A (equation 1); 15 bits, bit 0 is always 0. */
export const calibrationRegister = (lsb: number, shuntOhm: number): number =>
  Math.floor((0.04096 / (lsb * shuntOhm)) * 1.000000001) & MOST

/** V of one step of the shunt voltage register */
const SHUNT_STEP_V = 0.00001
/** full scale of the shunt voltage at the widest gain, V */
const WIDEST_V = 0.32
/** the largest calibration: 16 bits, bit 0 is unused */
const MOST = 0xfffe
/** rounded steps of the current LSB within a decade */
const STEPS = [1, 2, 5, 10]

/**
 * Settings of the chip (8.5.1): the LSB is a rounded step of at least maxA / 2^15, and large enough that the
 * calibration fits its register. The larger step loses no accuracy: it stays below one step of the shunt voltage.
 * Throws CONFIG_INVALID for a current that the shunt voltage register cannot represent.
 */
export function calibrate({ shuntOhm, maxA }: Ina219Settings): { lsb: number; register: number; config: number } {
  const volts = maxA * shuntOhm
  if (volts > WIDEST_V * 1.0003) throw new OsError('CONFIG_INVALID', 'max_current_a over shunt_ohm is more than 0.32 V')
  if (volts < SHUNT_STEP_V * 0.999)
    throw new OsError('CONFIG_INVALID', 'max_current_a over shunt_ohm is less than 10 µV, one step of the chip')
  const least = Math.max(maxA / 32768, 0.04096 / ((MOST + 1) * shuntOhm))
  const decade = Math.floor(Math.log10(least))
  const lsb = STEPS.map(step => Number(`${step}e${decade}`)).find(step => step >= least * 0.999999)!
  const gain = [0.04, 0.08, 0.16, 0.32].findIndex(v => maxA * shuntOhm <= v * 1.000001)
  // 32 V, gain, 12 bits, shunt and bus continuous
  return {
    lsb,
    register: calibrationRegister(lsb, shuntOhm),
    config: 0x2000 | ((gain < 0 ? 3 : gain) << 11) | (3 << 7) | (3 << 3) | 7,
  }
}

const s16 = (bytes: Uint8Array): number => (((bytes[0]! << 8) | bytes[1]!) << 16) >> 16

export const shuntVolts = (bytes: Uint8Array): number => s16(bytes) / 100_000
export const busVolts = (bytes: Uint8Array): number => (((bytes[0]! << 8) | bytes[1]!) >> 3) / 250
/** The register is at the end of the range that `config` set (table 7): the real voltage may be beyond it. */
const atEnd = (bytes: Uint8Array, config: number): boolean => Math.abs(s16(bytes)) >= 4000 << ((config >> 11) & 3)
export const overflowed = (bytes: Uint8Array): boolean => (bytes[1]! & 1) !== 0
export const amperes = (bytes: Uint8Array, lsb: number): number => s16(bytes) * lsb
export const watts = (bytes: Uint8Array, lsb: number): number => ((bytes[0]! << 8) | bytes[1]!) * 20 * lsb

const BEYOND = 'the shunt voltage is at the end of its range: raise max_current_a, or take a smaller shunt'
const OVERFLOWED = 'current or power overflowed: raise max_current_a'

export class Ina219 implements I2cChip {
  readonly #set: ReturnType<typeof calibrate>

  constructor(settings: Ina219Settings) {
    this.#set = calibrate(settings)
  }

  async setUp(io: ChipIo): Promise<void> {
    const { register, config } = this.#set
    await io.write(0, config >> 8, config & 0xff)
    await io.write(5, register >> 8, register & 0xff)
    await this.#check(io)
    await io.sleep(2)
  }

  async sample(io: ChipIo) {
    await this.#check(io)
    const { lsb, config } = this.#set
    const shunt = await io.read(1, 2)
    const bus = await io.read(2, 2)
    const power = await io.read(3, 2)
    const current = await io.read(4, 2)
    const beyond = atEnd(shunt, config) ? { value: null, error: BEYOND } : null
    const over = beyond ?? (overflowed(bus) ? { value: null, error: OVERFLOWED } : null)
    return [
      { raw: hex(bus), value: busVolts(bus) },
      { raw: hex(current), ...(over ?? { value: amperes(current, lsb) }) },
      { raw: hex(power), ...(over ?? { value: watts(power, lsb) }) },
      { raw: hex(shunt), ...(beyond ?? { value: shuntVolts(shunt) }) },
    ]
  }

  async #check(io: ChipIo): Promise<void> {
    const { register, config } = this.#set
    const [got, is] = [await io.read(5, 2), await io.read(0, 2)]
    if (((got[0]! << 8) | got[1]!) !== register || ((is[0]! << 8) | is[1]!) !== config)
      throw new OsError('BAD_REPLY', `no INA219, or it lost its settings: calibration ${hex(got)}, config ${hex(is)}`)
  }
}
