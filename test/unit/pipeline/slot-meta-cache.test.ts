// Descriptions of `state.unit` texts are shared, and their number is limited, since the texts come from peers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashText, SlotMetaCache } from '../../../src/pipeline/slot-meta-cache'
import { literalUnits, WirePickers } from '../../../src/pipeline/wireunit'
import { units } from './units'

test('8,192 descriptions of each kind of sender are cached, then the cache starts over', () => {
  const metas = new SlotMetaCache('ucum', units)
  const plain = metas.of('K.K', true)
  const first = metas.of('K.u0', false)
  for (let k = 1; k < 8192; k++) metas.of(`K.u${k}`, false)
  assert.equal(metas.of('K.u0', false), first)
  metas.of('K.one more', false)
  assert.notEqual(metas.of('K.u0', false), first)
  assert.equal(metas.of('K.K', true), plain, 'those of C firmware are kept apart')
})

test('the description of a text of up to 255 characters is shared, a longer one is described on each use', () => {
  const metas = new SlotMetaCache('ucum', units)
  const text = `K.${'u'.repeat(253)}`
  const shared = metas.of(text, false)
  assert.equal(metas.of(text, false), shared)
  const long = metas.of(`${text}u`, false)
  assert.notEqual(metas.of(`${text}u`, false), long)
  assert.deepEqual(metas.of(`${text}u`, false), long)
})

test('a description has the parsed parts of its text', () => {
  const ucum = new SlotMetaCache('ucum', units)
  const kelvin = {
    text: 'K.K',
    status: 'OK',
    unit: 'K',
    factor: 1,
    divisor: 0,
    offset: 0,
    failed: false,
    ambiguous: false,
  }
  assert.deepEqual(ucum.of('K.K', false), kelvin)
  assert.deepEqual(ucum.of('E.mA', false), {
    ...kelvin,
    text: 'E.mA',
    status: 'ERROR',
    unit: 'A',
    factor: 0.001,
    divisor: 1000,
    failed: true,
  })
  assert.deepEqual(ucum.of('K.??', false), { ...kelvin, text: 'K.??', unit: '??', ambiguous: true })
  const attribute = new SlotMetaCache('attribute', units)
  assert.deepEqual(attribute.of('K.1e999,m', false), { ...kelvin, text: 'K.1e999,m', unit: '1e999,m', ambiguous: true })
})

test('a hash distinguishes texts by their characters, their order and where one ends', () => {
  assert.equal(hashText(''), Math.imul(0x811c9dc5 ^ 0xff, 0x01000193))
  const pairs = [
    ['ab', 'c'],
    ['a', 'bc'],
    ['abc', ''],
    ['', 'abc'],
    ['c', 'ab'],
  ] as const
  assert.equal(new Set(pairs.map(([a, b]) => hashText(b, hashText(a)))).size, pairs.length)
})

test('the choices of 4,096 units are cached, then the cache starts over', () => {
  const pickers = new WirePickers(literalUnits, 4)
  const first = pickers.get('u0')
  for (let k = 1; k < 4096; k++) pickers.get(`u${k}`)
  assert.equal(pickers.get('u0'), first)
  pickers.get('one more')
  assert.notEqual(pickers.get('u0'), first)
  assert.deepEqual([pickers.fits('u', 1), pickers.fits('u', Number.NaN), pickers.fits('u', 1e30)], [true, false, false])
})
