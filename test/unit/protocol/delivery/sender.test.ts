// The sender of the delivery exchange (X29): its probe, its frames, the window, and answers that acknowledge packets and measure the link.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeliveryReceiver, isProbe } from '../../../../src/protocol/delivery'
import { parseAnswer, parseFrame } from '../../../../src/protocol/delivery/frame'
import { crc16 } from '../../../../src/wire/crc'
import { answer, bytes, hex, open, rig } from '../../../lib/exchange'

test('a probe and its reply have the bytes of X29', () => {
  const { sender } = rig()
  const probe = sender.poll(0)!
  assert.equal(hex(probe), '0900014f534e0100')
  assert.equal(isProbe(probe), true)
  const receiver = new DeliveryReceiver({ ackCommitMs: 0x0102 })
  assert.equal(hex(receiver.probeReply(probe)), '0a00014f534e01000102')
  assert.equal(receiver.probeReply(bytes('090001')), null)
  assert.equal(receiver.probeReply(bytes('0900014f534e0200')), null)
})

test('without an answer the probe is repeated after 2 s, doubling to 5 s, with new numbers', () => {
  const { sender } = rig()
  const times: number[] = []
  const seqs = new Set<string>()
  for (let now = 0; now <= 25_000; now += 500) {
    const probe = sender.poll(now)
    if (probe) {
      times.push(now)
      seqs.add(hex(probe))
      assert.equal(sender.poll(now), null)
    }
  }
  assert.deepEqual(times, [0, 2000, 6000, 11_000, 16_000, 21_000])
  assert.equal(seqs.size, times.length)
  assert.equal(sender.nextDeadline(25_000), 26_000)
  assert.equal(sender.canSubmit(1), false)
  assert.equal(sender.submit(bytes('01'), 1), false)
})

test('a PONG counts only with the seq of an open probe, even if it is late', () => {
  const { sender } = rig()
  sender.poll(0)
  sender.poll(2000)
  assert.equal(sender.onAnswer(bytes('0a00094f534e01000064'), 2100), false)
  assert.equal(sender.onAnswer(bytes('0a'), 2100), false)
  assert.equal(sender.mode, 'probing')
  assert.equal(sender.onAnswer(bytes('0a00014f534e01000064'), 2500), true)
  assert.equal(sender.mode, 'acked')
  assert.equal(sender.onAnswer(bytes('0a00014f534e01000064'), 2600), false)
})

test('a PONG with other bytes after it is a bare one; flags are ignored', () => {
  for (const [pong, mode] of [
    ['0a00014f534e02000064', 'best_effort'],
    ['0a0001ffffffffffffffff', 'best_effort'],
    ['0a00014f534e0100', 'best_effort'],
    ['0a00014f534e01ff0064', 'acked'],
  ] as const) {
    const { sender } = rig()
    sender.poll(0)
    assert.equal(sender.onAnswer(bytes(pong), 10), true)
    assert.equal(sender.mode, mode, pong)
  }
  assert.equal(isProbe(bytes('0900014f534e01ff')), true)
})

test('a bare PONG means best effort until the link is reopened', () => {
  const { sender } = rig()
  sender.poll(0)
  assert.equal(sender.onAnswer(bytes('0a0001'), 10), true)
  assert.equal(sender.mode, 'best_effort')
  assert.equal(sender.poll(100_000), null)
  assert.equal(sender.nextDeadline(100_000), Number.POSITIVE_INFINITY)
  assert.deepEqual(sender.reset(), [])
  assert.equal(isProbe(sender.poll(100_000)!), true)
})

test('a frame has the layout of X29 and contains as many packets as fit', () => {
  const { sender } = open({ maxPacket: 16 + 2 * 3 + 9 })
  for (let k = 1; k <= 5; k++) assert.equal(sender.submit(Uint8Array.of(k, k, k), k), true)
  const first = hex(sender.poll(10))
  const body = '10' + '11223344' + '00000001' + '00000001' + '03' + '0003010101' + '0003020202' + '0003030303'
  assert.equal(first, body + crc16(bytes(body)).toString(16).padStart(4, '0'))
  const second = sender.poll(10)!
  assert.ok(parseFrame(second))
  assert.equal(hex(second).slice(0, 28), '10' + '11223344' + '00000001' + '00000004' + '02')
  assert.equal(sender.poll(10), null)
})

