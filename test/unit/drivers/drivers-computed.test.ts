// Every register and wire value that a driver computes from options, decoded again by the formula of its data sheet over the
// full range of the options: the chip or the peer then does what was requested, or more where the options say so, or the
// setting is refused. INA219: i2c/codec.test.ts. Frames of SLIP: slip/codec.test.ts.
// Long: ten times as many random settings of a LoRa modem
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { safeParse } from 'valibot'
import { canOptions } from '../../../drivers/can/can-options'
import { separation } from '../../../drivers/can/medium'
import { type Ads1115Input, configWord, INPUTS, RANGES, RATES } from '../../../drivers/i2c/ads1115'
import { Bme280, OVERSAMPLINGS } from '../../../drivers/i2c/bme280'
import { BANDWIDTHS_KHZ, type LoraOptions, loraOptions } from '../../../drivers/lora/lora-options'
import { currentRegister, frequencyWord, modemOf, powerRegisters } from '../../../drivers/lora/modem'
import { REG } from '../../../drivers/lora/registers'
import { readRequest } from '../../../drivers/modbus/codec'
import { OsError } from '../../../src/lib/errors'
import { checkOptions } from '../../../src/links/driver-options'
import { prng, rounds } from '../../lib/random'

const next = prng(0x5127)
const whole = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1))
const one = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)]!

test('SX127x: the frequency is within half a step of 61.035 Hz over all its bands', () => {
  const STEP = 32e6 / 2 ** 19
  const check = (hz: number): void => {
    const word = frequencyWord(hz)
    assert.ok(Number.isInteger(word) && word > 0 && word < 2 ** 24, `${hz}`)
    assert.ok(Math.abs(word * STEP - hz) <= STEP / 2 + 1e-6, `${hz} Hz: ${word * STEP}`)
  }
  for (const hz of [137e6, 175e6, 410e6, 525e6, 779e6, 862e6, 1020e6]) check(hz)
  for (let k = 0; k < 10_000; k++) check(whole(137_000_000, 1_020_000_000))
})

test('SX127x: the power at either pin is the requested one, or is refused (data sheet table 33 and 5.4.3)', () => {
  for (let dbm = -10; dbm <= 30; dbm++)
    for (const pin of ['PA_BOOST', 'RFO'] as const) {
      const [least, most] = pin === 'RFO' ? [-4, 15] : [2, 20]
      if (dbm < least || dbm > most) {
        assert.throws(() => powerRegisters(dbm, pin), { code: 'CONFIG_INVALID' }, `${pin} ${dbm}`)
        continue
      }
      const { config, dac } = powerRegisters(dbm, pin)
      const [select, max, output] = [config >> 7, (config >> 4) & 7, config & 15]
      const pmax = 10.8 + 0.6 * max
      const got = select === 0 ? pmax - (15 - output) : (dac === 0x87 ? 20 : 17) - (15 - output)
      assert.ok(config >= 0 && config <= 0xff && (dac === 0x84 || dac === 0x87))
      assert.equal(select, pin === 'RFO' ? 0 : 1)
      // Pmax of RFO comes in steps of 0.6 dB
      assert.ok(Math.abs(got - dbm) <= (pin === 'RFO' ? 0.21 : 0), `${pin} ${dbm} dBm: ${got}`)
    }
})

test('SX127x: the overcurrent protection allows at least the requested current, and at most one step more', () => {
  for (let ma = 45; ma <= 240; ma++) {
    const register = currentRegister(ma)
    const trim = register & 0x1f
    const got = trim <= 15 ? 45 + 5 * trim : trim <= 27 ? -30 + 10 * trim : 240
    assert.equal(register & ~0x1f, 0x20)
    assert.ok(got >= ma && got - ma < 10, `${ma} mA: ${got}`)
  }
})

