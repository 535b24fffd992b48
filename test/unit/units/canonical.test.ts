import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ATOM_ROWS } from '../../../src/units/atoms'
import { resolve, resolveList } from '../../../src/units/canonical'

/** unit, canonical, factor, offset */
type Case = readonly [string, string, number, number?]

function check(cases: readonly Case[]): void {
  for (const [unit, canonical, factor, offset = 0] of cases) {
    const got = resolve(unit)
    assert.ok(got, `${unit} is not understood`)
    assert.equal(got.canonical, canonical, unit)
    assert.ok(Math.abs(got.factor / factor - 1) < 1e-12, `${unit}: factor ${got.factor}`)
    assert.equal(got.offset, offset, `${unit}: offset`)
  }
}

test('each dimension has one spelling, a named unit if there is one', () =>
  check([
    ['Pa', 'Pa', 1],
    ['N/m2', 'Pa', 1],
    ['mbar', 'Pa', 100],
    ['km/h', 'm/s', 1 / 3.6],
    ['g/cm3', 'kg/m3', 1000],
    ['ug/m3', 'kg/m3', 1e-9],
    ['kW.h', 'J', 3.6e6],
    ['V.A', 'W', 1],
    ['V/m', 'kg.m/s3/A', 1],
    ['mS/cm', 's3.A2/kg/m3', 0.1],
    ['W/(m2.K)', 'kg/s3/K', 1],
    ['lm', 'lm', 1],
    ['lm/m2', 'lx', 1],
    ['deg/s', 'rad/s', Math.PI / 180],
    ['By/s', 'bit/s', 8],
    ['mmol/L', 'mol/m3', 1],
    ['m/m', '1', 1],
    ['10*3', '1', 1000],
  ]))

test('a unit without a positive power is spelled with exponents', () =>
  check([
    ['1/m', 'm-1', 1],
    ['/m', 'm-1', 1],
    ['/m2/s', 'm-2.s-1', 1],
    ['10*3/uL', 'm-3', 1e12],
  ]))

test('only frequency units become Hz', () =>
  check([
    ['Hz', 'Hz', 1],
    ['MHz', 'Hz', 1e6],
    ['rpm', 'Hz', 1 / 60],
    ['s-1', 's-1', 1],
    ['Bq', 's-1', 1],
    ['{beats}/min', 's-1', 1 / 60],
    ['Hz/s', 's-2', 1],
  ]))

test('units with an offset are only allowed alone: no power, no inverse, no compound keeps them', () =>
  check([
    ['Cel', 'K', 1, 273.15],
    ['mCel', 'K', 0.001, 273.15],
    ['Cel{air}', 'K', 1, 273.15],
    ['[degF]', 'K', 5 / 9, 255.37222222222223],
    ['[degRe]', 'K', 1.25, 273.15],
    ['1/Cel', 'K-1', 1],
    ['/Cel', 'K-1', 1],
    ['Cel2', 'K2', 1],
    ['Cel-1', 'K-1', 1],
    ['[degF]/h', 'K/s', 5 / 9 / 3600],
    ['2.Cel', 'K', 2],
  ]))

test('percent, parts per, counts, arbitrary units and levels keep their spelling', () =>
  check([
    ['%', '%', 1],
    ['%{RH}', '%', 1],
    ['ppm', '[ppm]', 1],
    ['{particles}', '{particles}', 1],
    ['count', '{particles}', 1],
    ['[IU]/mL', '[IU]/m3', 1e6],
    ['dBm', 'dBm', 1],
    ['dB', 'dB', 1],
    ['B', 'dB', 10],
    ['B[W]', 'B[W]', 1],
    ['dB[W]', 'dB[W]', 1],
    ['dB/km', 'dB/m', 0.001],
    ['Np', 'Np', 1],
    ['[pH]', '[pH]', 1],
    ['%/K', 'K-1', 0.01],
  ]))

