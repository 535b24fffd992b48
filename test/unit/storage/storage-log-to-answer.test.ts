// From the log to the answer, through the real worker: the effects of a restart, foreign texts, limits and many pages.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FlashLog, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { Database, type DatabaseOptions, type PacketQuery, type SensorQuery } from '../../../src/storage'
import { until } from '../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'os-node-answers-'))
after(() => rmSync(root, { recursive: true, force: true }))

const T0 = 1_710_000_000
let seed = 20_240_601
const random = (below: number): number => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((seed / 2 ** 32) * below)
}

const factOf = (k: number): Fact => ({
  id: `dev-${random(7)}`,
  state: ['ONLINE', 'ALARM', 'SLEEP'][random(3)]!,
  tRaw: (T0 + random(60)) * 1000 + random(1000),
  aid: 7,
  sensors: Array.from({ length: random(4) }, (_, j) => ({
    id: ['temp', 'hum', 'co2'][random(3)]!,
    status: 'OK',
    unit: 'K',
    value: random(9) === 0 ? null : k + j / 4,
  })),
})

let folder = 0
async function answers(
  facts: readonly Fact[],
  ask: (db: Database, log: FlashLog) => Promise<void>,
  more: Partial<DatabaseOptions> = {},
  dir = join(root, String(folder++)),
): Promise<void> {
  const log = await FlashLog.open({ dir, commitIntervalMs: 10, ackCommitMs: 2 })
  try {
    for (const fact of facts) log.appendFact(fact, { medium: 'UDP' })
    await log.flush()
    const db = new Database({ log, startWaitMs: 60_000, ...more })
    try {
      await db.connect()
      await ask(db, log)
    } finally {
      await db.close()
    }
  } finally {
    await log.close()
  }
}

const seconds = (fact: Fact): number => Math.floor(fact.tRaw / 1000)
const uuidOf = (fact: Fact): string => uuidText(packetUuid(fact))
const pick = <T>(...values: T[]): T => values[random(values.length)]!

test('every page of every filter equals sorting the facts', async () => {
  const facts = Array.from({ length: 800 }, (_, k) => factOf(k))
  // the log's order breaks ties of one second
  const newest = facts
    .map((fact, seq) => ({ fact, seq }))
    .sort((a, b) => seconds(b.fact) - seconds(a.fact) || b.seq - a.seq)
  await answers(facts, async db => {
    for (let round = 0; round < 120; round++) {
      const since = pick(undefined, T0 + random(60))
      const until = pick(undefined, T0 + random(60))
      const device_id = pick(undefined, `dev-${random(9)}`)
      const page = { limit: 1 + random(60), offset: random(4) * random(60) }
      const inTime = newest.filter(
        ({ fact }) =>
          seconds(fact) >= (since ?? 0) &&
          seconds(fact) <= (until ?? Number.POSITIVE_INFINITY) &&
          fact.id === (device_id ?? fact.id),
      )
      const shared = { device_id, since, until, ...page }

      const packets: PacketQuery = { ...shared, status: pick(undefined, 'ALARM', 'OFF') }
      const right = inTime.filter(({ fact }) => fact.state === (packets.status ?? fact.state))
      const given = await db.queryPackets(packets)
      assert.equal(given.total, right.length)
      assert.deepEqual(
        given.packets.map(p => p.packet_uuid),
        right.slice(page.offset, page.offset + page.limit).map(({ fact }) => uuidOf(fact)),
      )

      const sensors: SensorQuery = { ...shared, sensor_id: pick(undefined, 'hum', 'none') }
      const rows = inTime
        .flatMap(({ fact, seq }) => fact.sensors.map((s, k) => ({ fact, seq, s, index: k + 1 })))
        .filter(({ s }) => s.id === (sensors.sensor_id ?? s.id))
        .sort((a, b) => seconds(b.fact) - seconds(a.fact) || a.index - b.index || b.seq - a.seq)
      const list = await db.querySensors(sensors)
      assert.equal(list.total, rows.length)
      assert.deepEqual(
        list.sensors.map(s => [s.packet_uuid, s.sensor_index, s.normalized_value]),
        rows.slice(page.offset, page.offset + page.limit).map(r => [uuidOf(r.fact), r.index, r.s.value]),
      )
    }
  })
})

