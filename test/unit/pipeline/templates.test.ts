// Templates of the sending side: when a key frame is due, which slots a DIFF must repeat, which TID a template gets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DiffPolicy, fullOnlyUntil, readsClock, SendStore, SendTemplate } from '../../../src/pipeline/templates'
import { encodeInteger } from '../../../src/wire/base62'

const NEVER: DiffPolicy = { diffBase: 'last', fullEvery: 0, fullIntervalMs: 0 }
const STICKY: DiffPolicy = { ...NEVER, diffBase: 'sticky' }
const at = (ts: number, now: number): Float64Array => Float64Array.of(ts, now)

/** How many packets a template sends from one FULL to the next, at most `most`. */
function between(policy: DiffPolicy, most: number, stepMs = 1): number {
  const template = new SendTemplate('s', 1, 1)
  template.sent(true, at(1, 0))
  for (let k = 1; k <= most; k++) {
    if (template.fullDue(policy, at(1 + k, k * stepMs))) return k
    template.sent(false, at(1 + k, k * stepMs))
  }
  return 0
}

test('a key frame is due after so many packets, so many milliseconds, or never', () => {
  assert.equal(between(NEVER, 1000), 0)
  assert.deepEqual(
    [1, 2, 3, 100].map(fullEvery => between({ ...NEVER, fullEvery }, 1000)),
    [1, 2, 3, 100],
  )
  assert.deepEqual(
    [1, 2, 60].map(fullIntervalMs => between({ ...NEVER, fullIntervalMs }, 1000)),
    [1, 2, 60],
  )
  assert.equal(between({ ...NEVER, fullEvery: 5, fullIntervalMs: 3 }, 1000), 3, 'whichever is first')
  assert.equal(between({ ...NEVER, fullEvery: 3, fullIntervalMs: 5 }, 1000), 3)
  assert.equal(between({ ...NEVER, fullEvery: 2, fullGapMs: 7 }, 1000), 7, 'but that far apart')
  assert.equal(between({ ...NEVER, fullIntervalMs: 9, fullGapMs: 7 }, 1000), 9)
  assert.equal(between({ ...NEVER, fullGapMs: 7 }, 1000), 0)
})

test('a forced key frame does not wait, and counts as one', () => {
  const template = new SendTemplate('s', 1, 1)
  const policy = { ...NEVER, fullEvery: 3, fullGapMs: 50 }
  assert.equal(template.fullDue(policy, at(1, 0)), true, 'the first one')
  template.sent(true, at(1, 0))
  template.forceFull = true
  assert.equal(template.fullDue(policy, at(2, 1)), true)
  template.sent(true, at(2, 1))
  assert.deepEqual([template.forceFull, template.sinceFull, template.fullAt], [false, 1, 1])
  template.fullOnlyUntil = 5
  assert.deepEqual([template.fullDue(NEVER, at(3, 4)), template.fullDue(NEVER, at(3, 5))], [true, false])
  const empty = new SendTemplate('s', 1, 0)
  empty.sent(true, at(1, 0))
  assert.equal(empty.fullDue(NEVER, at(2, 1)), true, 'without sensors always')
})

test('only a policy that decides by time reads the clock', () => {
  assert.equal(readsClock(NEVER), false)
  assert.equal(readsClock({ ...NEVER, fullEvery: 9 }), false)
  assert.equal(readsClock({ ...NEVER, fullGapMs: 0 }), false)
  for (const policy of [STICKY, { ...NEVER, fullIntervalMs: 1 }, { ...NEVER, fullGapMs: 1 }])
    assert.equal(readsClock(policy), true, JSON.stringify(policy))
  assert.equal(fullOnlyUntil({ ...NEVER, fullIntervalMs: 70 }, 5), 75)
  assert.equal(fullOnlyUntil({ ...NEVER, fullIntervalMs: 70, acknowledged: true }, 5), Number.POSITIVE_INFINITY)
})

test('a FULL counts as the base for ten seconds, also where a newer packet is acknowledged; of many the last eight times', () => {
  const template = new SendTemplate('s', 1, 1)
  template.sent(true, at(1, 0))
  for (let k = 2; k <= 5; k++) template.sent(false, at(k, k))
  template.acked = 4
  assert.equal(template.base(STICKY, at(9, 9_999)), 1)
  assert.equal(template.base(STICKY, at(9, 10_000)), 4)
  assert.equal(template.base(NEVER, at(9, 10_000)), 5, 'last: the packet before')
  const none = new SendTemplate('s', 1, 1)
  none.sent(true, at(1, 0))
  assert.equal(none.base(STICKY, at(9, 5)), 0, 'nothing is acknowledged')
  // nine FULLs, one each second: the eighth represents the ninth too, with its time
  const many = new SendTemplate('s', 1, 1)
  for (let k = 1; k <= 9; k++) many.sent(true, at(k, 1000 * k))
  many.acked = 9
  const bases = [10_999, 11_000, 17_000, 18_000, 18_999, 19_000].map(now => many.base(STICKY, at(99, now)))
  assert.deepEqual(bases, [1, 2, 8, 8, 8, 9])
})

