// The SQL view of the log in the worker thread: an open window in RAM for the newest records, and sealed windows in files
// (decision 0012). Rows have the seq of their log record as key, so later records have larger keys; the uuid merges a duplicate packet
// to one row, across windows too. A full open window is sealed; without a folder its oldest packets are dropped.
//
// Errors: an unusable sealed file is reported, counted and left out. A window that cannot be written stays open, and its
// oldest packets are dropped when it exceeds its limit: the log has them, and the next worker tries again.

import { asOsError } from '../lib/errors'
import { type LogRecord, packetUuid, uuidBytes } from '../log'
import { addTo, newBloom } from './bloom'
import type { WindowFolder } from './folder'
import { historyOf } from './history'
import { OpenWindowRows } from './open-window-rows'
import { AHEAD, devicesOf, type Piece, pageOf } from './pages'
import { PAGE_BYTES, SCHEMA } from './schema'
import { type OpenDatabase, SealedWindows, summarize } from './sealed'
import {
  clampBuckets,
  clampLimit,
  clampOffset,
  type DeviceList,
  type HistoryList,
  type HistoryQuery,
  needed,
  type PacketDetail,
  type PacketList,
  type PacketQuery,
  type PacketRecord,
  type SensorList,
  type SensorQuery,
  type SensorRecord,
  whole,
} from './shapes'
import type { OpenWindow } from './sqlite'
import { type Filter, type What, WindowRows } from './window'
import { BadWindow } from './windowfile'

/** facts between two checks of the size */
const LOOK_EVERY = 64
/** facts between two attempts to write a window */
const TRY_EVERY = 1000

export interface SealedCounts {
  /** newest record in a sealed window */
  upTo: number
  files: number
  bytes: number
  /** number of unusable files since the start, and the names of the newest 8 */
  damaged: number
  damaged_files: string[]
  problem?: string
}

export interface ViewCounts {
  packets: number
  /** duplicate packets in the range of the view */
  duplicates: number
  /** oldest packets of an open window that is not sealed, dropped because it is bounded */
  left: number
  sealed?: SealedCounts
}

interface ViewLimits {
  maxPackets: number
  maxBytes: number
}

/** Applies a clock record to the times of its boot; returns the number of changed packets. */
function move(rows: WindowRows, { boot, seq, quality, clock }: LogRecord): number {
  return rows.run(
    `UPDATE os_packets SET t_raw = round(t_raw + ?1), timestamp_raw = CAST(floor((t_raw + ?1) / 1000) AS INTEGER), unsynced = ?4
     WHERE boot = ?2 AND unsynced = 1 AND seq < ?3`,
    [clock!.offsetMs, boot, seq, quality === 'synced' ? 0 : 1],
  )
}

export class SqlView {
  readonly counts: ViewCounts = { packets: 0, duplicates: 0, left: 0 }
  /** a sealed window was lost during queries: the log may still have its records */
  hole = false
  readonly #db: OpenWindow
  readonly #limits: ViewLimits
  readonly #open: WindowRows
  readonly #rows: OpenWindowRows
  readonly #sealed: SealedWindows | undefined
  readonly #writes: boolean
  /** the open window: its first seq, its packets, and duplicates since it began */
  #from!: number
  #packets = 0
  #duplicates = 0
  #last = { seq: 0, boot: 0, wall_ms: 0 }
  #corrected!: number
  #moved = false
  #unsyncedNow = false
  #problem: string | undefined
  #uncorrected: string | undefined
  /** clock records not yet applied to the sealed windows, in order */
  #waiting: LogRecord[] = []
  #facts = 0
  #tryAt = 0

