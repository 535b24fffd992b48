// What is remembered of sources stays within its limits: contents of an AID, AIDs, runs of an AID, bytes; and evictions are
// counted.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Received, Receiver, type ReceiverOptions } from '../../../src/pipeline/receiver'
import { ManualClock } from '../../lib/manual'
import { peerFrame } from '../../lib/peer'
import { MemFiles } from '../log/memfiles'
import { units } from './units'

const T0 = 1_710_000_000_000
const clock = new ManualClock(T0)
const receiver = (options: ReceiverOptions = {}): Receiver => new Receiver({ units, clock, ...options })
const full = (ts: number, aid = 42, id = 'a', tid = 1): Buffer =>
  peerFrame(0x3f, [aid], tid, ts, Buffer.from(`${aid};D.1.AAAAAAAA|${id}>K.K:1|`))
const heart = (ts: number, aid = 42, tid = 1): Buffer => peerFrame(0x7f, [aid], tid, ts, Buffer.alloc(0))
const code = (got: Received): string => (got.kind === 'error' ? got.code : 'fact')
const fact = (aid: number, id: string, tRaw: number) => ({
  id: 'D',
  state: 'ONLINE',
  aid,
  tRaw,
  sensors: [{ id, status: 'OK', unit: 'K', value: 1 }],
})

test('of 256 contents of an AID the newest acknowledged time is remembered; the oldest is evicted', () => {
  const learned = (contents: number, id: string): boolean => {
    const r = receiver()
    for (let k = 0; k < contents; k++) r.remember(fact(42, `s${k}`, T0 + 1000))
    return r.receive(full(T0, 42, id), 5).meta.template_learned
  }
  assert.deepEqual([learned(256, 's0'), learned(256, 's255'), learned(256, 'new')], [false, false, true])
  assert.deepEqual([learned(257, 's0'), learned(257, 's1'), learned(257, 's256')], [true, false, false])
})

test('a time that is remembered again makes its content the newest; an older one changes nothing', () => {
  const r = receiver()
  r.remember(fact(42, 'a', T0 + 1000))
  r.remember(fact(42, 'b', T0 + 1000))
  r.remember(fact(42, 'a', T0 + 2000))
  r.remember(fact(42, 'a', T0 + 500))
  for (let k = 0; k < 255; k++) r.remember(fact(42, `s${k}`, T0 + 1000))
  assert.equal(r.receive(full(T0, 42, 'b'), 5).meta.template_learned, true, 'b gave way')
  assert.equal(r.receive(full(T0 + 1999, 42, 'a', 2), 5).meta.template_learned, false)
  assert.equal(r.receive(full(T0 + 2000, 42, 'a', 2), 5).meta.template_learned, true)
})

test('times of 16,384 AIDs that were not heard yet are remembered', () => {
  const learned = (aids: number, aid: number): boolean => {
    const r = receiver()
    for (let k = 1; k <= aids; k++) r.remember(fact(k, 'a', T0 + 1000))
    assert.equal(r.sources, 0, 'none of them was heard')
    return r.receive(full(T0, aid), 5).meta.template_learned
  }
  assert.deepEqual([learned(16_384, 1), learned(16_385, 1), learned(16_385, 2)], [false, true, false])
})

test('an AID without a time to remember never evicts one that has one', () => {
  const r = receiver({ maxSources: 1 })
  for (let k = 1; k <= 16_384; k++) r.remember(fact(k, 'a', T0 + 1000))
  r.receive(full(T0, 20_000))
  r.receive(full(T0, 20_001))
  assert.equal(r.counters.forgotten, 1, 'what came bare was never acknowledged')
  assert.equal(r.receive(full(T0, 1), 5).meta.template_learned, false)
})

