// The rows of one window as a sql.js database: the open one in RAM, or a loaded sealed one. Queries get a normalized filter;
// every value is bound, so text of a caller never becomes SQL (S10).

import { uuidText } from '../log'
import type { Fact } from '../pipeline/fact'
import type { Buckets } from './history'
import type { Values } from './numbers'
import { DEVICE, PACKET_COLUMNS, SENSOR_COLUMNS } from './schema'
import { factOf, type PacketDetail, type PacketRecord, type PacketSensor, recordOf, type SensorRecord } from './shapes'
import type { SqlDatabase, SqlValue, SqlValues, Statement } from './sql-api'
import { Where } from './where'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export const textOf = (bytes: SqlValue): string => decoder.decode(bytes as Uint8Array)

/** a sensor with at most this many rows is rare */
const RARE = 2000

/** Selects rows; absent keys match all. */
export interface Filter {
  readonly device?: string | undefined
  readonly status?: string | undefined
  readonly sensor?: string | undefined
  readonly since?: number | undefined
  readonly until?: number | undefined
}

/** `packets` by (time, seq) descending; `sensors` by time descending, index in the packet, seq descending. */
export type What = 'packets' | 'sensors'

/** timestamp, index in the packet (0: the packet), seq, repeated for each row */
export const KEY = 3

/** A packet with the additional columns of the tables. */
export interface StoredPacket {
  /** of its record in the log */
  readonly seq: number
  readonly uuid: Uint8Array
  /** UNIX seconds */
  readonly createdAt: number
  readonly boot: number
  /** no time source has confirmed its time yet */
  readonly unsynced: boolean
  readonly fact: Fact
}

export class WindowRows {
  readonly #db: SqlDatabase
  readonly #prepared = new Map<string, Statement>()

  constructor(db: SqlDatabase) {
    this.#db = db
  }

  /** The number of matching rows. */
  count(what: What, filter: Filter): number {
    const where = whereOf(filter)
    const ofPackets = what === 'packets' || byPackets(filter)
    const from = what === 'packets' ? 'os_packets p' : ofPackets ? BY_TIME : 'os_sensors s'
    return this.number(`SELECT COUNT(*) FROM ${from}${where.sql}`, where.values)
  }

  /** Keys of the first `limit` rows, in order, back to back. */
  keys(what: What, filter: Filter, limit: number): Float64Array {
    const where = whereOf(filter)
    const columns = what === 'packets' ? 'p.timestamp_raw, 0, p.seq' : 'p.timestamp_raw, s.sensor_index, p.seq'
    const rows = this.rows(`SELECT ${columns} ${tail(what, where)} LIMIT ?`, [...where.values, limit])
    const keys = new Float64Array(rows.length * KEY)
    for (const [k, row] of rows.entries()) keys.set(row as number[], k * KEY)
    return keys
  }

  /** One page of rows; `rare`: few rows match. */
  page(what: What, filter: Filter, limit: number, offset: number, rare: number): (PacketRecord | SensorRecord)[] {
    const where = whereOf(filter)
    const from = tail(what, where, what === 'sensors' && !byPackets(filter) && rare <= RARE)
    return this.#found(what, from, [...where.values, limit, offset], ' LIMIT ? OFFSET ?')
  }

  /** The row of a key. */
  row(what: What, seq: number, index: number): PacketRecord | SensorRecord | undefined {
    const from =
      what === 'packets'
        ? 'FROM os_packets p WHERE p.seq = ?'
        : `FROM ${BY_TIME} WHERE p.seq = ? AND s.sensor_index = ?`
    return this.#found(what, from, what === 'packets' ? [seq] : [seq, index])[0]
  }

  /** First and last timestamp of one sensor's rows in a time range; null if there are none. */
  span(filter: Filter): readonly [number, number] | null {
    const where = whereOf(filter)
    const [lo, hi] = this.rows(
      `SELECT MIN(p.timestamp_raw), MAX(p.timestamp_raw) FROM ${BY_TIME}${where.sql}`,
      where.values,
    )[0]!
    return lo === null ? null : [lo as number, hi as number]
  }

  /** Values of one sensor by bucket; only non-empty buckets. */
  history(of: { device: string; sensor: string }, { since, until, count, span }: Buckets) {
    const where = whereOf({ ...of, since, until })
    // sql.js binds numbers above 32 bits as real numbers
    const whole = 'CAST(? AS INTEGER)'
    const bucket = `(p.timestamp_raw - ${whole}) * ${whole} / ${whole}`
    return this.rows(`SELECT ${bucket} AS bucket, ${VALUES}, ${UNITS} FROM ${BY_TIME}${where.sql} GROUP BY bucket`, [
      since,
      count,
      span,
      ...where.values,
    ]).map(([at, ...columns]) => ({
      bucket: at as number,
      values: columns.slice(0, 4) as unknown as Values,
      units: columns.slice(4).map(unit => (unit === null ? null : textOf(unit!))),
    }))
  }

