// A view with sealed windows over files in RAM, and the plain SQLite database it must agree with: tables and statements of its own.
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

/** The files of sealed windows by their names. */
export const names = (files: MemFiles): string[] => files.list(DIR).sort()
export const path = (name: string): string => `${DIR}/${name}`

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

const uuidOf = (fact: Fact): string => uuidText(packetUuid(fact))

/** One row per packet, in the order of the log. */
export function plainList(records: readonly LogRecord[]): LogRecord[] {
  const seen = new Set<string>()
  return records.filter(({ fact }) => {
    const uuid = uuidOf(fact!)
    return !seen.has(uuid) && seen.add(uuid)
  })
}

/** The peer: one SQLite database without windows, which keeps the first of equal packets. */
const PLAIN = `
  CREATE TABLE packet (seq INTEGER PRIMARY KEY, uuid TEXT, device TEXT, status TEXT, t_raw INTEGER, second INTEGER, sensors TEXT,
    UNIQUE (device, t_raw, status, sensors));
  CREATE TABLE reading (packet INTEGER, place INTEGER, id TEXT, status TEXT, unit TEXT, value REAL);
  CREATE VIEW both AS SELECT p.*, r.place, r.id, r.status AS state, r.unit, r.value FROM reading r JOIN packet p ON p.seq = r.packet`
const IN_TIME = `(:device IS NULL OR device = :device) AND (:since IS NULL OR second >= :since)
  AND (:until IS NULL OR second <= :until)`

type Values = Record<string, string | number | undefined>

/** `rows` of a statement over the packets of `records` in one plain database. */
function plainDatabase(records: readonly LogRecord[]) {
  const db = openSql() as SqlJsDatabase
  db.exec(PLAIN)
  const packet = db.prepare('INSERT OR IGNORE INTO packet VALUES (?, ?, ?, ?, ?, ?, ?)')
  const reading = db.prepare('INSERT INTO reading VALUES (?, ?, ?, ?, ?, ?)')
  db.exec('BEGIN')
  for (const { seq, fact } of records) {
    const { id, state, tRaw, sensors } = fact!
    packet.run([seq, uuidOf(fact!), id, state, tRaw, Math.floor(tRaw / 1000), JSON.stringify(sensors)])
    if (db.getRowsModified() === 0) continue
    for (const [k, s] of sensors.entries()) reading.run([seq, k + 1, s.id, s.status, s.unit, s.value])
  }
  db.exec('COMMIT')
  const prepared = new Map<string, ReturnType<typeof db.prepare>>()
  const rows = (text: string, values: Values = {}): unknown[][] => {
    const statement = prepared.get(text) ?? db.prepare(text)
    prepared.set(text, statement)
    statement.bind(Object.fromEntries(Object.entries(values).map(([name, value]) => [`:${name}`, value ?? null])))
    const found: unknown[][] = []
    while (statement.step()) found.push(statement.get())
    statement.reset()
    return found
  }
  return { rows, close: () => db.close() }
}

/** The buckets of a sensor contain every value of the packets, each in the bucket of its second. */
function assertHistory(
  view: SqlView,
  rows: ReturnType<typeof plainDatabase>['rows'],
  query: { device_id: string; since: number | undefined; until: number | undefined; buckets: number },
  at: string,
): void {
  const sensor_id = 'hum'
  const of = { device: query.device_id, id: sensor_id }
  const [[count, first, last, unit] = []] = rows(
    `SELECT COUNT(*), MIN(second), MAX(second), GROUP_CONCAT(DISTINCT unit) FROM both WHERE id = :id AND ${IN_TIME}`,
    { ...of, since: query.since, until: query.until },
  )
  const { buckets, since, until, units } = view.history({ ...query, sensor_id } as HistoryQuery)
  if (count !== 0) {
    assert.deepEqual([since, until, units.join()], [query.since ?? first, query.until ?? last, unit], at)
    assert.equal(buckets.length, Math.min(query.buckets, Math.max(0, until - since + 1)), at)
  }
  for (const [k, { t, count, min, mean, max }] of buckets.entries()) {
    const end = buckets[k + 1]?.t ?? until + 1
    assert.equal(t, k === 0 ? since : t, at)
    const [[number, least, average, most] = []] = rows(
      `SELECT COUNT(value), MIN(value), AVG(value), MAX(value) FROM both WHERE id = :id AND ${IN_TIME}`,
      { ...of, since: t, until: end - 1 },
    )
    assert.deepEqual([count, min, max], [number, least, most], at)
    if (typeof average !== 'number') assert.equal(mean, null, at)
    else assert.ok(Math.abs(mean! - average) < 1e-9 * Math.max(1, average * count), `${at} ${mean} ${average}`)
  }
}

