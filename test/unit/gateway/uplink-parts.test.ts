// The small parts of an uplink, each at its bounds: what they allow, what not yet, and what they forget.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerMs, exchangeOver } from '../../../src/gateway/uplink/exchange'
import { Idle } from '../../../src/gateway/uplink/idle'
import { KeyFramePlan } from '../../../src/gateway/uplink/keyframes'
import { feedName } from '../../../src/gateway/uplink/migrate'
import { Pace } from '../../../src/gateway/uplink/pace'
import { RecentFrames } from '../../../src/gateway/uplink/recent'
import { SentWatchers } from '../../../src/gateway/uplink/watchers'
import { ManualClock } from '../../../src/lib/clock'
import { ManualTimers } from '../../../src/lib/timers'
import { MemLog } from '../../lib/memlog'

test('old cursors: the lowest of the configured ones, once; without those the lowest of all; the stand-in keeps its own', () => {
  const log = new MemLog()
  const list = [{ name: 'a' }, { name: 'b' }]
  const cursors = (): [string, number][] => [...log.cursors]
  assert.equal(feedName(log, false, list), 'uplinks')
  assert.deepEqual(cursors(), [])
  for (const [name, seq] of Object.entries({ a: 9, b: 7, gone: 5, loopback: 3 }))
    log.appendCursor(`uplink:${name}`, seq)
  assert.equal(feedName(log, true, []), 'uplink:loopback')
  assert.equal(log.cursors.size, 4)
  assert.equal(feedName(log, false, list), 'uplinks')
  assert.deepEqual(cursors(), [
    ['uplink:loopback', 3],
    ['uplinks', 7],
  ])
  log.appendCursor('uplink:a', 2)
  feedName(log, false, list)
  assert.deepEqual(
    cursors(),
    [
      ['uplink:loopback', 3],
      ['uplinks', 7],
    ],
    'a shared one is never moved back',
  )
  log.appendCursor('uplinks', 0)
  for (const [name, seq] of Object.entries({ gone: 6, old: 5 })) log.appendCursor(`uplink:${name}`, seq)
  feedName(log, false, list)
  assert.deepEqual(cursors(), [
    ['uplink:loopback', 3],
    ['uplinks', 5],
  ])
})

test('the exchange over a slow medium waits for the longest frame and its answer, each after a wait for the channel', () => {
  const airtime = { of: (bytes: number) => bytes * 10, share: 0.01, waitMs: () => 0 }
  const lora = { medium: 'LORA', maxPacket: 255, airtime } as never
  assert.equal(answerMs(lora), 480)
  const { leastPauseMs, backsOff, startPackets, maxPacket } = exchangeOver(lora, {})
  assert.deepEqual([leastPauseMs, backsOff, startPackets, maxPacket], [2 * (2550 + 480), true, 32, 255])
  const udp = { medium: 'UDP', maxPacket: 1400 } as never
  assert.equal(answerMs(udp), 0)
  assert.deepEqual(exchangeOver(udp, {}), { maxPacket: 1400, maxPackets: 1024, startPackets: 32 })
  const batches = exchangeOver(udp, { batchItems: 3, batchBytes: 0 })
  assert.deepEqual([batches.batchItems, batches.batchBytes], [3, 0])
})

test('budgets save up a second at most; what went over them is paid back before the next packet', () => {
  const settings = { ratePacketsS: 4, rateBytesS: 0, batchWindowMs: 0, batchItems: 8 }
  const pace = new Pace(settings, { maxPacket: 100 })
  assert.equal(pace.readyAt(1000), 1000)
  pace.packets(4)
  assert.equal(pace.readyAt(1000), 1001, 'nothing is left, nothing is owed')
  pace.packets(1)
  assert.equal(pace.readyAt(1000), 1250)
  assert.equal(pace.readyAt(1125), 1250)
  assert.equal(pace.readyAt(61_251), 61_251)
  pace.packets(6)
  assert.equal(pace.readyAt(61_251), 61_751, 'a minute saved up four')
  const slow = new Pace({ ...settings, ratePacketsS: 0.5 }, { maxPacket: 100 })
  slow.readyAt(0)
  slow.packets(1)
  assert.equal(slow.readyAt(0), 1000)
  assert.equal(slow.readyAt(60_000), 60_000)
  slow.packets(1)
  assert.equal(slow.readyAt(60_000), 60_001, 'a rate below one saves up one')
  const bytes = new Pace({ ...settings, ratePacketsS: 0, rateBytesS: 100 }, { maxPacket: 100 })
  bytes.readyAt(0)
  bytes.bytes(300)
  bytes.packets(1000)
  assert.equal(bytes.readyAt(0), 2000)
})

test('the budget of the air: ordinary data waits as long as it says, alarms until it is used up', () => {
  let waits = { alarm: 0, data: 0 }
  const airtime = {
    ...{ of: () => 1, share: 0.01 },
    waitMs: (bytes: number, urgent: boolean) => (bytes === 51 ? (urgent ? waits.alarm : waits.data) : Number.NaN),
  }
  const pace = new Pace({ ratePacketsS: 0, rateBytesS: 0, batchWindowMs: 0, batchItems: 8 }, { maxPacket: 51, airtime })
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [10, true])
  waits = { alarm: 0, data: 700 }
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [710, true])
  waits = { alarm: 1, data: 900 }
  assert.deepEqual([pace.readyAt(10), pace.urgentMay], [910, false])
})

