// The receiver alone: refused packets are resent, known ones are not kept twice, answers wait for the commit, and
// packets of foreign senders change nothing.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Addresses } from '../../../src/gateway/receive/addresses'
import { allowList } from '../../../src/gateway/receive/allow-list'
import { contentHash } from '../../../src/gateway/receive/content-hash'
import { EarlyCommit } from '../../../src/gateway/receive/early-commit'
import { Epochs } from '../../../src/gateway/receive/epochs'
import { NewDevices } from '../../../src/gateway/receive/new-devices'
import { Receive, type ReceiveOptions } from '../../../src/gateway/receive/receive'
import { sourceAid } from '../../../src/gateway/receive/receiver-session'
import { KnownFrames, keeping, Replay } from '../../../src/gateway/receive/template-recovery'
import { TimeReplies } from '../../../src/gateway/receive/time-replies'
import { createLogger, silentLogger } from '../../../src/lib/logger'
import { RESERVE } from '../../../src/log'
import type { Fact, LinkMetadata } from '../../../src/pipeline/fact'
import { Receiver } from '../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { WirePickers } from '../../../src/pipeline/wireunit'
import { ipOf } from '../../../src/protocol/address'
import { parseServerTime } from '../../../src/protocol/control'
import { addToFrame, finishFrame, startFrame } from '../../../src/protocol/delivery/frame'
import { DuplicateFilter } from '../../../src/protocol/duplicates'
import { HandshakeManager } from '../../../src/protocol/handshake/manager'
import { NodeClock } from '../../../src/protocol/time'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ByteWriter } from '../../../src/wire/cursor'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'
import { harmed } from '../../lib/packets'
import { dice, digest, Trace } from '../../lib/trace'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000

// the reference's own bytes (test/vectors/receive.json, state/heart-ok)
const FULL = Buffer.from(
  '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1',
  'hex',
)
const HEART = Buffer.from('7f010000000901018e23f14c0000095d', 'hex')

const frame = (seq: number, packet: Uint8Array, epoch = 5): Uint8Array => {
  const writer = new ByteWriter(new Uint8Array(400))
  startFrame(writer, epoch, 1, seq)
  addToFrame(writer, packet)
  return finishFrame(writer, 1).slice()
}

/** A data frame of AID 9 and TID 1. */
function data(cmd: number, ts: number, body: string | Uint8Array = ''): Buffer {
  const bytes = Buffer.from(body as string)
  const out = Buffer.alloc(FRAME_OVERHEAD + bytes.length)
  const start = writeHeader(out, 0, cmd, 9, 1, ts)
  out.set(bytes, start)
  sealFrame(out, 0, start, start + bytes.length)
  return out
}

const fact = (k: number, value: number, aid = 9): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw: T0 + k,
  aid,
  sensors: [
    { id: 'a', status: 'OK', unit: 'K', value },
    { id: 'b', status: 'OK', unit: 'K', value: 1 },
  ],
})

/** The receiver over a log that commits on request, and its replies. */
function wall(options: Partial<ReceiveOptions> = {}) {
  const kept: Fact[] = []
  const links: LinkMetadata[] = []
  const counters: unknown[] = []
  const clock = new ManualClock(T0 + 5000)
  const time = new NodeClock(clock)
  let committedSeq = 0
  let waiting: (() => void)[] = []
  const log = {
    get lastSeq() {
      return kept.length
    },
    get committedSeq() {
      return committedSeq
    },
    appendFact: (one: Fact, link: LinkMetadata) => {
      links.push(link)
      return kept.push(one)
    },
    appendPacket: (bytes: Uint8Array) => {
      counters.push(['packet', Buffer.from(bytes).toString('hex')])
      return kept.length
    },
    committed: () => new Promise<void>(done => waiting.push(done)),
  }
  const receive = new Receive({
    log: log as never,
    receiver: new Receiver({ units, clock: time, stamp: aid => time.stamp(aid) }),
    duplicates: new DuplicateFilter(),
    pickers: new WirePickers(units, 4),
    protocol: new HandshakeManager({}, { clock: time, requireOpenRequest: true }),
    time,
    logger: silentLogger,
    ackCommitMs: 100,
    onFact: () => undefined,
    ...options,
  })
  const replies: Buffer[] = []
  const from = (address: string) => ({
    medium: 'UDP',
    address,
    reply: async (bytes: Uint8Array) => replies.push(Buffer.from(bytes)) > 0,
  })
  const commit = async (): Promise<void> => {
    committedSeq = kept.length
    for (const done of waiting) done()
    waiting = []
    await new Promise(setImmediate)
  }
  return { receive, kept, links, counters, replies, from, commit, clock, time }
}

