// The queries of the data API on a database server, with the same rows and order as the sqlite view (pages.ts, window.ts):
// packets by time, then by their log position, newest first; values from a caller are always bound (S10).
import { uuidBytes, uuidText } from '../../log'
import { Buckets, historyOf } from '../history'
import type { Question } from '../messages'
import type { Values } from '../numbers'
import {
  clampBuckets,
  clampLimit,
  clampOffset,
  type DeviceList,
  factOf,
  type HistoryList,
  type HistoryQuery,
  needed,
  type PacketDetail,
  type PacketList,
  type PacketQuery,
  type PacketSensor,
  recordOf,
  type SensorList,
  type SensorQuery,
  whole,
} from '../shapes'
import type { Connection, Dialect } from './connection'

/** later than every time, and fits a bigint */
const FAR = 2 ** 53
const BY_TIME = 'p.timestamp_raw DESC, p.seq DESC, p.writer DESC'

type Filter = PacketQuery & SensorQuery

export class Answers {
  readonly #on: Connection
  readonly #d: Dialect

  constructor(on: Connection, dialect: Dialect) {
    this.#on = on
    this.#d = dialect
  }

  to(question: Question): Promise<unknown> {
    switch (question.name) {
      case 'devices':
        return this.#devices(clampLimit(question.limit, 100), clampOffset(question.offset))
      case 'packets':
        return this.#packets(question.query)
      case 'packet':
        return this.#packet(question.uuid)
      case 'sensors':
        return this.#sensors(question.query)
      case 'history':
        return this.#history(question.query)
    }
  }

