// docs/protocol.md is verified: every hex example on the page is built by the code, and decoded by it to what the page
// says.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Fact } from '../../../src/pipeline/fact'
import { Receiver } from '../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { msToken } from '../../../src/pipeline/text'
import * as control from '../../../src/protocol/control'
import { DeliveryReceiver, DeliveryStream } from '../../../src/protocol/delivery'
import * as delivery from '../../../src/protocol/delivery/frame'
import { parseRefusedFrame, refusedFrameText } from '../../../src/protocol/nack'
import * as turns from '../../../src/protocol/polling-turns'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { encodeInteger } from '../../../src/wire/base62'
import { deriveSessionKey, xorPayload } from '../../../src/wire/cipher'
import { COMMAND, type CommandName } from '../../../src/wire/commands'
import { crc8 } from '../../../src/wire/crc'
import { ByteWriter } from '../../../src/wire/cursor'
import { readHeader, sealFrame, writeHeader } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'

const page = readFileSync(join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'docs/protocol.md'), 'utf8')
const hex = (b: Uint8Array): string => Buffer.from(b).toString('hex')

/** The examples of the page by name; in each line the bytes come first, then two spaces and the words. */
const examples = new Map<string, Buffer>()
for (const [, name, block] of page.matchAll(/^```hex ([a-z0-9-]+)\n(.*?)^```$/gms)) {
  const digits = block!
    .split('\n')
    .map(line => /^[0-9a-f]{2}(?:[0-9a-f]{2})*(?: [0-9a-f]{2}(?:[0-9a-f]{2})*)*(?= {2}| "|$)/.exec(line)?.[0] ?? '')
    .join('')
    .replaceAll(' ', '')
  assert.ok(!examples.has(name!), `${name} stands twice on the page`)
  examples.set(name!, Buffer.from(digits, 'hex'))
}
const example = (name: string): Buffer => {
  const bytes = examples.get(name)
  assert.ok(bytes && bytes.length > 0, `the page has no example ${name}`)
  return bytes
}

const AID = 5
const TS = 1_710_000_000_000
const EPOCH = 0x5eed0001
const units = { ...wireUnits(), resolve } as never
const fact = (seconds: number, kelvin: number): Fact => ({
  id: 'HUB',
  state: 'ONLINE',
  tRaw: TS + 1000 * seconds,
  aid: AID,
  sensors: [
    { id: 'T1', status: 'OK', unit: 'K', value: kelvin },
    { id: 'H1', status: 'OK', unit: '%', value: 40 },
  ],
})
const SENT: readonly [name: string, fact: Fact][] = [
  ['full', fact(0, 294.65)],
  ['diff', fact(1, 294.75)],
  ['heart', fact(2, 294.75)],
]
const key = deriveSessionKey(AID, TS)

/** The same frame in its secure variant. */
function secured(plain: Uint8Array): Uint8Array {
  const frame = Uint8Array.from(plain)
  frame[0]!++
  return frame.subarray(0, sealFrame(frame, 0, 13, frame.length - 3, key))
}

/** A FULL of AID 9 with that body, as C firmware sends it: TS in seconds. */
function firmware(body: string): Uint8Array {
  const frame = new Uint8Array(16 + body.length)
  const at = writeHeader(frame, 0, COMMAND.DATA_FULL, 9, 1, TS / 1000)
  frame.set(Buffer.from(body), at)
  return frame.subarray(0, sealFrame(frame, 0, at, at + body.length))
}

/** The NACK that refuses a frame of AID 5 and TID 1, a second after the first. */
function refusal(reason: 'NEED_FULL' | 'BAD_KEY', frame: Uint8Array): Uint8Array {
  const crc16 = (frame.at(-2)! << 8) | frame.at(-1)!
  return control.buildNack(0, refusedFrameText({ reason, aid: AID, tid: 1, ts: TS + 1000, crc16 }))
}

function frameOf(...packets: Uint8Array[]): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(500))
  delivery.startFrame(writer, EPOCH, 1, 1)
  for (const packet of packets) delivery.addToFrame(writer, packet)
  return delivery.finishFrame(writer, packets.length).slice()
}

