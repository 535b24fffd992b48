import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import { TimestampWatermarks } from '../../../../src/protocol/handshake/timestamps'
import type { RefusedFrame } from '../../../../src/protocol/nack'
import { ManualClock } from '../../../lib/manual'

const T = 1_710_000_000_000
const refused = (part: Partial<RefusedFrame> = {}): RefusedFrame => ({
  reason: 'NEED_FULL',
  aid: 4_000_000_000,
  tid: 255,
  ts: T,
  crc16: 0xffff,
  ...part,
})

test('only a refusal that echoes a frame of the last 60 s is obeyed', () => {
  const clock = new ManualClock()
  const sent = new SentFrames(clock)
  assert.equal(sent.obeys(refused()), false)
  sent.sent(4_000_000_000, 255, T, 0xffff)
  for (const part of [{ aid: 1 }, { tid: 254 }, { ts: T + 1 }, { crc16: 0xfffe }])
    assert.equal(sent.obeys(refused(part)), false)
  clock.advance(60_000)
  assert.equal(sent.obeys(refused()), true)
  clock.advance(10_000)
  assert.equal(sent.obeys(refused()), false, 'sent too long ago')
})

test('of each reason and AID one refusal per 10 s is obeyed', () => {
  const clock = new ManualClock()
  const sent = new SentFrames(clock)
  for (const aid of [1, 2]) sent.sent(aid, 1, T, 7)
  const obeys = (reason: RefusedFrame['reason'], aid: number): boolean =>
    sent.obeys(refused({ reason, aid, tid: 1, crc16: 7 }))
  assert.deepEqual([obeys('NEED_FULL', 1), obeys('NEED_FULL', 1)], [true, false])
  assert.deepEqual([obeys('BAD_KEY', 1), obeys('NEED_FULL', 2)], [true, true])
  clock.advance(9999)
  assert.equal(obeys('NEED_FULL', 1), false)
  clock.advance(1)
  assert.equal(obeys('NEED_FULL', 1), true)
})

test('a refusal that was not obeyed does not delay the next one', () => {
  const sent = new SentFrames(new ManualClock())
  sent.sent(1, 1, T, 7)
  assert.equal(sent.obeys(refused({ aid: 1, tid: 1, crc16: 8 })), false)
  assert.equal(sent.obeys(refused({ aid: 1, tid: 1, crc16: 7 })), true)
})

test('the configured number of frames is remembered', () => {
  const sent = new SentFrames(new ManualClock(), 4)
  for (let k = 0; k < 6; k++) sent.sent(k, 1, T, k)
  const obeys = (k: number): boolean => sent.obeys(refused({ aid: k, tid: 1, crc16: k }))
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(obeys), [false, false, true, true, true, true])
})

test('the timestamp check only rises, per AID, and evicts the AID used longest ago', () => {
  const marks = new TimestampWatermarks(2)
  assert.deepEqual(
    [marks.check(1, 10), marks.check(1, 10), marks.check(1, 9), marks.check('1', 11)],
    ['ACCEPT', 'REPLAY', 'OUT_OF_ORDER', 'ACCEPT'],
  )
  assert.deepEqual([marks.check(2, null), marks.check(2, 0)], ['ACCEPT', 'REPLAY'])
  marks.check(3, 1)
  assert.equal(marks.check(1, 1), 'ACCEPT')
})
