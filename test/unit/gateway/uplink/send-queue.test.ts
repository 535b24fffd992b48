// What is sent next, and what the cursor waits for, over a log in memory.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '../../../../src/gateway/uplink/lane'
import { SendQueue, type Want } from '../../../../src/gateway/uplink/send-queue'
import type { RefusedFrame } from '../../../../src/protocol/nack'
import { ManualClock } from '../../../lib/manual'
import { MemLog } from '../../../lib/memlog'
import { dice, digest, Trace } from '../../../lib/trace'

/** A queue over `count` facts; record k has size k, those in `alarms` are alarms. */
function world(count: number, alarms: number[] = []) {
  const log = new MemLog()
  const clock = new ManualClock()
  log.isAlarm = ({ tRaw }) => alarms.includes(tRaw)
  const append = (): number => {
    const tRaw = log.lastSeq + 1
    return log.appendFact({ id: 'D', state: 'ONLINE', tRaw, aid: 7, sensors: [] }, { medium: 'local' })
  }
  for (let k = 0; k < count; k++) append()
  let oversized = 0
  let held = 0
  let heldUnsynced = 0
  const holdMs = (quality: string): number => (quality === 'unsynced' ? heldUnsynced : held)
  const make = (): SendQueue =>
    new SendQueue('uplinks', { log: log.asLog, clock, holdMs, onOversized: () => oversized++ })
  const want = (more: Partial<Want> = {}): Want => ({
    ...{ limit: 100, alarmsOnly: false, oversizedOnly: false, mayGo: () => true, sizeOf: ({ seq }) => seq },
    ...more,
  })
  return {
    log,
    clock,
    append,
    make,
    want,
    queue: make(),
    calls: () => oversized,
    hold: (ms: number) => {
      held = ms
    },
    holdUnsynced: (ms: number) => {
      heldUnsynced = ms
    },
  }
}
const take = (queue: SendQueue, want: Want, most = Number.POSITIVE_INFINITY): Item[] => {
  const items: Item[] = []
  for (let item = queue.next(want); item; item = items.length < most ? queue.next(want) : null) items.push(item)
  return items
}
const seqs = (items: Item[]): number[] => items.map(({ seq }) => seq)

test('alarms are sent first, the others in order, each once; the cursor waits for the oldest, and an alarm is not sent again', () => {
  const { queue, want } = world(5, [4, 2])
  assert.deepEqual(seqs(take(queue, want({ alarmsOnly: true }))), [2, 4])
  const rest = take(queue, want())
  assert.deepEqual(seqs(rest), [1, 3, 5])
  for (const item of rest) queue.settle(item)
  assert.deepEqual([queue.cursor, queue.backlog], [1, 4], 'alarm 2 is still on its way')
})

test('a record that may not be sent blocks those after it, and leaves no state', () => {
  const { queue, want, hold } = world(3, [3])
  const only = (seq: number): Want => want({ mayGo: record => record.seq === seq })
  assert.equal(queue.next(only(2)), null)
  assert.equal(queue.next(only(3))!.seq, 3, 'an alarm waits for no other')
  assert.deepEqual(seqs(take(queue, want())), [1, 2])
  queue.rewind()
  hold(5000)
  assert.equal(queue.next(want()), null)
  assert.ok(Number.isFinite(queue.heldUntil))
})

test('while the disk refuses, records whose correction waits for it hold back no later ones, also after a rewind', () => {
  const { queue, want, log, append, clock, holdUnsynced } = world(0)
  log.quality = 'unsynced'
  append()
  append()
  holdUnsynced(50)
  assert.equal(queue.next(want()), null)
  log.quality = 'synced'
  append()
  clock.advance(50)
  assert.equal(queue.next(want()), null, 'a disk that works commits it soon')
  log.degraded = true
  clock.advance(50)
  assert.equal(queue.next(want()), null)
  append()
  append()
  const live = take(queue, want())
  assert.deepEqual(seqs(live), [4, 5])
  for (const item of live) queue.settle(item)
  queue.rewind()
  assert.equal(queue.next(want()), null)
  append()
  assert.deepEqual(seqs(take(queue, want())), [6])
  log.degraded = false
  holdUnsynced(0)
  clock.advance(50)
  assert.deepEqual(seqs(take(queue, want())), [1, 2, 3])
})