test('a packet without its template is refused and requested, accepted as FULL, and acknowledged after the commit', async () => {
  const { receive, kept, replies, from, commit } = wall()
  const origin = from('a:1')
  receive.packet(frame(1, HEART), origin)
  assert.equal(kept.length, 0)
  assert.equal(receive.counters.refused, 1)
  assert.equal(replies[0]?.subarray(3).toString(), 'NEED_FULL;9;1;1710000000000;095d')

  receive.packet(frame(1, FULL), origin)
  assert.equal(kept.length, 1, 'the same number counts again')
  assert.equal(replies.length, 1, 'no answer before the commit')
  await commit()
  assert.equal(replies[1]?.readUInt32BE(7), 1, 'everything up to 1 is committed')

  receive.packet(frame(2, HEART), origin)
  assert.equal(kept.length, 1, 'the same content at the same time is one record')
  assert.equal(receive.counters.duplicates, 1)
})

test('a late frame without earlier state is refused and requested, and not acknowledged', async () => {
  const { receive, kept, replies, from, commit } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const early = sender.encode(fact(1, 1)).bytes
  const heart = sender.encode(fact(2, 1)).bytes
  const key = sender.encode(fact(3, 3), { full: true }).bytes
  receive.packet(frame(3, key), from('a:1'))
  receive.packet(frame(2, heart), from('a:1'))
  assert.deepEqual([receive.counters.late_dropped, receive.counters.refused], [1, 1])
  assert.match(replies[0]!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000002;/)
  receive.packet(frame(1, early), from('a:1'))
  await commit()
  assert.deepEqual([replies.at(-1)!.readUInt32BE(7), replies.at(-1)!.readUInt32BE(11)], [1, 1], '1 and 3, but not 2')
  assert.deepEqual(kept, [fact(3, 3), fact(1, 1)], 'the late FULL is decoded from its own text')
})

test('two gateways with one AID never share templates: templates belong to the run, and both addresses are shown', () => {
  const { receive, kept, from } = wall()
  const one = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const two = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  for (let k = 1; k <= 20; k++) {
    receive.packet(frame(k, one.encode(fact(10 * k, k)).bytes, 5), from('10.0.0.1:1'))
    receive.packet(frame(k, two.encode(fact(10 * k + 5, 1000 + k)).bytes, 6), from('10.0.0.2:1'))
  }
  assert.deepEqual(
    kept.map(({ sensors }) => sensors[0]!.value),
    Array.from({ length: 20 }, (_, k) => [k + 1, 1001 + k]).flat(),
  )
  assert.equal(receive.counters.moved, 1, 'counted once, not with every packet')
  assert.deepEqual(receive.addresses.several(), [{ aid: 9, addresses: ['10.0.0.1', '10.0.0.2'] }])
})

test('a bare FULL of another sender does not touch the templates of a run', () => {
  const { receive, kept, from } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(10, 1)).bytes), from('a:1'))
  const forged = new UplinkEncoder({ aid: 9, units }).encode({
    ...fact(11, 7),
    sensors: fact(11, 7).sensors.toReversed(),
  })
  receive.packet(forged.bytes, from('evil:1'))
  receive.packet(frame(2, sender.encode(fact(12, 2)).bytes), from('a:1'))
  assert.deepEqual(kept.at(-1), fact(12, 2))
  assert.equal(receive.counters.moved, 1)
})

test('two packets without a time are two facts with their own times, and the device is sent the time occasionally', () => {
  const { receive, kept, replies, from, clock } = wall()
  const full = data(0x3f, 0, '9;D.1.AAAAAAAA|a>K.K:1|')
  const heart = data(0x7f, 0)
  for (const packet of [full, heart, heart]) receive.packet(packet, from('a:1'))
  clock.wallMs -= 60_000
  receive.packet(data(0xaa, 0, Buffer.of(2, 1, 0x35)), from('a:1'))
  assert.deepEqual(
    kept.map(one => [one.tRaw - T0, one.sensors[0]!.value]),
    [
      [5000, 0.0001],
      [5001, 0.0001],
      [5002, 0.0001],
      [5003, 0.0005],
    ],
  )
  assert.equal(receive.counters.duplicates, 0)
  assert.equal(replies.length, 1)
  assert.equal(parseServerTime(replies[0]!), T0 / 1000 + 5)
  clock.advance(10_000)
  receive.packet(heart, from('a:1'))
  assert.equal(replies.length, 2)
})