test('SX127x: for all valid options, every register is a byte and matches the options', () => {
  let taken = 0
  for (let k = 0; k < rounds(3000, 30_000); k++) {
    const raw = {
      ...{ region: 'none', chip: one(['sx1276', 'sx1277', 'sx1278', 'sx1279']), frequency_hz: whole(137e6, 1020e6) },
      ...{
        bandwidth_khz: one(BANDWIDTHS_KHZ),
        spreading_factor: whole(6, 12),
        coding_rate: one(['4/5', '4/6', '4/7', '4/8']),
      },
      ...(next() < 0.4 && { implicit_bytes: whole(2, 255) }),
      ...{
        crc: next() < 0.5,
        sync_word: whole(0, 255),
        preamble_symbols: one([6, 8, 255, 256, 65_535, whole(6, 65_535)]),
      },
      ...{ low_data_rate: one(['auto', 'on', 'off']), invert_iq: next() < 0.5, power_dbm: whole(-4, 20) },
      ...{ power_pin: one(['PA_BOOST', 'RFO']), lna_gain: whole(0, 6), lna_boost: next() < 0.5 },
      ...(next() < 0.5 && { ocp_ma: whole(45, 240) }),
    }
    const options: LoraOptions = checkOptions(loraOptions, raw, 'radio')
    let modem: ReturnType<typeof modemOf>
    try {
      modem = modemOf(options)
    } catch (error) {
      assert.ok(error instanceof OsError && error.code === 'CONFIG_INVALID', String(error))
      continue
    }
    taken++
    for (const [register, value] of modem.registers)
      assert.ok(
        Number.isInteger(value) && value >= 0 && value <= 0xff,
        `${register}: ${value} of ${JSON.stringify(raw)}`,
      )
    const at = new Map(modem.registers)
    const [m1, m2, m3] = [REG.MODEM_CONFIG_1, REG.MODEM_CONFIG_2, REG.MODEM_CONFIG_3].map(name => at.get(name)!)
    assert.deepEqual(
      [BANDWIDTHS_KHZ[m1! >> 4], `4/${4 + ((m1! >> 1) & 7)}`, m1! & 1],
      [options.bandwidth_khz, options.coding_rate, options.implicit_bytes === undefined ? 0 : 1],
    )
    assert.deepEqual([m2! >> 4, (m2! >> 2) & 1, m2! & 3], [options.spreading_factor, options.crc ? 1 : 0, 0])
    assert.equal((m3! >> 3) & 1, modem.air.lowDataRate ? 1 : 0)
    assert.equal(at.get(REG.PREAMBLE_MSB)! * 256 + at.get(REG.PREAMBLE_LSB)!, options.preamble_symbols)
    assert.equal(at.get(REG.SYNC_WORD), options.sync_word)
    assert.equal(at.get(REG.LNA)! >> 5, options.lna_gain || 1)
    const word = [0, 1, 2].reduce((sum, k) => sum * 256 + at.get(REG.FRF_MSB + k)!, 0)
    assert.equal(word, modem.rxFrf)
    // data sheet 4.1.1.6: a symbol above 16 ms needs the optimization
    if (options.low_data_rate === 'auto')
      assert.equal(modem.air.lowDataRate, (2 ** options.spreading_factor * 1000) / modem.air.bandwidthHz > 16)
  }
  assert.ok(taken > rounds(300, 3000), `${taken} were taken`)
})

test('ADS1115: every input, range and rate has a distinct word of 16 bits, with the fields of table 8-3', () => {
  const words = new Set<number>()
  for (const [k, input] of (Object.keys(INPUTS) as Ads1115Input[]).entries())
    for (const [gain, range] of RANGES.entries())
      for (const [speed, rate] of RATES.entries()) {
        const word = configWord(input, range, rate)
        words.add(word)
        const fields = [word >> 15, (word >> 12) & 7, (word >> 9) & 7, (word >> 8) & 1, (word >> 5) & 7, word & 31]
        assert.deepEqual(fields, [1, k, gain, 1, speed, 3])
      }
  assert.equal(words.size, 8 * 6 * 8)
})

test('BME280: every oversampling is written as its code (tables 20, 23 and 24)', async () => {
  for (const times of OVERSAMPLINGS) {
    const written = new Map<number, number>()
    const io = {
      read: async (register: number, count: number) =>
        Uint8Array.from({ length: count }, () => (register === 0xd0 ? 0x60 : 1)),
      write: async (register: number, value: number) => void written.set(register, value),
      sleep: async () => undefined,
    }
    const chip = new Bme280(times)
    await chip.setUp(io as never)
    await chip.sample(io as never)
    const measure = written.get(0xf4)!
    for (const code of [written.get(0xf2)! & 7, measure >> 5, (measure >> 2) & 7]) assert.equal(2 ** (code - 1), times)
    assert.equal(measure & 3, 1, 'forced mode')
  }
})

test('ISO-TP: every accepted separation time is encoded as ISO 15765-2 defines it, every other one is refused', () => {
  let taken = 0
  for (let us = 0; us <= 130_000; us += us < 2000 ? 10 : 250) {
    const peers = [{ tx_id: 1, rx_id: 2, separation_us: us }]
    if (!safeParse(canOptions, { peers }).success) continue
    taken++
    const byte = separation(us)
    assert.ok(Number.isInteger(byte))
    const said = byte <= 0x7f ? byte * 1000 : byte >= 0xf1 && byte <= 0xf9 ? (byte - 0xf0) * 100 : Number.NaN
    assert.equal(said, us)
  }
  assert.equal(taken, 1 + 9 + 127)
})

test('Modbus: address and count are complete in the request, and impossible requests are refused', () => {
  for (let k = 0; k < 5000; k++) {
    const table = one(['coil', 'discrete', 'holding', 'input'] as const)
    const most = table === 'coil' || table === 'discrete' ? 2000 : 125
    const [address, count] = [
      one([0, 65_535, 65_536, -1, whole(0, 65_535)]),
      one([0, 1, most, most + 1, whole(1, most)]),
    ]
    if (address < 0 || count < 1 || count > most || address + count > 65_536) {
      assert.throws(() => readRequest(table, address, count), { code: 'INTERNAL' }, `${address} ${count}`)
      continue
    }
    const [, high, low, many, few] = readRequest(table, address, count)
    assert.deepEqual([high! * 256 + low!, many! * 256 + few!], [address, count])
  }
})
