// The probes of an opening (X29): what is sent to a peer that answers, answers late, or never.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Probing } from '../../../../src/gateway/uplink/probed-medium'
import type { Clock } from '../../../../src/lib/clock'
import { SequenceCounter } from '../../../../src/protocol/control'
import { DeliverySender } from '../../../../src/protocol/delivery'

/** A sender and its probing with a clock that only advance() moves; `sent` has the times of the probes. */
function rig(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 1000
  const clock = { mono: () => now, wall: () => now } as Clock
  const seqs = new SequenceCounter()
  const sender = new DeliverySender<number>({
    maxPacket: 1000,
    nextSeq: () => seqs.next(),
    randomEpoch: () => 1,
    onAcked: () => undefined,
    onResend: () => null,
  })
  const sent: number[] = []
  const send = async (): Promise<boolean> => sent.push(now) > 0
  const probing = new Probing(sender, send, clock)
  let opened = 0
  /** Opens; returns the outcome. */
  const open = (): { result: string } => {
    sender.reset()
    sent.length = 0
    opened = now
    const outcome = { result: 'waiting' }
    probing.ask().then(
      () => {
        outcome.result = 'open'
      },
      error => {
        outcome.result = error.code
      },
    )
    return outcome
  }
  const advance = async (ms: number): Promise<void> => {
    await new Promise(setImmediate)
    for (let left = ms; left > 0; left -= 250) {
      now += 250
      t.mock.timers.tick(250)
      await new Promise(setImmediate)
    }
  }
  const pong = (seq: number): void => {
    sender.onAnswer(Uint8Array.of(0x0a, 0, seq, 0x4f, 0x53, 0x4e, 1, 0, 0, 100), now)
    probing.answered()
  }
  return { sender, probing, open, advance, pong, sentAfter: () => sent.map(at => at - opened) }
}

test('a peer that answers opens the link', async t => {
  const { open, advance, pong, sender } = rig(t)
  const outcome = open()
  await advance(500)
  assert.equal(outcome.result, 'waiting')
  pong(1)
  await advance(250)
  assert.equal(outcome.result, 'open')
  assert.equal(sender.mode, 'acked')
})

test('no answer within 2 s is LINK_DOWN; after three openings a slow peer gets more time, and more probes', async t => {
  const { open, advance, pong, sentAfter } = rig(t)
  const waits: [ms: number, probes: number[]][] = []
  for (let k = 0; k < 7; k++) {
    const outcome = open()
    let ms = 0
    for (; outcome.result === 'waiting'; ms += 250) await advance(250)
    assert.equal(outcome.result, 'LINK_DOWN')
    waits.push([ms, sentAfter()])
  }
  assert.deepEqual(waits, [
    [2000, [0]],
    [2000, [0]],
    [2000, [0]],
    [4000, [0, 2000]],
    [8000, [0, 2000, 6000]],
    [16_000, [0, 2000, 6000, 11_000]],
    [16_000, [0, 2000, 6000, 11_000]],
  ])
  const slow = open()
  await advance(9000)
  pong(16)
  await advance(250)
  assert.equal(slow.result, 'waiting', 'a probe of an opening that is over')
  pong(17)
  await advance(250)
  assert.equal(slow.result, 'open')
  const next = open()
  await advance(2000)
  assert.equal(next.result, 'LINK_DOWN', 'an answer resets the backoff')
})

test('closing the link ends the wait, and a new opening ends the one before', async t => {
  const { open, advance, pong, probing } = rig(t)
  const first = open()
  await advance(500)
  probing.cancel()
  await advance(250)
  assert.equal(first.result, 'LINK_DOWN')
  const second = open()
  await advance(500)
  const third = open()
  await advance(250)
  assert.equal(second.result, 'LINK_DOWN')
  pong(3)
  await advance(250)
  assert.equal(third.result, 'open')
})