test('after a restart the view is the same again, and a packet delivered twice is still one row', async () => {
  const dir = join(root, 'restart')
  const facts = Array.from({ length: 300 }, (_, k) => factOf(k))
  let first: unknown
  await answers(facts, async db => void (first = (await db.queryPackets({ limit: 500 })).packets), {}, dir)
  await answers(
    facts.slice(100, 200),
    async db => {
      assert.deepEqual((await db.queryPackets({ limit: 500 })).packets, first)
      assert.deepEqual([db.status().packets, db.status().duplicates], [300, 100])
      assert.equal(db.lagRecords(), 0)
    },
    {},
    dir,
  )
})

test('any text in a packet is returned unchanged, and no query damages the view', async () => {
  const texts = [
    "'; DROP TABLE os_packets; --",
    '"',
    '\0',
    'a\0b',
    'a\0c',
    '\ufeffx',
    '漢字 ☃ 🚀',
    '%_?1',
    '-- /*',
    ' ',
  ]
  const facts = texts.map((text, k) => ({
    id: text,
    state: text,
    tRaw: (T0 + k) * 1000,
    aid: 1,
    sensors: [{ id: text, status: text, unit: text, value: k }],
    extras: { msg: text },
  }))
  await answers(facts, async db => {
    assert.deepEqual(
      (await db.queryDevices()).devices.map(d => d.device_id),
      texts.toReversed(),
    )
    for (const [k, text] of texts.entries()) {
      const { packets, total } = await db.queryPackets({ device_id: text, status: text })
      assert.equal(total, 1)
      const { packet_uuid, device_id, device_status, payload_json } = packets[0]!
      assert.deepEqual([device_id, device_status, payload_json.id, payload_json['msg']], [text, text, text, text])
      const sensor = {
        sensor_index: 1,
        sensor_id: text,
        sensor_status: text,
        normalized_value: k,
        normalized_unit: text,
      }
      assert.deepEqual((await db.queryPacket(packet_uuid.toUpperCase()))!.sensors, [sensor])
      assert.deepEqual((await db.querySensors({ sensor_id: text, device_id: text })).sensors, [
        { packet_uuid, ...sensor, device_id: text, timestamp_raw: T0 + k },
      ])
      assert.equal(await db.queryPacket(text), null)
    }
    assert.equal((await db.queryPackets()).total, texts.length)
  })
})

test('the oldest packets are removed from a full window and counted, also while it is fed', async () => {
  const facts = Array.from({ length: 2000 }, (_, k) => ({ ...factOf(k), tRaw: (T0 + k) * 1000 }))
  await answers(
    facts.slice(0, 1500),
    async (db, log) => {
      assert.equal((await db.queryPackets()).total, 200)
      let seq = 0
      for (const fact of facts.slice(1500)) seq = log.appendFact(fact, { medium: 'UDP' })
      assert.ok(db.lagRecords() <= 500)
      await log.committed(seq)
      await until('the watchdog is fed', () => db.lagRecords() === 0)
      const { packets, total } = await db.queryPackets({ limit: 500 })
      assert.deepEqual([total, packets[0]!.timestamp_raw, packets.at(-1)!.timestamp_raw], [200, T0 + 1999, T0 + 1800])
      const kept = facts.slice(1800)
      assert.equal(
        (await db.querySensors()).total,
        kept.reduce((sum, fact) => sum + fact.sensors.length, 0),
      )
      assert.equal(await db.queryPacket(uuidOf(facts[0]!)), null)
      assert.equal(db.status().packets + db.status().left, 2000)
    },
    { maxPackets: 200 },
  )
})

test('a sync of the clock corrects earlier readings, in the worker too', async () => {
  await answers([], async (db, log) => {
    const fact = { ...factOf(1), id: 'own', tRaw: T0 * 1000 + 400 }
    log.appendFact(fact, { medium: 'local' }, 'unsynced')
    log.appendFact({ ...fact, id: 'foreign' }, { medium: 'UDP' })
    log.appendClock({ trueWallMs: 0, offsetMs: 7_700, source: 'test' })
    await log.flush()
    const seen = async (id: string): Promise<unknown[]> => {
      const { packets } = await db.queryPackets({ device_id: id })
      return packets.map(p => [p.timestamp_raw, p.payload_json.t_raw])
    }
    await until('the watchdog is fed', () => db.lagRecords() === 0)
    assert.deepEqual(await seen('own'), [[T0 + 8, T0 * 1000 + 8_100]])
    assert.deepEqual(await seen('foreign'), [[T0, T0 * 1000 + 400]])
  })
})