test('eight runs of an AID are remembered, each for an hour of silence; evictions are counted', () => {
  const own = new ManualClock(T0)
  const r = receiver({ clock: own })
  const known = (epoch: number): boolean => code(r.receive(heart(T0 + 10), epoch)) === 'fact'
  for (let epoch = 1; epoch <= 8; epoch++) {
    own.advance(1)
    r.receive(full(T0), epoch)
  }
  assert.equal(r.counters.forgotten, 0)
  own.advance(1)
  assert.equal(known(1), true)
  r.receive(full(T0), 9)
  assert.equal(r.counters.forgotten, 1)
  own.advance(1)
  assert.deepEqual([known(2), known(1), known(9)], [false, true, true], 'the one heard longest ago')
  assert.equal(r.receive(full(T0 - 1), 2).meta.template_learned, false, 'its newest time is still known')
  const before = r.counters.forgotten
  own.advance(3_599_999)
  r.receive(full(T0 + 20), 9)
  r.receive(full(T0 + 20), 30)
  assert.ok(r.counters.forgotten > before, 'silent for an hour')
  assert.deepEqual([known(3), known(9)], [false, true])
})

test('a run counts as silent after an hour, not before', () => {
  for (const [ms, kept] of [
    [3_599_999, true],
    [3_600_000, false],
  ] as const) {
    const own = new ManualClock(T0)
    const r = receiver({ clock: own })
    r.receive(full(T0), 1)
    own.advance(ms)
    r.receive(full(T0), 2)
    assert.equal(code(r.receive(heart(T0 + 1), 1)) === 'fact', kept, `${ms} ms`)
    assert.equal(r.counters.forgotten, kept ? 0 : 1)
  }
})

test('a single source stays within the bytes: its other runs are evicted, then its other templates; the last one heard stays', () => {
  const one = receiver()
  one.receive(full(T0))
  const each = one.weight
  const r = receiver({ maxBytes: 3 * each })
  for (let tid = 1; tid <= 3; tid++) r.receive(full(T0 + tid, 42, 'a', tid))
  assert.deepEqual([r.weight, r.counters.forgotten], [3 * each, 0], 'just full')
  r.receive(full(T0 + 4, 42, 'a', 4))
  assert.deepEqual([r.weight, r.counters.forgotten], [each, 3])
  assert.deepEqual(
    [code(r.receive(heart(T0 + 9, 42, 3))), code(r.receive(heart(T0 + 9, 42, 4)))],
    ['NEED_FULL', 'fact'],
  )

  const runs = receiver({ maxBytes: 2 * each })
  runs.receive(full(T0, 42), 1)
  runs.receive(full(T0, 42), 2)
  runs.receive(full(T0, 42), 3)
  assert.deepEqual([runs.weight, runs.counters.forgotten], [each, 2])
  assert.equal(code(runs.receive(heart(T0 + 1), 3)), 'fact')
  // what those runs had acknowledged is still known: no frame builds on an earlier FULL
  assert.equal(runs.receive(full(T0 - 1), 1).meta.template_learned, false)

  const many = receiver({ maxBytes: 2 * each })
  many.receive(full(T0, 42, 'a', 1), 1)
  many.receive(full(T0 + 5, 42, 'b', 2), 1)
  many.receive(full(T0, 42, 'c', 3), 1)
  assert.deepEqual([many.weight, many.counters.forgotten], [each, 2])
  assert.equal(many.receive(full(T0 + 4, 42, 'b', 2), 1).meta.template_learned, false, 'older than what it had of b')
  assert.equal(many.receive(full(T0 + 5, 42, 'b', 2), 1).meta.template_learned, true)
})

test('without spill files the quarter of the AIDs not heard for longest is evicted, with its bytes', () => {
  const r = receiver({ maxSources: 8 })
  for (let aid = 1; aid <= 8; aid++) r.receive(full(T0, aid))
  const each = r.weight / 8
  r.receive(heart(T0 + 1, 1))
  r.receive(full(T0, 9))
  assert.deepEqual([r.sources, r.weight, r.counters.forgotten], [7, 7 * each, 2])
  const known = [1, 2, 3, 4, 9].map(aid => code(r.receive(heart(T0 + 2, aid))) === 'fact')
  assert.deepEqual(known, [true, false, false, true, true])
  const one = receiver({ maxSources: 1 })
  one.receive(full(T0, 1))
  one.receive(full(T0, 2))
  assert.deepEqual([one.sources, one.counters.forgotten], [1, 1])
})

