// The rows of the SQL view and the questions asked of them, on one sql.js database. It runs in the worker thread. Rows are
// keyed by the seq of their log record, so what came later in the log is the larger key; the uuid column keeps a packet
// that was delivered twice one row. `payload_json` and `os_sensors.packet_uuid` are made on read (D5).
import type { BindParams, Database as SqlDatabase, SqlValue, Statement } from 'sql.js'
import { type LogRecord, packetUuid, uuidBytes, uuidText } from '../log'
import { factToDict } from '../pipeline/fact'
import { DEVICE, PACKET_COLUMNS, PAGE_BYTES, SCHEMA, SENSOR_COLUMNS } from './schema'
import {
  clampLimit,
  clampOffset,
  type DeviceList,
  type PacketDetail,
  type PacketList,
  type PacketQuery,
  type PacketRecord,
  type PacketSensor,
  type SensorList,
  type SensorQuery,
} from './shapes'
import { Where } from './where'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** a sensor with at most this many rows is rare */
const RARE = 2000

export interface ViewCounts {
  packets: number
  /** packets that were there already */
  duplicates: number
  /** oldest packets that left because the window is bounded */
  left: number
}

export interface ViewLimits {
  maxPackets: number
  maxBytes: number
}

export class SqlView {
  readonly counts: ViewCounts = { packets: 0, duplicates: 0, left: 0 }
  readonly #db: SqlDatabase
  readonly #limits: ViewLimits
  readonly #packet: Statement
  readonly #sensor: Statement
  readonly #pages: Statement
  readonly #prepared = new Map<string, Statement>()
  #unsynced = 0

  constructor(db: SqlDatabase, limits: ViewLimits) {
    this.#db = db
    this.#limits = limits
    db.exec(SCHEMA)
    this.#packet = db.prepare('INSERT OR IGNORE INTO os_packets VALUES (?,?,?,?,?,?,?,?,?,?)')
    this.#sensor = db.prepare('INSERT INTO os_sensors VALUES (?,?,?,?,?,?)')
    this.#pages = db.prepare('PRAGMA view.page_count')
  }

  /** Takes records of the log in order, as one transaction; a batch that fails leaves nothing behind and throws. */
  apply(records: Iterable<LogRecord>): void {
    const before = { ...this.counts }
    const unsynced = this.#unsynced
    this.#db.exec('BEGIN')
    try {
      for (const record of records) {
        if (record.fact) this.#insert(record)
        else if (record.clock) this.#correct(record)
      }
      this.#bound()
      this.#db.exec('COMMIT')
    } catch (error) {
      Object.assign(this.counts, before)
      this.#unsynced = unsynced
      this.#db.exec('ROLLBACK')
      throw error
    }
  }

  /** bytes of the database, indexes included */
  get bytes(): number {
    return (this.#all(this.#pages, [])[0]![0] as number) * PAGE_BYTES
  }

  devices(limitGiven?: number, offsetGiven?: number): DeviceList {
    const limit = clampLimit(limitGiven, 100)
    const offset = clampOffset(offsetGiven)
    const total = this.#number('SELECT COUNT(DISTINCT device_id) FROM os_packets')
    const rows = this.#rows(
      `SELECT ${DEVICE}, MAX(timestamp_raw) AS seen, COUNT(*) FROM os_packets p
       GROUP BY device_id ORDER BY seen DESC, device_id LIMIT ? OFFSET ?`,
      [limit, offset],
    )
    const devices = rows.map(([device_id, last_seen, packet_count]) => ({
      device_id: textOf(device_id!),
      last_seen: last_seen as number,
      packet_count: packet_count as number,
    }))
    return { ok: true, devices, total, limit, offset }
  }

