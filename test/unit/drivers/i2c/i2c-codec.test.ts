import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configWord, RATES, volts } from '../../../../drivers/i2c/ads1115'
import { type Calibration, calibrationOf, celsius, fine, humidity, pascal } from '../../../../drivers/i2c/bme280'
import { ds3231Celsius } from '../../../../drivers/i2c/ds3231'
import {
  amperes,
  busVolts,
  calibrate,
  calibrationRegister,
  overflowed,
  shuntVolts,
  watts,
} from '../../../../drivers/i2c/ina219'
import { crcSht, sht3xCelsius, sht3xHumidity, wordAt } from '../../../../drivers/i2c/sht3x'
import { prng } from '../../../lib/random'

const near = (got: number | null, wanted: number, by: number): void =>
  assert.ok(got !== null && Math.abs(got - wanted) <= by, `${got}, not ${wanted}`)

/** The example of the BMP280 data sheet (BST-BMP280-DS001, 3.12), whose formulas the BME280 has. */
const EXAMPLE: Calibration = {
  T: [27504, 26435, -1000],
  P: [36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000],
  H: [75, 370, 0, 308, 50, 30],
}

test('BME280: the data sheet example gives 25.08 °C and 100653 Pa', () => {
  const t = fine(519888, EXAMPLE)
  assert.equal(Math.round(t), 128422)
  near(celsius(t), 25.08, 0.005)
  near(pascal(415148, t, EXAMPLE), 100653.27, 0.05)
  assert.equal(pascal(415148, t, { ...EXAMPLE, P: [0, 0, 0, 0, 0, 0, 0, 0, 0] }), null)
})

/** The 32-bit formula of the BME280 data sheet (4.2.3), as printed there, in 1/1024 %. */
function integerHumidity(adc: number, t: number, { H }: Calibration): number {
  const mul = Math.imul
  const a = t - 76800
  let v =
    (((adc << 14) - (H[3] << 20) - mul(H[4], a) + 16384) >> 15) *
    ((mul((mul(mul(a, H[5]) >> 10, (mul(a, H[2]) >> 11) + 32768) >> 10) + 2097152, H[1]) + 8192) >> 14)
  v = v - (mul(mul(v >> 15, v >> 15) >> 7, H[0]) >> 4)
  return Math.min(419430400, Math.max(0, v)) >> 12
}

test('BME280: humidity matches the integer formula of the data sheet', () => {
  const random = prng(5)
  for (let k = 0; k < 2000; k++) {
    const adc = 20_000 + Math.floor(random() * 25_000)
    const t = fine(450_000 + Math.floor(random() * 120_000), EXAMPLE)
    near(humidity(adc, t, EXAMPLE), integerHumidity(adc, Math.round(t), EXAMPLE) / 1024, 0.05)
  }
})

test('BME280: calibration registers, including the split ones of humidity', () => {
  const low = new Uint8Array(26)
  const view = new DataView(low.buffer)
  view.setUint16(0, 27504, true)
  view.setInt16(2, 26435, true)
  view.setInt16(4, -1000, true)
  ;[36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000].forEach((p, k) => {
    view.setInt16(6 + 2 * k, p, true)
  })
  low[25] = 75
  // H2 370, H3 0, H4 308 = 0x134, H5 -50 = 0xfce, H6 -30
  const high = Uint8Array.of(0x72, 0x01, 0, 0x13, 0xe4, 0xfc, 0xe2)
  assert.deepEqual(calibrationOf(low, high), { ...EXAMPLE, H: [75, 370, 0, 308, -50, -30] })
})

test('SHT3x: the CRC example of the data sheet, and its formulas', () => {
  assert.equal(crcSht(Uint8Array.of(0xbe, 0xef)), 0x92)
  assert.equal(wordAt(Uint8Array.of(0xbe, 0xef, 0x92), 0), 0xbeef)
  assert.equal(wordAt(Uint8Array.of(0xbe, 0xee, 0x92), 0), null)
  assert.deepEqual([0, 65535].map(sht3xCelsius), [-45, 130])
  assert.deepEqual([0, 65535].map(sht3xHumidity), [0, 100])
  near(sht3xCelsius(0x6666), 25, 0.01)
})