test('NEED_FULL repeats the TS field of the frame: zero, seconds or milliseconds', () => {
  const { receive, replies, from } = wall()
  for (const ts of [0, T0 / 1000, T0]) receive.packet(data(0x7f, ts), from('a:1'))
  assert.deepEqual(
    replies.map(reply => reply.subarray(3).toString().split(';').slice(0, 4).join(';')),
    ['NEED_FULL;9;1;0', 'NEED_FULL;9;1;1710000000', 'NEED_FULL;9;1;1710000000000'],
  )
})

test('the same fact directly and relayed is one record, whatever kind of packet carried it', () => {
  const { receive, kept, from } = wall()
  const direct = new UplinkEncoder({ aid: 9, units })
  const relay = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  for (let k = 1; k <= 10; k++) {
    receive.packet(direct.encode(fact(k, 20 + k / 7)).bytes, from('node:1'))
    receive.packet(frame(k, relay.encode(kept.at(-1)!, { full: true }).bytes), from('relay:1'))
  }
  // a device that measures in another unit: what is forwarded is rounded to what the wire carries
  receive.packet(data(0x3f, T0 + 500, '9;D.1.AY4j8UwA|a>K.[degF]:6Rz|b>K.K:1|'), from('node:1'))
  receive.packet(frame(11, relay.encode(kept.at(-1)!, { full: true }).bytes), from('relay:1'))
  assert.deepEqual([kept.length, receive.counters.duplicates], [11, 11])
  receive.packet(direct.encodeFull(fact(3, 99)).bytes, from('node:1'))
  assert.equal(kept.length, 12, 'another content at the same time is another fact')
})

test('a duplicate FULL still teaches its template', () => {
  const duplicates = new DuplicateFilter()
  const sender = new UplinkEncoder({ aid: 9, units })
  const full = sender.encode(fact(1, 1)).bytes
  wall({ duplicates }).receive.packet(full, { medium: 'UDP', address: 'a:1', reply: async () => true })
  const { receive, kept, from } = wall({ duplicates })
  receive.packet(full, from('a:1'))
  assert.deepEqual([kept.length, receive.counters.duplicates], [0, 1])
  receive.packet(sender.encode(fact(2, 2)).bytes, from('a:1'))
  assert.deepEqual(kept, [fact(2, 2)])
})

test('a template from before an unclean stop: the facts it decodes are kept and marked, its FULL is requested, and recognized when it is resent', async () => {
  const receiver = new Receiver({ units })
  const { receive, kept, links, replies, from, commit } = wall({ receiver })
  const sender = new UplinkEncoder({ aid: 9, units, diffBase: 'last', clock: new ManualClock() })
  const full = sender.encode(fact(0, 1)).bytes.slice()
  const diff = sender.encode(fact(1, 2)).bytes.slice()
  receiver.replay(full, 9)
  receiver.rebuild(9)
  const settled: boolean[] = []
  const origin = { ...from('a:1'), settle: (taken: boolean) => void settled.push(taken) }
  receive.packet(diff, origin)
  assert.deepEqual(
    kept[0]?.sensors.map(({ value }) => value),
    [2],
    'only what it carries',
  )
  assert.deepEqual([kept.length, receive.counters.template_rebuilt, links[0]?.template_rebuilt], [1, 1, true])
  assert.match(replies[0]!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000001;/)
  await commit()
  receive.packet(diff, origin)
  await commit()
  assert.deepEqual([receive.counters.duplicates, receive.counters.template_rebuilt, replies.length], [1, 1, 1])
  assert.deepEqual(settled, [true, true])
  receive.packet(full, from('a:1'))
  assert.equal(kept.length, 2)
  assert.ok(!('template_rebuilt' in links[1]!))
})

test('the signal strength of a packet is kept if the medium has one', () => {
  const { receive, links, from } = wall()
  const full = (k: number): Uint8Array => new UplinkEncoder({ aid: 9, units }).encode(fact(k, k), { full: true }).bytes
  receive.packet(full(1), { ...from('a:1'), rssi: -97, snr: -7.25 })
  receive.packet(full(2), { ...from('a:1'), rssi: 0, snr: 0 })
  receive.packet(full(3), from('a:1'))
  assert.deepEqual(
    links.map(({ rssi, snr }) => [rssi, snr]),
    [
      [-97, -7.25],
      [0, 0],
      [undefined, undefined],
    ],
  )
  assert.ok(!('rssi' in links[2]!) && !('snr' in links[2]!))
})

test('the route of a frame with several hops is kept', () => {
  const { receive, links, kept, from } = wall()
  const plain = new UplinkEncoder({ aid: 9, units }).encode(fact(1, 1)).bytes
  const routed = Buffer.concat([plain.subarray(0, 1), Buffer.of(2, 0, 0, 0, 5), plain.subarray(2)])
  sealFrame(routed, 0, 17, routed.length - 3)
  receive.packet(routed, from('a:1'))
  assert.deepEqual([kept[0]!.aid, links[0]!.route], [9, [5, 9]])
})

