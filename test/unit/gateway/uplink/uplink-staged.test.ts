// Frames that the native core makes together, in every situation that ends a batch: what is sent and when, what observers see, and the state of
// the uplinks are the same as with single packets.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { mock, test } from 'node:test'
import { NativeCores } from '../../../lib/cores'
import { type RoadSpec, UplinkWorld } from '../../../lib/uplinkworld'

mock.timers.enable({ apis: ['setTimeout'] })

interface Situation {
  road?: RoadSpec
  others?: RoadSpec[]
  /** nothing is sent in plaintext */
  secure?: boolean
  facts?: (w: UplinkWorld) => void | Promise<void>
  /** frames of the largest batch at least */
  batch: number
}

const many = (w: UplinkWorld, aid?: number): void => {
  for (let k = 0; k < 300; k++) w.fact(aid === undefined && k % 5 === 0 ? 9 : aid)
}
const large = (w: UplinkWorld): void => {
  for (let k = 0; k < 60; k++) w.fact(78, 'OK', 500)
}
const wide = (w: UplinkWorld): void => {
  for (let k = 0; k < 200; k++) w.fact(k % 2 === 0 ? undefined : 77, 'OK', k % 7 === 0 ? 8 : k % 11 === 0 ? 20 : 0)
}

const SITUATIONS: Record<string, Situation> = {
  'the window of the exchange': { batch: 8 },
  'little space for bytes in flight': {
    ...{ road: { name: 'one', medium: 'TCP', maxPacket: 65_535 }, facts: large, batch: 5 },
  },
  'little space for bytes at a medium that acknowledges': {
    ...{ road: { name: 'one', medium: 'MQTT', maxPacket: 65_535, acknowledges: true }, facts: large, batch: 8 },
  },
  'best effort': { road: { name: 'one', entry: { delivery: 'best_effort' } }, batch: 1 },
  'a medium that acknowledges': { road: { name: 'one', medium: 'MQTT', acknowledges: true }, batch: 8 },
  'facts that no uplink carries': { road: { name: 'one', maxPacket: 140 }, facts: wide, batch: 8 },
  'facts for another uplink': {
    ...{ road: { name: 'one', maxPacket: 140 }, others: [{ name: 'two', maxPacket: 300 }] },
    ...{ facts: wide, batch: 8 },
  },
  'packets per second': { road: { name: 'one', entry: { rate_packets_s: 20 } }, batch: 8 },
  'bytes per second': { road: { name: 'one', entry: { rate_bytes_s: 500 } }, batch: 8 },
  'records that wait for others': {
    road: { name: 'one', entry: { batch_window_ms: 200, batch_max_items: 7 } },
    batch: 8,
  },
  'key requests between packets': {
    secure: true,
    facts: async w => {
      // one AID has its key before the others ask for theirs
      w.fact()
      await w.run(500, 25)
      w.uplinks.pump = () => undefined
      for (let k = 0; k < 200; k++) w.fact([undefined, undefined, 9, 77][k % 4])
      Reflect.deleteProperty(w.uplinks, 'pump')
    },
    batch: 8,
  },
  'only FULL': { road: { name: 'one', entry: { frames: 'full' } }, batch: 8 },
  'packets that are lost, and refused templates': {
    facts: w => {
      many(w)
      let n = 0
      w.road('one').lose = (_, up) => up && ++n % 3 === 0
    },
    batch: 8,
  },
}

async function run(
  { road = { name: 'one' }, others = [], secure = false, facts = many }: Situation,
  cores?: NativeCores,
) {
  const w = new UplinkWorld({}, true, cores)
  try {
    if (secure) w.config.set('security_settings.require_secure', true)
    await w.apply(road, ...others)
    await w.run(50)
    const seen: string[] = []
    w.uplinks.watchers.every = (packet, medium) => seen.push(`${medium} ${Buffer.from(packet).toString('hex')}`)
    const packets: string[] = []
    for (const road of w.roads.values()) {
      const send = road.send.bind(road)
      road.send = packet => {
        packets.push(`${road.name} ${w.clock.mono()} ${Buffer.from(packet).toString('hex')}`)
        return send(packet)
      }
    }
    await facts(w)
    for (let k = 0; k < 60 && w.uplinks.backlog > 0; k++) await w.run(1000, 25)
    const status = w.uplinks.list.map(uplink => uplink.status())
    return {
      status,
      seen,
      packets,
      arrived: w.arrived,
      said: w.said,
      cursors: [...w.log.cursors],
      backlog: w.uplinks.backlog,
    }
  } finally {
    await w.end()
  }
}

// random are the epochs of the exchange
mock.method(crypto, 'randomBytes', (n: number) => Buffer.alloc(n, 7))

for (const [name, situation] of Object.entries(SITUATIONS))
  test(`a batch gives what single packets give: ${name}`, async () => {
    const cores = new NativeCores()
    const single = await run(situation)
    assert.ok(single.packets.length > 3)
    assert.deepEqual(await run(situation, cores), single)
    assert.ok(cores.largest >= situation.batch, `${cores.largest} frames in the largest batch`)
  })
