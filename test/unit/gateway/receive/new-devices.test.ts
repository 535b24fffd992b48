// What packets of unknown senders may do (S13, S19, S20): not take over a device's session, not evict its newest time, not
// fill the memory. And what the device's own packets can still do next to them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConfigStore } from '../../../../src/config'
import { latestTime, NewDevices } from '../../../../src/gateway/receive/new-devices'
import { Receive } from '../../../../src/gateway/receive/receive'
import { ReceiveSession } from '../../../../src/gateway/receive/receiver-session'
import { silentLogger } from '../../../../src/lib/logger'
import type { Fact, LinkMetadata } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { parseNackReason } from '../../../../src/protocol/control'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { parseRefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { SecureServer } from '../../../../src/protocol/secure/server'
import { NodeClock } from '../../../../src/protocol/time'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000
const DAY = 86_400_000
const DEVICE = '10.0.0.5:1'
const STRANGER = '6.6.6.6:6'

function world(secure: { requireSecure?: boolean } = {}, limit = Number.POSITIVE_INFINITY) {
  const clock = new ManualClock(T0)
  const time = new NodeClock(clock)
  const server = new SecureServer({ clock, ...secure })
  const receiver = new Receiver({
    units,
    clock: time,
    stamp: aid => time.stamp(aid),
    inboundKey: aid => server.keys(aid),
    latest: () => time.now() + DAY,
  })
  const memory = { rss: 0 }
  const kept: { fact: Fact; link: LinkMetadata }[] = []
  const knows = (aid: number): boolean => receiver.knows(aid)
  const receive = new Receive({
    log: { appendFact: (fact: Fact, link: LinkMetadata) => kept.push({ fact, link }) } as never,
    receiver,
    duplicates: new DuplicateFilter(),
    pickers: new WirePickers(units, 4),
    protocol: new HandshakeManager({}, { clock: time, requireOpenRequest: true }),
    time,
    logger: silentLogger,
    ackCommitMs: 100,
    session: new ReceiveSession(server),
    newDevices: new NewDevices({ clock, knows, limit: () => limit, rss: () => memory.rss }),
    onFact: () => undefined,
  })
  const replies: Uint8Array[] = []
  const deliver = (packet: Uint8Array, address: string): Uint8Array | undefined => {
    const before = replies.length
    receive.packet(packet, { medium: 'UDP', address, reply: async bytes => replies.push(Uint8Array.from(bytes)) > 0 })
    return replies[before]
  }
  return { clock, server, receive, receiver, kept, memory, deliver }
}

const fact = (tRaw: number, value: number, aid = 9): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw,
  aid,
  sensors: [
    { id: 'a', status: 'OK', unit: 'K', value },
    { id: 'b', status: 'OK', unit: 'K', value: 1 },
  ],
})
const encoder = (aid = 9): UplinkEncoder => new UplinkEncoder({ aid, units, acknowledged: true })
const full = (tRaw: number, value: number, key?: Uint8Array, aid = 9): Uint8Array =>
  encoder(aid)
    .encode(fact(tRaw, value, aid), { full: true }, key ?? null)
    .bytes.slice()

for (const requireSecure of [false, true])
  test(`an unknown sender takes over neither the session nor the data of a device (require_secure ${requireSecure})`, () => {
    const { clock, server, receive, kept, deliver } = world({ requireSecure })
    assert.equal(deliver(full(T0, 1), DEVICE)?.[0], COMMAND.SECURE_DICT_READY)
    clock.advance(1000)
    const key = deriveSessionKey(9, T0)
    assert.equal(deliver(full(T0 + 1000, 2, key), DEVICE)?.[0], COMMAND.SECURE_CHANNEL_ACK)
    const before = kept.length

    clock.advance(11_000)
    const forged = T0 + 12_000
    assert.equal(deliver(full(forged, 666), STRANGER)?.[0], COMMAND.HANDSHAKE_NACK, 'no key')
    deliver(full(forged + 1, 666, deriveSessionKey(9, forged)), STRANGER)
    deliver(Buffer.from(full(forged, 666)).fill(0xaa, 0, 1), STRANGER)
    assert.equal(kept.length, before, 'nothing stored')
    const status = receive.session!.status()
    assert.deepEqual([status.rekey_refused, status.keys_replaced, status.bad_key], [1, 0, 2])
    assert.equal(receive.counters.facts, before)
    assert.ok(Number(receive.report()['refused_elsewhere']) >= 1)
    assert.deepEqual(server.keys(9), [key])

    assert.equal(deliver(full(T0 + 20_000, 3, key), DEVICE), undefined)
    assert.equal(kept.length, before + 1)
    clock.advance(10_000)
    assert.equal(deliver(full(T0 + 30_000, 4), DEVICE)?.[0], COMMAND.SECURE_DICT_READY, 'rebooted: immediately')
    assert.equal(kept.length, before + (requireSecure ? 1 : 2), 'plaintext from its own address')
  })