test('receiver.allow: packets of other senders are dropped unread and counted', () => {
  const { receive, kept, replies, from } = wall({ allowed: allowList(['10.1.0.0/16'], silentLogger) })
  for (const packet of [FULL, frame(1, FULL), Buffer.of(9, 0, 1), Buffer.from('junk')])
    receive.packet(packet, from('10.2.0.1:1'))
  assert.deepEqual(
    [receive.counters.not_allowed, receive.counters.malformed, kept.length, replies.length],
    [4, 0, 0, 0],
  )
  receive.packet(FULL, from('10.1.2.3:1'))
  assert.equal(kept.length, 1)
})

test('receiver.allow accepts addresses and ranges', () => {
  for (const [address, ip] of [
    ['192.0.2.1:8080', '192.0.2.1'],
    ['[fd00::1]:8080', 'fd00::1'],
    ['fd00::1', 'fd00::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[fe80::1%eth0]:1', 'fe80::1'],
    ['ttyUSB0', ''],
  ])
    assert.equal(ipOf(address!), ip)
  const errors: string[] = []
  const logger = createLogger({ write: line => void errors.push(line) })
  const allowed = allowList(['192.0.2.7', 'fd00::/8', 'ttyUSB0', '10.0.0.0/99', '10.0.0.0/', ''], logger)
  assert.deepEqual(
    errors.map(line => /ERROR.*receiver\.allow: "(.*)" is not/.exec(line)?.[1]),
    ['10.0.0.0/99', '10.0.0.0/', ''],
  )
  assert.deepEqual(
    ['192.0.2.7:1', '192.0.2.8:1', '[fd12::5]:1', '[fe80::1]:1', 'ttyUSB0', 'ttyUSB1', '10.0.0.1:1', ''].map(allowed),
    [true, false, true, false, true, false, false, false],
  )
  assert.equal(allowList([], silentLogger)('anybody'), true)
})

test('the number of addresses of an AID is limited, and a device that alternates between two is counted once for each', () => {
  const addresses = new Addresses()
  const moves = ['a', 'b', 'a', 'b', 'c', 'a'].filter(address => addresses.heard(1, address))
  assert.deepEqual(moves, ['b', 'c'])
  assert.deepEqual(
    [addresses.heard(2, '10.0.0.1:5'), addresses.heard(2, '10.0.0.1:6')],
    [false, false],
    'a port is no place',
  )
  assert.equal(addresses.heard(2, '10.0.0.1:6'), false, 'the same place again')
  for (let k = 0; k < 40_000; k++) addresses.heard(k, 'x')
  assert.equal(addresses.several().length, 0, 'forgotten with the rest of it')
})

test('only a bare packet that changes its template is kept with its record', () => {
  const { receive, links, from } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(1, 1)).bytes), from('a:1'))
  const bare = new UplinkEncoder({ aid: 10, units })
  for (const k of [1, 2]) receive.packet(bare.encode(fact(k, k, 10)).bytes, from('b:1'))
  const late = new UplinkEncoder({ aid: 10, units, frames: 'full' }).encode({ ...fact(0, 5, 10), sensors: [] })
  receive.packet(late.bytes, from('b:1'))
  assert.deepEqual(
    links.map(link => link.frame !== undefined),
    [false, true, false, false],
  )
})

test('the hash of a fact changes with every field', () => {
  const pickers = new WirePickers(units, 4)
  const sensor = { id: 'a', status: 'OK', unit: 'K', value: 123_456.7891 as number | null }
  const one: Fact = { id: 'D', state: 'ONLINE', tRaw: 1, aid: 9, sensors: [sensor, sensor], extras: { k: 'v' } }
  const facts: Fact[] = [
    one,
    { ...one, id: 'E' },
    { ...one, state: 'ONLINE ' },
    { ...one, sensors: [sensor] },
    ...[123_456.7892, -123_456.7891, 0, 1, 2, null].map(value => ({ ...one, sensors: [sensor, { ...sensor, value }] })),
    ...['status', 'id'].map(key => ({ ...one, sensors: [sensor, { ...sensor, [key]: 'x' }] })),
    { ...one, sensors: [sensor, { ...sensor, unit: 'Pa' }] },
    { ...one, extras: { k: 'w' } },
    { ...one, extras: { l: 'v' } },
    { ...one, extras: { k: 'v', l: '' } },
  ]
  assert.equal(new Set(facts.map(fact => contentHash(fact, pickers))).size, facts.length)
  const copy = { ...one, tRaw: 2, aid: 8, sensors: [sensor, { ...sensor, value: 123_456.789_100_01 }] }
  assert.equal(contentHash(copy, pickers), contentHash(one, pickers), 'as the wire carries it')
})