test('after a rewind items in flight are sent again as new items; the answer to the old one moves nothing', () => {
  const { queue, want } = world(3, [3])
  const [alarm, first, second] = take(queue, want(), 3) as [Item, Item, Item]
  queue.settle(alarm)
  queue.rewind()
  assert.deepEqual(
    [alarm, first].map(item => queue.wants(item)),
    [false, false],
  )
  const again = take(queue, want())
  assert.deepEqual(seqs(again), [1, 2], 'the alarm has arrived')
  for (const item of [first, second]) queue.settle(item)
  assert.equal(queue.cursor, 0)
  for (const item of again) queue.settle(item)
  assert.equal(queue.cursor, 3)
  const other = world(2, [2])
  assert.equal(other.queue.next(other.want())!.seq, 2)
  other.queue.rewind()
  assert.deepEqual(seqs(take(other.queue, other.want())), [2, 1], 'an alarm without an answer is first again')
})

test('the cursor passes an oversized fact, which is kept over a restart and sent by an uplink with a larger limit', () => {
  const { queue, want, make, calls, clock } = world(9)
  for (const item of take(queue, want({ limit: 7 }))) queue.settle(item, item.seq > 7 ? 7 : undefined)
  assert.deepEqual([queue.cursor, queue.oversized, queue.backlog, calls()], [9, 2, 2, 2])
  assert.deepEqual([queue.waiting(7), queue.waiting(8, true), queue.waiting(7, true)], [0, 2, 0])
  queue.saveCursor(true)
  const next = make()
  assert.deepEqual([next.cursor, next.oversized], [9, 2])
  assert.equal(next.next(want({ limit: 7, oversizedOnly: true })), null)
  assert.equal(next.next(want({ alarmsOnly: true, oversizedOnly: true })), null)
  const items = take(next, want({ oversizedOnly: true }), 1)
  next.rewindOversized()
  assert.ok(next.wants(items[0]!))
  const all = take(next, want({ oversizedOnly: true }))
  assert.deepEqual(seqs(all), [8, 9])
  for (const item of all) next.settle(item)
  clock.advance(1)
  assert.deepEqual([next.oversized, next.backlog], [0, 0])
})

const refusal = (ts: number, aid = 7): RefusedFrame => ({ reason: 'BAD_KEY', aid, tid: 1, ts, crc16: 0 })

test('a refused record is sent again by the active uplink, also after a restart and after a lost link', () => {
  const { queue, want, make } = world(9)
  for (const item of take(queue, want())) queue.settle(item)
  void queue.refused(refusal(4), 4)
  void queue.refused(refusal(5), 5)
  assert.deepEqual([queue.cursor, queue.backlog, queue.oversized], [9, 2, 0])
  assert.equal(queue.next(want({ oversizedOnly: true })), null, 'not by the secondary one')
  assert.equal(queue.waiting(50, true), 0)
  queue.saveCursor(true)
  const next = make()
  assert.deepEqual([next.cursor, next.backlog], [9, 2])
  const [four] = take(next, want(), 1) as [Item]
  assert.deepEqual([four.seq, four.again, four.done], [4, true, false])
  next.rewind()
  const both = take(next, want())
  assert.deepEqual(seqs(both), [4, 5])
  for (const item of both) next.settle(item)
  assert.deepEqual([next.backlog, next.cursor], [0, 9])
})

test('a record that is refused again and again is sent at longer and longer intervals; without refusals they start anew', () => {
  const { queue, want, clock } = world(1)
  for (const item of take(queue, want())) queue.settle(item)
  const delays: number[] = []
  for (let k = 0; k < 10; k++) {
    void queue.refused(refusal(1), 1)
    const at = clock.mono()
    let items = take(queue, want())
    if (items.length === 0) {
      clock.advance(queue.heldUntil - at)
      items = take(queue, want())
    }
    delays.push((clock.mono() - at) / 1000)
    for (const item of items) queue.settle(item)
    if (k === 8) clock.advance(200_000)
  }
  assert.deepEqual(delays, [0, 1, 2, 4, 8, 16, 32, 60, 60, 1])
})

