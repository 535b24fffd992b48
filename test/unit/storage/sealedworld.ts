// A view with sealed windows over files in RAM, and the simple list it must agree with.
import assert from 'node:assert/strict'
import type { Database as SqlJsDatabase } from 'sql.js'
import { type LogRecord, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { WindowFolder } from '../../../src/storage/folder'
import { workerProgram } from '../../../src/storage/program'
import type { HistoryQuery } from '../../../src/storage/shapes'
import { loadSqlite, type OpenWindow } from '../../../src/storage/sqlite'
import { SqlView } from '../../../src/storage/view'
import { prng } from '../../lib/random'
import { MemFiles } from '../log/memfiles'

export const T0 = 1_710_000_000
export const DIR = '/data/sql'

let Sqlite: Awaited<ReturnType<typeof loadSqlite>>
/** as in the worker */
export async function loadSql(): Promise<void> {
  Sqlite ??= await loadSqlite(workerProgram().wasm)
}

/** An empty database, or one of a window. */
export const openSql = (bytes?: Uint8Array, room?: number) =>
  new Sqlite(bytes, room) as unknown as OpenWindow & SqlJsDatabase

export interface Opened {
  view: SqlView
  folder: WindowFolder
  files: MemFiles
  /** loads of databases so far */
  loads: () => number
  /** of sealed windows, not closed */
  databases: () => number
}

export interface Bounds {
  maxPackets?: number
  maxBytes?: number
  keepBytes?: number
  keepMs?: number
  readOnly?: boolean
}

export function openView(files = new MemFiles(), { maxPackets = 50, maxBytes = 1e9, ...rest }: Bounds = {}): Opened {
  const { readOnly = false, keepBytes = 0, keepMs = 0 } = rest
  const folder = new WindowFolder({ dir: DIR, files, readOnly, keepBytes, keepMs })
  let loads = 0
  let databases = 0
  const open = (bytes?: Uint8Array, room?: number) => {
    if (bytes) loads++
    databases++
    const db = openSql(bytes, room)
    const close = db.close.bind(db)
    db.close = () => {
      databases--
      close()
    }
    return db
  }
  const view = new SqlView(openSql(), { maxPackets, maxBytes }, { folder, open, readOnly })
  view.begin(folder.lastSeq + 1)
  return { view, folder, files, loads: () => loads, databases: () => databases }
}

export const recordOf = (seq: number, fact: Fact, more: Partial<LogRecord> = {}): LogRecord => ({
  seq,
  boot: 1,
  kind: 'fact',
  monoMs: seq,
  wallMs: (T0 + seq) * 1000,
  quality: 'synced',
  medium: 'UDP',
  fact,
  ...more,
})

/** Random packets: times that jump back, devices of all windows, some delivered again much later. */
export function randomLog(seed: number, count: number): LogRecord[] {
  const next = prng(seed)
  const below = (n: number): number => Math.floor(next() * n)
  const records: LogRecord[] = []
  let seq = 0
  for (let k = 0; k < count; k++) {
    seq += 1 + (below(10) === 0 ? below(40) : 0)
    const again = records.length > 0 && below(8) === 0
    const late = below(6) === 0 ? below(300) : 0
    const fact: Fact = again
      ? { ...records[below(records.length)]!.fact!, aid: 99 }
      : {
          id: `dev-${below(5)}`,
          state: ['ONLINE', 'ALARM', 'SLEEP'][below(3)]!,
          tRaw: (T0 + Math.floor(k / 3) - late) * 1000 + below(1000),
          aid: 7,
          sensors: Array.from({ length: below(4) }, (_, j) => ({
            id: ['temp', 'hum', 'co2'][below(3)]!,
            status: 'OK',
            unit: 'K',
            value: below(9) === 0 ? null : k + j / 4,
          })),
        }
    records.push(recordOf(seq, fact))
  }
  return records
}

const seconds = (fact: Fact): number => Math.floor(fact.tRaw / 1000)
const uuidOf = (fact: Fact): string => uuidText(packetUuid(fact))

/** One row per packet, in the order of the log. */
export function plainList(records: readonly LogRecord[]): LogRecord[] {
  const seen = new Set<string>()
  return records.filter(({ fact }) => {
    const uuid = uuidOf(fact!)
    return !seen.has(uuid) && seen.add(uuid)
  })
}

/** The buckets of a sensor contain every value of the packets, each in the bucket of its second. */
function assertHistory(
  view: SqlView,
  inTime: readonly LogRecord[],
  query: { device_id: string; since: number | undefined; until: number | undefined; buckets: number },
  at: string,
): void {
  const sensor_id = 'hum'
  const hits = inTime.flatMap(({ fact }) =>
    fact!.sensors.filter(s => s.id === sensor_id).map(s => ({ fact: fact!, s })),
  )
  const { buckets, since, until, units } = view.history({ ...query, sensor_id } as HistoryQuery)
  if (hits.length > 0) {
    assert.equal(since, query.since ?? Math.min(...hits.map(({ fact }) => seconds(fact))), at)
    assert.equal(until, query.until ?? Math.max(...hits.map(({ fact }) => seconds(fact))), at)
    assert.deepEqual(units, ['K'], at)
    assert.equal(buckets.length, Math.min(query.buckets, Math.max(0, until - since + 1)), at)
  }
  for (const [k, { t, count, min, mean, max }] of buckets.entries()) {
    const end = buckets[k + 1]?.t ?? until + 1
    assert.equal(t, k === 0 ? since : t, at)
    const values = hits
      .filter(({ fact }) => seconds(fact) >= t && seconds(fact) < end)
      .flatMap(({ s }) => (s.value === null ? [] : [s.value]))
    const sum = values.reduce((a, b) => a + b, 0)
    assert.deepEqual(
      [count, min, max],
      values.length ? [values.length, Math.min(...values), Math.max(...values)] : [0, null, null],
      at,
    )
    if (values.length === 0) assert.equal(mean, null)
    else assert.ok(Math.abs(mean! - sum / values.length) < 1e-9 * Math.max(1, Math.abs(sum)), `${at} ${mean} ${sum}`)
  }
}

/** Sends the view random queries; each answer must equal what sorting the list gives. */
export function assertSame(view: SqlView, records: readonly LogRecord[], rounds: number, seed: number): void {
  const next = prng(seed)
  const below = (n: number): number => Math.floor(next() * n)
  const list = plainList(records)
  const span = Math.max(...records.map(({ fact }) => seconds(fact!))) - T0 + 310
  const newest = [...list].sort((a, b) => seconds(b.fact!) - seconds(a.fact!) || b.seq - a.seq)
  for (let round = 0; round < rounds; round++) {
    const since = below(2) ? undefined : T0 - 305 + below(span)
    const until = below(2) ? undefined : T0 - 305 + below(span)
    const device_id = below(2) ? undefined : `dev-${below(6)}`
    const limit = 1 + below(60)
    const offset = below(3) === 0 ? 0 : below(list.length)
    const inTime = newest.filter(
      ({ fact }) =>
        seconds(fact!) >= (since ?? 0) &&
        seconds(fact!) <= (until ?? Number.POSITIVE_INFINITY) &&
        fact!.id === (device_id ?? fact!.id),
    )
    const question = { device_id, since, until, limit, offset }
    const status = below(2) ? undefined : ['ALARM', 'OFF'][below(2)]
    const right = inTime.filter(({ fact }) => fact!.state === (status ?? fact!.state))
    const packets = view.packets({ ...question, status })
    const at = JSON.stringify({ round, status, ...question })
    assert.equal(packets.total, right.length, at)
    assert.deepEqual(
      packets.packets.map(p => p.packet_uuid),
      right.slice(offset, offset + limit).map(({ fact }) => uuidOf(fact!)),
      at,
    )
    const sensor_id = below(2) ? undefined : ['hum', 'none'][below(2)]
    const rows = inTime
      .flatMap(({ fact, seq }) => fact!.sensors.map((s, k) => ({ fact: fact!, seq, s, index: k + 1 })))
      .filter(({ s }) => s.id === (sensor_id ?? s.id))
      .sort((a, b) => seconds(b.fact) - seconds(a.fact) || a.index - b.index || b.seq - a.seq)
    const sensors = view.sensors({ ...question, sensor_id })
    assert.equal(sensors.total, rows.length, at)
    assert.deepEqual(
      sensors.sensors.map(s => [s.packet_uuid, s.sensor_index, s.normalized_value]),
      rows.slice(offset, offset + limit).map(r => [uuidOf(r.fact), r.index, r.s.value]),
      at,
    )
    if (device_id !== undefined) assertHistory(view, inTime, { device_id, since, until, buckets: 1 + below(90) }, at)
    const one = list[below(list.length)]!
    const found = view.packet(uuidOf(one.fact!))
    assert.equal(found?.packet.device_id, one.fact!.id)
    assert.equal(found.sensors.length, one.fact!.sensors.length)
  }
  const devices = new Map<string, { device_id: string; last_seen: number; packet_count: number }>()
  for (const { fact } of list) {
    const device = devices.get(fact!.id) ?? { device_id: fact!.id, last_seen: 0, packet_count: 0 }
    device.last_seen = Math.max(device.last_seen, seconds(fact!))
    device.packet_count++
    devices.set(fact!.id, device)
  }
  const order = [...devices.values()].sort((a, b) => b.last_seen - a.last_seen || (a.device_id < b.device_id ? -1 : 1))
  assert.deepEqual(view.devices(3, 1), {
    ok: true,
    devices: order.slice(1, 4),
    total: order.length,
    limit: 3,
    offset: 1,
  })
  assert.equal(view.counts.packets, list.length)
}