test('S13: unrequested answers change neither identity, time nor templates', () => {
  const { receive, kept, from, time } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(10, 1)).bytes), from('a:1'))
  const before = [time.now(), time.quality, time.offsetMs]
  const strangers = [
    '02000100000063000000007fffffff', // ID_ASSIGN
    '040001000100000063', // ID_POOL_RES
    '0c0000000000007fffffff', // TIME_RESPONSE, no request open
    '0d00000009000000007fffffff', // SECURE_DICT_READY
    '0e00000009', // SECURE_CHANNEL_ACK
    '0500000000000500000063ffffffff0000', // an answer of the exchange, CRC wrong
    '06000042414 44b4559'.replace(' ', ''), // NACK
    '0a00014f534e01000064', // PONG of the exchange
  ]
  for (const hex of strangers) receive.packet(Buffer.from(hex, 'hex'), from('evil:1'))
  // the peer's own run from another address: another numbering, and it is not acknowledged to the first
  receive.packet(frame(2, FULL, 77), from('evil:1'))
  assert.deepEqual([time.now(), time.quality, time.offsetMs], before)
  receive.packet(frame(2, sender.encode(fact(12, 2)).bytes), from('a:1'))
  assert.deepEqual(kept.at(-1), fact(12, 2))
})

test('two runs of one id that alternate count as two devices, with one warning; a restart does not', () => {
  const warned: string[] = []
  const logger = createLogger({ write: line => warned.push(line) })
  const { receive, from } = wall({ logger })
  let k = 0
  const heard = (epoch: number, address: string): void => {
    k++
    receive.packet(frame(k, data(0x3f, T0 + k, FULL.subarray(13, -3)), epoch), from(address))
  }
  for (const epoch of [5, 5, 6, 6, 7]) heard(epoch, 'a:1')
  assert.equal(receive.report().epochs_alternate, 0, 'restarts go on to new epochs')
  for (const [epoch, address] of [
    [8, 'b:1'],
    [7, 'a:1'],
    [8, 'b:1'],
  ] as const)
    heard(epoch, address)
  assert.equal(receive.report().epochs_alternate, 0, 'a late packet of the run before is none')
  heard(7, 'a:1')
  assert.equal(receive.report().epochs_alternate, 1)
  assert.equal(receive.counters.facts, 9, 'every packet is kept')
  assert.match(warned.join(''), /WARN .*two devices send as id 9 \(.*, one of them from a:1\)/)
})

test('no duplicate ids: a gateway that switches between two uplinks, two gateways that hear the same device', () => {
  const minute = 60_000
  const back = new Epochs()
  const flips = Array.from({ length: 20 }, (_, k) => [0, 1, 2].map(n => back.alternate(9, k % 2, k * minute + n)))
  assert.ok(!flips.flat().includes(true), 'a minute and several packets by each')
  const seldom = new Epochs()
  const turns = Array.from({ length: 5 }, (_, k) => seldom.alternate(9, k % 2, k * 10 * minute))
  assert.deepEqual(turns, [false, false, false, false, true], 'two devices that send every ten minutes')
  const relays = new Epochs()
  for (const aid of [1, 2]) relays.alternate(aid, aid - 1, 0)
  assert.ok(!Array.from({ length: 20 }, (_, k) => relays.alternate(9, k % 2, k)).includes(true))
  const many = new Epochs()
  for (let aid = 1; aid <= 40_000; aid++) many.alternate(aid, 5, 0)
  assert.equal(many.size, 32_768)
})

