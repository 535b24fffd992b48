// Control packets and the delivery exchange, as any sender may send them.
import assert from 'node:assert/strict'
import { Fusion } from '../../src/pipeline/fuse'
import * as control from '../../src/protocol/control'
import * as delivery from '../../src/protocol/delivery/frame'
import { DeliveryReceiver } from '../../src/protocol/delivery/receiver'
import { DeliverySender } from '../../src/protocol/delivery/sender'
import { HandshakeManager } from '../../src/protocol/handshake/manager'
import { IdAllocator } from '../../src/protocol/ids/allocator'
import { deviceKey } from '../../src/protocol/ids/devicekey'
import { parseRefusedFrame, refusedFrameText } from '../../src/protocol/nack'
import { tolerantObject } from '../../src/protocol/pythonjson'
import { crc16 } from '../../src/wire/crc'
import { ByteWriter } from '../../src/wire/cursor'
import { ManualClock, memoryIdStore } from '../lib/manual'
import { examples, fuzz, vectors } from './harness'
import { type Random, repeated } from './mutate'

const clock = new ManualClock()
const IDS = 2000

// ---- everything but data is passed to the handshake manager, in each role

const allocator = new IdAllocator({ endId: IDS }, { store: memoryIdStore(), now: () => clock.wall() / 1000 })
const parser = new Fusion(null, { clock, localId: 1 })
const managers = (['duplex', 'tx_only', 'rx_only'] as const).flatMap(role =>
  [false, true].map(
    requireOpenRequest => new HandshakeManager({}, { clock, allocator, parser, role, requireOpenRequest }),
  ),
)
let asked = 0

const id = (json: string): Uint8Array => Buffer.concat([Buffer.of(1, 0, 7), Buffer.from(json)])
const pool = (json: string): Uint8Array => Buffer.concat([Buffer.of(3, 0, 7, 0, 3), Buffer.from(json)])

fuzz({
  name: 'control',
  seeds: [
    ...vectors().flatMap(({ in: input }) => {
      const hex = (value: unknown): Buffer[] =>
        typeof value === 'string' && /^(?:[0-9a-f]{2}){2,}$/.test(value)
          ? [Buffer.from(value, 'hex')]
          : value && typeof value === 'object'
            ? Object.values(value).flatMap(hex)
            : []
      return hex(input).filter(bytes => bytes[0]! <= 0x10)
    }),
    ...examples().filter(bytes => bytes[0]! <= 0x10),
    control.buildIdRequest(7, { device_id: 'a', device_meta: { mac: '00:11' } }),
    control.buildIdAssign(1, 9, 1_710_000_000),
    control.buildIdPoolRequest(2, 3, { a: [1, { b: null }] }),
    control.buildIdPoolResponse(3, [1, 2, 3]),
    control.buildAck(4),
    control.buildNack(5, 'NEED_FULL;42;1;1710000000000;0a0b'),
    control.buildNack(0, 'BAD_KEY;4294967295;255;281474976710655;ffff'),
    control.buildPing(6),
    control.buildPong(7),
    control.buildTimeRequest(8),
    control.buildTimeResponse(9, 1_710_000_000),
    control.buildSecureDictReady(42, 1_710_000_000_000),
    control.buildSecureChannelAck(42),
    delivery.buildProbe(10),
    delivery.buildProbeReply(10, 100),
    id('{"__proto__": {"x": 1}, "device_key": " k ", "constructor": {}}'),
  ],
  words: [
    ...['{"device_id":', '"serial":', '"__proto__":', '"device_meta":{', '[', ']', '{}', '\\u0000', 'NEED_FULL;', ';'],
    Uint8Array.of(1, 0, 7),
    Uint8Array.of(3, 0, 7, 0xff, 0xff),
  ],
  run(input) {
    clock.advance(1000)
    let outcome = ''
    if (++asked % 16 === 0) for (const manager of managers) manager.buildTimeRequest()
    for (const manager of managers) {
      const { type, result, response, durable } = manager.classifyAndDispatch(input, ['192.0.2.1', 1])
      durable?.catch(() => undefined)
      outcome += `${type}${String(result['status'] ?? result['reason'] ?? '').replace(/\d+/g, '')}`
      if (response) outcome += response[0]
      manager.isOpen(input)
    }
    const refused = parseRefusedFrame(control.parseNackReason(input))
    if (refused) assert.equal(refusedFrameText(refused), control.parseNackReason(input))
    control.parseIdAssign(input)
    control.parsePoolCount(input)
    assert.ok(control.parseIdPool(input).length <= input.length / 4)
    control.parseServerTime(input)
    control.parseSecureDictReady(input)
    control.parseSecureChannelAck(input)
    delivery.isProbe(input)
    delivery.probeReplyCommitMs(input)
    return outcome
  },
  kept: () => ({ ids: [allocator.stats().total_allocated, IDS] }),
  growing: {
    'of nested JSON': n => id('['.repeat(n)),
    'of a deep object': n => id('{"a":'.repeat(n / 8)),
    'of a pool answer': n => Buffer.concat([Buffer.of(4, 0, 1, 0xff, 0xff), repeated('abcd', n)]),
    'of a long reason': n => Buffer.concat([Buffer.of(6, 0, 0), repeated('NEED_FULL;1', n)]),
    'of a pool request': n => pool('{"a":1,'.repeat(n / 8)),
  },
})

// ---- the JSON of requests