test('a batch waits for its window from the first record on, or until it is full', () => {
  const settings = { ratePacketsS: 0, rateBytesS: 0, batchItems: 3 }
  const pace = new Pace({ ...settings, batchWindowMs: 100 }, { maxPacket: 51 })
  const at = (now: number, waiting: number): number => pace.batchAt(now, () => waiting)
  assert.equal(at(0, 0), Number.POSITIVE_INFINITY)
  assert.deepEqual([at(10, 1), at(50, 2), at(60, 3)], [110, 110, 60])
  pace.batchDone()
  assert.deepEqual([at(70, 1), at(80, 0), at(90, 1)], [170, Number.POSITIVE_INFINITY, 190])
  const none = new Pace({ ...settings, batchWindowMs: 0 }, { maxPacket: 51 })
  assert.equal(
    none.batchAt(0, () => assert.fail('nothing is to be counted')),
    Number.NEGATIVE_INFINITY,
  )
})

test('X9: a NACK counts for a frame of the last minute as it went out, once in ten seconds for each AID', () => {
  const recent = new RecentFrames()
  const frame = { aid: 7, tid: 3, ts: 1000, crc16: 0xabcd }
  recent.note(frame, 5000, 11)
  for (const other of [{ aid: 8 }, { tid: 4 }, { ts: 1001 }, { crc16: 0xabce }]) {
    assert.equal(recent.sent({ ...frame, ...other }, 5000), false, JSON.stringify(other))
    assert.equal(recent.takeSeq({ ...frame, ...other }, 5000), 0)
    assert.equal(recent.obey({ ...frame, ...other }, 5000), false)
  }
  assert.deepEqual([recent.sent(frame, 5000, 5000), recent.sent(frame, 5000, 5001)], [true, false])
  assert.deepEqual([recent.sent(frame, 65_000), recent.sent(frame, 65_001)], [true, false])
  assert.deepEqual(
    [recent.takeSeq(frame, 65_001), recent.takeSeq(frame, 65_000), recent.takeSeq(frame, 65_000)],
    [0, 11, 0],
  )
  const obeyed = [10_000, 19_999, 20_000, 29_999, 30_000].map(now => recent.obey(frame, now))
  assert.deepEqual(obeyed, [true, false, true, false, true])
  const high = { aid: 9, tid: 0xff, ts: 1, crc16: 0xffff }
  recent.note(high, 30_000)
  assert.equal(recent.takeSeq(high, 30_000), 0, 'goes no second time')
  assert.equal(recent.obey(high, 30_000), true, 'each AID by itself')
})

test('2048 frames are remembered, and 4096 AIDs that were obeyed', () => {
  const recent = new RecentFrames()
  const frame = (aid: number) => ({ aid, tid: 1, ts: 1, crc16: 1 })
  for (let aid = 1; aid <= 2049; aid++) recent.note(frame(aid), 0)
  assert.deepEqual(
    [1, 2, 2049].map(aid => recent.sent(frame(aid), 0)),
    [false, true, true],
  )
  const many = new RecentFrames()
  const obey = (aid: number): boolean => {
    many.note(frame(aid), 0)
    return many.obey(frame(aid), 0)
  }
  for (let aid = 1; aid <= 4096; aid++) assert.equal(obey(aid), true)
  assert.equal(obey(1), false)
  assert.equal(obey(4097), true)
  assert.equal(obey(1), true, 'then it begins anew')
})

test('costs of key frames are kept for 1024 templates, the one sent longest ago is forgotten', () => {
  const plan = new KeyFramePlan({ of: bytes => bytes, share: 0.5, waitMs: () => 0 })
  for (let aid = 0; aid < 1024; aid++) plan.note(aid, 1, aid === 1 ? 101 : 1)
  assert.equal(plan.gapMs, 1124 / 0.1)
  plan.note(0, 1, 1)
  assert.equal(plan.gapMs, 1124 / 0.1)
  plan.note(5000, 1, 1)
  assert.equal(plan.gapMs, 1024 / 0.1, 'AID 1, for 0 was sent since')
  plan.note(5000, 2, 1)
  assert.equal(plan.gapMs, 1024 / 0.1)
})

test('a watcher hears of its record only, of a packet in the exchange twice, and of nothing after that', () => {
  const watchers = new SentWatchers()
  const told: string[] = []
  const every: string[] = []
  const packet = Uint8Array.of(1)
  for (const seq of [1, 2, 3, 4]) watchers.watch(seq, ({ state }) => told.push(`${seq} ${state}`))
  watchers.tell(1, packet, 'UDP', 'best_effort')
  watchers.every = (_, medium) => every.push(medium)
  watchers.tell(1, packet, 'UDP', 'best_effort')
  watchers.tell(2, packet, 'MQTT', 'medium')
  watchers.tell(9, packet, 'UDP', 'exchange')
  watchers.acknowledged(3)
  watchers.tell(3, packet, 'UDP', 'exchange')
  watchers.tell(4, packet, 'UDP', 'exchange')
  watchers.unwatch(4)
  for (const seq of [3, 3, 4, 9]) watchers.acknowledged(seq)
  assert.deepEqual(told, ['1 sent', '2 acknowledged', '3 awaited', '4 awaited', '3 acknowledged'])
  assert.deepEqual(every, ['UDP', 'MQTT', 'UDP', 'UDP', 'UDP'])
})

test('waiting for nothing on its way ends when that is so, at the latest after its limit, and leaves no timer', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const idle = new Idle(timers)
  idle.settle()
  let done = 0
  void idle.wait(100).then(() => done++)
  await timers.advance(99)
  assert.equal(done, 0)
  await timers.advance(1)
  assert.equal(done, 1)
  void idle.wait(100).then(() => done++)
  idle.settle()
  await timers.advance(0)
  assert.deepEqual([done, timers.pending], [2, 0])
})