  packets(query: PacketQuery = {}): PacketList {
    const limit = clampLimit(query.limit, 50)
    const offset = clampOffset(query.offset)
    const where = new Where()
    where.equal('p.device_id', query.device_id)
    where.equal('p.device_status', query.status)
    where.range('p.timestamp_raw', query.since, query.until)
    const total = this.#number(`SELECT COUNT(*) FROM os_packets p${where.sql}`, where.values)
    if (total <= offset) return { ok: true, packets: [], total, limit, offset }
    const rows = this.#rows(
      `SELECT ${PACKET_COLUMNS} FROM os_packets p${where.sql} ORDER BY p.timestamp_raw DESC, p.seq DESC LIMIT ? OFFSET ?`,
      [...where.values, limit, offset],
    )
    return { ok: true, packets: rows.map(row => this.#record(row).packet), total, limit, offset }
  }

  /** null when there is no such packet, or `uuid` is none. */
  packet(uuid: string): PacketDetail | null {
    const bytes = uuidBytes(uuid)
    if (!bytes) return null
    const row = this.#rows(`SELECT ${PACKET_COLUMNS} FROM os_packets p WHERE p.packet_uuid = ?`, [bytes])[0]
    return row ? { ok: true, ...this.#record(row) } : null
  }

  sensors(query: SensorQuery = {}): SensorList {
    const limit = clampLimit(query.limit, 50)
    const offset = clampOffset(query.offset)
    const where = new Where()
    where.equal('p.device_id', query.device_id)
    where.equal('s.sensor_id', query.sensor_id)
    where.range('p.timestamp_raw', query.since, query.until)
    const ofPackets = [query.device_id, query.since, query.until].some(value => value !== undefined && value !== null)
    const byTime = 'os_packets p CROSS JOIN os_sensors s ON s.packet_seq = p.seq'
    const bySensor = 'os_sensors s CROSS JOIN os_packets p ON p.seq = s.packet_seq'
    const total = this.#number(`SELECT COUNT(*) FROM ${ofPackets ? byTime : 'os_sensors s'}${where.sql}`, where.values)
    if (total <= offset) return { ok: true, sensors: [], total, limit, offset }
    // a rare sensor is found by one pass over the sensor rows, a common one on the first packets by time
    const from = !ofPackets && total <= RARE ? bySensor : byTime
    const rows = this.#rows(
      `SELECT p.packet_uuid, ${SENSOR_COLUMNS}, ${DEVICE}, p.timestamp_raw FROM ${from}${where.sql}
       ORDER BY p.timestamp_raw DESC, s.sensor_index, p.seq DESC LIMIT ? OFFSET ?`,
      [...where.values, limit, offset],
    )
    const sensors = rows.map(row => ({
      packet_uuid: uuidText(row[0] as Uint8Array),
      ...sensorOf(row, 1),
      device_id: textOf(row[6]!),
      timestamp_raw: row[7] as number,
    }))
    return { ok: true, sensors, total, limit, offset }
  }

  close(): void {
    this.#db.close()
  }

  #insert(record: LogRecord): void {
    const fact = record.fact!
    const tRaw = Number.isFinite(fact.tRaw) ? fact.tRaw : 0
    const unsynced = record.quality === 'unsynced' ? 1 : 0
    this.#packet.run([
      record.seq,
      packetUuid(fact),
      fact.id,
      fact.state,
      Math.floor(tRaw / 1000),
      Math.floor(record.wallMs / 1000),
      tRaw,
      fact.extras ? JSON.stringify(fact.extras) : null,
      record.boot,
      unsynced,
    ])
    if (this.#db.getRowsModified() === 0) {
      this.counts.duplicates++
      return
    }
    this.counts.packets++
    this.#unsynced += unsynced
    const sensors = fact.sensors
    for (let k = 0; k < sensors.length; k++) {
      const sensor = sensors[k]!
      this.#sensor.run([record.seq, k + 1, sensor.id, sensor.status, sensor.value, sensor.unit])
    }
  }

  /**
   * The clock was set: times of that boot that were taken while nobody vouched for it move with it, up to the record by which
   * it became right; uuids stay (D18).
   */
  #correct({ boot, seq, quality, clock }: LogRecord): void {
    if (this.#unsynced === 0) return
    const open = quality === 'synced' ? 0 : 1
    this.#run(
      `UPDATE os_packets SET t_raw = round(t_raw + ?1), timestamp_raw = CAST(floor((t_raw + ?1) / 1000) AS INTEGER), unsynced = ?4
       WHERE boot = ?2 AND unsynced = 1 AND seq < ?3`,
      [clock!.offsetMs, boot, seq, open],
    )
    if (!open) this.#unsynced -= this.#db.getRowsModified()
  }

  /** The window is bounded: its oldest hundredth leaves when it is over. */
  #bound(): void {
    while (this.counts.packets > this.#limits.maxPackets || this.bytes - this.#free() > this.#limits.maxBytes) {
      const over = this.counts.packets - this.#limits.maxPackets
      const many = Math.max(over, Math.ceil(this.counts.packets / 100))
      const last = this.#rows('SELECT seq, 0 FROM os_packets ORDER BY seq LIMIT 1 OFFSET ?', [many - 1])[0]?.[0]
      if (last === undefined) return
      this.#unsynced -= this.#number('SELECT COUNT(*) FROM os_packets WHERE seq <= ? AND unsynced = 1', [last])
      this.#run('DELETE FROM os_sensors WHERE packet_seq <= ?', [last])
      this.#run('DELETE FROM os_packets WHERE seq <= ?', [last])
      const gone = this.#db.getRowsModified()
      this.counts.packets -= gone
      this.counts.left += gone
    }
  }

  /** bytes inside the database that deleted rows left behind */
  #free(): number {
    return this.#number('PRAGMA view.freelist_count') * PAGE_BYTES
  }

  #record(row: SqlValue[]): { packet: PacketRecord; sensors: PacketSensor[] } {
    const [seq, uuid, idBytes, stateBytes, timestamp, created, tRaw, extras] = row
    const id = textOf(idBytes!)
    const state = textOf(stateBytes!)
    const sensors = this.#rows(
      `SELECT ${SENSOR_COLUMNS} FROM os_sensors s WHERE s.packet_seq = ? ORDER BY s.sensor_index`,
      [seq!],
    ).map(sensor => sensorOf(sensor, 0))
    const payload = factToDict({
      id,
      state,
      tRaw: tRaw as number,
      aid: 0,
      sensors: sensors.map(s => ({
        id: s.sensor_id,
        status: s.sensor_status,
        unit: s.normalized_unit ?? '',
        value: s.normalized_value,
      })),
      ...(typeof extras === 'string' && { extras: JSON.parse(extras) as Record<string, string> }),
    })
    const packet = {
      packet_uuid: uuidText(uuid as Uint8Array),
      device_id: id,
      device_status: state,
      timestamp_raw: timestamp as number,
      payload_json: payload,
      created_at: created as number,
    }
    return { packet, sensors }
  }

  #statement(sql: string): Statement {
    let statement = this.#prepared.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }

  #run(sql: string, values: SqlValue[]): void {
    this.#statement(sql).run(values)
  }

  #rows(sql: string, values: SqlValue[] = []): SqlValue[][] {
    return this.#all(this.#statement(sql), values)
  }

  #all(statement: Statement, values: BindParams): SqlValue[][] {
    const rows: SqlValue[][] = []
    statement.bind(values)
    try {
      while (statement.step()) rows.push(statement.get())
    } finally {
      statement.reset()
    }
    return rows
  }

  #number(sql: string, values: SqlValue[] = []): number {
    return this.#rows(sql, values)[0]![0] as number
  }
}

const textOf = (bytes: SqlValue): string => decoder.decode(bytes as Uint8Array)

const sensorOf = (row: SqlValue[], at: number): PacketSensor => ({
  sensor_index: row[at] as number,
  sensor_id: textOf(row[at + 1]!),
  sensor_status: textOf(row[at + 2]!),
  normalized_value: row[at + 3] as number | null,
  normalized_unit: row[at + 4] === null ? null : textOf(row[at + 4]!),
})
