import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'

test('a NACK is obeyed only for a frame sent in the last minute and named exactly, once in ten seconds for each AID', () => {
  const recent = new SentFrames()
  const frame = { reason: 'NEED_FULL', aid: 7, tid: 1, ts: 1000, crc16: 0xabcd } as const
  recent.note(frame, 0)
  recent.note({ ...frame, tid: 255 }, 0)
  recent.note({ ...frame, aid: 8 }, 0)
  for (const other of [{ tid: 3 }, { ts: 1001 }, { crc16: 0xabcc }, { aid: 9 }])
    assert.equal(recent.obey({ ...frame, ...other }, 10), false, 'never sent')
  assert.equal(recent.obey(frame, 10), true)
  assert.equal(recent.obey({ ...frame, tid: 255 }, 5000), false, 'too soon')
  assert.equal(recent.obey({ ...frame, aid: 8 }, 5000), true, 'another AID')
  assert.equal(recent.obey({ ...frame, tid: 255 }, 10_010), true)
  assert.equal(recent.obey(frame, 60_001), false, 'too old')
})

test('X9: a NACK counts for a frame of the last minute with its sent bytes, once in ten seconds for each AID', () => {
  const recent = new SentFrames()
  const frame = { reason: 'NEED_FULL', aid: 7, tid: 3, ts: 1000, crc16: 0xabcd } as const
  recent.note(frame, 5000, 11)
  for (const other of [{ aid: 8 }, { tid: 4 }, { ts: 1001 }, { crc16: 0xabce }]) {
    assert.equal(recent.sent({ ...frame, ...other }, 5000), false, JSON.stringify(other))
    assert.equal(recent.takeSeq({ ...frame, ...other }), 0)
    assert.equal(recent.obey({ ...frame, ...other }, 5000), false)
  }
  assert.deepEqual([recent.sent(frame, 5000, 5000), recent.sent(frame, 5000, 5001)], [true, false])
  assert.deepEqual([recent.sent(frame, 65_000), recent.sent(frame, 65_001)], [true, false])
  assert.deepEqual([recent.takeSeq(frame), recent.takeSeq(frame)], [11, -1])
  const obeyed = [10_000, 19_999, 20_000, 29_999, 30_000].map(now => recent.obey(frame, now))
  assert.deepEqual(obeyed, [true, false, true, false, true])
  const high = { ...frame, aid: 9, tid: 0xff, ts: 1, crc16: 0xffff }
  recent.note(high, 30_000)
  assert.equal(recent.takeSeq(high), -1, 'goes no second time')
  assert.equal(recent.obey(high, 30_000), true, 'each AID by itself')
})

test('2048 frames are remembered, and 4096 AIDs whose NACK was obeyed', () => {
  const recent = new SentFrames()
  const frame = (aid: number) => ({ reason: 'NEED_FULL', aid, tid: 1, ts: 1, crc16: 1 }) as const
  for (let aid = 1; aid <= 2049; aid++) recent.note(frame(aid), 0)
  assert.deepEqual(
    [1, 2, 2049].map(aid => recent.sent(frame(aid), 0)),
    [false, true, true],
  )
  const many = new SentFrames()
  const obey = (aid: number): boolean => {
    many.note(frame(aid), 0)
    return many.obey(frame(aid), 0)
  }
  for (let aid = 1; aid <= 4096; aid++) assert.equal(obey(aid), true)
  assert.equal(obey(1), false)
  assert.equal(obey(4097), true)
  assert.equal(obey(1), true, 'then it begins anew')
})
