// A peer of the delivery exchange that becomes silent, a reset of its sender, and the numbers after it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeliveryReceiver } from '../../../../src/protocol/delivery'
import { answer, hex, open } from '../../../lib/exchange'

test('a peer that stops answering is silent, and its packets are returned in order', () => {
  const { sender } = open({ silentAfter: 3 })
  for (let k = 1; k <= 5; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  sender.onAnswer(answer(sender.epoch, 0, 0b10), 10)
  let now = 0
  while (sender.mode === 'acked' && now < 60_000) {
    now += 250
    while (sender.poll(now));
  }
  assert.equal(sender.mode, 'silent')
  assert.equal(now, 8000)
  assert.equal(sender.canSubmit(1), false)
  assert.equal(sender.poll(now), null)
  assert.deepEqual(sender.reset(), [1, 2, 4, 5])
  assert.equal(sender.mode, 'probing')
})

test('a peer that answers without committing is not silent', () => {
  const { sender } = open({ silentAfter: 3 })
  sender.submit(Uint8Array.of(1), 1)
  for (let now = 0; now < 60_000; now += 500) while (sender.poll(now)) sender.onAnswer(answer(sender.epoch, 0), now + 1)
  assert.equal(sender.mode, 'acked')
})

test('a reset returns packets that were not even sent, in order', () => {
  const { sender } = open({ maxPacket: 60 })
  for (let k = 1; k <= 4; k++) sender.submit(new Uint8Array(30).fill(k), k)
  sender.poll(0)
  assert.deepEqual(sender.reset(), [1, 2, 3, 4])
})

test('after a reset the old numbers are abandoned, and in a new epoch they start at 1', () => {
  const { sender, acked } = open()
  for (let k = 1; k <= 3; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  const epoch = sender.epoch
  assert.deepEqual(sender.reset(), [1, 2, 3])
  sender.onAnswer(new DeliveryReceiver().probeReply(sender.poll(5000)!)!, 5000)
  sender.submit(Uint8Array.of(9), 9)
  assert.equal(hex(sender.poll(5000)).slice(2, 28), '11223344' + '00000004' + '00000004' + '01')
  sender.onAnswer(answer(epoch, 3), 5100)
  assert.deepEqual(acked, [], 'a late answer to abandoned numbers')
  assert.deepEqual(sender.reset({ renew: true }), [9])
  sender.onAnswer(new DeliveryReceiver().probeReply(sender.poll(9000)!)!, 9000)
  sender.submit(Uint8Array.of(9), 9)
  assert.equal(hex(sender.poll(9000)).slice(2, 28), '11223345' + '00000001' + '00000001' + '01')
})

test('before the numbers run out the epoch is renewed, once nothing is in flight', () => {
  const { sender, acked } = open({ renewAt: 4 })
  for (let k = 1; k <= 3; k++) assert.equal(sender.submit(Uint8Array.of(k), k), true)
  assert.equal(sender.submit(Uint8Array.of(4), 4), false)
  const receiver = new DeliveryReceiver()
  const pass = (): void => {
    for (let f = sender.poll(0); f; f = sender.poll(0))
      receiver.onFrame(f, 'a', (_p, seq, peer) => void sender.onAnswer(receiver.committed(peer, [seq]), 1))
  }
  pass()
  assert.equal(sender.submit(Uint8Array.of(4), 4), true)
  assert.equal(sender.epoch, 0x11223345)
  pass()
  assert.deepEqual(acked, [1, 2, 3, 4])
})

test('after a reset no packet of the old link is due, and the first loss of the new one shrinks the window immediately', () => {
  const { sender } = open({ maxPacket: 60, onResend: (token: number) => new Uint8Array(30).fill(token) })
  for (let k = 1; k <= 4; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  sender.poll(2000) // 1 is sent, 2 waits
  sender.reset()
  sender.onAnswer(new DeliveryReceiver().probeReply(sender.poll(5000)!)!, 5000)
  assert.equal(sender.mode, 'acked')
  assert.equal(sender.nextDeadline(5000), Number.POSITIVE_INFINITY)

  const grown = open({ startPackets: 1, maxPackets: 16 }).sender
  let last = 0
  const fill = (): number => {
    let n = 0
    while (grown.submit(Uint8Array.of(1), 1)) n++
    while (grown.poll(10));
    last += n
    grown.onAnswer(answer(grown.epoch, last), 10)
    return n
  }
  assert.deepEqual([fill(), fill()], [1, 2])
  grown.slower(10)
  assert.deepEqual([fill(), fill()], [2, 4])
  grown.slower(11)
  assert.equal(fill(), 8, 'the same loss')
  grown.reset()
  grown.onAnswer(new DeliveryReceiver().probeReply(grown.poll(10)!)!, 10)
  assert.deepEqual([fill(), fill(), fill(), fill()], [1, 2, 4, 8])
  grown.slower(12)
  assert.equal(fill(), 8, 'not 16')
})

test('packets waiting for their first transmission are removed by a reset: the next frame contains only later ones', () => {
  const { sender } = open()
  for (let k = 1; k <= 3; k++) sender.submit(Uint8Array.of(k, k), k)
  assert.deepEqual(sender.reset(), [1, 2, 3])
  sender.onAnswer(new DeliveryReceiver().probeReply(sender.poll(5000)!)!, 5000)
  sender.submit(Uint8Array.of(9), 9)
  assert.equal(hex(sender.poll(5000)!.subarray(13, -2)), '01000109')
})