test('a packet that can never fit is refused by name', () => {
  const { sender } = open({ maxPacket: 100 })
  assert.equal(sender.maxPacket, 82)
  assert.equal(sender.submit(new Uint8Array(82), 1), true)
  assert.equal(sender.poll(0)!.length, 100)
  assert.throws(() => sender.submit(new Uint8Array(83), 2), { code: 'PACKET_TOO_LARGE' })
  assert.throws(() => sender.submit(new Uint8Array(0), 2), { code: 'PACKET_TOO_LARGE' })
})

test('an answer acknowledges exactly the packets it names, once', () => {
  const { sender, acked } = open()
  for (let k = 1; k <= 40; k++) sender.submit(Uint8Array.of(k), k)
  while (sender.poll(0));
  assert.equal(sender.inFlight, 40)
  // cum 2, then 4 and 35 (bits 0 and 31)
  assert.equal(sender.onAnswer(answer(sender.epoch, 2, 0x80000001), 50), true)
  assert.deepEqual(acked, [1, 2, 4, 35])
  sender.onAnswer(answer(sender.epoch, 2, 0x80000001), 60)
  assert.deepEqual(acked, [1, 2, 4, 35])
  sender.onAnswer(answer(sender.epoch, 40), 70)
  assert.equal(acked.length, 40)
  assert.equal(sender.inFlight, 0)
  assert.equal(sender.counters.acked, 40)
  assert.equal(sender.nextDeadline(80), Number.POSITIVE_INFINITY)
})

test('answers of another epoch, of packets never sent, or damaged, change nothing', () => {
  const { sender, acked } = open()
  sender.submit(Uint8Array.of(1), 1)
  assert.equal(sender.onAnswer(answer(sender.epoch, 1), 0), true, 'submitted, not sent yet')
  sender.poll(0)
  sender.onAnswer(answer(sender.epoch + 1, 1), 0)
  sender.onAnswer(answer(sender.epoch, 2), 0)
  sender.onAnswer(answer(sender.epoch, 0, 1), 0)
  assert.equal(sender.counters.stray, 4)
  const damaged = answer(sender.epoch, 1)
  damaged[9]! ^= 1
  assert.equal(sender.onAnswer(damaged, 0), false)
  assert.equal(sender.onAnswer(bytes('050000'), 0), false, 'an ACK of the handshake')
  assert.deepEqual(acked, [])
})

test('a packet sent twice gives no round-trip time, and neither does one that was named late because of it', () => {
  const { sender } = open()
  for (let k = 1; k <= 3; k++) sender.submit(Uint8Array.of(k), k)
  sender.poll(0)
  sender.onAnswer(answer(sender.epoch, 0, 1), 40)
  const before = sender.roundTripMs
  sender.poll(2000)
  sender.onAnswer(answer(sender.epoch, 3), 9000)
  assert.equal(sender.roundTripMs, before)
  assert.equal(sender.inFlight, 0)
})

test('a peer that answers and names nothing is slow: the timeout doubles to 16 s, halves with each new acknowledgement, and is reset by a measured packet', () => {
  const { sender } = open()
  sender.submit(Uint8Array.of(1), 1)
  const times: number[] = []
  for (let now = 0; now < 100_000; now += 500)
    while (sender.poll(now)) {
      times.push(now / 1000)
      sender.onAnswer(answer(sender.epoch, 0), now)
      sender.onAnswer(answer(sender.epoch, 0), now)
    }
  assert.deepEqual(times, [0, 2, 6, 14, 30, 46, 62, 78, 94])
  sender.onAnswer(answer(sender.epoch, 1), 300_000)
  sender.submit(Uint8Array.of(2), 2)
  sender.poll(300_000)
  assert.equal(
    sender.nextDeadline(300_000),
    308_000,
    'what the last packet took cannot be known, only that it moves on',
  )
  sender.onAnswer(answer(sender.epoch, 2), 300_100)
  sender.submit(Uint8Array.of(3), 3)
  sender.poll(300_200)
  assert.equal(sender.nextDeadline(300_200), 302_200)
})