/** Sends the view random queries; each answer must equal that of a plain SQLite database with the same packets. */
export function assertSame(view: SqlView, records: readonly LogRecord[], rounds: number, seed: number): void {
  const next = prng(seed)
  const below = (n: number): number => Math.floor(next() * n)
  const { rows, close } = plainDatabase(records)
  const [[packetCount, newest] = []] = rows('SELECT COUNT(*), MAX(second) FROM packet') as number[][]
  const span = newest! - T0 + 310
  for (let round = 0; round < rounds; round++) {
    const since = below(2) ? undefined : T0 - 305 + below(span)
    const until = below(2) ? undefined : T0 - 305 + below(span)
    const device_id = below(2) ? undefined : `dev-${below(6)}`
    const limit = 1 + below(60)
    const offset = below(3) === 0 ? 0 : below(packetCount!)
    const question = { device_id, since, until, limit, offset }
    const values = { device: device_id, since, until }
    const page = { ...values, limit, offset }
    const status = below(2) ? undefined : ['ALARM', 'OFF'][below(2)]
    const packets = view.packets({ ...question, status })
    const at = JSON.stringify({ round, status, ...question })
    const right = `FROM packet WHERE ${IN_TIME} AND (:status IS NULL OR status = :status)`
    assert.deepEqual([[packets.total]], rows(`SELECT COUNT(*) ${right}`, { ...values, status }), at)
    assert.deepEqual(
      packets.packets.map(p => [p.packet_uuid, p.device_id, p.device_status, p.timestamp_raw, p.payload_json.t_raw]),
      rows(
        `SELECT uuid, device, status, second, t_raw ${right} ORDER BY second DESC, seq DESC LIMIT :limit OFFSET :offset`,
        { ...page, status },
      ),
      at,
    )
    const sensor_id = below(2) ? undefined : ['hum', 'none'][below(2)]
    const sensors = view.sensors({ ...question, sensor_id })
    const read = `FROM both WHERE ${IN_TIME} AND (:id IS NULL OR id = :id)`
    assert.deepEqual([[sensors.total]], rows(`SELECT COUNT(*) ${read}`, { ...values, id: sensor_id }), at)
    assert.deepEqual(
      sensors.sensors.map(s => [
        ...[s.packet_uuid, s.device_id, s.timestamp_raw, s.sensor_index],
        ...[s.sensor_id, s.sensor_status, s.normalized_value, s.normalized_unit],
      ]),
      rows(
        `SELECT uuid, device, second, place, id, state, value, unit ${read}
         ORDER BY second DESC, place, seq DESC LIMIT :limit OFFSET :offset`,
        { ...page, id: sensor_id },
      ),
      at,
    )
    if (device_id !== undefined) assertHistory(view, rows, { device_id, since, until, buckets: 1 + below(90) }, at)
    const [[uuid, device, parts] = []] = rows(
      'SELECT uuid, device, (SELECT COUNT(*) FROM reading WHERE packet = seq) FROM packet LIMIT 1 OFFSET :offset',
      { offset: below(packetCount!) },
    )
    const found = view.packet(uuid as string)
    assert.deepEqual([found?.packet.device_id, found?.sensors.length], [device, parts], at)
  }
  const { devices, total } = view.devices(3, 1)
  assert.deepEqual(
    devices.map(d => [d.device_id, d.last_seen, d.packet_count]),
    rows(
      'SELECT device, MAX(second) AS seen, COUNT(*) FROM packet GROUP BY 1 ORDER BY seen DESC, device LIMIT 3 OFFSET 1',
    ),
  )
  assert.deepEqual([[total]], rows('SELECT COUNT(DISTINCT device) FROM packet'))
  assert.equal(view.counts.packets, packetCount)
  close()
}