for (const requireSecure of [false, true])
  test(`a gateway that arrives over another path continues immediately with its key (require_secure ${requireSecure})`, () => {
    const { clock, receive, kept, deliver } = world({ requireSecure })
    deliver(full(T0, 1), DEVICE)
    const key = deriveSessionKey(9, T0)
    deliver(full(T0 + 1000, 2, key), DEVICE)
    const before = kept.length

    const other = new SecureClient({ clock, requireSecure, otherServers: () => [T0] })
    const plain = full(T0 + 2000, 3)
    other.plaintextSent(9, T0 + 2000)
    const refused = parseRefusedFrame(parseNackReason(deliver(plain, 'os/1/up')!))!
    assert.deepEqual([refused.reason, refused.aid, refused.ts], ['BAD_KEY', 9, T0 + 2000])
    assert.equal(kept.length, before)
    assert.equal(other.onPlaintextRefused({ ...refused, ts: T0 + 2001 }), null, 'for a packet that was never sent')
    assert.equal(other.onPlaintextRefused(refused), 'keyed')
    assert.deepEqual(other.outboundKey(9), key)
    deliver(full(T0 + 2000, 3, other.outboundKey(9)!), 'os/1/up')
    assert.equal(kept.length, before + 1)
    assert.deepEqual(receive.session!.status().moved, 1)

    // and back: the first path still has its key
    deliver(full(T0 + 3000, 4, key), DEVICE)
    assert.equal(kept.length, before + 2)
    assert.equal(receive.session!.status().moved, 2)

    other.onBadKey(refused)
    other.plaintextSent(9, T0 + 4000)
    assert.equal(other.onPlaintextRefused({ ...refused, ts: T0 + 4000 }), 'held', 'not the key that was refused')
  })

test('outside the exchange each packet from the other path is named, because none is retransmitted on its own', () => {
  const { receive, deliver } = world()
  deliver(full(T0, 1), DEVICE)
  deliver(full(T0 + 1000, 2, deriveSessionKey(9, T0)), DEVICE)
  let answers = 0
  for (let k = 0; k < 5; k++)
    for (const settle of [() => undefined, undefined])
      receive.packet(full(T0 + 2000 + k, k), {
        medium: 'MQTT',
        address: settle ? 'os/1/up' : STRANGER,
        reply: async () => ++answers > 0,
        ...(settle && { settle }),
      })
  assert.equal(answers, 5 + 5)
})

test('an empty heartbeat, which every key fits, counts only from the address of the session', () => {
  const { clock, kept, deliver } = world()
  deliver(full(T0, 1), DEVICE)
  const key = deriveSessionKey(9, T0)
  const sender = encoder()
  const send = (ms: number): Uint8Array => sender.encode(fact(T0 + ms, 2), { full: ms === 1000 }, key).bytes.slice()
  deliver(send(1000), DEVICE)
  const heart = send(2000)
  assert.equal(heart[0], COMMAND.DATA_HEART_SEC)
  clock.advance(2000)
  deliver(heart, STRANGER)
  assert.equal(kept.length, 2)
  deliver(heart, DEVICE)
  assert.equal(kept.length, 3)
})