test('the code builds every example of the page, and the page has no other', () => {
  const encoder = new UplinkEncoder({ aid: AID, diffBase: 'last', units, clock: new ManualClock() })
  const [full, diff, heart] = SENT.map(([, sent]) => encoder.encode(sent).bytes) as [Buffer, Buffer, Buffer]
  const b62 = (n: number): string => encodeInteger(n)
  const opener = new DeliveryStream({ role: 'client', onPacket: () => undefined })
  const built: Record<string, Uint8Array> = {
    full,
    diff,
    heart,
    'firmware-one': firmware(`9.U.${msToken(TS / 1000)}|I1>U.A:${b62(15_000)}|`),
    'firmware-single': firmware(`T1|A01|${b62(215_000)}`),
    'firmware-multi': firmware(`N1.ONLINE.${TS / 1000}|T1>OK.Cel:${b62(215_000)}|P1>OK.900:${b62(1_013_250)}|`),
    probe: delivery.buildProbe(1),
    'probe-answer': delivery.buildProbeReply(1, 100),
    'delivery-frame': frameOf(diff, heart),
    'delivery-answer': delivery.buildAnswer(EPOCH, 1, 0b101),
    'stream-client': Buffer.concat([opener.wrap(delivery.buildProbe(1)), opener.wrap(heart)]),
    'rs485-poll': turns.buildPoll(0x102, 11, 1024),
    'rs485-end': turns.buildTurnEnd(0x102, 11, 2),
    'need-full': refusal('NEED_FULL', diff),
    'dict-ready': control.buildSecureDictReady(AID, TS),
    key,
    'diff-sec': secured(diff),
    'channel-ack': control.buildSecureChannelAck(AID),
    'heart-sec': secured(heart),
    'bad-key': refusal('BAD_KEY', secured(diff)),
  }
  assert.deepEqual(
    Object.fromEntries([...examples].map(([name, bytes]) => [name, hex(bytes)])),
    Object.fromEntries(Object.entries(built).map(([name, bytes]) => [name, hex(bytes)])),
  )
})

test('the data frames of the page decode to what it says', () => {
  const receiver = new Receiver({ units, clock: new ManualClock() })
  for (const [name, sent] of SENT) {
    const got = receiver.receive(example(name))
    assert.equal(got.kind, 'fact', name)
    assert.deepEqual(got.kind === 'fact' && got.fact, sent, name)
  }
  const values = (name: string): unknown => {
    const got = receiver.receive(example(name))
    assert.equal(got.kind, 'fact', name)
    return got.kind === 'fact' && [got.fact.tRaw, ...got.fact.sensors.map(s => [s.id, s.status, s.unit, s.value])]
  }
  assert.deepEqual(values('firmware-one'), [TS, ['I1', 'U', 'A', 1.5]])
  assert.deepEqual(values('firmware-single'), [TS, ['T1', 'OK', 'K', 294.65]])
  assert.deepEqual(values('firmware-multi'), [TS, ['T1', 'OK', 'K', 294.65], ['P1', 'OK', 'Pa', 101.325]])
})

test('a receiver accepts the delivery frame of the page and gives its answer', () => {
  const receiver = new DeliveryReceiver({ ackCommitMs: 100 })
  assert.equal(hex(receiver.probeReply(example('probe'))!), hex(example('probe-answer')))
  assert.equal(delivery.probeReplyCommitMs(example('probe-answer')), 100)
  const got: string[] = []
  let answer: Uint8Array | undefined
  const frame = example('delivery-frame')
  receiver.onFrame(frame, 'a', (packet, seq, peer) => {
    got.push(hex(packet))
    if (seq === 1) answer = receiver.committed(peer, [1])
  })
  assert.deepEqual(got, [hex(example('diff')), hex(example('heart'))])
  const named = delivery.parseAnswer(example('delivery-answer'))
  assert.deepEqual(named, { epoch: EPOCH, cum: 1, bitmap: 5 })
  assert.deepEqual(delivery.parseAnswer(answer!), { ...named, bitmap: 0 })
  assert.equal(frame.length, 16 + 2 * 2 + example('diff').length + example('heart').length)
  const taken: string[] = []
  const listener = new DeliveryStream({ role: 'server', onPacket: packet => void taken.push(hex(packet)) })
  listener.push(example('stream-client'))
  assert.deepEqual(taken, [hex(example('probe')), hex(example('heart'))])
})

