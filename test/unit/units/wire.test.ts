import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resolve } from '../../../src/units/canonical'
import { SYMBOL_UNITS } from '../../../src/units/tokens'
import { wireUnits } from '../../../src/units/wire'
import { UNIT_NAMES, UNIT_TOKENS } from '../../../src/wire/symbols'
import { canonicals } from './canonicals'

const { toToken, fromToken, prefixed } = wireUnits()

/** A peer's decoder: each `/` part through the reverse symbol table, exact, or with its digits as power. */
function peerReads(text: string, digitsArePowers: boolean): string {
  return text
    .split('/')
    .map(part => {
      const name = UNIT_NAMES.get(part)
      if (name !== undefined) return SYMBOL_UNITS.get(name) ?? `class ${name}`
      if (!digitsArePowers) return part
      const digits = /\d+$/.exec(part)?.[0] ?? ''
      const head = UNIT_NAMES.get(part.slice(0, part.length - digits.length))
      return head === undefined ? part : (SYMBOL_UNITS.get(head) ?? `class ${head}`) + digits
    })
    .join('/')
}

test('every canonical unit is decoded as itself', () => {
  assert.ok(canonicals.size > 500)
  for (const unit of canonicals)
    assert.deepEqual(fromToken(toToken(unit)), { unit, factor: 1, offset: 0, ambiguous: false }, toToken(unit))
})

test('no peer reads a unit text of ours as another unit', () => {
  for (const unit of canonicals) {
    for (const { code, scale } of [{ code: toToken(unit), scale: 1 }, ...prefixed(unit)]) {
      for (const digitsArePowers of [false, true]) {
        const read = resolve(peerReads(code, digitsArePowers))
        assert.equal(read?.canonical, unit, `${unit} as ${code}`)
        assert.ok(Math.abs(read.factor / scale - 1) < 1e-9, `${unit} as ${code}: ${read.factor}`)
      }
    }
  }
})

test('what we send is never a token except for the seven symbols, and never delimits a packet', () => {
  const symbols = new Map(
    Object.entries({ '%': 'C00', m: '600', s: 'B00', mol: '000', cd: '700', bit: '500', A: '100' }),
  )
  const tokens = new Set(UNIT_TOKENS.values())
  for (const unit of canonicals) {
    const text = toToken(unit)
    assert.doesNotMatch(text, /[|;>:@,\s]/, text)
    if (symbols.has(unit)) assert.equal(text, symbols.get(unit))
    else
      for (const part of text.split('/')) {
        for (let cut = part.length; cut > 0 && (cut === part.length || /\d/.test(part[cut]!)); cut--)
          assert.ok(!tokens.has(part.slice(0, cut)), `${unit} as ${text}`)
      }
  }
})

test('the rewrites of X1 are applied', () => {
  const cases = { '1': '{1}', C: 'A.s', 'A/m': 'A{u}/m', A2: 'A2{u}', 'm-1': 'm-1', Pa: 'Pa', K: 'K', dBm: 'dBm' }
  for (const [unit, text] of Object.entries(cases)) assert.equal(toToken(unit), text)
  assert.deepEqual(fromToken('A.s'), { unit: 'C', factor: 1, offset: 0, ambiguous: false })
  assert.deepEqual(fromToken(toToken('B')), { unit: 'dB', factor: 10, offset: 0, ambiguous: false })
})

/** text, unit, factor, offset */
const RECEIVED: readonly (readonly [string, string, number, number?])[] = [
  ['A01', 'K', 1, 273.15],
  ['A02', 'K', 5 / 9, 255.37222222222223],
  ['902', 'Pa', 6894.757293168359],
  ['900', 'Pa', 1],
  ['9', 'Pa', 1],
  ['A', 'K', 1],
  ['C', '%', 1],
  ['B', 's', 1],
  ['8', 'kg', 1],
  ['4', 'Hz', 1],
  ['1', 'A', 1],
  ['800', 'kg', 0.001],
  ['303', 'W', 735.49875],
  ['003', '{particles}', 1],
  ['D01', '{pow.on}', 1],
  ['D46', '{modeZ}', 1],
  ['600/B00', 'm/s', 1],
  ['6/B02', 'm/s', 1 / 3600],
  ['6002', 'm2', 1],
  ['62', 'm2', 1],
  ['602', 'm', 0.3048],
  ['A012', 'K2', 1],
  ['A01/B02', 'K/s', 1 / 3600],
  ['temperature', 'K', 1],
  ['electric current', 'A', 1],
  ['amount_of_substance', 'mol', 1],
  ['length2', 'm2', 1],
  ['length/3600time', 'm/s', 1 / 3600],
  ['6/5O,datime', 'm/s', 1 / 3600],
  ['8/a,B/1,kvoltage', 's2.A/m2', 1],
  ['1iE,600', 'm', 0.5],
  ['a,6', 'm', 0.001],
  ['1,k600', 'm', 1000],
  ['3,m600', 'm', 0.003],
  ['1,kPa', 'Pa', 1000],
  ['2,B00', 's', 2],
  // literal codes of peers
  ['Pa', 'Pa', 1],
  ['kPa', 'Pa', 1000],
  ['mA', 'A', 0.001],
  ['m/s', 'm/s', 1],
  ['1/m', 'm-1', 1],
  ['A/m', 'A/m', 1],
  ['Cel', 'K', 1, 273.15],
  ['{u}', '{u}', 1],
]

