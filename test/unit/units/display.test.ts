import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolve } from '../../../src/units/canonical'
import {
  bytesText,
  carried,
  duration,
  exported,
  exportedDict,
  numberText,
  readingsAsText,
  readingText,
  scaled,
  scaleOf,
  unitText,
  valueText,
} from '../../../src/units/display'

/** A value as typed with any unit → as it is displayed. */
const shown = (value: number, unit: string): string => {
  const { canonical, factor, offset } = resolve(unit)!
  return readingText(value * factor + offset, canonical)
}

test('each dimension is displayed in its customary unit', () => {
  const table: [value: number, unit: string, text: string][] = [
    [19.58, 'Cel', '19.58 °C'],
    [0, 'Cel', '0 °C'],
    [-40, 'Cel', '-40 °C'],
    [1013.25, 'hPa', '1013.25 hPa'],
    [300, 'hPa', '300 hPa'],
    [2.5, 'bar', '250 kPa'],
    [-12.5, 'Pa', '-12.5 Pa'],
    [45.5, '%', '45.5 %'],
    [0.5, '1', '0.5'],
    [413, 'uS/cm', '413 µS/cm'],
    [50, 'mS/cm', '50 mS/cm'],
    [512.3, 'W/m2', '512.3 W/m²'],
    [2, 'W/m2/K', '2 W/(m²·K)'],
    [1.5, 'GiBy', '1.5 GiB'],
    [0, 'By', '0 B'],
    [250, 'kbit/s', '250 kbit/s'],
    [0, 'bit/s', '0 kbit/s'],
    [36.6, 'km/h', '36.6 km/h'],
    [12.4, 'mm/h', '12.4 mm/h'],
    [2.5, 'L/min', '2.5 L/min'],
    [7.2, 'm3/h', '7.2 m³/h'],
    [5, 'L', '5 L'],
    [12, 'ug/m3', '12 µg/m³'],
    [300, 'g', '300 g'],
    [45, 'deg', '45 °'],
    [1234.567, 'kWh', '1234.567 kWh'],
    [50, 'N.m', '50 J'],
    [7.5, 'A.h', '7.5 Ah'],
    [4.7, 'kOhm', '4.7 kΩ'],
    [3.2, 'mV', '3.2 mV'],
    [868.1, 'MHz', '868.1 MHz'],
    [7.2, '[pH]', '7.2 pH'],
    [400, '[ppm]', '400 ppm'],
    [-61, 'dBm', '-61 dBm'],
    [3, '{packets}', '3 packets'],
    [9.81, 'm/s2', '9.81 m/s²'],
    [0.25, 's', '250 ms'],
    [93_784, 's', '1 d 2 h'],
    [-150, 's', '-2 min 30 s'],
  ]
  for (const [value, unit, text] of table) assert.equal(shown(value, unit), text, `${value} ${unit}`)
  assert.equal(readingText(null, 'K'), '-')
  assert.equal(readingText(Number.NaN, 'xyz'), '— xyz')
})

test('a unit that is not UCUM is shown unchanged, a UCUM one gets superscript powers', () => {
  for (const unit of ['', 'temperature', 'length2', 'dB[SPL]', '10*6/mL', 'a.b', '{a.b}', '__proto__', 'constructor'])
    assert.equal(unitText(unit), unit)
  assert.equal(readingText(3, 'constructor'), '3 constructor')
  assert.deepEqual(['kg/m3', 'm.s-2', '{packets}/s', 's-1', 'cd/m2', '1'].map(unitText), [
    'kg/m³',
    'm·s⁻²',
    'packets/s',
    's⁻¹',
    'cd/m²',
    '',
  ])
})

