// Key frames planned by airtime (decision 0036), and the delivery exchange on a slow medium.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyFramePlan } from '../../../../src/gateway/uplink/keyframes'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { DeliverySender } from '../../../../src/protocol/delivery'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'
import { units } from '../../../lib/uplinkworld'

/** 10 ms a byte, 1 % of the time */
const airtime = { of: (bytes: number) => bytes * 10, share: 0.01, waitMs: () => 0 }

test('planned key frames of all templates together take a fifth of the allowed airtime', () => {
  const plan = new KeyFramePlan(airtime)
  plan.note(5, 1, 50)
  plan.note(5, 1, 40)
  assert.equal(plan.gapMs, 400 / 0.002)
  plan.note(6, 1, 60)
  assert.equal(plan.gapMs, 1000 / 0.002)
})

test('key frames of a template keep their interval, except forced ones', () => {
  const clock = new ManualClock()
  const encoder = new UplinkEncoder({ aid: 5, units, clock, fullEvery: 10, fullIntervalS: 60, acknowledged: true })
  encoder.keyFramesApart(500_000)
  let n = 0
  const full = (): boolean => {
    clock.advance(1000)
    const sensors = [{ id: 'T', status: 'OK', unit: 'K', value: 280 + (n++ % 50) }]
    return encoder.encode({ id: 'X', state: 'ONLINE', aid: 5, tRaw: clock.wall(), sensors }).cmd === COMMAND.DATA_FULL
  }
  assert.equal(full(), true)
  const at = Array.from({ length: 1100 }, full).flatMap((is, k) => (is ? [k] : []))
  assert.deepEqual(at, [499, 999])
  encoder.keyFrameNext()
  assert.equal(full(), true)
})

test('a slow medium causes no retransmission storm: the timeout starts when a frame has left, and doubles while no answer arrives', () => {
  let now = 0
  const sender = new DeliverySender<number>({
    maxPacket: 255,
    maxPackets: 8,
    nextSeq: () => 1,
    randomEpoch: () => 9,
    minRtoMs: 5000,
    backsOff: true,
    onAcked: () => undefined,
    onResend: () => new Uint8Array(20),
  })
  const ping = sender.poll(now)!
  now = 4000
  sender.sentAt(now)
  sender.onAnswer(Uint8Array.of(0x0a, ping[1]!, ping[2]!, 0x4f, 0x53, 0x4e, 1, 0, 0, 100), (now += 1000))
  assert.equal(sender.mode, 'acked')
  assert.equal(sender.roundTripMs, 1000, 'what the medium took is not the road')
  sender.submit(new Uint8Array(20), 1)
  assert.ok(sender.poll(now))
  now += 60_000 // the budget was used up meanwhile
  sender.sentAt(now)
  assert.equal(sender.poll(now), null)
  const pauses: number[] = []
  for (let last = now; sender.mode === 'acked'; ) {
    now = sender.nextDeadline(now)
    const frame = sender.poll(now)
    if (!frame) break
    sender.sentAt(now)
    pauses.push(now - last)
    last = now
  }
  assert.deepEqual(pauses, [5000, 10_000, 20_000, 40_000, 80_000])
  assert.equal(sender.mode, 'silent')
})

test('costs of key frames are stored for 1024 templates, the one sent longest ago is evicted', () => {
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
