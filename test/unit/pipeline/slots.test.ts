// What a receiver keeps of one template, and the layout of the bodies that change it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SlotMetaCache } from '../../../src/pipeline/slot-meta-cache'
import { EXACT, LAX, readFull, SlotHistory, shapeOf, WARY } from '../../../src/pipeline/slots'
import { NO_VALUE } from '../../../src/wire/base62'
import { units } from './units'

const metas = new SlotMetaCache('ucum', units)
const bytesOf = (bytes: Uint8Array, from: number, to: number, plain: boolean) =>
  metas.of(Buffer.from(bytes.subarray(from, to)).toString(), plain)
const textOf = (count: number): string =>
  `D.1.AAAAAAAA|${Array.from({ length: count }, (_, i) => `s${i}>K.K:${i}|`).join('')}`

function history(count: number): SlotHistory {
  const read = readFull(textOf(count))
  const made = new SlotHistory(shapeOf(read))
  made.begin(-1, false)
  made.fill(read.sensors, (text, plain) => metas.of(text, plain))
  made.keep(0)
  return made
}

/** A DIFF body with these slots of so many sensors, each with a text. */
function body(
  count: number,
  slots: readonly number[],
  texts: readonly string[] = slots.map(slot => (slot & 1 ? 'Z' : 'K.A')),
): Buffer {
  const size = Math.ceil((2 * count) / 8)
  const mask = Buffer.alloc(size)
  for (const slot of slots) mask[size - 1 - (slot >> 3)]! |= 1 << (slot & 7)
  return Buffer.concat([mask, ...texts.map(text => Buffer.concat([Buffer.of(text.length), Buffer.from(text)]))])
}

test('where a body may be noise, any mask bit without a slot refuses it, for any number of sensors', () => {
  for (let count = 1; count <= 9; count++) {
    const apply = (bytes: Buffer, wary: boolean): boolean => {
      const made = history(count)
      made.begin(0, false)
      return made.apply(bytes, 0, bytes.length, bytesOf, wary ? WARY : EXACT)
    }
    for (let slot = 0; slot < 2 * count; slot++)
      assert.equal(apply(body(count, [slot]), true), true, `slot ${slot} of ${count} sensors`)
    for (let bit = 2 * count; bit < 8 * Math.ceil((2 * count) / 8); bit++) {
      const noise = body(count, [1], ['Z'])
      noise[0]! |= 1 << (bit & 7)
      assert.equal(apply(noise, true), false, `bit ${bit} of ${count} sensors`)
      assert.equal(apply(noise, false), true, 'a plain body with a right checksum is no noise')
    }
  }
})

test('a body ends with its last slot: one byte less or more, or a truncated mask, is refused', () => {
  const apply = (bytes: Buffer, wary = false): boolean => {
    const made = history(5)
    made.begin(0, false)
    return made.apply(bytes, 0, bytes.length, bytesOf, wary ? WARY : EXACT)
  }
  const whole = body(5, [0, 3, 9])
  assert.equal(apply(whole), true)
  for (let end = 3; end < whole.length; end++) assert.equal(apply(whole.subarray(0, end)), false, `${end} bytes`)
  assert.equal(apply(Buffer.concat([whole, Buffer.of(0)])), false)
  assert.equal(apply(Buffer.alloc(0)), true, 'nothing changed')
  assert.equal(apply(Buffer.alloc(2)), true, 'an empty mask')
  assert.equal(apply(Buffer.alloc(1)), true)
  assert.equal(apply(Buffer.alloc(1), true), false, 'a mask cut short may be noise')
  // a sender without the key can send these: the first matches every key, the second one in 256
  assert.equal(apply(Buffer.alloc(0), true), false, 'deciphered, a body without anything proves nothing')
  assert.equal(apply(Buffer.alloc(2), true), false, 'nor does an empty mask')
  for (const slot of [0, 1]) assert.equal(apply(body(5, [slot], ['']), true), false, 'nor does an empty text')
  for (const bad of ['a b', '-', '+1']) assert.equal(apply(body(5, [1], [bad])), false, bad)
})