test('alternating epochs count only while they follow each other soon, and the AID heard last is forgotten last', () => {
  const minute = 60_000
  const slow = new Epochs()
  // each epoch stays a minute with three packets, then they alternate quickly: the count of returns restarts
  for (const [k, epoch] of [5, 6, 5, 6].entries())
    for (let n = 0; n < 3; n++) assert.equal(slow.alternate(9, epoch, k * minute), false)
  const quick = [5, 6, 5, 6].map((epoch, k) => slow.alternate(9, epoch, 4 * minute + k))
  assert.deepEqual(quick, [false, false, false, true], 'the first of them came after a minute')
  assert.deepEqual(
    [5, 6, 5].map((epoch, k) => slow.alternate(9, epoch, 4 * minute + 9 + k)),
    [false, false, true],
  )
  const long = new Epochs()
  const stay = (epoch: number, since: number, lasts: number): boolean[] =>
    [0, 1, lasts].map(after => long.alternate(9, epoch, since + after))
  for (let k = 0; k < 8; k++) assert.ok(!stay(5 + (k % 2), k * minute, minute - 1).includes(true), `${k}`)
  // after an hour with one epoch, three packets each or two every ten minutes are still two devices
  const turnsOf = (packets: number, apart: number): boolean[] => {
    const epochs = new Epochs()
    const send = (epoch: number, now: number): boolean[] =>
      Array.from({ length: packets }, (_, n) => epochs.alternate(9, epoch, now + n))
    send(5, 0)
    return [6, 5, 6, 5, 6].map((epoch, k) => send(epoch, 60 * minute + k * apart).includes(true))
  }
  for (const [packets, apart] of [
    [3, 1000],
    [2, 10 * minute],
  ] as const)
    assert.ok(turnsOf(packets, apart).includes(true), `${packets} packets`)
  assert.ok(!turnsOf(3, 10 * minute).includes(true))
  const bounded = new Epochs()
  for (let aid = 1; aid <= 32_768; aid++) bounded.alternate(aid, 5, 0)
  bounded.alternate(1, 6, 1)
  bounded.alternate(40_000, 9, 2)
  for (const epoch of [5, 6]) assert.equal(bounded.alternate(1, epoch, 3), false)
  assert.equal(bounded.alternate(1, 5, 4), false, 'others have these epochs too')
  assert.equal(bounded.size, 32_768, 'AID 2 went, AID 1 stayed')
})

test('the drop count is what was received and is neither in the log nor going to be resent', () => {
  const { receive } = wall()
  assert.equal(receive.dropped, 0)
  const { counters } = receive
  Object.assign(counters, {
    malformed: 1,
    late_dropped: 20,
    too_large: 300,
    not_allowed: 4000,
    refused: 9,
    duplicates: 9,
  })
  assert.equal(receive.dropped, 4321)
})

test('packets are shown to listeners one by one, also those inside a frame; an empty one is malformed', () => {
  const seen: number[] = []
  const { receive, from } = wall({ onPacket: packet => void seen.push(packet[0]!) })
  receive.packet(frame(1, FULL), from('a:1'))
  receive.packet(HEART, from('a:1'))
  receive.packet(Buffer.of(9, 0, 1), from('a:1'))
  receive.packet(new Uint8Array(0), from('a:1'))
  assert.deepEqual(seen, [0x3f, 0x7f, 9])
  assert.deepEqual([receive.counters.packets, receive.counters.malformed], [4, 1])
})

test('the sender of a frame is read after its route; for a truncated one it is 0', () => {
  assert.equal(sourceAid(FULL), 9)
  assert.equal(sourceAid(Buffer.of(0x3f, 2, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xfe)), 0xffff_fffe)
  for (const length of [0, 1, 2, 5]) assert.equal(sourceAid(FULL.subarray(0, length)), 0, `${length}`)
  assert.equal(sourceAid(FULL.subarray(0, 6)), 9)
  assert.equal(sourceAid(Buffer.of(0x3f, 0, 1, 2, 3, 4)), 0)
  assert.equal(sourceAid(Buffer.of(0x3f, 2, 0, 0, 0, 5, 0, 0, 0)), 0)
})

const kept = (link: LinkMetadata, packet: Uint8Array, received: object, how: object): LinkMetadata =>
  keeping(link, packet, { fact: { aid: 9 }, meta: {}, ...received } as never, how as never)
const framed = (link: LinkMetadata, packet: Uint8Array, meta: object): LinkMetadata =>
  kept(link, packet, { meta }, { acknowledges: true })
const shaped = (link: LinkMetadata, packet: Uint8Array): LinkMetadata => kept(link, packet, { reshaped: true }, {})

test('what a record keeps of its packet: nothing without a need; that it changed no bare template, where there are such', () => {
  const link: LinkMetadata = { medium: 'UDP' }
  const receiver = { hasBare: (aid: number) => aid === 9 }
  assert.deepEqual(kept(link, FULL, { reshaped: true }, { peer: {}, receiver }).frame?.length, 0)
  assert.equal(kept(link, FULL, { fact: { aid: 8 }, reshaped: true }, { peer: {}, receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: false }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true, meta: { late: true } }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true, meta: { future: true } }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true }, { receiver }).frame?.length, FULL.length + 1)
})

