// The sending half in boundary cases: what a loss does to the window, what is still sent to a silent peer, records that no
// longer exist.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeliveryReceiver } from '../../../../src/protocol/delivery'
import { parseFrame } from '../../../../src/protocol/delivery/frame'
import { answer, open, type Rig, rig } from '../../../lib/exchange'

/** Submits until the window is full; returns how many it accepted. */
function fill({ sender }: Rig): number {
  let n = 0
  while (sender.submit(Uint8Array.of(1), ++n));
  return n - 1
}

test('a loss halves the window, at most once per round trip, down to its initial size', () => {
  const r = open({ startPackets: 2, maxPackets: 16 })
  const { sender } = r
  let last = 0
  const round = (now: number): number => {
    const n = fill(r)
    while (sender.poll(now));
    last += n
    sender.onAnswer(answer(sender.epoch, last), now)
    return n
  }
  assert.deepEqual([round(1), round(1), round(1), round(1), round(1)], [2, 4, 8, 16, 16])
  // one of sixteen is lost: the others are named, and it is resent
  last += fill(r)
  while (sender.poll(10));
  sender.onAnswer(answer(sender.epoch, last - 16, 0x7fff), 11)
  assert.equal(fill(r), 0, 'sixteen may be unanswered, counted from the oldest')
  assert.ok(sender.poll(2100))
  assert.equal(r.resent.length, 1)
  sender.onAnswer(answer(sender.epoch, last), 2101)
  // 16 / 2, and the one that was named
  assert.equal(round(2102), 9)
  for (let now = 10_000; now < 60_000; now += 5000) sender.slower(now)
  assert.equal(round(60_000), 2, 'never less than at the start')
})

test('a silent peer is sent nothing more, not even packets that were never sent', () => {
  const { sender, resent } = open({ silentAfter: 2, batchItems: 1 })
  sender.submit(Uint8Array.of(1), 1)
  for (const now of [0, 2000, 4000]) assert.ok(sender.poll(now))
  assert.equal(resent.length, 2)
  for (let k = 2; k <= 4; k++) sender.submit(Uint8Array.of(k), k)
  const now = 60_000
  let sent = 0
  while (sender.poll(now)) sent++
  assert.equal(sender.mode, 'silent')
  assert.ok(sent <= 1, `${sent} frames`)
  assert.equal(sender.poll(now + 60_000), null)
  assert.equal(sender.nextDeadline(now), Number.POSITIVE_INFINITY)
  assert.deepEqual(sender.reset(), [1, 2, 3, 4])
})

test('a packet that waited for the next frame and was named meanwhile is removed: nothing is due before its time', () => {
  const { sender } = open({ maxPacket: 60, onResend: (token: number) => new Uint8Array(30).fill(token) })
  for (let k = 1; k <= 2; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  assert.equal(parseFrame(sender.poll(2000)!)?.n, 1)
  assert.equal(sender.nextDeadline(2000), 2000, '2 waits')
  sender.onAnswer(answer(sender.epoch, 0, 1), 2001)
  assert.equal(sender.poll(2001), null)
  assert.equal(sender.nextDeadline(2001), 10_104, 'only 1 is unanswered: 4 round trips and the commit time')
  assert.ok(sender.poll(10_104))
})

test('the bytes supplied for a resent packet are accepted from 1 byte to the largest size, otherwise it is dropped', () => {
  for (const [size, taken] of [
    [0, false],
    [1, true],
    [182, true],
    [183, false],
  ] as const) {
    const { sender } = open({ onResend: () => new Uint8Array(size) })
    assert.equal(sender.maxPacket, 182)
    sender.submit(Uint8Array.of(1), 1)
    sender.poll(0)
    assert.equal(sender.poll(2000) !== null, taken, `${size} bytes`)
    assert.deepEqual([sender.counters.resent, sender.counters.abandoned], taken ? [1, 0] : [0, 1])
    assert.equal(sender.inFlight, taken ? 1 : 0)
  }
})

test('the last eight probes may be answered, an older one not', () => {
  const probes = (): { r: Rig; sent: Uint8Array[] } => {
    const r = rig()
    const sent: Uint8Array[] = []
    for (let now = 0; sent.length < 9; now += 500) {
      const probe = r.sender.poll(now)
      if (probe) sent.push(probe.slice())
    }
    return { r, sent }
  }
  for (const [k, taken] of [
    [0, false],
    [1, true],
    [8, true],
  ] as const) {
    const { r, sent } = probes()
    assert.equal(r.sender.onAnswer(new DeliveryReceiver().probeReply(sent[k]!)!, 60_000), taken, `probe ${k}`)
    assert.equal(r.sender.mode, taken ? 'acked' : 'probing')
  }
})

test('the round trip of a probe is measured, and its timeout starts, when it has left', () => {
  const { sender } = rig()
  const probe = sender.poll(0)!.slice()
  sender.sentAt(500)
  assert.equal(sender.nextDeadline(500), 2500)
  assert.equal(sender.poll(2499), null)
  sender.onAnswer(new DeliveryReceiver().probeReply(probe)!, 720)
  assert.deepEqual([sender.mode, sender.roundTripMs], ['acked', 220])
})

test('on a shared medium the timeout doubles with each transmission without an answer', () => {
  const { sender } = open({ backsOff: true, silentAfter: 9 })
  sender.submit(Uint8Array.of(1), 1)
  let sent = 0
  for (const [wait, due] of [0, 2000, 4000, 8000].map(
    (wait, k, all) => [wait, all.slice(0, k + 1).reduce((a, b) => a + b)] as const,
  )) {
    if (wait > 0) assert.equal(sender.poll(due - 1), null, `nothing before ${due} ms`)
    assert.ok(sender.poll(due), `${due} ms`)
    sent++
  }
  assert.equal(sent, 4)
})