  /** By uuid, or by the seq of its record. */
  packet(which: Uint8Array | number | undefined): PacketDetail | null {
    if (which === undefined) return null
    const column = typeof which === 'number' ? 'seq' : 'packet_uuid'
    const row = this.rows(`SELECT ${PACKET_COLUMNS} FROM os_packets p WHERE p.${column} = ?`, [which])[0]
    return row ? { ok: true, ...this.#record(row) } : null
  }

  has(uuid: Uint8Array): boolean {
    return this.rows('SELECT 1 FROM os_packets WHERE packet_uuid = ?', [uuid]).length > 0
  }

  /** Every packet, in log order. */
  *all(): Iterable<StoredPacket> {
    const sensors = this.#each(
      `SELECT ${SENSOR_COLUMNS}, s.packet_seq FROM os_sensors s ORDER BY s.packet_seq, s.sensor_index`,
    )
    let sensor = sensors.next()
    for (const row of this.#each(`SELECT ${PACKET_COLUMNS}, p.boot, p.unsynced FROM os_packets p ORDER BY p.seq`)) {
      const [seq, uuid, , , , created, , , boot, unsynced] = row
      const own: PacketSensor[] = []
      for (; !sensor.done && sensor.value[5] === seq; sensor = sensors.next()) own.push(sensorOf(sensor.value, 0))
      yield {
        seq: seq as number,
        uuid: uuid as Uint8Array,
        createdAt: created as number,
        boot: boot as number,
        unsynced: unsynced === 1,
        fact: factIn(row, own),
      }
    }
  }

  close(): void {
    this.#db.close()
  }

  run(sql: string, values: SqlValue[] = []): number {
    this.#statement(sql).run(values)
    return this.#db.getRowsModified()
  }

  rows(sql: string, values: SqlValues = []): SqlValue[][] {
    const statement = this.#statement(sql)
    const rows: SqlValue[][] = []
    statement.bind(values)
    try {
      while (statement.step()) rows.push(statement.get())
    } finally {
      statement.reset()
    }
    return rows
  }

  number(sql: string, values: SqlValue[] = []): number {
    return this.rows(sql, values)[0]![0] as number
  }

  #found(what: What, from: string, values: SqlValue[], end = ''): (PacketRecord | SensorRecord)[] {
    if (what === 'packets')
      return this.rows(`SELECT ${PACKET_COLUMNS} ${from}${end}`, values).map(row => this.#record(row).packet)
    const columns = `p.packet_uuid, ${SENSOR_COLUMNS}, ${DEVICE}, p.timestamp_raw`
    return this.rows(`SELECT ${columns} ${from}${end}`, values).map(row => ({
      packet_uuid: uuidText(row[0] as Uint8Array),
      ...sensorOf(row, 1),
      device_id: textOf(row[6]!),
      timestamp_raw: row[7] as number,
    }))
  }

  #record(row: SqlValue[]): { packet: PacketRecord; sensors: PacketSensor[] } {
    const [seq, uuid, , , timestamp, created] = row
    const sensors = this.rows(
      `SELECT ${SENSOR_COLUMNS} FROM os_sensors s WHERE s.packet_seq = ? ORDER BY s.sensor_index`,
      [seq!],
    ).map(sensor => sensorOf(sensor, 0))
    const fact = factIn(row, sensors)
    return { packet: recordOf(fact, uuidText(uuid as Uint8Array), timestamp as number, created as number), sensors }
  }

  /** Row by row; no other query with the same SQL text may run meanwhile. */
  *#each(sql: string): Generator<SqlValue[], undefined> {
    const statement = this.#statement(sql)
    try {
      while (statement.step()) yield statement.get()
    } finally {
      statement.reset()
    }
    return undefined
  }

  #statement(sql: string): Statement {
    let statement = this.#prepared.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }
}

/** of one sensor's rows */
export const VALUES =
  'COUNT(s.normalized_value), MIN(s.normalized_value), MAX(s.normalized_value), AVG(s.normalized_value)'
export const UNITS = 'MIN(CAST(s.normalized_unit AS BLOB)), MAX(CAST(s.normalized_unit AS BLOB))'

const BY_TIME = 'os_packets p CROSS JOIN os_sensors s ON s.packet_seq = p.seq'
const BY_SENSOR = 'os_sensors s CROSS JOIN os_packets p ON p.seq = s.packet_seq'

const byPackets = ({ device, since, until }: Filter): boolean =>
  device !== undefined || since !== undefined || until !== undefined

/** A rare sensor is found by one pass over the sensor rows, a common one through the first packets by time. */
function tail(what: What, where: Where, bySensor = false): string {
  if (what === 'packets') return `FROM os_packets p${where.sql} ORDER BY p.timestamp_raw DESC, p.seq DESC`
  return `FROM ${bySensor ? BY_SENSOR : BY_TIME}${where.sql} ORDER BY p.timestamp_raw DESC, s.sensor_index, p.seq DESC`
}

function whereOf({ device, status, sensor, since, until }: Filter): Where {
  const where = new Where()
  where.equal('p.device_id', device)
  where.equal('p.device_status', status)
  where.equal('s.sensor_id', sensor)
  where.range('p.timestamp_raw', since, until)
  return where
}

/** The fact of a row of PACKET_COLUMNS. */
const factIn = ([, , id, state, , , tRaw, extras]: SqlValue[], sensors: readonly PacketSensor[]): Fact =>
  factOf(textOf(id!), textOf(state!), tRaw as number, extras, sensors)

const sensorOf = (row: SqlValue[], at: number): PacketSensor => ({
  sensor_index: row[at] as number,
  sensor_id: textOf(row[at + 1]!),
  sensor_status: textOf(row[at + 2]!),
  normalized_value: row[at + 3] as number | null,
  normalized_unit: row[at + 4] === null ? null : textOf(row[at + 4]!),
})
