// The receiver alone: known packets are not kept twice, the time is sent to devices, answers wait for the commit, and what it counts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allowList } from '../../../../src/gateway/receive/allow-list'
import { contentHash } from '../../../../src/gateway/receive/content-hash'
import { EarlyCommit } from '../../../../src/gateway/receive/early-commit'
import { NewDevices } from '../../../../src/gateway/receive/new-devices'
import { sourceAid } from '../../../../src/gateway/receive/receiver-session'
import { TimeReplies } from '../../../../src/gateway/receive/time-replies'
import { createLogger, silentLogger } from '../../../../src/lib/logger'
import type { Fact } from '../../../../src/pipeline/fact'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { parseServerTime } from '../../../../src/protocol/control'
import { sealFrame } from '../../../../src/wire/frame'
import type { ManualClock } from '../../../lib/manual'
import { harmed } from '../../../lib/packets'
import { dice, digest, Trace } from '../../../lib/trace'
import { data, FULL, fact, frame, HEART, T0, units, wall } from './receive-world'

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
  const trace = new Trace('unit/gateway/receive/receive-trace.txt')
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