test('a late FULL that is new: a later DIFF, which may build on it, waits for a FULL; a late duplicate changes nothing', () => {
  for (const fresh of [true, false]) {
    const { receive, kept, replies, from } = wall()
    const before = new UplinkEncoder({ aid: 9, units, acknowledged: true })
    const origin = from('mqtt://broker/os/9')
    const early = before.encode(fact(1, 1)).bytes
    if (!fresh) receive.packet(early, origin)
    receive.packet(before.encode(fact(50, 5), { full: true }).bytes, origin)
    // another run of the sender, whose clock is behind for a moment
    const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
    receive.packet(fresh ? sender.encode(fact(2, 7)).bytes : early, origin)
    const { length } = kept
    receive.packet((fresh ? sender : before).encode(fact(60, 8)).bytes, origin)
    assert.equal(kept.length, fresh ? length : length + 1)
    if (fresh) assert.match(replies.at(-1)!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000060;/)
  }
})

test('a start replays the packets of the log: complete ones, templates only, and none before a template change that was not seen', () => {
  const calls: unknown[][] = []
  const receiver = {
    replay: (packet: Uint8Array, ...rest: unknown[]) => void calls.push(['replay', packet[0], ...rest]),
    rebuild: (aid: number) => void calls.push(['rebuild', aid]),
  }
  const frames = new KnownFrames()
  const losses = [
    { reason: 'damaged', from: 13, to: 14, records: 2 },
    { reason: 'torn', from: 20, to: 21, records: 2 },
  ]
  const replay = new Replay({ counter: () => 10, losses } as never, receiver as never, frames)
  const link: LinkMetadata = { medium: 'MQTT' }
  const meta = { source_aid: 9, timestamp_raw: T0 + 1 }
  const take = (seq: number, of: LinkMetadata | undefined, one: Fact | undefined = fact(1, 1)): unknown[][] => {
    calls.length = 0
    replay.take({ seq, fact: one, link: of } as never)
    return [...calls]
  }
  assert.equal(frames.has(FULL, meta as never), false)
  assert.deepEqual(take(10, framed(link, FULL, {} as never)), [], 'before the mark')
  assert.equal(frames.has(FULL, meta as never), true, 'but known')
  frames.forget(FULL, fact(1, 1))
  assert.equal(frames.has(FULL, meta as never), false)
  assert.deepEqual(take(11, framed(link, FULL, {} as never)), [['replay', 0x3f, 9, false]])
  assert.deepEqual(take(11, framed({ ...link, future: true }, FULL, {} as never)), [['replay', 0x3f, 9, true]])
  assert.deepEqual(take(11, framed(link, FULL, { late: true } as never)), [])
  assert.deepEqual(
    take(11, kept(link, FULL, {}, { peer: {}, receiver: { hasBare: () => true } })),
    [],
    'in the exchange',
  )
  const shape = [
    ['replay', 0x7f, 9],
    ['rebuild', 9],
  ]
  assert.deepEqual(take(11, shaped(link, HEART)), shape)
  assert.equal(frames.has(HEART, meta as never), false, 'nothing acknowledged it')
  assert.deepEqual(take(11, link), [['rebuild', 9]])
  assert.deepEqual(take(11, link, null as never), [], 'no fact')
  frames.forget(FULL, fact(1, 1))
  assert.deepEqual(take(22, framed(link, FULL, {} as never)), [], 'after a torn range of its run')
  assert.equal(frames.has(FULL, meta as never), true, 'but known')
  const packet = (seq: number): unknown[][] => {
    calls.length = 0
    replay.take({ seq, packet: { bytes: FULL, future: false } } as never)
    return [...calls]
  }
  assert.deepEqual([packet(15), packet(22)], [[['replay', 0x3f, 9, false]], []])
  assert.deepEqual(take(22, shaped(link, HEART)), shape, 'nobody repeats it')
  assert.deepEqual(take(22, link), [['rebuild', 9]])
  for (const seq of [19, 20 + RESERVE])
    assert.equal(take(seq, framed(link, FULL, {} as never)).length, 1, 'another run')
})

test('the time is sent to an AID once in ten seconds, and the number of AIDs remembered is limited', () => {
  const replies = new TimeReplies()
  assert.deepEqual(
    [0, 1, 9999, 10_000, 19_999, 20_000].map(now => replies.due(9, now)),
    [true, false, false, true, false, true],
  )
  for (let aid = 100; aid < 100 + 32_767; aid++) replies.due(aid, 20_000)
  assert.equal(replies.size, 32_768)
  assert.equal(replies.due(9, 20_001), false, 'still known')
  replies.due(99, 20_002)
  assert.equal(replies.size, 32_768)
  assert.equal(replies.due(9, 20_003), true, 'the oldest is forgotten')
})