fuzz({
  name: 'request-json',
  seeds: ['{}', '{"device_id": "a"}', '{"device_meta": {"b": [1, 2.5, null, true, "\\u00e9"]}, "uuid": 7}', '[1]'].map(
    text => Buffer.from(text),
  ),
  words: ['"__proto__"', '"toString"', '{"a":', '[', ']', '}', ',', '"mac":', '1e999', '"\\ud800"'],
  run(input) {
    const object = tolerantObject(input.subarray(0, 4093))
    assert.equal(Object.getPrototypeOf({}).x, undefined)
    const key = deviceKey(object)
    return `${Object.keys(object).length}${key
      .split(':')[0]!
      .slice(0, 8)
      .replace(/[^a-z_]/g, '')}`
  },
  growing: {
    'of nesting': n => Buffer.from(`{"a":${'['.repeat(n / 2 - 3)}${']'.repeat(n / 2 - 3)}}`),
    'of keys': n => Buffer.from(`{${Array.from({ length: n >> 4 }, (_, k) => `"k${k}":1`).join()}}`),
  },
})

// ---- delivery frames and their answers

const PEERS = 16
const EPOCH = 0x01020304
const receiver = new DeliveryReceiver({ maxPeers: PEERS, maxEpochs: 2 })
let sender: DeliverySender<number>
let submitted = 0
let seq = 0
let acked = new Set<number>()

function freshSender(): void {
  acked = new Set()
  submitted = 0
  sender = new DeliverySender<number>({
    maxPacket: 200,
    nextSeq: () => (seq = (seq % 0xffff) + 1),
    randomEpoch: () => EPOCH + seq,
    onAcked: token => {
      assert.ok(token >= 0 && token < submitted && !acked.has(token), `token ${token} acknowledged twice or never sent`)
      acked.add(token)
    },
    onResend: () => Buffer.of(1),
  })
}
freshSender()

function deliveryFrame(n: number, base = 1, first = 1, size = 3): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(0x10400))
  delivery.startFrame(writer, EPOCH, base, first)
  for (let k = 0; k < n; k++) delivery.addToFrame(writer, new Uint8Array(size).fill(k))
  return delivery.finishFrame(writer, n).slice()
}

/** The right CRC, a plausible epoch and numbers, and lengths that fit half of the time. */
function shape(input: Buffer, random: Random): Buffer {
  if (input.length < 7 || (input[0] !== 0x10 && input[0] !== 0x05)) return input
  const head = input[0] === 0x10 ? 1 : 3
  if (random.chance(0.7) && input.length > head + 12) {
    input.writeUInt32BE(random.chance(0.5) ? sender.epoch : EPOCH + random.below(4), head)
    input.writeUInt32BE(1 + random.below(random.pick([4, 2000, 0xffff_fffe])), head + 4)
  }
  input.writeUInt16BE(crc16(input, 0, input.length - 2), input.length - 2)
  return input
}

fuzz({
  name: 'delivery',
  seeds: [
    ...examples().filter(bytes => bytes[0] === 0x10 || bytes[0] === 0x05 || bytes[0] === 0x09),
    deliveryFrame(0),
    deliveryFrame(1),
    deliveryFrame(5, 3, 7),
    deliveryFrame(255, 1, 1),
    deliveryFrame(1, 1, 1, 60_000),
    deliveryFrame(2, 0xffff_fff0, 0xffff_fffe),
    delivery.buildAnswer(EPOCH, 0, 0),
    delivery.buildAnswer(EPOCH, 3, 0xffff_ffff),
    delivery.buildProbe(1),
    delivery.buildProbeReply(1, 5),
    control.buildPong(1),
  ],
  shape,
  run(input) {
    clock.advance(50)
    if (sender.mode === 'best_effort' || sender.mode === 'silent' || acked.size > 1000) freshSender()
    if (sender.mode === 'probing' && sender.poll(clock.mono()))
      sender.onAnswer(delivery.buildProbeReply(seq, 5), clock.mono())
    if (sender.canSubmit(4)) sender.submit(Buffer.of(1, 2, 3, 4), submitted++)
    for (let frame = sender.poll(clock.mono()); frame; frame = sender.poll(clock.mono()))
      assert.ok(delivery.parseFrame(frame), 'a frame of ours that is none')
    const taken = sender.onAnswer(input, clock.mono())
    assert.ok(sender.inFlight >= 0 && sender.inFlight + acked.size <= submitted)

    const seqs: number[] = []
    const address = `192.0.2.${input.length % 40}`
    const answer = receiver.onFrame(input, address, (packet, number, peer) => {
      assert.ok(packet.length > 0 && number >= 1 && number <= 0xffff_ffff)
      if (number % 3 === 0) receiver.refuse(peer, number)
      else seqs.push(number)
      if (number % 5 === 0) receiver.committed(peer, seqs)
    })
    if (answer) assert.ok(delivery.parseAnswer(answer), 'an answer of ours that is none')
    receiver.probeReply(input)
    return `${sender.mode}${taken}${answer === null}${Math.min(seqs.length, 3)}`
  },
  kept: () => ({ peers: [receiver.peers, PEERS], 'packets in flight': [sender.inFlight, 1024] }),
  growing: {
    'of packets': n => deliveryFrame(255, 1, 1, (n - 600) / 256),
    'of one packet': n => deliveryFrame(1, 1, 1, n - 600),
  },
})