test('the window limits packets and bytes in flight', () => {
  const few = open({ maxPackets: 8 })
  for (let k = 1; k <= 8; k++) assert.equal(few.sender.submit(Uint8Array.of(k), k), true)
  assert.equal(few.sender.canSubmit(1), false)
  while (few.sender.poll(0));
  few.sender.onAnswer(answer(few.sender.epoch, 0, 1), 10)
  assert.equal(few.sender.canSubmit(1), false, 'a hole at the base keeps the span')
  few.sender.onAnswer(answer(few.sender.epoch, 3), 20)
  assert.equal(few.sender.canSubmit(1), true)

  const small = open({ maxBytes: 100, maxPacket: 300 })
  assert.equal(small.sender.submit(new Uint8Array(150), 1), true, 'one packet is always sent')
  assert.equal(small.sender.canSubmit(1), false)
  small.sender.poll(0)
  small.sender.onAnswer(answer(small.sender.epoch, 1), 10)
  assert.equal(small.sender.submit(new Uint8Array(60), 2), true)
  assert.equal(small.sender.canSubmit(41), false)
  assert.equal(small.sender.canSubmit(40), true)
})

test('bytes in flight count each packet at the size it may have when it is resent', () => {
  const { sender } = open({ maxBytes: 1000, maxPacket: 400, onResend: () => new Uint8Array(100) })
  let taken = 0
  while (sender.submit(new Uint8Array(10), ++taken, 100));
  assert.equal(sender.inFlight, 10, 'not a hundred of ten bytes')
  while (sender.poll(0));
  // all are resent, larger: no more than was counted, so an answer makes room for one
  let again = 0
  for (let frame = sender.poll(3000); frame; frame = sender.poll(3000)) again += frame.length
  assert.ok(again > 1000 && again < 1300, `${again} bytes`)
  assert.equal(sender.canSubmit(1), false)
  sender.onAnswer(answer(sender.epoch, 1), 3010)
  assert.equal(sender.canSubmit(100), true)
  assert.equal(sender.canSubmit(101), false)
})

test('a frame contains at most batch_items packets, and at most 255', () => {
  const counts = (options: Record<string, unknown>, packets: number): number[] => {
    const { sender } = open({ maxPacket: 2000, startPackets: 1000, maxPackets: 1000, ...options })
    for (let k = 0; k < packets; k++) assert.equal(sender.submit(Uint8Array.of(1), k), true)
    const frames: number[] = []
    for (let frame = sender.poll(0); frame; frame = sender.poll(0)) frames.push(frame[13]!)
    return frames
  }
  assert.deepEqual(counts({ batchItems: 3 }, 7), [3, 3, 1])
  assert.deepEqual(counts({ batchItems: 300 }, 300), [255, 45])
})

test('an answer is 17 bytes that begin with 5, 0, 0', () => {
  assert.deepEqual(parseAnswer(answer(7, 8, 9)), { epoch: 7, cum: 8, bitmap: 9 })
  for (const at of [0, 1, 2]) {
    const raw = Buffer.from(answer(7, 8))
    raw[at]! ^= 1
    raw.writeUInt16BE(crc16(raw, 0, 15), 15)
    assert.equal(parseAnswer(raw), null, `byte ${at}`)
  }
  assert.equal(parseAnswer(answer(7, 8).subarray(0, 16)), null)
  assert.equal(parseAnswer(Buffer.concat([answer(7, 8), Buffer.of(0)])), null)
})

test('a packet that is larger than a batch is sent alone', () => {
  const { sender } = open({ batchBytes: 60 })
  for (const [token, size] of [20, 150, 20, 20].entries())
    assert.equal(sender.submit(new Uint8Array(size).fill(token), token), true)
  const frames: number[][] = []
  for (let frame = sender.poll(10); frame; frame = sender.poll(10)) frames.push([frame[13]!, frame.length])
  // how many, and the bytes: 16 around them, two before each
  assert.deepEqual(frames, [
    [1, 38],
    [1, 168],
    [2, 60],
  ])
})