test('everyday spellings are recognized', () =>
  check([
    ['celsius', 'K', 1, 273.15],
    ['°C', 'K', 1, 273.15],
    ['℃', 'K', 1, 273.15],
    ['degree Celsius', 'K', 1, 273.15],
    ['degC', 'K', 1, 273.15],
    ['°F', 'K', 5 / 9, 255.37222222222223],
    ['fahrenheit', 'K', 5 / 9, 255.37222222222223],
    ['kelvin', 'K', 1],
    ['Kelvin', 'K', 1],
    ['percent', '%', 1],
    ['% RH', '%', 1],
    ['metre', 'm', 1],
    ['meters', 'm', 1],
    ['kilometre', 'm', 1000],
    ['kilopascals', 'Pa', 1000],
    ['hpa', 'Pa', 100],
    ['psi', 'Pa', 6894.757293168359],
    ['mmHg', 'Pa', 133.322],
    ['volt', 'V', 1],
    ['V', 'V', 1],
    ['v', 'V', 1],
    ['µA', 'A', 1e-6],
    ['μA', 'A', 1e-6],
    ['milliampere', 'A', 0.001],
    ['kΩ', 'Ohm', 1000],
    ['m²', 'm2', 1],
    ['m³/h', 'm3/s', 1 / 3600],
    ['m^2', 'm2', 1],
    ['m·s⁻²', 'm/s2', 1],
    ['meters per second', 'm/s', 1],
    ['mph', 'm/s', 0.44704],
    ['knots', 'm/s', 1852 / 3600],
    ['ft', 'm', 0.3048],
    ['ft/min', 'm/s', 0.00508],
    ['lux', 'lx', 1],
    ['kWh', 'J', 3.6e6],
    ['mWh', 'J', 3.6],
    ['MWh', 'J', 3.6e9],
    ['mAh', 'C', 3.6],
    ['MB', 'bit', 8e6],
    ['KiB', 'bit', 8192],
    ['pH', '[pH]', 1],
    ['dbm', 'dBm', 1],
    ['dB(A)', 'dBA', 1],
    ['hp', 'W', 735.49875],
    ['kilowatt hours', 'J', 3.6e6],
    ['Nm', 'J', 1],
    ['nm', 'm', 1e-9],
    ['KG', 'kg', 1],
    ['PSI', 'Pa', 6894.757293168359],
    ['µS/cm', 's3.A2/kg/m3', 1e-4],
    ['  Pa ', 'Pa', 1],
    ['pow.on', '{pow.on}', 1],
  ]))

test('a text that could be milli or mega, or is unknown, is not guessed', () => {
  for (const unit of ['mpa', 'mhz', 'ma', 'foo', '', ' ', 'Unknown', 'm//s', '__proto__', 'constructor', 'toString'])
    assert.equal(resolve(unit), null, unit)
})

test('characters that delimit packets are not sent inside an annotation', () => {
  assert.equal(resolve('{a|b;c>d:e@f,g/h}')?.canonical, '{a_b_c_d_e_f_g_h}')
  assert.equal(resolve('{\u0001}'), null)
})

test('a canonical unit is its own canonical unit', () => {
  for (const [code] of ATOM_ROWS) {
    const once = resolve(code)
    assert.ok(once, code)
    const twice = resolve(once.canonical)
    assert.deepEqual(twice, { canonical: once.canonical, factor: 1, offset: 0 }, code)
  }
})

test('a list multiplies its own dimension and divides by the others', () => {
  assert.deepEqual(resolveList(['km', 'h']), { canonical: 'm/s', factor: 0.2777777777777778, offset: 0 })
  assert.deepEqual(resolveList(['m', 'cm']), { canonical: 'm2', factor: 0.01, offset: 0 })
  assert.deepEqual(resolveList(['g', 'ms', 'kV']), resolve('g/ms/kV'))
  assert.deepEqual(resolveList(['Cel']), resolve('Cel'))
  assert.deepEqual(resolveList(['Cel', 'h']), resolve('Cel/h'))
  assert.equal(resolveList([]), null)
  assert.equal(resolveList(['m', 'foo']), null)
})

test('the cache stays limited and does not mix answers', () => {
  for (let k = 1; k < 10_000; k++) assert.equal(resolve(`${k}.m`)?.factor, k)
  assert.equal(resolve('17.m')?.factor, 17)
  assert.equal(resolve('km')?.factor, 1000)
})