test('4,096 sources are remembered where no answer can be sent; where others can be spilled to files, 65,536', () => {
  const r = receiver()
  for (let aid = 1; aid <= 4096; aid++) r.receive(full(T0, aid))
  assert.equal(r.sources, 4096)
  r.receive(full(T0, 4097))
  assert.equal(r.sources, 3073, 'a quarter went')
})

test('a clock set back is accepted after eight late frames, of more than ten minutes', () => {
  for (const epoch of [undefined, 5])
    for (const [ms, frames, learned] of [
      [600_000, 20, false],
      [600_001, 7, false],
      [600_001, 8, true],
    ] as const) {
      const r = receiver()
      r.receive(full(T0), epoch)
      for (let k = 0; k < frames; k++) r.receive(heart(T0 - ms), epoch)
      assert.equal(r.receive(full(T0 - ms), epoch).meta.template_learned, learned, `${ms} ms, ${frames} frames`)

      const again = receiver()
      again.remember(fact(42, 'a', T0))
      for (let k = 0; k < frames; k++) again.receive(full(T0 - ms), 5)
      assert.equal(again.receive(full(T0 - ms), 5).meta.template_learned, learned, `remembered: ${ms} ms, ${frames}`)
    }
})

test('with spill files, four registry files are written at a time', () => {
  for (const [spillDir, written] of [
    ['/s', 4],
    [undefined, 9],
  ] as const) {
    const own = new ManualClock(T0)
    const files = new MemFiles()
    const r = receiver({ clock: own, files, registryDir: '/r', ...(spillDir && { spillDir }) })
    const count = (): number => [...files.files.keys()].filter(path => /^\/r\/.*\d\.json$/.test(path)).length
    r.receive(full(T0, 1))
    for (let aid = 2; aid <= 10; aid++) r.receive(full(T0, aid))
    assert.equal(count(), 1, 'once per second')
    own.advance(1000)
    r.receive(full(T0 + 1, 1))
    assert.equal(count(), 1 + written)
  }
})

test('after a clean stop a frame builds on a run only if it is the next one: an older copy of the disk gives no wrong value', () => {
  const files = new MemFiles()
  const open = (): Receiver => receiver({ spillDir: '/s', files })
  const [epoch, other] = [7, 8]
  let r = open()
  for (const run of [epoch, other]) {
    r.receive(full(T0, 1), run, 1)
    r.receive(full(T0, 1, 'b', 2), run, 2)
  }
  const stop = (): void => {
    r.save()
    r = open()
  }
  const next = (seq: number, run = epoch, tid = 1): string => code(r.receive(heart(T0 + seq, 1, tid), run, seq))

  stop()
  assert.deepEqual(
    [next(3), next(9), next(5, epoch, 2)],
    ['fact', 'fact', 'fact'],
    'the one that follows proves them all',
  )
  assert.equal(next(2, other), 'fact', 'sent before the stop, once more')
  assert.equal(next(3, other, 2), 'fact')

  stop()
  assert.equal(next(11), 'NEED_FULL', 'what the sender counts as received is not here')
  assert.equal(next(10, epoch, 2), 'NEED_FULL', 'nor of the other templates')
  r.receive(full(T0 + 12, 1), epoch, 12)
  assert.equal(next(14), 'fact')
  assert.equal(next(4, other), 'fact')
})

test('a run from before the start that is spilled again is not used as a base either', () => {
  const files = new MemFiles()
  const open = (): Receiver => receiver({ spillDir: '/s', files, maxSources: 2 })
  const first = open()
  for (let aid = 1; aid <= 4; aid++) first.receive(full(T0, aid), 7, 1)
  first.save()
  const second = open()
  // each is loaded by a frame that proves nothing, and evicted for the next one
  for (let k = 0; k < 3; k++)
    for (let aid = 1; aid <= 4; aid++) assert.equal(code(second.receive(heart(T0 + 1 + k, aid), 7, 1)), 'fact')
  for (let aid = 1; aid <= 4; aid++) assert.equal(code(second.receive(heart(T0 + 9, aid), 7, 3)), 'NEED_FULL')
})
