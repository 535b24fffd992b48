// Units of dialect `attribute`: the reference's unit resolution, rule by rule, and C's %g.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolveAttribute, resolveAttributeList } from '../../../src/units/attribute'
import { pyGeneral } from '../../../src/wire/number'
import { ATTRIBUTE_KEYS } from './attribute-keys'

const law = (unit: string): unknown[] | null => {
  const found = resolveAttribute(unit)
  return found && [found.canonical, found.factor, found.offset]
}

test('the table has every unit of Appendix B', () => {
  assert.equal(new Set(ATTRIBUTE_KEYS).size, 122)
  for (const key of ATTRIBUTE_KEYS) assert.ok(resolveAttribute(key), key)
})

test('an atom is found by its key, by the key in lower case, by its UCUM code, and by two aliases', () => {
  assert.deepEqual(law('Pa'), ['pressure', 1, 0])
  for (const [unit, same] of Object.entries({ M: 'm', BAR: 'bar', MIN: 'min', G: 'g', 'DEG/S': 'deg/s' }))
    assert.deepEqual(law(unit), law(same), unit)
  for (const [unit, same] of Object.entries({ '[psi]': 'psi', cal_IT: 'cal', year: 'ann', Ang: 'ang' }))
    assert.deepEqual(law(unit), law(same), unit)
  for (const [unit, same] of Object.entries({ CEL: 'Cel', Hour: 'h', ' m ': 'm' }))
    assert.deepEqual(law(unit), law(same), unit)
})

test('atoms take precedence over prefixes, the longest prefix is tried first, and only some units take one', () => {
  assert.deepEqual(law('PA'), ['electric current', 1e15, 0])
  assert.deepEqual(law('pt'), ['mass', 1e3 * 1e-12, 0])
  assert.deepEqual(law('min'), ['time', 60, 0])
  assert.deepEqual(law('dam'), ['length', 10, 0])
  assert.deepEqual(law('MiBy'), ['data', 8 * 1048576, 0])
  for (const unit of ['kCel', 'mpsi', 'k%', 'kmin', 'khour', 'k']) assert.equal(law(unit), null, unit)
})

test('the last digit is a power and 1/ an inverse; both keep attribute and offset', () => {
  assert.deepEqual(law('km2'), ['length', 1e6, 0])
  assert.deepEqual(law('m0'), ['length', 1, 0])
  assert.deepEqual(law('1/s'), ['time', 1, 0])
  assert.deepEqual(law('1/h'), ['time', 1 / 3600, 0])
  assert.deepEqual(law('1/Cel'), ['temperature', 1, 273.15])
  assert.deepEqual(law('degF2'), ['temperature', 0.5555555555555556 ** 2, 255.37222222222223])
  assert.deepEqual(law('cal6'), ['energy', 5386.334161145026, 0], 'rounded once, as pow() does')
  for (const unit of ['mm10', '2m', 'min-1', '1/', '1/1/s', 'Qbar9', '1/Qbar9']) assert.equal(law(unit), null, unit)
})

test('a unit unknown to the reference stays unknown', () => {
  for (const unit of ['', 'Unknown', 'celsius', 'percent', 'volt', 'm/s', 'J/K', 'dBm', 'DEGF', 'HZ', 'v', 'm²'])
    assert.equal(law(unit), null, unit)
})

test('a list counts its first attribute and divides by the others, scaled by the first unit alone', () => {
  const list = (...units: string[]): unknown[] | null => {
    const found = resolveAttributeList(units)
    return found && [found.canonical, found.factor]
  }
  assert.deepEqual(list('km', 'h'), ['length/3600time', 1000])
  assert.deepEqual(list('g', 'ms', 'kV'), ['mass/0.001time/1000voltage', 0.001])
  assert.deepEqual(list('m', 'km', 's', 'm'), ['length3/time', 1])
  assert.deepEqual(list('K', 'Miby'), null)
  assert.deepEqual(list('K', 'MiBy'), ['temperature/8.38861e+06data', 1])
  assert.deepEqual(list('Cel'), ['temperature', 1])
  assert.deepEqual(list(), null)
})

test('%g: six digits, ties to even, no trailing zeros, an exponent of two digits', () => {
  const texts: [number, string][] = [
    [1048576, '1.04858e+06'],
    [0.9765625, '0.976562'],
    [0.0009765625, '0.000976562'],
    [1.953125, '1.95312'],
    [9.765625e-5, '9.76563e-05'],
    [0.0001, '0.0001'],
    [1e-5, '1e-05'],
    [100000, '100000'],
    [1e6, '1e+06'],
    [999999.5, '1e+06'],
    [1.5e-300, '1.5e-300'],
    [133.322387, '133.322'],
    [-0.5, '-0.5'],
    [0, '0'],
  ]
  for (const [x, text] of texts) assert.equal(pyGeneral(x), text)
})
