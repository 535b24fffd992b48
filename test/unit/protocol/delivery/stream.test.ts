// The exchange over a byte stream: first PING and PONG bare, then frames with a length; anything else is one plain
// packet to the end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SequenceCounter } from '../../../../src/protocol/control'
import { DeliveryReceiver, DeliverySender, DeliveryStream } from '../../../../src/protocol/delivery'

const bytes = (h: string): Uint8Array => new Uint8Array(Buffer.from(h, 'hex'))
const hex = (b: Uint8Array): string => Buffer.from(b).toString('hex')
const PING = '0900014f534e0100'
const PONG = '0a00014f534e01000064'

function prng(seed: number): () => number {
  let a = seed >>> 0
  return () => {
    a = (Math.imul(a, 1664525) + 1013904223) >>> 0
    return a / 2 ** 32
  }
}

const taking = (role: 'client' | 'server', maxPacket?: number): { stream: DeliveryStream; got: string[] } => {
  const got: string[] = []
  const stream = new DeliveryStream({
    role,
    ...(maxPacket !== undefined && { maxPacket }),
    onPacket: packet => void got.push(hex(packet)),
  })
  return { stream, got }
}

test('PING and PONG are sent bare, everything after them with its length', () => {
  const { stream: opener, got: atOpener } = taking('client')
  const { stream: listener, got: atListener } = taking('server')
  assert.equal(hex(opener.wrap(bytes(PING))), PING)
  listener.push(bytes(PING))
  assert.equal(listener.mode, 'framed')
  assert.equal(hex(listener.wrap(bytes(PONG))), PONG)
  opener.push(bytes(PONG))
  assert.equal(opener.mode, 'framed')
  assert.deepEqual([atListener, atOpener], [[PING], [PONG]])
  assert.equal(hex(opener.wrap(bytes('3f0102'))), '00033f0102')
  assert.equal(hex(opener.wrap(bytes(PING))), `0008${PING}`, 'a second probe is a packet like others')
  assert.equal(hex(listener.wrap(bytes(PONG))), `000a${PONG}`)
  listener.push(opener.wrap(new Uint8Array(65535).fill(7)))
  assert.equal(atListener[1]!.length, 2 * 65535)
  assert.throws(() => opener.wrap(new Uint8Array(65536)), { code: 'PACKET_TOO_LARGE' })
  assert.throws(() => opener.wrap(new Uint8Array()), { code: 'PACKET_TOO_LARGE' })
})

test('flags are ignored, and the first bytes may be in the same chunk as the next', () => {
  const { stream, got } = taking('server')
  stream.push(bytes(`0900014f534e01ff${'0001aa'}${'0002bbbb'}00`))
  assert.deepEqual(got, ['0900014f534e01ff', 'aa', 'bbbb'])
  stream.push(bytes('03cc'))
  stream.push(bytes('cccc'))
  assert.deepEqual(got.slice(3), ['cccccc'])
})

test('a stream split anywhere gives the same packets', () => {
  const random = prng(5)
  const packets = Array.from({ length: 60 }, (_, k) => new Uint8Array(1 + Math.floor(random() * 900)).fill(k))
  const { stream: opener } = taking('client')
  opener.wrap(bytes(PING))
  const all = Buffer.concat([bytes(PING), ...packets.map(packet => opener.wrap(packet))])
  for (let run = 0; run < 60; run++) {
    const { stream, got } = taking('server')
    const longest = run < 5 ? 1 : 2 + Math.floor(random() * 2000)
    for (let at = 0; at < all.length; ) {
      const end = Math.min(all.length, at + 1 + Math.floor(random() * longest))
      stream.push(all.subarray(at, end))
      at = end
    }
    assert.deepEqual(got, [PING, ...packets.map(hex)], `pieces of up to ${longest}`)
    stream.end()
    assert.equal(stream.cut, 0)
  }
})

test('without the probe the stream is one plain packet up to its end', () => {
  for (const packet of ['3f', '090001', PING.slice(0, -2), `${PING.slice(0, 12)}0200`, `3f${'00'.repeat(1000)}`]) {
    const { stream, got } = taking('server')
    for (const byte of bytes(packet)) stream.push(Uint8Array.of(byte))
    assert.deepEqual(got, [])
    stream.end()
    assert.deepEqual(got, [packet])
    assert.equal(stream.mode, 'plain')
    assert.equal(hex(stream.wrap(bytes(PONG))), PONG)
  }
  const { stream, got } = taking('server')
  stream.end()
  assert.deepEqual(got, [], 'nothing was sent')
})