test('the refusals of the page name its frames', () => {
  for (const [name, frame] of [
    ['need-full', 'diff'],
    ['bad-key', 'diff-sec'],
  ] as const) {
    const refused = parseRefusedFrame(control.parseNackReason(example(name)))
    assert.deepEqual(refused && [refused.aid, refused.tid, refused.ts, refused.crc16], [
      AID,
      1,
      TS + 1000,
      example(frame).readUInt16BE(example(frame).length - 2),
    ])
  }
})

test('the captured exchange: the key is derived from the text that the page shows, and it opens the frames', () => {
  const { assignedId, timestampRaw } = control.parseSecureDictReady(example('dict-ready'))
  const product = String(assignedId * timestampRaw!)
  assert.ok(page.includes(`${assignedId} × ${timestampRaw} = ${product}`))
  assert.equal(hex(createHash('sha256').update(product).digest()), hex(example('key')))
  const frame = example('diff-sec')
  const header = readHeader(frame)
  assert.ok(typeof header === 'object' && header.crc16Ok)
  const body = xorPayload(frame.subarray(header.body, header.end), example('key'), header.crc8)
  assert.equal(hex(body), hex(example('diff').subarray(13, -3)))
  assert.equal(crc8(body), header.crc8)
  assert.equal(control.parseSecureChannelAck(example('channel-ack')), AID)
})

test('the table of commands has every command byte, and its examples are the output of the builders', () => {
  const rows = new Map(
    [...page.matchAll(/^\| ([0-9A-F]{2}) \| ([A-Z_]+) \|.*\| (?:`([0-9a-f ]+)`)? ?\|$/gm)].map(
      ([, byte, name, bytes]) => [name!, { byte: Number.parseInt(byte!, 16), example: bytes?.replaceAll(' ', '') }],
    ),
  )
  assert.deepEqual(Object.fromEntries([...rows].map(([name, { byte }]) => [name, byte])), { ...COMMAND })
  const built: Partial<Record<CommandName, Uint8Array>> = {
    ID_REQUEST: control.buildIdRequest(1, { device_id: 'HUB' }),
    ID_ASSIGN: control.buildIdAssign(1, AID, TS / 1000),
    ID_POOL_REQ: control.buildIdPoolRequest(2, 3),
    ID_POOL_RES: control.buildIdPoolResponse(2, [6, 7, 8]),
    HANDSHAKE_ACK: control.buildAck(1),
    HANDSHAKE_NACK: control.buildNack(1, 'NO_ALLOCATOR'),
    PING: control.buildPing(3),
    PONG: control.buildPong(3),
    TIME_REQUEST: control.buildTimeRequest(4),
    TIME_RESPONSE: control.buildTimeResponse(4, TS / 1000),
    SECURE_DICT_READY: control.buildSecureDictReady(AID, TS),
    SECURE_CHANNEL_ACK: control.buildSecureChannelAck(AID),
  }
  for (const [name, row] of rows) {
    const bytes = built[name as CommandName]
    assert.equal(row.example, bytes && hex(bytes), name)
  }
})

test('the diagrams can be rendered: a semicolon would end a statement, every line is one of the kinds used', () => {
  const diagrams = [...page.matchAll(/^```mermaid\nsequenceDiagram\n(.*?)^```$/gms)]
  assert.equal(diagrams.length, 4)
  for (const [, lines] of diagrams)
    for (const line of lines!.trimEnd().split('\n')) {
      assert.match(line, /^ {4}(participant [A-Z] as [a-z]+|[A-Z](->>|--x)[A-Z]: .+|Note over [A-Z](,[A-Z])?: .+)$/)
      assert.ok(!line.replaceAll('#59;', '').includes(';'), line)
    }
})
