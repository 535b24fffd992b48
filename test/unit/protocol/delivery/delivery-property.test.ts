// A channel that loses, duplicates and reorders, and ends that restart: in every case each record is acknowledged in the
// end, nothing is acknowledged that is not on the receiver's flash, and no packet reaches the owner twice in one life of
// the receiver and one epoch.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SequenceCounter } from '../../../../src/protocol/control'
import { type DeliveryPeer, DeliveryReceiver, DeliverySender } from '../../../../src/protocol/delivery'
import { prng } from '../../../lib/random'

interface Flight {
  at: number
  bytes: Uint8Array
}

interface World {
  records: number
  loss: number
  double: number
  delay: number
  restarts: number
  refuse: number
  maxPackets: number
  maxPacket: number
}

function run(seed: number, world: World): { ms: number; resent: number } {
  const random = prng(seed)
  const chance = (p: number): boolean => random() < p
  let now = 0
  const up: Flight[] = []
  const down: Flight[] = []
  const send = (line: Flight[], bytes: Uint8Array): void => {
    if (chance(world.loss)) return
    line.push({ at: now + 1 + random() * world.delay, bytes: bytes.slice() })
    if (chance(world.double)) line.push({ at: now + 1 + random() * world.delay * 5, bytes: bytes.slice() })
  }
  const take = (line: Flight[]): Uint8Array[] => {
    const here = line.filter(f => f.at <= now).sort((a, b) => a.at - b.at)
    for (const f of here) line.splice(line.indexOf(f), 1)
    return here.map(f => f.bytes)
  }

  // the sender: records 1…N; the set of acknowledged ones plays the durable cursor
  const acknowledged = new Set<number>()
  const seqs = new SequenceCounter(Math.floor(random() * 65_535))
  const encode = (record: number, full: boolean): Uint8Array =>
    Uint8Array.of(full ? 1 : 0, record >>> 8, record, ...new Uint8Array(Math.floor(random() * (full ? 20 : 5))))
  const makeSender = (): DeliverySender<number> =>
    new DeliverySender<number>({
      maxPacket: world.maxPacket,
      maxPackets: world.maxPackets,
      nextSeq: () => seqs.next(),
      randomEpoch: () => Math.floor(random() * 2 ** 32),
      onAcked: record => {
        assert.ok(committed.has(record), `record ${record} acknowledged, not committed`)
        assert.ok(!acknowledged.has(record), `record ${record} acknowledged twice`)
        acknowledged.add(record)
      },
      onResend: record => encode(record, true),
    })
  let pending = Array.from({ length: world.records }, (_, k) => k + 1)
  let sender = makeSender()

  // the receiver
  const committed = new Set<number>()
  let receiver = new DeliveryReceiver({ ackCommitMs: 50 })
  let handed = new Set<string>()
  let uncommitted: { peer: DeliveryPeer; seq: number; record: number }[] = []
  let commitAt = Number.POSITIVE_INFINITY

  let restarts = world.restarts
  while (acknowledged.size < world.records) {
    now += 10
    assert.ok(now < 3_600_000, `seed ${seed}: ${acknowledged.size} of ${world.records} after an hour`)
    if (restarts > 0 && chance(0.003)) {
      restarts--
      const what = Math.floor(random() * 4)
      if (what === 0) {
        sender = makeSender()
        pending = Array.from({ length: world.records }, (_, k) => k + 1).filter(r => !acknowledged.has(r))
      } else if (what === 1) {
        receiver = new DeliveryReceiver({ ackCommitMs: 50 })
        handed = new Set()
        uncommitted = []
        commitAt = Number.POSITIVE_INFINITY
      } else pending = [...sender.reset({ renew: what === 2 }), ...pending]
    }
    if (sender.mode === 'silent') pending = [...sender.reset(), ...pending]
    while (pending.length > 0 && chance(0.9)) {
      if (!sender.submit(encode(pending[0]!, false), pending[0]!)) break
      pending.shift()
    }
    for (let frame = sender.poll(now); frame; frame = sender.poll(now)) send(up, frame)
    assert.ok(sender.nextDeadline(now) > now || sender.mode !== 'acked')

    for (const bytes of take(up)) {
      const pong = receiver.probeReply(bytes)
      if (pong) {
        send(down, pong)
        continue
      }
      const reply = receiver.onFrame(bytes, 'gateway', (packet, seq, peer) => {
        const record = (packet[1]! << 8) | packet[2]!
        if (packet[0] === 0 && chance(world.refuse)) {
          receiver.refuse(peer, seq)
          return
        }
        const key = `${peer.epoch} ${seq}`
        assert.ok(!handed.has(key), `seq ${seq} handed over twice`)
        handed.add(key)
        uncommitted.push({ peer, seq, record })
        commitAt = Math.min(commitAt, now + 50)
      })
      if (reply) send(down, reply)
    }
    if (now >= commitAt) {
      commitAt = Number.POSITIVE_INFINITY
      for (const { record } of uncommitted) committed.add(record)
      const peers = new Map<DeliveryPeer, number[]>()
      for (const { peer, seq } of uncommitted) peers.set(peer, [...(peers.get(peer) ?? []), seq])
      uncommitted = []
      for (const [peer, list] of peers) send(down, receiver.committed(peer, list))
    }
    for (const bytes of take(down)) sender.onAnswer(bytes, now)
  }
  assert.equal(committed.size, world.records)
  return { ms: now, resent: sender.counters.resent }
}

const WORLD: World = {
  records: 400,
  loss: 0.3,
  double: 0.2,
  delay: 200,
  restarts: 0,
  refuse: 0,
  maxPackets: 1024,
  maxPacket: 120,
}

test('30 % loss each way, duplicates and reordering: all records are acknowledged, none handed over twice', () => {
  for (let seed = 1; seed <= 25; seed++) run(seed, WORLD)
})

test('all records are acknowledged with restarts of either end and reopened links', () => {
  for (let seed = 100; seed < 140; seed++) run(seed, { ...WORLD, restarts: 8 })
})

test('all records are acknowledged when the receiver refuses packets until they are sent as FULL', () => {
  for (let seed = 200; seed < 215; seed++) run(seed, { ...WORLD, refuse: 0.3, restarts: 3 })
})

test('all records are acknowledged with a window of 8, as on LoRa', () => {
  for (let seed = 300; seed < 310; seed++) run(seed, { ...WORLD, records: 120, maxPackets: 8, delay: 900, restarts: 2 })
})

test('on a clean channel nothing is sent twice', () => {
  const { resent, ms } = run(1, { ...WORLD, records: 4000, loss: 0, double: 0, delay: 20, maxPacket: 1400 })
  assert.equal(resent, 0)
  assert.ok(ms < 30_000, `${ms} ms`)
})
