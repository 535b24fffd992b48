import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fitsLayout } from '../../../src/links/line/layouts'
import { buildPing } from '../../../src/protocol/control'
import { buildProbe } from '../../../src/protocol/delivery/frame'
import {
  buildPoll,
  buildTurnEnd,
  isPoll,
  isTurnEnd,
  parsePoll,
  parseTurnEnd,
} from '../../../src/protocol/polling-turns'

test('a poll and the end of a turn have the bytes of the protocol', () => {
  assert.equal(Buffer.from(buildPoll(0x1234, 7, 1024)).toString('hex'), '0912344f534e02000000070400')
  assert.equal(Buffer.from(buildTurnEnd(0x1234, 7, 3)).toString('hex'), '0a12344f534e020000000703')
  assert.deepEqual(parsePoll(buildPoll(1, 4_294_967_294, 65_535)), { seq: 1, aid: 4_294_967_294, bytes: 65_535 })
  assert.deepEqual(parseTurnEnd(buildTurnEnd(9, 8, 1000)), { seq: 9, aid: 8, waiting: 255 })
})

test('a poll is no probe, a probe and a bare PING are no poll, and each fits its layout', () => {
  const never = (): boolean => false
  const always = (): boolean => true
  for (const packet of [buildPing(1), buildProbe(1), buildPoll(1, 2, 3)]) {
    assert.equal(isPoll(packet), packet.length === 13)
    assert.equal(fitsLayout(packet, never), true)
    assert.equal(fitsLayout(Uint8Array.of(...packet, 0), never), false)
  }
  const end = buildTurnEnd(1, 2, 3)
  assert.ok(isTurnEnd(end) && !isPoll(end))
  assert.equal(fitsLayout(end, never), false)
  assert.equal(fitsLayout(end, always), true)
  for (let cut = 1; cut < 13; cut++) assert.equal(parsePoll(buildPoll(1, 2, 3).subarray(0, cut)), null)
})