test('a sent packet is remembered by its number and by the newest time', () => {
  const template = new SendTemplate('s', 1, 2)
  template.metaOrdinals[0] = 7
  template.valueOrdinals[1] = 7
  template.sent(true, at(50, 0))
  assert.deepEqual([template.ordinal, template.lastTs, template.known, template.sinceFull], [1, 50, true, 1])
  assert.deepEqual(
    [...template.metaOrdinals, ...template.valueOrdinals],
    [0, 0, 0, 0],
    'all of it is in the first FULL',
  )
  template.valueOrdinals[1] = 2
  template.sent(true, at(40, 0))
  assert.deepEqual([template.ordinal, template.lastTs, template.valueOrdinals[1]], [2, 50, 2])
  template.sent(false, at(51, 0))
  assert.deepEqual([template.ordinal, template.lastTs, template.sinceFull], [3, 51, 2])
})

test('a value as text is a number if our encoder would write it so, any other text stays unchanged', () => {
  const template = new SendTemplate('s', 1, 2)
  const set = (text: string): [boolean, string] => [template.setValueText(0, text), template.valueText(0)]
  assert.deepEqual(['1', '1', '2', '-1', '01', '01', '1', '00', '00', '0', '-0', '', '!', '!'].map(set), [
    [true, '1'],
    [false, '1'],
    [true, '2'],
    [true, '-1'],
    [true, '01'],
    [false, '01'],
    [true, '1'],
    [true, '00'],
    [false, '00'],
    [true, '0'],
    [true, '-0'],
    [true, ''],
    [true, '!'],
    [false, '!'],
  ])
  // 2^53 and -(2^63) are numbers, 2^53 + 1 and 2^63 are not: kept as text
  for (const [text, odd] of [
    [encodeInteger(2n ** 53n), false],
    [encodeInteger(2n ** 53n + 1n), true],
    [encodeInteger(-(2n ** 63n)), false],
    ['aZl8N0y58M8', true],
    ['-0aZl8N0y58M8', true],
    ['ZZZZZZZZZZZ', true],
  ] as const) {
    assert.deepEqual(set(text), [true, text])
    assert.equal(Number.isNaN(template.numbers[0]), odd, text)
  }
  assert.deepEqual(template.slotTexts(), ['', 'ZZZZZZZZZZZ', '', '0'])
})

test('TIDs are used in turn; the one used longest ago is replaced, and its numbers and time continue', () => {
  const store = new SendStore(3)
  const add = (signature: string, policy = STICKY): SendTemplate => store.add(signature, 1, policy, 100)
  const [a, b, c] = ['a', 'b', 'c'].map(signature => add(signature))
  assert.deepEqual([a!.tid, b!.tid, c!.tid, store.nextTid], [1, 2, 3, 4])
  assert.deepEqual([a!.fullOnlyUntil, c!.fullOnlyUntil], [0, 0], 'none meant anything before')
  for (let k = 1; k <= 5; k++) b!.sent(true, at(k, 0))
  assert.equal(store.find('a'), a)
  const d = store.add('d', 1, { ...STICKY, fullIntervalMs: 60 }, 100)
  assert.deepEqual([d.tid, d.ordinal, d.acked, d.lastTs, d.fullOnlyUntil, b!.alive], [2, 5, 5, 5, 160, false])
  assert.deepEqual([store.find('b'), store.byTid(2), store.nextTid], [undefined, d, 5])
  store.touch(c!)
  const e = add('e', NEVER)
  assert.deepEqual([e.tid, e.fullOnlyUntil, e.lastTs, e.ordinal], [1, 0, -1, 5])
  assert.deepEqual(
    store.all().map(({ signature }) => signature),
    ['e', 'd', 'c'],
  )
  store.keyFrames()
  assert.ok(store.all().every(({ forceFull }) => forceFull))
})

test('a store continues where the last run stopped; a stored TID is not assigned twice', () => {
  assert.equal(new SendStore(3, 0).nextTid, 1)
  const store = new SendStore(4, 3)
  store.put(new SendTemplate('kept', 3, 1))
  assert.deepEqual([store.add('a', 1, STICKY, 0).tid, store.nextTid], [4, 5])
  const wrapped = store.add('b', 1, { ...STICKY, fullIntervalMs: 9 }, 1)
  assert.deepEqual([wrapped.tid, wrapped.fullOnlyUntil], [1, 10], 'it may have meant something in the run before')
  store.skipTo(3)
  assert.equal(store.nextTid, 6, 'never back')
  store.skipTo(8)
  assert.equal(store.nextTid, 8)
  const before = store.byTid(3)!
  store.put(new SendTemplate('other', 3, 1))
  assert.deepEqual([before.alive, store.find('kept')], [false, undefined])
})