test('symbols, class tokens, attribute names, coefficients and literal codes are read', () => {
  for (const [text, unit, factor, offset = 0] of RECEIVED) {
    const got = fromToken(text)
    assert.equal(got.unit, unit, text)
    assert.ok(Math.abs(got.factor / factor - 1) < 1e-12, `${text}: ${got.factor}`)
    assert.equal(got.offset, offset, text)
    assert.equal(got.ambiguous, false, text)
  }
})

test('every token of the symbol table except the two mixed classes has a meaning', () => {
  for (const token of UNIT_TOKENS.values())
    assert.equal(fromToken(token).ambiguous, token === '2' || token === '3', token)
})

test('a text of unclear meaning is kept, marked, and survives forwarding', () => {
  for (const text of [
    '2',
    '3',
    'foo',
    '2/B00',
    'm/9',
    'deg/B00',
    'b,600',
    '0,6',
    '1000k600',
    'Unknown',
    'a b',
    '2,zz',
  ]) {
    const kept = { unit: text, factor: 1, offset: 0, ambiguous: true }
    assert.deepEqual(fromToken(text), kept)
    assert.deepEqual(fromToken(toToken(text)), kept, toToken(text))
  }
  assert.deepEqual(fromToken('Z'), { unit: '', factor: 1, offset: 0, ambiguous: true })
  assert.equal(toToken(''), 'Z')
})

test('prefixed codes are sorted, read with their scale, and missing where no prefix fits', () => {
  assert.deepEqual(prefixed('A').slice(0, 4), [
    { code: 'mA', scale: 0.001 },
    { code: 'uA', scale: 1e-6 },
    { code: 'nA', scale: 1e-9 },
    { code: 'pA', scale: 1e-12 },
  ])
  assert.deepEqual(
    prefixed('kg/m3')
      .map(p => p.code)
      .slice(0, 3),
    ['g/m3', 'mg/m3', 'ug/m3'],
  )
  assert.deepEqual(prefixed('m-1')[0], { code: 'km-1', scale: 0.001 })
  assert.ok(!prefixed('H').some(p => p.code === 'pH'))
  for (const unit of ['1', '%', '[ppm]', '{x}', 'dBm', 'dB', 'dB/m', 'B[W]', '[pH]', '', 'foo', '2'])
    assert.deepEqual(prefixed(unit), [], unit)
  for (const unit of canonicals) {
    let last = 1
    for (const { code, scale } of prefixed(unit)) {
      assert.ok(scale < last, `${unit} ${code}`)
      last = scale
      assert.deepEqual(fromToken(code), { unit, factor: scale, offset: 0, ambiguous: false })
      assert.equal(toToken(code), code)
    }
  }
})

test('any text is answered without an exception, in limited time', () => {
  const letters = 'A9B/.,(){}[]%0123kmu-+\u00b5 \u0000D'
  let seed = 7
  for (let k = 0; k < 20_000; k++) {
    let text = ''
    for (let n = k % 12; n >= 0; n--) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      text += letters[(seed >>> 8) % letters.length]
    }
    const got = fromToken(text)
    assert.ok(Number.isFinite(got.factor) && got.factor > 0 && Number.isFinite(got.offset), text)
    toToken(text)
  }
  fromToken('m/'.repeat(5000))
  fromToken(`${'('.repeat(200)}`)
  fromToken('9'.repeat(10_000))
})
