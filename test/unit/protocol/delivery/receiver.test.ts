import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type DeliveryPeer, DeliveryReceiver } from '../../../../src/protocol/delivery'
import { addToFrame, finishFrame, startFrame } from '../../../../src/protocol/delivery/frame'
import { crc16 } from '../../../../src/wire/crc'
import { ByteWriter } from '../../../../src/wire/cursor'
import { answer, bytes, hex, open } from '../../../lib/exchange'

test('the receiver hands each packet over once and names only committed ones', () => {
  const { sender } = open()
  for (let k = 1; k <= 4; k++) sender.submit(Uint8Array.of(k), k)
  const frame = sender.poll(0)!.slice()
  const receiver = new DeliveryReceiver()
  const got: number[] = []
  const collect = (packet: Uint8Array): void => void got.push(packet[0]!)
  assert.equal(receiver.onFrame(frame, 'a', collect), null)
  assert.deepEqual(got, [1, 2, 3, 4])
  const at = receiver.onFrame(frame, 'a', collect)!
  assert.equal(hex(at), hex(answer(sender.epoch, 0)), 'known, but nothing committed yet')
  assert.deepEqual(got, [1, 2, 3, 4])
  assert.equal(receiver.counters.repeated, 4)
  let peer: Parameters<typeof receiver.answer>[0] | undefined
  receiver.onFrame(frame, 'b', (_p, _s, from) => {
    peer = from
  })
  assert.equal(hex(receiver.committed(peer!, [1, 3])), hex(answer(sender.epoch, 1, 1)))
  receiver.refuse(peer!, 2)
  receiver.refuse(peer!, 3)
  assert.equal(receiver.counters.refused, 1, 'what is committed cannot be refused')
  got.length = 0
  assert.equal(receiver.onFrame(frame, 'b', collect), null)
  assert.deepEqual(got, [2], 'only refused packets are resent')
  assert.equal(hex(receiver.committed(peer!, [2, 4])), hex(answer(sender.epoch, 4)))
  assert.equal(hex(receiver.onFrame(frame, 'b', collect)), hex(answer(sender.epoch, 4)))
  const { frames, packets, repeated } = receiver.counters
  assert.deepEqual([frames, packets, repeated], [5, 9, 11])
})

test('an unknown epoch starts at its base, and a higher base advances a known one', () => {
  const frame = (base: number, first: number, epoch = 7): Uint8Array => {
    const b = Buffer.alloc(19)
    b[0] = 0x10
    b.writeUInt32BE(epoch, 1)
    b.writeUInt32BE(base, 5)
    b.writeUInt32BE(first, 9)
    b[13] = 1
    b.writeUInt16BE(1, 14)
    b[16] = first
    b.writeUInt16BE(crc16(b, 0, 17), 17)
    return new Uint8Array(b)
  }
  const receiver = new DeliveryReceiver()
  const seen: number[] = []
  const take = (raw: Uint8Array): Uint8Array | null => {
    let reply: Uint8Array | null = null
    const at = receiver.onFrame(raw, 'a', (_p, seq, peer) => {
      seen.push(seq)
      reply = receiver.committed(peer, [seq])
    })
    return reply ?? at
  }
  assert.equal(hex(take(frame(50, 52))), hex(answer(7, 49, 1 << 1)))
  assert.equal(hex(take(frame(50, 49))), hex(answer(7, 49, 1 << 1)), 'below the base: known')
  assert.equal(hex(take(frame(52, 54))), hex(answer(7, 52, 1 << 0)))
  assert.equal(hex(take(frame(5000, 5000))), hex(answer(7, 5000)))
  assert.equal(hex(take(frame(5001, 6024))), hex(answer(7, 5000)), 'the last of the window, beyond the bitmap')
  assert.equal(hex(take(frame(5001, 6025))), hex(answer(7, 5000)), 'beyond the window')
  assert.equal(receiver.counters.beyond, 1)
  assert.deepEqual(seen, [52, 54, 5000, 6024])
  assert.equal(hex(take(frame(1, 0xffffffff, 8))), hex(answer(8, 0)))
  assert.equal(hex(take(frame(0xffffffff, 0xffffffff, 9))), hex(answer(9, 0xffffffff)))
})

test('the last possible numbers are accepted and named, and nothing overflows', () => {
  const last = 0xffff_ffff
  const writer = new ByteWriter(new Uint8Array(200))
  const frame = (base: number, first: number, n: number): Uint8Array => {
    startFrame(writer, 3, base, first)
    for (let k = 0; k < n; k++) addToFrame(writer, Uint8Array.of(k))
    return finishFrame(writer, n).slice()
  }
  const receiver = new DeliveryReceiver()
  const seen: number[] = []
  let peer: DeliveryPeer | undefined
  const take = (raw: Uint8Array): Uint8Array | null =>
    receiver.onFrame(raw, 'a', (_p, seq, from) => {
      seen.push(seq)
      peer = from
    })
  take(frame(last - 3, last - 3, 4))
  assert.deepEqual(seen, [last - 3, last - 2, last - 1, last])
  assert.equal(hex(receiver.committed(peer!, [last - 3, last - 1, last])), hex(answer(3, last - 3, 0b11)))
  assert.equal(hex(receiver.committed(peer!, [last - 2])), hex(answer(3, last)))
  assert.equal(hex(take(frame(last, last, 1))), hex(answer(3, last)))
  assert.equal(take(frame(last, last, 2)), null)
  assert.equal(receiver.counters.malformed, 1, 'a number beyond 32 bits')
  assert.equal(hex(take(frame(1, 1, 0))), hex(answer(3, last)), 'a frame without packets is answered')
})