test('a stream that ends twice gives its plain packet once, and counts a truncated one once', () => {
  const { stream, got } = taking('server')
  stream.push(bytes('3f0102'))
  stream.end()
  stream.end()
  assert.deepEqual(got, ['3f0102'])
  const framed = taking('server')
  framed.stream.push(bytes(`${PING}0005aa`))
  framed.stream.end()
  const { cut } = framed.stream
  assert.ok(cut > 0)
  framed.stream.end()
  assert.equal(framed.stream.cut, cut)
})

test('a bare PONG is reported even after the client stopped waiting, so that the link is best effort', () => {
  const seq = new SequenceCounter()
  const sender = new DeliverySender<number>({
    maxPacket: 1000,
    nextSeq: () => seq.next(),
    randomEpoch: () => 1,
    onAcked: () => undefined,
    onResend: () => null,
  })
  const stream = new DeliveryStream({ role: 'client', onPacket: packet => void sender.onAnswer(packet, 10) })
  stream.wrap(sender.poll(0)!)
  stream.push(bytes('0a0001'))
  assert.equal(sender.mode, 'probing')
  stream.end()
  assert.equal(sender.mode, 'best_effort')
})

test('a stream that lost synchronisation throws, stays broken, and keeps no memory', () => {
  for (const bad of ['0000', '0065']) {
    const { stream, got } = taking('server', 100)
    stream.push(bytes(PING))
    stream.push(bytes(`0001aa${bad.slice(0, 2)}`))
    assert.throws(() => stream.push(bytes(bad.slice(2))), { code: 'BAD_PACKET' })
    assert.equal(stream.mode, 'broken')
    assert.throws(() => stream.push(bytes('0001aa')), { code: 'BAD_PACKET' })
    stream.end()
    assert.deepEqual(got, [PING, 'aa'])
  }
  const { stream, got } = taking('server', 100)
  stream.push(new Uint8Array(100).fill(0x3f))
  assert.throws(() => stream.push(new Uint8Array(1)), { code: 'BAD_PACKET' })
  stream.end()
  assert.deepEqual(got, [])
})

test('a packet truncated by the end is dropped and counted', () => {
  const { stream, got } = taking('server')
  stream.push(bytes(`${PING}0005aabb`))
  stream.end()
  assert.deepEqual(got, [PING])
  assert.equal(stream.cut, 4)
})

test('sender and receiver over a stream in random chunks: all records are acknowledged', () => {
  const random = prng(9)
  const seq = new SequenceCounter()
  const acked: number[] = []
  const sender = new DeliverySender<number>({
    maxPacket: 300,
    nextSeq: () => seq.next(),
    randomEpoch: () => 77,
    onAcked: token => acked.push(token),
    onResend: () => assert.fail('nothing is lost on a stream'),
  })
  const receiver = new DeliveryReceiver({ ackCommitMs: 5 })
  const up: number[] = []
  const down: number[] = []
  let now = 0
  const near = new DeliveryStream({ role: 'client', onPacket: packet => void sender.onAnswer(packet, now) })
  const far = new DeliveryStream({
    role: 'server',
    onPacket: packet => {
      const pong = receiver.probeReply(packet)
      if (pong) return void down.push(...far.wrap(pong))
      const seqs: number[] = []
      let peer: Parameters<typeof receiver.answer>[0] | undefined
      receiver.onFrame(packet, 'tcp', (_packet, at, from) => {
        seqs.push(at)
        peer = from
      })
      if (peer) down.push(...far.wrap(receiver.committed(peer, seqs)))
    },
  })
  let next = 1
  for (; acked.length < 500 && now < 100_000; now += 10) {
    while (next <= 500 && sender.submit(new Uint8Array(1 + (next % 280)), next)) next++
    for (let frame = sender.poll(now); frame; frame = sender.poll(now)) up.push(...near.wrap(frame))
    far.push(Uint8Array.from(up.splice(0, Math.floor(random() * 3000))))
    near.push(Uint8Array.from(down.splice(0, Math.floor(random() * 40))))
  }
  assert.deepEqual(
    acked,
    Array.from({ length: 500 }, (_, k) => k + 1),
  )
})