test('a refused record that waits for a key keeps no other one waiting', () => {
  const { queue, want, clock } = world(9)
  for (const item of take(queue, want())) queue.settle(item)
  for (const seq of [2, 3, 4, 7]) void queue.refused(refusal(seq), seq)
  const keyed = want({ mayGo: ({ seq }) => seq !== 2 && seq !== 3 })
  const first = take(queue, keyed)
  for (const item of first) queue.settle(item)
  assert.deepEqual(seqs(first), [4])
  assert.equal(queue.backlog, 3)
  clock.advance(queue.heldUntil - clock.mono())
  const rest: Item[] = []
  for (let k = 0; k < 5; k++) {
    for (const item of take(queue, k < 2 ? keyed : want())) {
      rest.push(item)
      queue.settle(item)
    }
    clock.advance(60_000)
  }
  assert.deepEqual(seqs(rest).sort(), [2, 3, 7])
  assert.equal(queue.backlog, 0)
})

test('records of one AID with the same time are all found', () => {
  const { queue, want, log } = world(2)
  log.records[1]!.fact.tRaw = 1
  for (const item of take(queue, want())) queue.settle(item)
  void queue.refused(refusal(1), 0)
  assert.deepEqual(seqs(take(queue, want())), [1, 2])
})

test('a refused frame of an earlier run is found in the log by its AID and time, in steps; what was never sent is not', () => {
  const { queue, want, clock, log } = world(1000)
  for (const item of take(queue, want())) queue.settle(item)
  for (const ts of [30, 700, 701, 5000]) void queue.refused(refusal(ts), 0)
  void queue.refused(refusal(800, 8), 0)
  const found: number[] = []
  const search = (): number => {
    for (let steps = 1; ; steps++) {
      const reads = log.reads
      const items = take(queue, want())
      for (const item of items) queue.settle(item)
      found.push(...seqs(items))
      assert.ok(log.reads - reads <= 300, `${log.reads - reads} records in one step`)
      const { heldUntil } = queue
      if (!Number.isFinite(heldUntil)) return steps
      clock.advance(Math.max(0, heldUntil - clock.mono()))
    }
  }
  assert.ok(search() >= 4)
  assert.deepEqual(
    found.filter(seq => [30, 700, 701].includes(seq)),
    [30, 700, 701],
  )
  assert.ok(!found.includes(800))
  assert.equal(queue.backlog, 0)
  found.length = 0
  const before = clock.mono()
  void queue.refused(refusal(5000), 0)
  search()
  void queue.refused(refusal(900), 0)
  search()
  assert.deepEqual(found, [900])
  assert.ok(clock.mono() - before >= 10_000, 'after a search without result comes a pause')
})

test('a refusal is handled when it is on flash; those that arrive during a commit share the next one', async () => {
  const { queue, want, make, log } = world(50)
  for (const item of take(queue, want())) queue.settle(item)
  let commits = 0
  let commit: () => void = assert.fail
  log.committed = () => {
    commits++
    return new Promise<void>(resolve => (commit = resolve))
  }
  let handled = 0
  const all = [10, 11, 30].map(seq => queue.refused(refusal(seq), seq).then(() => handled++))
  // not sent yet by this run, and searched for by no other
  void queue.refused(refusal(40), 0).then(() => handled++)
  await new Promise(resolve => setTimeout(resolve, 5))
  assert.deepEqual([commits, handled], [1, 0])
  commit()
  await new Promise(resolve => setTimeout(resolve, 5))
  assert.deepEqual([commits, handled, make().backlog], [2, 1, 3])
  commit()
  await Promise.all(all)
  assert.equal(handled, 3)
  take(queue, want(), 1)
  await new Promise(resolve => setTimeout(resolve, 5))
  assert.deepEqual([commits, make().backlog], [3, 4])
  commit()
  await new Promise(resolve => setTimeout(resolve, 5))
  assert.equal(handled, 4)
})

test('own facts are searched for under the id with which they are sent', () => {
  const { log, clock } = world(3)
  const queue = new SendQueue('uplinks', { log: log.asLog, clock, holdMs: () => 0, ownAid: () => 50 })
  const want: Want = { limit: 100, alarmsOnly: false, oversizedOnly: false, mayGo: () => true, sizeOf: () => 1 }
  for (const item of take(queue, want)) queue.settle(item)
  void queue.refused(refusal(2, 7), 0)
  void queue.refused(refusal(3, 50), 0)
  assert.deepEqual(seqs(take(queue, want)), [3])
})