test('eight waiting packets are committed early once no more arrive, seven are not', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let flushed = 0
  const early = new EarlyCommit({ flush: async () => void flushed++ })
  for (let k = 0; k < 7; k++) early.waits()
  t.mock.timers.tick(100)
  assert.equal(flushed, 0)
  early.waits()
  t.mock.timers.tick(1)
  early.waits()
  t.mock.timers.tick(1)
  assert.equal(flushed, 0, 'another came meanwhile')
  t.mock.timers.tick(2)
  assert.equal(flushed, 1)
  for (let k = 0; k < 9; k++) early.settled()
  for (let k = 0; k < 8; k++) early.waits()
  early.settled()
  t.mock.timers.tick(2)
  assert.equal(flushed, 1, 'seven are left when it looks')
  early.waits()
  t.mock.timers.tick(2)
  assert.equal(flushed, 2)
})

test('packets of many devices, lost, doubled, damaged, late and refused, behave as recorded', async () => {
  const trace = new Trace('unit/gateway/receive-trace.txt')
  for (const seed of [1, 2, 3]) {
    const roll = dice(seed)
    const { below, chance, pick } = roll
    const lines: string[] = []
    const alive: unknown[] = []
    const looks: number[] = []
    const seen: number[] = []
    const known = new Set([9])
    const later: { clock?: ManualClock } = {}
    const newDevices = new NewDevices({
      clock: { mono: () => later.clock?.mono() ?? 0, wall: () => T0 },
      limit: () => 900,
      knows: aid => known.has(aid),
      rss: () => looks.push(below(1000)) && looks.at(-1)!,
    })
    const { receive, kept, links, counters, replies, from, commit, clock, time } = wall({
      logger: createLogger({ write: line => void lines.push(line.slice(25)) }),
      allowed: seed === 2 ? allowList(['10.0.0.0/30', 'hci0:1'], silentLogger) : () => true,
      ...(seed === 3 && { newDevices }),
      onAlive: (...heard) => void alive.push(heard),
      onFact: one => {
        known.add(one.aid)
        seen.push(one.aid)
      },
      onPacket: packet => void seen.push(packet.length),
    })
    later.clock = clock
    const aids = [9, 10, 0x0102_0304, 0xa000_0001]
    const senders = [0, 1].map(() => aids.map(aid => new UplinkEncoder({ aid, units, acknowledged: true })))
    const settled: string[] = []
    const waiting: (() => void)[] = []
    let t = 0
    const send = (): void => {
      const [run, k] = [below(2), below(aids.length)]
      t += pick([0, 1, 1, 40, 5000])
      const value = pick([1, 2, 2, 2.5, 1e6])
      const one = fact(chance(0.1) ? t - 9000 : chance(0.02) ? t + 9e8 : t, value, aids[k]!)
      const encoded = senders[run]![k]!.encode(one, { full: chance(0.1) }).bytes
      const packet = Buffer.from(chance(0.05) ? harmed(encoded, roll) : encoded)
      const bytes = chance(0.6) ? Buffer.from(frame(below(40) + 1, packet, 5 + run + 2 * k)) : packet
      const how = chance(0.3) ? { settle: (kept: boolean) => void settled.push(`${t} ${kept}`) } : {}
      const origin = { ...from(`${pick(['10.0.0.1', '10.0.0.2', '10.0.0.9', 'hci0'])}:${1 + run}`), ...how }
      const deliver = (): void => receive.packet(chance(0.02) ? Buffer.alloc(0) : bytes, origin)
      if (chance(0.15)) waiting.push(deliver)
      else if (chance(0.9)) deliver()
      if (chance(0.1)) deliver()
    }
    for (let n = 0; n < 900; n++) {
      send()
      if (chance(0.1)) for (const deliver of waiting.splice(0)) deliver()
      if (chance(0.05))
        receive.packet(pick([HEART, data(1, T0 + t, '{}'), Buffer.of(3, 0, 1, 0, 4), Buffer.of(9)]), from('10.0.0.1:7'))
      // many devices that were never heard before
      if (chance(0.2)) {
        const stranger = new UplinkEncoder({ aid: 100 + below(5000), units })
        receive.packet(stranger.encode(fact(t, n), { full: true }).bytes, from('10.0.0.3:1'))
      }
      clock.advance(below(30))
      if (n % 10 === 0) await commit()
      if (n % 60 !== 59) continue
      const digests = [kept, links, counters, replies.map(String), settled, alive, looks, seen, lines]
      trace.say(`seed ${seed}, ${n}`, [
        kept.length,
        ...digests.map(list => digest(0, Buffer.from(JSON.stringify(list)))),
        receive.dropped,
        time.now() - T0,
      ])
      trace.say('  report', receive.report())
      trace.say('  addresses', receive.addresses.several())
    }
  }
  trace.compare()
})