  constructor(
    db: OpenWindow,
    limits: ViewLimits,
    sealed?: { folder: WindowFolder; open: OpenDatabase; readOnly?: boolean },
  ) {
    this.#db = db
    this.#limits = limits
    db.exec(SCHEMA)
    this.#open = new WindowRows(db)
    this.#rows = new OpenWindowRows(text => db.inserter(text))
    this.#sealed = sealed && new SealedWindows(sealed.folder, sealed.open, this.#open)
    this.#writes = sealed !== undefined && sealed.readOnly !== true
    if (!this.#writes) this.#rows.sums.drop()
    this.#report()
  }

  /** The next records begin at `from`; `foreign`: names of files of another log. */
  begin(from: number, foreign: readonly string[] = []): void {
    for (const name of foreign) this.#sealed?.lost(name, 'foreign')
    this.#from = from
    this.#corrected = 0
    this.#waiting = []
    this.#uncorrected = undefined
    this.#report()
  }

  /** Adds records of the log in order; a failed batch throws, and its unsealed part is left out. */
  apply(records: Iterable<LogRecord>): void {
    let before = this.#state()
    this.#db.exec('BEGIN')
    try {
      for (const record of records) {
        this.#unsyncedNow = record.quality === 'unsynced'
        if (record.fact) this.#insert(record)
        else if (record.clock) this.#correct(record)
        if (!this.#writes || !this.#full()) continue
        this.#db.exec('COMMIT')
        this.seal(this.#last.seq)
        before = this.#state()
        this.#db.exec('BEGIN')
      }
      this.#bound()
      this.#db.exec('COMMIT')
    } catch (error) {
      Object.assign(this.counts, before.counts)
      this.#packets = before.packets
      this.#duplicates = before.duplicates
      this.#db.exec('ROLLBACK')
      this.#rows.changed(this.#open)
      throw error
    }
    this.#report()
  }

  /** Writes the open window as a file that covers the log up to `to`; does nothing if it is empty or cannot be written. */
  seal(to: number): void {
    if (this.#packets === 0 || !this.#sealed) return
    // after the new file is written, a start would not read these clock records again
    if (!this.#correctSealed()) {
      this.#tryAt = this.#facts + TRY_EVERY
      return
    }
    try {
      const bloom = newBloom(this.#packets)
      for (const [uuid] of this.#open.rows('SELECT packet_uuid FROM os_packets')) addTo(bloom, uuid as Uint8Array)
      const span = {
        ...{ from: this.#from, to, witness: this.#last, corrected: this.#corrected, moved: this.#moved },
        duplicates: this.#duplicates || undefined,
      }
      const { sums } = this.#rows
      const series = sums.sound ? sums.series : undefined
      this.#sealed.seal(summarize(this.#open, span, sums), bloom, series, this.bytes, (file, run) => {
        this.#db.exec(`ATTACH DATABASE '${file}' AS sealed`)
        try {
          this.#db.exec(run)
        } finally {
          this.#db.exec('DETACH DATABASE sealed')
        }
      })
      this.#problem = undefined
      this.#tryAt = 0
    } catch (error) {
      this.#problem = `a window could not be written: ${asOsError(error).message}`
      this.#tryAt = this.#facts + TRY_EVERY
      return
    }
    this.#open.run('DELETE FROM os_sensors')
    this.#open.run('DELETE FROM os_packets')
    this.#rows.clear()
    this.#from = to + 1
    this.#packets = this.#duplicates = 0
    this.#moved = false
  }

  /**
   * Removes sealed windows beyond the limits; the log has everything from `logFirst` on. No window is too old while no time
   * source confirms the clock.
   */
  retain(logFirst: number, now: number): void {
    this.#sealed?.retain(logFirst, this.#unsyncedNow ? 0 : now)
    this.#report()
  }

  /** size of the open window, including indexes */
  get bytes(): number {
    return this.#open.number('PRAGMA view.page_count') * PAGE_BYTES + this.#rows.bytes
  }

  devices(limitWanted?: number, offsetWanted?: number): DeviceList {
    const limit = clampLimit(limitWanted, 100)
    const offset = clampOffset(offsetWanted)
    const newestS = Math.floor(this.#last.wall_ms / 1000)
    return { ok: true, ...devicesOf(this.#open, newestS, limit, offset), limit, offset }
  }

  packets(query: PacketQuery = {}): PacketList {
    const limit = clampLimit(query.limit, 50)
    const offset = clampOffset(query.offset)
    const filter = { ...shared(query), status: query.status ?? undefined }
    const { rows, total } = this.#page('packets', filter, limit, offset)
    return { ok: true, packets: rows as PacketRecord[], total, limit, offset }
  }

  /** null if there is no such packet, or `uuid` is invalid. */
  packet(uuid: string): PacketDetail | null {
    const bytes = uuidBytes(uuid)
    if (!bytes) return null
    return (
      this.#open.packet(this.#rows.seqOf(bytes)) ??
      this.#whole(() => this.#sealed?.holding(bytes)?.packet(bytes)) ??
      null
    )
  }

  sensors(query: SensorQuery = {}): SensorList {
    const limit = clampLimit(query.limit, 50)
    const offset = clampOffset(query.offset)
    const { rows, total } = this.#page(
      'sensors',
      { ...shared(query), sensor: query.sensor_id ?? undefined },
      limit,
      offset,
    )
    return { ok: true, sensors: rows as SensorRecord[], total, limit, offset }
  }

  history(query: HistoryQuery): HistoryList {
    const { since, until } = shared(query)
    const of = { device: needed('device_id', query.device_id), sensor: needed('sensor_id', query.sensor_id) }
    return this.#whole(() => {
      const span = this.#open.span({ ...of, since, until })
      const open = span ? [{ lo: span[0], hi: span[1], rows: () => this.#open }] : []
      const pieces = [...open, ...(this.#sealed?.histories(of.device, of.sensor, since, until) ?? [])]
      return historyOf(of, pieces, since, until, clampBuckets(query.buckets))
    })
  }

  #page(what: What, filter: Filter, limit: number, offset: number) {
    return this.#whole(() => {
      const pieces = [...this.#openPiece(what, filter), ...(this.#sealed?.pieces(what, filter) ?? [])]
      const total = pieces.reduce((sum, { count }) => sum + count, 0)
      return { total, rows: total <= offset ? [] : pageOf(what, filter, pieces, limit, offset) }
    })
  }

  #openPiece(what: What, filter: Filter): Piece[] {
    const count = this.#open.count(what, filter)
    if (count === 0) return []
    const end = (which: string): number => this.#open.number(`SELECT ${which}(timestamp_raw) FROM os_packets`)
    return [{ count, lo: end('MIN'), hi: end('MAX'), rows: () => this.#open }]
  }

  /** Runs a query; a sealed window that is damaged is left out, and the query is repeated. */
  #whole<T>(run: () => T): T {
    for (;;) {
      try {
        return run()
      } catch (error) {
        this.#lost(error)
      }
    }
  }

  /** Continues without the window of a BadWindow; throws anything else. */
  #lost(error: unknown): void {
    if (!(error instanceof BadWindow) || !this.#sealed) throw error
    this.#sealed.lost(error.file)
    this.hole = this.#writes
    this.#report()
  }

  #insert(record: LogRecord): void {
    const fact = record.fact!
    const tRaw = Number.isFinite(fact.tRaw) ? fact.tRaw : 0
    const uuid = packetUuid(fact)
    const seconds = Math.floor(tRaw / 1000)
    this.#facts++
    this.#last = { seq: record.seq, boot: record.boot, wall_ms: record.wallMs }
    const unsynced = record.quality === 'unsynced' ? 1 : 0
    const ahead = record.link?.future ? AHEAD : unsynced
    const known = this.#sealed && this.#whole(() => this.#sealed!.holding(uuid, seconds))
    if (known || !this.#rows.add(record, uuid, tRaw, ahead)) {
      this.counts.duplicates++
      this.#duplicates++
      return
    }
    this.counts.packets++
    this.#packets++
  }

  /**
   * The clock was set: corrects the times of that boot taken before a time source confirmed them, up to the record that made
   * the time correct; uuids stay (decision 0044). Sealed windows are corrected before the open one covers the record.
   */
  #correct(record: LogRecord): void {
    if (this.#writes) {
      this.#waiting.push(record)
      this.#correctSealed()
    }
    this.#corrected = Math.max(this.#corrected, record.seq)
    if (move(this.#open, record) === 0) return
    this.#moved = true
    this.#rows.sums.drop()
  }

  /** Applies the waiting clock records to the sealed windows, in order; false if a window could not be written. */
  #correctSealed(): boolean {
    for (let record = this.#waiting[0]; record; record = this.#waiting[0]) {
      const { boot, seq } = record
      try {
        this.#whole(() => this.#sealed!.correct(boot, seq, rows => move(rows, record!)))
      } catch (error) {
        this.#uncorrected = `a window could not be corrected: ${asOsError(error).message}`
        return false
      }
      this.#waiting.shift()
      this.#uncorrected = undefined
    }
    return true
  }

  #full(): boolean {
    if (this.#facts < this.#tryAt) return false
    if (this.#packets >= this.#limits.maxPackets) return true
    return this.#facts % LOOK_EVERY === 0 && this.#used() >= this.#limits.maxBytes
  }

  /** Limits an open window that is not sealed: drops its oldest hundredth when it exceeds the limit. */
  #bound(): void {
    while (this.#packets > this.#limits.maxPackets || this.#used() > this.#limits.maxBytes) {
      if (this.#writes && this.#tryAt === 0) return
      const over = this.#packets - this.#limits.maxPackets
      const many = Math.max(over, Math.ceil(this.#packets / 100))
      const last = this.#open.rows('SELECT seq FROM os_packets ORDER BY seq LIMIT 1 OFFSET ?', [
        many - 1,
      ])[0]?.[0] as number
      if (last === undefined) return
      this.#rows.left(this.#open.rows('SELECT packet_uuid FROM os_packets WHERE seq <= ?', [last]))
      this.#open.run('DELETE FROM os_sensors WHERE packet_seq <= ?', [last])
      const gone = this.#open.run('DELETE FROM os_packets WHERE seq <= ?', [last])
      this.#from = last + 1
      this.#packets -= gone
      this.counts.packets -= gone
      this.counts.left += gone
    }
  }

  /** size of the open window without the space of deleted rows */
  #used(): number {
    return this.bytes - this.#open.number('PRAGMA view.freelist_count') * PAGE_BYTES
  }

  #state() {
    return { counts: { ...this.counts }, packets: this.#packets, duplicates: this.#duplicates }
  }

  /** Updates the counts from the folder. */
  #report(): void {
    if (!this.#sealed) return
    const { folder } = this.#sealed
    const problem = this.#uncorrected ?? this.#problem ?? folder.problem
    this.counts.packets = this.#packets + this.#sealed.sum('packets')
    this.counts.duplicates = this.#duplicates + this.#sealed.sum('duplicates')
    this.counts.sealed = {
      upTo: folder.lastSeq,
      files: folder.sealed.length,
      bytes: folder.bytes,
      damaged: folder.damaged.length,
      damaged_files: folder.damaged.slice(-8),
      ...(problem !== undefined && { problem }),
    }
  }
}

const shared = ({ device_id, since, until }: PacketQuery): Filter => ({
  device: device_id ?? undefined,
  since: since === undefined || since === null ? undefined : whole('since', since),
  until: until === undefined || until === null ? undefined : whole('until', until),
})
