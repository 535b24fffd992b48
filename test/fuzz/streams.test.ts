// Byte streams: the deframers of serial lines, and the delivery exchange over TCP. However the bytes are split into chunks,
// the packets are the same, and the stored part stays limited.
import assert from 'node:assert/strict'
import { OsError } from '../../src/lib/errors'
import { CobsDeframer, frameCobs } from '../../src/links/line/cobs'
import { type Deframer, type DeframerOptions, SerialDeframer } from '../../src/links/line/deframer'
import * as control from '../../src/protocol/control'
import { DeliveryStream } from '../../src/protocol/delivery'
import * as delivery from '../../src/protocol/delivery/frame'
import { buildPoll, buildTurnEnd } from '../../src/protocol/polling-turns'
import { frameSerial } from '../../src/wire/serial'
import { examples, fuzz } from './harness'
import { type Random, repeated } from './mutate'

const MAX_PACKET = 2048
const packets = [...examples(), Buffer.from(buildPoll(9, 7, 512)), Buffer.from(buildTurnEnd(9, 7, 3))].filter(
  bytes => bytes.length > 2,
)

/** Sizes of chunks computed from the bytes alone, so that an input gives the same chunks in every run. */
function* chunks(input: Uint8Array): Generator<Uint8Array> {
  for (let at = 0, k = 0; at < input.length; k++) {
    const size = 1 + ((input[at]! * 31 + k) % 40)
    yield input.subarray(at, at + size)
    at += size
  }
}

type Make = (options: DeframerOptions) => Deframer

function fromStream(make: Make, cut: (input: Uint8Array) => Iterable<Uint8Array>, input: Uint8Array): Buffer[] {
  const got: Buffer[] = []
  const deframer = make({
    maxPacket: MAX_PACKET,
    isOpen: (_answer, seq) => seq % 2 === 1,
    onPacket: packet => {
      assert.ok(packet.length > 0 && packet.length <= MAX_PACKET)
      got.push(Buffer.from(packet))
    },
  })
  for (const chunk of cut(input)) deframer.push(chunk)
  deframer.idle()
  assert.ok(!deframer.waiting, 'something waits after silence')
  assert.equal(deframer.counters.bytes, input.length)
  assert.equal(deframer.counters.packets, got.length)
  assert.ok(deframer.counters.taken <= input.length)
  assert.ok(deframer.counters.steps <= 130 * (input.length + 1), 'more steps than candidates allow')
  deframer.reset()
  return got
}

const KINDS: Record<string, { make: Make; frame: (packet: Uint8Array) => Uint8Array }> = {
  uart: { make: options => new SerialDeframer('uart', options), frame: packet => frameSerial(packet, 'uart') },
  rs485: { make: options => new SerialDeframer('rs485', options), frame: packet => frameSerial(packet, 'rs485') },
  cobs: { make: options => new CobsDeframer(options), frame: frameCobs },
}

for (const [name, { make, frame }] of Object.entries(KINDS))
  fuzz({
    name: `deframe-${name}`,
    inputs: 4000,
    seeds: [
      Buffer.concat(packets.map(frame)),
      ...packets.map(frame),
      ...[control.buildPing(6), control.buildPong(7), control.buildNack(5, 'X'), control.buildIdRequest(3, {})].map(
        frame,
      ),
      frame(Buffer.alloc(600, 0)),
      frame(Buffer.alloc(600, 2)),
    ],
    words: [
      Uint8Array.of(2),
      Uint8Array.of(3),
      Uint8Array.of(0),
      Uint8Array.of(2, 0x3f, 1),
      Uint8Array.of(2, 0x10),
      Uint8Array.of(0x4f, 0x53, 0x4e, 2),
    ],
    // complete frames between the noise
    shape: (input, random: Random) =>
      random.chance(0.5) ? Buffer.concat([input, frame(random.pick(packets)), Buffer.of(random.below(4))]) : input,
    run(input) {
      const whole = fromStream(make, bytes => [bytes], input)
      assert.deepEqual(fromStream(make, chunks, input), whole, 'another packet for other chunks')
      return `${Math.min(whole.length, 6)} ${whole.map(packet => packet[0]).slice(0, 3)}`
    },
    growing: {
      'of starts': n => repeated('\x02\x3f\x01', n),
      'of starts of delivery frames': n => repeated('\x02\x10', n),
      'of requests without an end': n => repeated('\x02\x01\x00\x07{"a":1', n),
      'of zeros': n => Buffer.alloc(n),
      'of ends': n => repeated('\x02\x3f\x01\x03', n),
    },
  })

const probe = Buffer.from(delivery.buildProbe(7))
const reply = Buffer.from(delivery.buildProbeReply(7, 100))
const framed = (list: readonly Uint8Array[]): Buffer =>
  Buffer.concat(list.flatMap(packet => [Buffer.of(packet.length >> 8, packet.length & 255), packet]))

function fromDelivery(role: 'client' | 'server', parts: Iterable<Uint8Array>): string[] {
  const got: string[] = []
  const stream = new DeliveryStream({
    role,
    maxPacket: MAX_PACKET,
    onPacket: packet => {
      assert.ok(packet.length > 0 && packet.length <= MAX_PACKET)
      got.push(Buffer.from(packet).toString('latin1'))
    },
  })
  try {
    for (const part of parts) stream.push(part)
  } catch (error) {
    if (!(error instanceof OsError) || error.code !== 'BAD_PACKET') throw error
    assert.throws(() => stream.push(Buffer.of(1)), { code: 'BAD_PACKET' })
    got.push('broken')
  }
  stream.end()
  assert.ok(stream.cut <= MAX_PACKET + 2)
  return got
}

fuzz({
  name: 'delivery-stream',
  seeds: [
    Buffer.concat([probe, framed(packets)]),
    Buffer.concat([reply, framed(packets)]),
    ...packets,
    Buffer.concat([probe, framed([Buffer.alloc(MAX_PACKET, 1)]), Buffer.of(8, 1)]),
  ],
  words: [probe, reply, Uint8Array.of(0, 0), Uint8Array.of(0xff, 0xff), Uint8Array.of(0, 1)],
  run(input) {
    let outcome = ''
    for (const role of ['client', 'server'] as const) {
      const whole = fromDelivery(role, [input])
      assert.deepEqual(fromDelivery(role, chunks(input)), whole, 'another packet for other chunks')
      outcome += `${role}${Math.min(whole.length, 5)}${whole.at(-1) === 'broken'}`
    }
    return outcome
  },
  growing: {
    'of small packets': n => Buffer.concat([probe, framed(Array.from({ length: n / 3 }, () => Buffer.of(9)))]),
    'of one plain packet': n => repeated('x', n),
  },
})