test('next to a large backlog three of four items are live, in order in each lane; then there is one lane again', () => {
  const { queue, want, append, log } = world(1500)
  queue.begin()
  for (let k = 0; k < 30; k++) append()
  const items = take(queue, want(), 40)
  const live = items.filter(({ seq }) => seq > 1500)
  assert.deepEqual([items.length, live.length], [40, 30])
  for (const item of take(queue, want())) items.push(item)
  assert.deepEqual([items.length, new Set(seqs(items)).size], [1530, 1530])
  for (const item of items) queue.settle(item)
  assert.deepEqual([queue.cursor, queue.backlog], [log.lastSeq, 0])
  for (let k = 0; k < 5; k++) append()
  assert.equal(queue.backlog, 5, 'what the live lane had behind it is no range any more')
  assert.deepEqual(seqs(take(queue, want())), [1531, 1532, 1533, 1534, 1535])
})

test('queues over backlogs, alarms, oversized facts, rewinds and restarts send what send-queue.txt says', () => {
  const trace = new Trace('unit/gateway/uplink/send-queue.txt')
  for (let round = 0; round < 6; round++) {
    const { below, chance, pick } = dice(round + 30)
    const w = world(pick([0, 5, 1500]), [2, 4])
    const { log, clock } = w
    log.isAlarm = ({ tRaw }) => tRaw % 97 < 2
    let committed = 0
    Object.defineProperty(log, 'committedSeq', { get: () => committed })
    let { queue } = w
    let out: Item[] = []
    const seen: unknown[] = []
    for (let k = 0; k < 1200; k++) {
      const act = below(24)
      if (act < 5) for (let n = below(4); n > 0; n--) w.append()
      else if (act < 14) {
        const size = pick([40, 90])
        const want = w.want({
          limit: pick([size, 100]),
          alarmsOnly: chance(0.1),
          oversizedOnly: chance(0.1),
          sizeOf: ({ seq }) => (seq * 37) % 120,
          ...(chance(0.1) && { mayGo: ({ seq }) => seq % 5 !== 0 }),
        })
        for (let n = below(12); n > 0; n--) {
          const item = queue.next(want)
          if (item) out.push(item)
          seen.push(item?.seq)
        }
      } else if (act < 19) {
        for (let n = below(15); n > 0 && out.length > 0; n--) {
          const item = out.splice(chance(0.7) ? 0 : below(out.length), 1)[0]!
          const need = (item.seq * 37) % 120
          if (queue.wants(item)) queue.settle(item, need > 95 ? 95 : undefined)
        }
      } else if (act === 19) queue.saveCursor(chance(0.3))
      else if (act === 20 && chance(0.15)) {
        queue.rewind()
        if (chance(0.7)) out = []
      } else if (act === 20) queue.rewindOversized()
      else if (act === 21 && chance(0.1)) {
        queue = w.make()
        out = []
        if (chance(0.5)) queue.begin()
      } else if (act === 21 && chance(0.06)) for (let n = 0; n < 1400; n++) w.append()
      else if (act === 22) w.hold(pick([0, 0, 0, 1, 700, 5000]))
      else if (act === 23 && log.lastSeq > 0) {
        const seq = 1 + below(log.lastSeq)
        void queue.refused(refusal(seq), chance(0.5) ? seq : 0)
      }
      if (chance(0.05)) log.degraded = chance(0.2)
      if (chance(0.8)) committed = log.records.length
      clock.advance(pick([0, 0, 1, 40, 999, 1000]))
      const held = queue.heldUntil - clock.mono()
      seen.push(
        queue.cursor,
        queue.backlog,
        queue.oversized,
        held === Number.POSITIVE_INFINITY ? 'none' : held,
        queue.waiting(40, chance(0.3)),
        log.cursors.get('uplinks'),
      )
      if (k % 40 === 39) {
        const kept = digest(0, Buffer.from(JSON.stringify([seen.splice(0), [...log.counters], w.calls()])))
        trace.say(`${round} ${k}`, [kept, log.lastSeq, queue.cursor, queue.backlog, queue.oversized, out.length])
      }
    }
  }
  trace.compare()
})

test('a record of an earlier run is not held: its correction is in the log, or there is none', () => {
  const { log, append, queue, want, holdUnsynced } = world(0)
  log.quality = 'unsynced'
  append()
  log.boot = 2
  append()
  holdUnsynced(50)
  assert.deepEqual(seqs(take(queue, want())), [1])
})