test('ADS1115: codes of table 8-1, the power-up word of the data sheet', () => {
  // 0x8583 is the config register after a reset: A0-A1, 2.048 V, single shot, 128 per second, done
  assert.equal(configWord('A0-A1', 2.048, 128), 0x8583)
  assert.equal(configWord('A3', 6.144, 860), 0xf1e3)
  assert.deepEqual(RATES, [8, 16, 32, 64, 128, 250, 475, 860])
  assert.equal(volts(0x4000, 2.048), 1.024)
  assert.equal(volts(0x0001, 2.048), 0.0000625)
  assert.equal(volts(0xffff, 2.048), -0.0000625)
  assert.equal(volts(0x7fff, 2.048), null)
  assert.equal(volts(0x8000, 2.048), null)
})

test('INA219: the example of the data sheet (8.5.1): 2 mΩ, 1 mA, 11.98 V, 10 A, 119.8 W', () => {
  assert.equal(calibrationRegister(0.001, 0.002), 0x5000)
  assert.equal(shuntVolts(Uint8Array.of(0x07, 0xd0)), 0.02)
  assert.equal(busVolts(Uint8Array.of(0x5d, 0x98)), 11.98)
  assert.equal(amperes(Uint8Array.of(0x27, 0x10), 0.001), 10)
  near(watts(Uint8Array.of(0x17, 0x66), 0.001), 119.8, 1e-9)
  assert.equal(shuntVolts(Uint8Array.of(0x83, 0x00)), -0.32)
  assert.equal(overflowed(Uint8Array.of(0x5d, 0x99)), true)
  // the common board: 0.1 Ω, 3.2 A
  const usual = calibrate({ shuntOhm: 0.1, maxA: 3.2 })
  assert.deepEqual([usual.lsb, usual.register], [0.0001, 4096])
  assert.equal(usual.config, 0x399f)
})

test('INA219: over the full range of shunts and currents, the chip as in its data sheet shows the true current', () => {
  const random = prng(9)
  let widened = 0
  for (let k = 0; k < 20_000; k++) {
    const shuntOhm = 10 ** (random() * 9 - 6)
    // within what the shunt voltage register can show: 10 µV to 0.32 V
    const maxA = 10 ** (Math.log10(1e-5) + random() * Math.log10(0.32 / 1e-5)) / shuntOhm
    const { lsb, register } = calibrate({ shuntOhm, maxA })
    // equation 1: 16 bits, of which bit 0 is not used
    assert.ok(register > 1000 && register <= 0xfffe && (register & 1) === 0, `${register}`)
    assert.ok(Math.abs(register - 0.04096 / (lsb * shuntOhm)) <= 2)
    if (lsb > (maxA / 32768) * 10) widened++
    // equations 4 and 5
    const shunt = Math.round((maxA * shuntOhm) / 1e-5)
    const current = Math.trunc((shunt * register) / 4096)
    assert.ok(current <= 0x7fff, 'the register of the current holds it')
    near(amperes(Uint8Array.of(current >> 8, current & 0xff), lsb), maxA, maxA * 0.0025 + 1.6e-5 / shuntOhm)
    const power = Math.trunc((current * 8000) / 5000)
    assert.ok(power <= 0xffff)
    near(
      watts(Uint8Array.of(power >> 8, power & 0xff), lsb),
      32 * maxA,
      32 * (maxA * 0.0025 + 1.6e-5 / shuntOhm) + 20 * lsb,
    )
  }
  assert.ok(widened > 500, `${widened} of them need a wider step`)
})

test('INA219: a current that the chip cannot show is refused', () => {
  assert.throws(() => calibrate({ shuntOhm: 0.1, maxA: 3.3 }), { code: 'CONFIG_INVALID', message: /more than 0\.32 V/ })
  assert.throws(() => calibrate({ shuntOhm: 0.001, maxA: 0.009 }), {
    code: 'CONFIG_INVALID',
    message: /less than 10 µV/,
  })
  for (const [shuntOhm, maxA] of [
    [0.1, 0.01],
    [0.1, 0.03],
    [0.01, 0.3],
    [0.1, 3.2],
  ] as const)
    calibrate({ shuntOhm, maxA })
})

test('DS3231: signed quarter degrees, the example of the data sheet', () => {
  assert.equal(ds3231Celsius(0b0001_1001, 0b0100_0000), 25.25)
  assert.equal(ds3231Celsius(0xff, 0xc0), -0.25)
  assert.equal(ds3231Celsius(0xe7, 0x40), -24.75)
  assert.equal(ds3231Celsius(0, 0), 0)
})