  async #devices(limit: number, offset: number): Promise<DeviceList> {
    const total = await this.#number('SELECT COUNT(DISTINCT device_id) FROM os_packets_data')
    const rows = await this.#on.rows(
      `SELECT device_id, COALESCE(MAX(CASE WHEN unsynced <> 2 THEN timestamp_raw END), MAX(created_at)) AS seen, COUNT(*)
       FROM os_packets_data GROUP BY device_id ORDER BY seen DESC, device_id LIMIT ${limit} OFFSET ${offset}`,
    )
    const devices = rows.map(([id, seen, count]) => ({
      device_id: this.#text(id),
      last_seen: Number(seen),
      packet_count: Number(count),
    }))
    return { ok: true, devices, total, limit, offset }
  }

  async #packets(query: PacketQuery): Promise<PacketList> {
    const [limit, offset] = [clampLimit(query.limit, 50), clampOffset(query.offset)]
    const where = this.#where(query)
    const total = await this.#number(`SELECT COUNT(*) FROM os_packets_data p${where.sql}`, where.values)
    const found = await this.#found(
      `${where.sql} ORDER BY ${BY_TIME} LIMIT ${limit} OFFSET ${offset}`,
      total > offset ? where.values : null,
    )
    return { ok: true, packets: found.map(({ packet }) => packet), total, limit, offset }
  }

  async #packet(uuid: string): Promise<PacketDetail | null> {
    const bytes = uuidBytes(uuid)
    if (!bytes) return null
    const [found] = await this.#found(` WHERE p.packet_uuid = ${this.#d.uuidPlace}`, [this.#d.uuidValue(bytes)])
    return found ? { ok: true, ...found } : null
  }

  async #sensors(query: SensorQuery): Promise<SensorList> {
    const [limit, offset] = [clampLimit(query.limit, 50), clampOffset(query.offset)]
    const { sensors, columns, uuidColumn } = this.#d
    const where = this.#where(query)
    const total = await this.#number(`SELECT COUNT(*) FROM ${sensors}${where.sql}`, where.values)
    const order = 'p.timestamp_raw DESC, s.sensor_index, p.seq DESC, p.writer DESC'
    const rows = await this.#on.rows(
      `SELECT ${columns}, ${uuidColumn}, p.device_id, p.timestamp_raw FROM ${sensors}${where.sql} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}`,
      where.values,
    )
    return {
      ...{ ok: true as const, total, limit, offset },
      sensors: rows.map(row => ({
        packet_uuid: uuidOf(row[5]),
        ...this.#sensor(row),
        device_id: this.#text(row[6]),
        timestamp_raw: Number(row[7]),
      })),
    }
  }

  async #history(query: HistoryQuery): Promise<HistoryList> {
    const of = { device: needed('device_id', query.device_id), sensor: needed('sensor_id', query.sensor_id) }
    const { sensors, unit, divide } = this.#d
    const where = this.#where({ ...query, sensor_id: of.sensor })
    const [[lo, hi] = []] = await this.#on.rows(
      `SELECT MIN(p.timestamp_raw), MAX(p.timestamp_raw) FROM ${sensors}${where.sql}`,
      where.values,
    )
    const bound = (value: number | null | undefined): number | undefined =>
      value === undefined || value === null ? undefined : whole('time', value)
    const [since, until, most] = [bound(query.since), bound(query.until), clampBuckets(query.buckets)]
    if (lo === null) return historyOf(of, [], since, until, most)
    const span = { lo: Number(lo), hi: Number(hi) }
    const buckets = new Buckets(since ?? span.lo, until ?? span.hi, most)
    const bucket = divide(`(p.timestamp_raw - ${this.#whole}) * ${this.#whole}`, this.#whole)
    const rows = await this.#on.rows(
      `SELECT bucket, COUNT(v), MIN(v), MAX(v), SUM(${SMALLER}), MIN(u), MAX(u) FROM
       (SELECT ${bucket} AS bucket, s.normalized_value AS v, ${unit} AS u FROM ${sensors}${where.sql}) b GROUP BY bucket ORDER BY bucket`,
      [buckets.since, buckets.count, buckets.span, ...where.values].map(String),
    )
    const history = () =>
      rows.map(([at, ...columns]) => ({
        bucket: Number(at),
        values: valuesOf(columns.slice(0, 4).map(numberOrNull)),
        units: columns.slice(4).map(name => (name === null ? null : this.#text(name))),
      }))
    return historyOf(of, [{ ...span, rows: () => ({ history }) }], since, until, most)
  }

  /** Packets with their sensors; `values` null: none. */
  async #found(end: string, values: readonly unknown[] | null): Promise<Omit<PacketDetail, 'ok'>[]> {
    const { uuidColumn, sensors, columns } = this.#d
    if (!values) return []
    const rows = await this.#on.rows(
      `SELECT p.writer, p.seq, ${uuidColumn}, p.device_id, p.device_status, p.timestamp_raw, p.created_at, p.t_raw, p.extras
       FROM os_packets_data p${end}`,
      values,
    )
    if (rows.length === 0) return []
    const keys = rows.map(() => `(${this.#whole}, ${this.#whole})`).join()
    const parts = await this.#on.rows(
      `SELECT ${columns}, p.writer, p.seq FROM ${sensors} WHERE (p.packet_uuid) IN (${rows.map(() => this.#d.uuidPlace)})
       AND (p.writer, p.seq) IN (${keys}) ORDER BY p.writer, p.seq, s.sensor_index`,
      [
        ...rows.map(row => this.#d.uuidValue(uuidBytes(uuidOf(row[2]))!)),
        ...rows.flatMap(([writer, seq]) => [String(writer), String(seq)]),
      ],
    )
    const own = new Map<string, PacketSensor[]>(rows.map(([writer, seq]) => [`${writer} ${seq}`, []]))
    for (const part of parts) own.get(`${part[5]} ${part[6]}`)!.push(this.#sensor(part))
    return rows.map(row => this.#record(row, own.get(`${row[0]} ${row[1]}`)!))
  }

  #record([, , uuid, device, status, timestamp, created, tRaw, extras]: unknown[], sensors: PacketSensor[]) {
    const fact = factOf(this.#text(device), this.#text(status), Number(tRaw), extras, sensors)
    return { packet: recordOf(fact, uuidOf(uuid), Number(timestamp), Number(created)), sensors }
  }

  #sensor([index, id, status, value, unit]: unknown[]): PacketSensor {
    return {
      sensor_index: Number(index),
      sensor_id: this.#text(id),
      sensor_status: this.#text(status),
      normalized_value: numberOrNull(value),
      normalized_unit: this.#text(unit),
    }
  }

  #where({ device_id, status, sensor_id, since, until }: Filter): { sql: string; values: unknown[] } {
    const parts: string[] = []
    const values: unknown[] = []
    const text = (column: string, value: string | null | undefined): void => {
      if (value === undefined || value === null) return
      parts.push(`${column} = ?`)
      values.push(this.#d.stored(String(value)))
    }
    const time = (sign: string, value: number | null | undefined): void => {
      if (value === undefined || value === null) return
      parts.push(`p.timestamp_raw ${sign} ${this.#whole}`)
      values.push(String(Math.max(-FAR, Math.min(FAR, whole(sign === '>=' ? 'since' : 'until', value)))))
    }
    text('p.device_id', device_id)
    text('p.device_status', status)
    text(this.#d.sensorId, sensor_id)
    time('>=', since)
    time('<=', until)
    return { sql: parts.length > 0 ? ` WHERE ${parts.join(' AND ')}` : '', values }
  }

  async #number(sql: string, values: readonly unknown[] = []): Promise<number> {
    return Number((await this.#on.rows(sql, values))[0]![0])
  }

  #text(value: unknown): string {
    return this.#d.read(value as string)
  }

  get #whole(): string {
    return `CAST(? AS ${this.#d.whole})`
  }
}

/**
 * the sum behind a mean must not overflow: values are divided by 2^64, which keeps all digits; underflowing values are
 * negligible
 */
const SMALLER = 'CASE WHEN ABS(v) < 1e-280 THEN 0e0 ELSE v * 5.421010862427522e-20 END'

const valuesOf = ([count, min, max, sum]: (number | null)[]): Values => [
  count!,
  min!,
  max!,
  sum === null ? null : (sum! / count!) * 2 ** 64,
]

const numberOrNull = (value: unknown): number | null => (value === null ? null : Number(value))

const uuidOf = (value: unknown): string => (typeof value === 'string' ? value : uuidText(value as Uint8Array))
