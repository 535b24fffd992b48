// Which packets the sender of the delivery exchange sends again, when, and in which frame.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeliveryReceiver } from '../../../../src/protocol/delivery'
import { parseFrame } from '../../../../src/protocol/delivery/frame'
import { answer, hex, open } from '../../../lib/exchange'

test('unanswered packets are resent with the bytes that the owner supplies, after 2 s at least', () => {
  const { sender, resent } = open()
  for (let k = 1; k <= 3; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(1000)
  sender.onAnswer(answer(sender.epoch, 0, 1), 1040)
  assert.equal(sender.nextDeadline(1040), 3000)
  assert.equal(sender.poll(2999), null)
  const first = sender.poll(3000)!
  assert.equal(hex(first).slice(2 + 8, -4), '00000001' + '00000001' + '01' + '0002f001')
  const second = sender.poll(3000)!
  assert.equal(hex(second).slice(2 + 8, -4), '00000001' + '00000003' + '01' + '0002f003')
  assert.equal(sender.poll(3000), null)
  assert.deepEqual(resent, [
    [1, 1],
    [3, 1],
  ])
  assert.equal(sender.counters.resent, 2)
})

test('on a slow link the timeout grows to 4 round trips and the commit time', () => {
  const { sender } = open({}, 300)
  sender.submit(Uint8Array.of(1), 1)
  sender.poll(0)
  sender.onAnswer(answer(sender.epoch, 1), 5000)
  assert.equal(sender.roundTripMs, 5000)
  sender.submit(Uint8Array.of(2), 2)
  sender.poll(6000)
  assert.equal(sender.nextDeadline(6000), 6000 + 4 * 5000 + 300)
})

test('a lost packet does not lengthen the timeout', () => {
  const { sender } = open({ silentAfter: 50 })
  sender.submit(Uint8Array.of(1), 1)
  const times: number[] = []
  for (let now = 0; now < 9000; now += 500) while (sender.poll(now)) times.push(now)
  assert.deepEqual(times, [0, 2000, 4000, 6000, 8000])
})

test('only packets that an answer could name are resent, the others wait for an answer with something new', () => {
  const { sender, resent } = open()
  for (let k = 1; k <= 100; k++) sender.submit(Uint8Array.of(k), k)
  while (sender.poll(0));
  while (sender.poll(2000));
  assert.equal(resent.length, 33)
  sender.onAnswer(answer(sender.epoch, 60), 2100)
  while (sender.poll(2100));
  assert.deepEqual(
    resent.slice(33).map(([token]) => token),
    Array.from({ length: 33 }, (_, k) => 61 + k),
  )
})

test('a resent packet that no longer fits the frame starts the next one', () => {
  const sent: number[] = []
  const { sender } = open({
    maxPacket: 60,
    onResend: (token: number) => {
      sent.push(token)
      return new Uint8Array(30).fill(token)
    },
  })
  for (let k = 1; k <= 4; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  const frames: string[] = []
  for (let f = sender.poll(2000); f; f = sender.poll(2000)) {
    assert.ok(parseFrame(f))
    frames.push(hex(f).slice(18, 28))
  }
  assert.deepEqual(frames, ['0000000101', '0000000201', '0000000301', '0000000401'])
  assert.deepEqual(sent, [1, 2, 3, 4], 'the owner is called once per transmission')
})

test('an acknowledged packet that waited for the next frame does not delay the others', () => {
  const { sender } = open({ maxPacket: 60, onResend: (token: number) => new Uint8Array(30).fill(token) })
  for (let k = 1; k <= 4; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  sender.poll(2000) // 1 is sent, 2 waits
  sender.onAnswer(answer(sender.epoch, 0, 1), 2001) // 2 has arrived
  const seqs: string[] = []
  for (let now = 2001; now < 20_000; now += 500)
    for (let f = sender.poll(now); f; f = sender.poll(now)) seqs.push(hex(f).slice(18, 26))
  for (const seq of ['00000001', '00000003', '00000004']) assert.ok(seqs.includes(seq), seq)
  assert.ok(!seqs.includes('00000002'))
})

test('a record that no longer exists is dropped and the base advances', () => {
  const { sender, acked } = open({ gone: new Set([1, 2]) })
  for (let k = 1; k <= 3; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  const frame = sender.poll(2000)!
  assert.equal(hex(frame).slice(10, 28), '00000003' + '00000003' + '01')
  assert.equal(sender.counters.abandoned, 2)
  assert.equal(sender.inFlight, 1)
  const receiver = new DeliveryReceiver()
  receiver.onFrame(frame, 'a', (_packet, seq, peer) => {
    sender.onAnswer(receiver.committed(peer, [seq]), 2100)
  })
  assert.deepEqual(acked, [3])
  assert.equal(sender.inFlight, 0)
})

test('the timeout for an answer starts when the frame has left', () => {
  const { sender, resent } = open({}, 0)
  sender.submit(Uint8Array.of(1), 1)
  const due = sender.poll(0) && sender.nextDeadline(0)
  sender.sentAt(5000)
  assert.equal(sender.nextDeadline(5000), due! + 5000)
  assert.equal(sender.poll(due! + 4999), null)
  assert.ok(sender.poll(due! + 5000))
  assert.deepEqual(resent, [[1, 1]])
  // what was sent before keeps its timeout
  sender.submit(Uint8Array.of(2), 2)
  const now = due! + 5000
  assert.ok(sender.poll(now))
  sender.sentAt(now + 300)
  sender.onAnswer(answer(sender.epoch, 1), now + 400)
  assert.equal(sender.nextDeadline(now + 400) >= now + 300 + 2000, true)
})