test('a time too far ahead is kept and marked, and later packets do not count as late', () => {
  const { receive, kept, deliver } = world()
  const sender = encoder()
  deliver(sender.encode(fact(T0, 1), { full: true }).bytes.slice(), DEVICE)
  for (const ahead of [T0 + DAY + 1, 2 ** 48 - 1]) deliver(full(ahead, 666), STRANGER)
  assert.deepEqual(
    kept.map(({ fact: { tRaw }, link }) => [tRaw, link.future]),
    [
      [T0, undefined],
      [T0 + DAY + 1, true],
      [2 ** 48 - 1, true],
    ],
  )
  deliver(full(T0 + DAY, 2, undefined, 10), STRANGER)
  assert.equal(kept.at(-1)!.link.future, undefined, 'a day ahead is not too far')
  deliver(sender.encode(fact(T0 + 1000, 5)).bytes.slice(), DEVICE)
  assert.deepEqual(
    kept.at(-1)!.fact.sensors.map(({ value }) => value),
    [5, 1],
  )
  assert.deepEqual([receive.counters.future, receive.report()['late'], receive.counters.refused], [2, 0, 0])
})

test('a device whose own clock is ahead is decoded from its own packets, including DIFFs', () => {
  const { kept, deliver } = world()
  const sender = encoder()
  deliver(sender.encode(fact(T0, 1), { full: true }).bytes.slice(), DEVICE)
  for (const value of [2, 3]) deliver(sender.encode(fact(T0 + 400 * DAY + value, value)).bytes.slice(), DEVICE)
  assert.deepEqual(
    kept.map(({ fact: { sensors }, link }) => [sensors[0]!.value, sensors[1]!.value, link.future]),
    [
      [1, 1, undefined],
      [2, 1, true],
      [3, 1, true],
    ],
  )
})

test('memory is checked for the first new AID, then for one in 257, and ten times a second while it is short', () => {
  const clock = new ManualClock()
  let looks = 0
  let rss = 0
  const devices = new NewDevices({
    clock,
    limit: () => 1000,
    knows: aid => aid === 7,
    rss: () => {
      looks++
      return rss
    },
  })
  const admit = (count: number): number => {
    let admitted = 0
    for (let k = 0; k < count; k++) if (devices.admits(1000 + k)) admitted++
    return admitted
  }
  assert.deepEqual([admit(1), looks, admit(256), looks, admit(1), looks], [1, 1, 256, 1, 1, 2])
  assert.deepEqual([devices.admits(7), looks, devices.refused], [true, 2, 0])
  rss = 700
  clock.advance(1000)
  assert.deepEqual([admit(11), looks, admit(100)], [11, 3, 100], '0.7 of the limit is not beyond it')
  rss = 701
  clock.advance(1000)
  assert.equal(admit(50), 20, 'ten before the look, and ten more')
  assert.equal(devices.refused, 30)
  clock.advance(999)
  assert.equal(admit(1), 0)
  clock.advance(1)
  assert.equal(admit(50), 10)
})

test('near the memory limit new AIDs are admitted slowly, known ones as before', () => {
  const { clock, receive, kept, memory, deliver } = world({}, 1000)
  deliver(full(T0, 1), DEVICE)
  memory.rss = 701
  for (let k = 0; k < 2000; k++) deliver(full(T0 + k, 1, undefined, 1000 + k), STRANGER)
  const crowd = kept.length
  assert.ok(crowd < 300, `${crowd} came in`)
  assert.equal(receive.report()['strangers_refused'], 2001 - crowd)
  for (let k = 1; k <= 50; k++) deliver(full(T0 + k, k), DEVICE)
  assert.equal(kept.length, crowd + 50)
  clock.advance(1000)
  for (let k = 0; k < 100; k++) deliver(full(T0 + k, 1, undefined, 9000 + k), STRANGER)
  assert.equal(kept.length, crowd + 50 + 10, 'an honest new device waits a little')
  memory.rss = 700
  clock.advance(1000)
  for (let k = 0; k < 500; k++) deliver(full(T0 + k, 1, undefined, 20_000 + k), STRANGER)
  assert.ok(kept.length >= crowd + 60 + 480)
})

test('without a correct time of its own a receiver rejects only impossible dates', () => {
  const config = { config: { receiver: { max_future_s: 86_400 } } } as unknown as ConfigStore
  assert.equal(latestTime({ synced: true, now: () => T0 }, config), T0 + DAY)
  const unsynced = latestTime({ synced: false, now: () => 0 }, config)
  assert.ok(unsynced > T0 + 1000 * DAY && unsynced < 2 ** 48 - 1)
})
