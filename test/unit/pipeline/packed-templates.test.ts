// Templates as bytes: every number and text is restored, and inconsistent bytes throw.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newMinTimestamps } from '../../../src/pipeline/min-timestamps'
import { PackedReader, PackedWriter } from '../../../src/pipeline/packed-bytes'
import { packSource, unpackSource } from '../../../src/pipeline/packed-templates'
import { type MetaOf, SlotMetaCache } from '../../../src/pipeline/slot-meta-cache'
import { readFull, SlotHistory, shapeOf } from '../../../src/pipeline/slots'
import { units } from './units'

const metas = new SlotMetaCache('ucum', units)
const metaOf: MetaOf = (text, plain) => metas.of(text, plain)

test('a number is restored after any previous number; one close to the previous takes few bytes', () => {
  const most = Number.MAX_SAFE_INTEGER
  const odd = [-0, 0, 0.5, -0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1e300, 5e-324]
  const whole = [1, -1, 63, 64, -64, -65, 2 ** 50, 2 ** 50 + 1, -(2 ** 50), 2 ** 53, most, -most]
  const packer = new PackedWriter()
  for (const before of [...odd, ...whole])
    for (const x of [...odd, ...whole]) {
      packer.start()
      packer.near(x, before)
      const from = new PackedReader(Buffer.from(packer.bytes()))
      assert.ok(Object.is(from.near(before), x), `${x} beside ${before}`)
      assert.ok(from.atEnd)
    }
  const bytes = (x: number, before: number): number => {
    packer.start()
    packer.near(x, before)
    return packer.bytes().length
  }
  assert.deepEqual([bytes(5, 5), bytes(68, 5), bytes(69, 5), bytes(-58, 5), bytes(-59, 5)], [1, 1, 2, 1, 2])
  assert.deepEqual([bytes(2 ** 50, 0), bytes(-(2 ** 50), 0), bytes(2 ** 50 + 1, 0), bytes(-0, 0)], [8, 8, 9, 9])
})

test('counts and texts of any size are restored; truncated bytes throw', () => {
  const packer = new PackedWriter()
  const counts = [0, 1, 127, 128, 16_383, 16_384, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER]
  const texts = ['', 'ü → ß', 'x'.repeat(16_380), 'y'.repeat(70_000)]
  packer.start()
  for (const n of counts) packer.count(n)
  for (const text of texts) packer.text(text)
  for (let k = 0; k < 9000; k++) packer.float(k / 3)
  const bytes = Buffer.from(packer.bytes())
  const from = new PackedReader(bytes)
  assert.deepEqual(
    counts.map(() => from.count()),
    counts,
  )
  assert.deepEqual(
    texts.map(() => from.text()),
    texts,
  )
  for (let k = 0; k < 9000; k++) assert.equal(from.float(), k / 3)
  assert.ok(from.atEnd)
  assert.throws(() => from.count(), RangeError)
  assert.throws(() => from.float(), RangeError)
  assert.throws(() => new PackedReader(Buffer.of(3, 0x61, 0x62)).text(), { message: 'a text is longer than the data' })
  assert.equal(new PackedReader(Buffer.of(2, 0x61, 0x62)).text(), 'ab')
})

/** A history with so many states, one second apart, the last one in seconds of `T0`. */
function history(states: number, text = 'D.1.AAAAAAAA|a>K.K:1|b>W.mA:-2|&u33|'): SlotHistory {
  const read = readFull(text)
  const made = new SlotHistory(shapeOf(read))
  for (let k = 0; k < states; k++) {
    made.begin(-1, false)
    made.fill(
      read.sensors.map(sensor => ({ ...sensor, value: `${sensor.value}${k}` })),
      metaOf,
    )
    made.keep(1000 * k)
  }
  return made
}
const source = (templates: Map<number, SlotHistory>) => ({
  stamp: 1234.5,
  minTimestamps: newMinTimestamps().set(-7, { ts: 99, lateRun: 3 }),
  scopes: [{ epoch: -1, heardAt: 55, templates }],
})
/** everything observable of a history */
const shown = (h: SlotHistory): unknown => [
  h.shape,
  [h.weight, h.lateRun, h.rebuilt, h.newest, h.known, h.seq],
  Array.from({ length: 12 }, (_, k) => h.stateFor(1000 * k)).map(row => row >= 0),
  h.known ? h.ids.map((_, i) => h.newestSlot(i)) : null,
]

test('a source is restored with its timestamp, times, runs and every kept state', () => {
  const rebuilt = history(3)
  rebuilt.rebuild()
  const late = history(8)
  late.lateRun = 5
  late.seq = 300
  const lost = history(2)
  lost.invalidate()
  const templates = new Map([
    [1, history(1)],
    [2, history(20)],
    [3, rebuilt],
    [4, late],
    [5, lost],
    [6, history(1, 'D.1.AAAAAAAA|&u33|#YQ|')],
  ])
  const packed = Buffer.from(packSource(new PackedWriter(), source(templates)))
  const back = unpackSource(packed, metaOf)
  assert.deepEqual([back.stamp, back.minTimestamps], [1234.5, source(templates).minTimestamps])
  assert.deepEqual(
    back.scopes.map(({ epoch, heardAt }) => [epoch, heardAt]),
    [[-1, 55]],
  )
  for (const [tid, made] of templates)
    assert.deepEqual(shown(back.scopes[0]!.templates.get(tid)!), shown(made), `${tid}`)
})

test('inconsistent packed templates throw, wherever they end', () => {
  const packed = Buffer.from(packSource(new PackedWriter(), source(new Map([[1, history(3)]]))))
  const unpack = (bytes: Buffer) => () => unpackSource(bytes, metaOf)
  for (let end = 0; end < packed.length; end++)
    assert.throws(unpack(packed.subarray(0, end)), /RangeError|BAD_TEXT|does not fit/)
  assert.throws(unpack(Buffer.concat([packed, Buffer.of(0)])), { message: /have extra bytes at the end/ })
  assert.throws(unpack(Buffer.concat([Buffer.of(1), packed.subarray(1)])), { message: /of another version/ })

  const packer = new PackedWriter()
  const forged = (signature: string, count: number, rows: number): Buffer => {
    packer.start()
    packer.count(2)
    packer.float(0)
    packer.count(0)
    packer.count(1) // bare frames
    packer.float(0)
    packer.count(1)
    packer.count(7)
    packer.text(signature)
    packer.count(count)
    packer.count(1500)
    packer.count(0)
    packer.float(10)
    packer.count(0)
    packer.count(rows)
    for (let k = 0; k < rows; k++) {
      packer.near(10, 10)
      packer.count(k === 0 ? 0 : 1)
      if (k === 0) packer.text('K.K')
      packer.near(5, 5)
    }
    packer.count(0)
    return Buffer.from(packer.bytes())
  }
  const good = 'D.1.{TS}|a>\x01:\x01|'
  assert.equal(unpackSource(forged(good, 1, 8), metaOf).scopes[0]!.templates.get(7)!.newest, 10)
  assert.throws(unpack(forged(good, 1, 9)), { message: 'more states than are kept' })
  assert.throws(unpack(forged(good, 2, 0)), { message: /does not fit its signature/ })
  assert.throws(unpack(forged('D.1.{TS}||a>\x01:\x01|', 1, 0)), { message: /does not fit its signature/ })
  assert.throws(unpack(forged('no head', 0, 0)), { code: 'BAD_TEXT' })
})