test('when the last sender of an address is evicted, nothing of the address is kept', () => {
  const receiver = new DeliveryReceiver({ maxPeers: 4 })
  const writer = new ByteWriter(new Uint8Array(200))
  const hear = (from: number, to: number): number => {
    for (let k = from; k < to; k++) {
      startFrame(writer, k + 1, 1, 1)
      addToFrame(writer, Uint8Array.of(1))
      receiver.onFrame(finishFrame(writer, 1).slice(), `10.0.${k >> 8}.${k & 255}:9`, () => undefined)
    }
    gc()
    return process.memoryUsage().heapUsed
  }
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const before = hear(0, 1000)
  const after = hear(1000, 21_000)
  assert.equal(receiver.peers, 4)
  assert.ok(after - before < 1_000_000, `${after - before} bytes for 20,000 addresses`)
})

test('malformed frames are counted and change nothing', () => {
  const { sender } = open()
  sender.submit(Uint8Array.of(1, 2, 3), 1)
  const good = sender.poll(0)!.slice()
  const receiver = new DeliveryReceiver()
  const never = (): void => assert.fail('delivered')
  const recrc = (b: Uint8Array): Uint8Array => {
    const crc = crc16(b, 0, b.length - 2)
    b[b.length - 2] = crc >>> 8
    b[b.length - 1] = crc
    return b
  }
  const bad: Uint8Array[] = [new Uint8Array(), bytes('10'), good.subarray(0, -1)]
  for (let k = 0; k < good.length; k++) {
    const flipped = good.slice()
    flipped[k]! ^= 0x40
    bad.push(flipped)
  }
  const patched = (at: number, value: number): Uint8Array => {
    const b = good.slice()
    b[at] = value
    return recrc(b)
  }
  bad.push(
    patched(13, 2),
    patched(13, 0),
    patched(15, 2),
    patched(15, 4),
    patched(14, 0xff),
    patched(8, 0),
    patched(12, 0),
  )
  for (const raw of bad) assert.equal(receiver.onFrame(raw, 'a', never), null)
  assert.deepEqual([receiver.counters.malformed, receiver.counters.frames], [bad.length, 0])
  assert.equal(receiver.peers, 0)
})

test('the number of peers is limited, per address and in total; the least recently used is evicted', () => {
  const frame = (epoch: number): Uint8Array => {
    const r = open({ randomEpoch: () => epoch })
    r.sender.submit(Uint8Array.of(1), 1)
    return r.sender.poll(0)!.slice()
  }
  const receiver = new DeliveryReceiver({ maxPeers: 3, maxEpochs: 2 })
  let fresh = 0
  const take = (epoch: number, address: string): boolean => {
    const before = fresh
    receiver.onFrame(frame(epoch), address, () => fresh++)
    return fresh > before
  }
  assert.ok(take(1, 'a') && take(2, 'b') && take(3, 'c'))
  assert.equal(take(1, 'a'), false)
  assert.ok(take(4, 'd'))
  assert.equal(receiver.peers, 3)
  assert.equal(take(1, 'a'), false, 'used a moment ago, still known')
  assert.ok(take(2, 'b'), 'the oldest was forgotten')
  assert.ok(take(5, 'b') && take(6, 'b'))
  assert.equal(take(5, 'b'), false)
  assert.ok(take(2, 'b'), 'a third epoch of one address drops its oldest')
  receiver.forget('b')
  assert.ok(take(5, 'b'))
  assert.ok(receiver.counters.peers_forgotten > 0)
})

test('numbers far ahead keep their states, up to the window of 1024', () => {
  const frame = (seq: number): Uint8Array => {
    const writer = new ByteWriter(new Uint8Array(64))
    startFrame(writer, 5, 1, seq)
    addToFrame(writer, Uint8Array.of(1))
    return finishFrame(writer, 1).slice()
  }
  for (const seqs of [
    [64, 65],
    [65, 64, 128, 129],
    [1024, 512, 63],
  ]) {
    const receiver = new DeliveryReceiver()
    const got: number[] = []
    const push = (seq: number) => receiver.onFrame(frame(seq), 'a', (_packet, of) => void got.push(of))
    for (const seq of [...seqs, ...seqs]) push(seq)
    assert.deepEqual(got, seqs, 'each once')
    push(1025)
    assert.deepEqual([got, receiver.counters.beyond], [seqs, 1])
  }
})

test('the packets of a frame are checked together, and each is handed over with its result', () => {
  const { sender } = open()
  for (let k = 1; k <= 4; k++) sender.submit(Uint8Array.of(k, k), k)
  const frame = sender.poll(0)!.slice()
  let result: Uint8Array | null = Uint8Array.of(1, 0, 1, 0)
  const calls: unknown[] = []
  const receiver = new DeliveryReceiver({
    sums: (raw, at, n) => {
      calls.push([raw.length, Buffer.from(raw.subarray(at, at + 4)).toString('hex'), n])
      return result
    },
  })
  const got = (address: string): unknown[] => {
    const list: unknown[] = []
    receiver.onFrame(frame, address, (packet, seq, _, plain) => list.push([packet[0], seq, plain]))
    return list
  }
  assert.deepEqual(got('a'), [
    [1, 1, true],
    [2, 2, false],
    [3, 3, true],
    [4, 4, false],
  ])
  assert.deepEqual(calls, [[frame.length, '00020101', 4]])
  result = null
  assert.deepEqual(got('b')[0], [1, 1, undefined], 'not checked')
})
