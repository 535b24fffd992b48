import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import type { RefusedFrame } from '../../../../src/protocol/nack'

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
  const sent = new SentFrames()
  assert.equal(sent.obey(refused(), 0), false)
  sent.note(refused(), 0)
  for (const part of [{ aid: 1 }, { tid: 254 }, { ts: T + 1 }, { crc16: 0xfffe }])
    assert.equal(sent.obey(refused(part), 0), false)
  assert.equal(sent.obey(refused(), 60_000), true)
  assert.equal(sent.obey(refused(), 70_000), false, 'sent too long ago')
})

test('of each reason and AID one refusal per 10 s is obeyed', () => {
  const sent = new SentFrames()
  for (const aid of [1, 2]) sent.note({ aid, tid: 1, ts: T, crc16: 7 }, 0)
  const obeys = (reason: RefusedFrame['reason'], aid: number, now: number): boolean =>
    sent.obey(refused({ reason, aid, tid: 1, crc16: 7 }), now)
  assert.deepEqual([obeys('NEED_FULL', 1, 0), obeys('NEED_FULL', 1, 0)], [true, false])
  assert.deepEqual([obeys('BAD_KEY', 1, 0), obeys('NEED_FULL', 2, 0)], [true, true])
  assert.equal(obeys('NEED_FULL', 1, 9999), false)
  assert.equal(obeys('NEED_FULL', 1, 10_000), true)
})

test('a refusal that was not obeyed does not delay the next one', () => {
  const sent = new SentFrames()
  sent.note({ aid: 1, tid: 1, ts: T, crc16: 7 }, 0)
  assert.equal(sent.obey(refused({ aid: 1, tid: 1, crc16: 8 }), 0), false)
  assert.equal(sent.obey(refused({ aid: 1, tid: 1, crc16: 7 }), 0), true)
})

test('the configured number of frames is remembered', () => {
  const sent = new SentFrames(4)
  for (let k = 0; k < 6; k++) sent.note({ aid: k, tid: 1, ts: T, crc16: k }, 0)
  const obeys = (k: number): boolean => sent.obey(refused({ aid: k, tid: 1, crc16: k }), 0)
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(obeys), [false, false, true, true, true, true])
})