test('a truncated body is decoded as far as it goes, as the reference does', () => {
  const read = (bytes: Buffer): [boolean, number[]] => {
    const made = history(3)
    made.begin(0, false)
    return [made.apply(bytes, 0, bytes.length, bytesOf, LAX), [0, 1, 2].map(i => made.number(i))]
  }
  const whole = body(3, [1, 3, 5], ['12', '34', '56'])
  const [a, b, c] = ['12', '34', '56'].map(text => Number.parseInt(text[0]!, 10) * 62 + Number(text[1])) as [
    number,
    number,
    number,
  ]
  assert.deepEqual(read(whole), [true, [a, b, c]])
  assert.deepEqual(read(Buffer.concat([whole, Buffer.of(9, 9)])), [true, [a, b, c]], 'what is left over')
  assert.deepEqual(read(whole.subarray(0, -1)), [true, [a, b, 5]], 'the last value cut')
  assert.deepEqual(read(whole.subarray(0, -3)), [false, [a, b, 2]], 'no place for the last slot')
  const noise = Buffer.from(whole)
  noise[0]! |= 0xc0
  assert.deepEqual(read(noise), [true, [a, b, c]], 'bits of no slot')
})

test('a text that C firmware writes after a value ends it', () => {
  for (const [value, n] of [
    ['5', 5],
    ['5#x', 5],
    ['5!x', 5],
    ['5@x', 5],
    ['-5#', -5],
    ['00#', NO_VALUE],
    ['0', 0],
    ['', 0],
    ['5$x', null],
    ['#x', null],
  ] as const) {
    const made = history(1)
    made.begin(0, false)
    const bytes = body(1, [1], [value])
    assert.equal(made.apply(bytes, 0, bytes.length, bytesOf), n !== null, value)
    if (n !== null) assert.equal(made.number(0), n, value)
  }
})

test('a frame builds on the newest of eight states that is not newer than it', () => {
  const made = history(1)
  assert.deepEqual([made.stateFor(-1), made.stateFor(0)], [-1, 0])
  for (let k = 1; k <= 8; k++) {
    made.begin(made.stateFor(1000), false)
    made.keep(k)
  }
  assert.equal(made.stateFor(0), -1, 'the oldest gave its place')
  assert.notEqual(made.stateFor(1), -1)
  assert.equal(made.stateFor(8), made.stateFor(9))
  made.invalidate()
  assert.deepEqual([made.known, made.stateFor(9), made.newest], [false, -1, 8])
  made.rebuild()
  assert.equal(made.rebuilt, false, 'nothing is known of it')
  made.lateRun = 3
  made.clear()
  assert.deepEqual([made.newest, made.lateRun], [-1, 0])
})

test('the memory of a history grows with its sensors and with texts that are not shared, and never shrinks', () => {
  const weight = (count: number): number => history(count).weight
  const rows = 9 * 16
  const ids = (count: number): number => 4 * shapeOf(readFull(textOf(count))).signature.length
  assert.equal(weight(1), 1500 + rows + ids(1))
  assert.equal(weight(7), 1500 + 7 * rows + ids(7))
  const read = readFull(textOf(1))
  const made = new SlotHistory(shapeOf(read))
  const fill = (length: number): number => {
    const meta = `K.${'u'.repeat(length - 2)}`
    made.begin(-1, false)
    made.fill([{ id: 's0', meta, value: '1' }], (text, plain) => metas.of(text, plain))
    return made.weight
  }
  assert.equal(fill(255), weight(1), 'shared')
  assert.equal(fill(256), weight(1) + 4 * 9 * 256)
  assert.equal(fill(300), weight(1) + 4 * 9 * 300)
  assert.equal(fill(3), weight(1) + 4 * 9 * 300)
})