test('a number is shown with its significant digits, and never with rounding noise', () => {
  const table: [value: number, text: string][] = [
    [292.72999999999996, '292.73'],
    [0.1 + 0.2, '0.3'],
    [Math.fround(21.45), '21.45'],
    [1 / 3, '0.3333333'],
    [-0, '0'],
    [1e-9, '1e-9'],
    [1e-120, '1e-120'],
    [5e-324, '5e-324'],
    [123_456_789.5, '123456789.5'],
    [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    [1e22 / 3, '3.333333e+21'],
    [Number.POSITIVE_INFINITY, '—'],
  ]
  for (const [value, text] of table) assert.equal(numberText(value), text)
  // the remainder of a large number has no digits of its own
  assert.equal(carried(5e-14, 273.15), 0)
  assert.equal(Object.is(carried(-5e-14, 273.15), 0), true)
  assert.equal(readingText(Math.fround(292.6), 'K'), '19.45 °C')
  for (let k = -4000; k <= 12_000; k++) assert.equal(readingText(k / 100 + 273.15, 'K'), `${k / 100} °C`)
  for (let k = 0; k <= 3000; k++) assert.equal(shown(k / 10, 'km/h'), `${k / 10} km/h`)
})

test('a series of values and its limits share one scale, that of the largest', () => {
  const line = (values: number[], unit: string): [number[], string] => {
    const scale = scaleOf(unit, Math.max(...values.map(Math.abs)))
    return [values.map(value => scaled(value, scale)), scale.unit]
  }
  assert.deepEqual(line([273.15, 300.15], 'K'), [[0, 27], '°C'])
  assert.deepEqual(line([0.001, -0.25], 'V'), [[1, -250], 'mV'])
  assert.deepEqual(line([101_325, 100_000], 'Pa'), [[1013.25, 1000], 'hPa'])
  assert.deepEqual(line([536_870_912, 1_073_741_824], 'By'), [[0.5, 1], 'GiB'])
  assert.deepEqual(line([1800, 7200], 's'), [[0.5, 2], 'h'])
  assert.deepEqual(line([0], 'V'), [[0], 'V'])
  assert.deepEqual(line([3, 4], '1'), [[3, 4], ''])
  assert.deepEqual(valueText(0.9, 'V', scaleOf('V', 1200)), { value: '0.0009', unit: 'kV' })
  assert.deepEqual(valueText(1800, 's', scaleOf('s', 7200)), { value: '0.5', unit: 'h' })
})

test('an export has one unit for each canonical one; a float that is not converted is unchanged', () => {
  for (const [unit, display] of [
    ['K', '°C'],
    ['Pa', 'hPa'],
    ['%', '%'],
    ['bit', 'MiB'],
    ['bit/s', 'kbit/s'],
    ['m/s', 'km/h'],
    ['V', 'V'],
    ['temperature', 'temperature'],
  ] as const)
    for (const value of [0, 1e-6, 1, 1e9, null]) assert.equal(exported(value, unit).unit, display)
  assert.equal(exported(292.72999999999996, 'K').value, 19.58)
  assert.equal(exported(0.1 + 0.2, 'V').value, 0.1 + 0.2)
  assert.equal(exported(null, 'K').value, null)
  const dict = { id: 'd', s1_id: 'a', s1_u: 'K', s1_v: 300.15, s2_id: 'b', s2_u: 'Pa', s2_v: null, msg: 's3' }
  assert.deepEqual(exportedDict(dict), { ...dict, s1_u: '°C', s1_v: 27, s2_u: 'hPa' })
  assert.equal(dict.s1_u, 'K')
})

test('the dict form of a fact for people has value and unit as one text', () => {
  const dict = { id: 'D', s1_v: 300.15, s1_u: 'K', s2_v: null, s2_u: 'Pa' }
  assert.deepEqual(readingsAsText(dict), { id: 'D', s1_v: '27 °C', s2_v: '-' })
  assert.equal(dict.s1_u, 'K')
})

test('sizes and durations are shown in short form', () => {
  assert.deepEqual([0, 1023, 1536, 9 << 20, 123_456_789, 32 * 2 ** 30, 5e15].map(bytesText), [
    '0 B',
    '1023 B',
    '1.5 KiB',
    '9 MiB',
    '117.7 MiB',
    '32 GiB',
    '4.44 PiB',
  ])
  assert.deepEqual([5, 65, 3700, 90_000].map(duration), ['5 s', '1 min 5 s', '1 h 1 min', '1 d 1 h'])
})
