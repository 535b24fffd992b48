// The sealed windows for queries: sums in SQL tables in RAM, rows of at most two windows loaded. A query only opens windows
// whose time range it needs; a query for one packet only those whose filter may contain its uuid.
//
// Errors: a damaged or removed file throws BadWindow; lost() removes it, and the query is repeated without it.

import { mayHold } from './bloom'
import type { Sealed, WindowFolder } from './folder'
import type { BucketRows, Buckets, HistoryPiece } from './history'
import type { Piece } from './pages'
import { SEAL } from './schema'
import { bucketed, type EncodedSeries } from './series'
import type { SqlDatabase } from './sql-api'
import type { WindowSums } from './sums'
import { Where } from './where'
import { type Filter, textOf, UNITS, VALUES, type What, WindowRows } from './window'
import type { SensorSum, Sum, Summary } from './windowfile'

const LOADED = 2
const NEVER = Number.MAX_SAFE_INTEGER

/** A database of these bytes, or an empty one with that capacity. */
export type OpenDatabase = (bytes?: Uint8Array, room?: number) => SqlDatabase

const totals = (sums: readonly Sum[]): readonly [number, number] =>
  sums.reduce(([lo, hi], [, , , first, last]) => [Math.min(lo, first), Math.max(hi, last)] as const, [
    NEVER,
    -NEVER,
  ] as const)

/** Sums of the rows; reuses the sums kept while writing if they are valid; `meta` is added unchanged. */
export function summarize(
  rows: WindowRows,
  span: Omit<Summary, 'packets' | 'unsynced' | 'statuses' | 'sensors' | 'series'>,
  kept?: WindowSums,
): Summary {
  const sums = <S extends SensorSum>(sql: string): S[] =>
    rows.rows(sql).map(row => row.map(cell => (cell instanceof Uint8Array ? textOf(cell) : cell)) as unknown as S)
  const of = 'COUNT(*), MIN(p.timestamp_raw), MAX(p.timestamp_raw)'
  return {
    ...span,
    packets: rows.number('SELECT COUNT(*) FROM os_packets'),
    unsynced: rows.rows('SELECT DISTINCT boot FROM os_packets WHERE unsynced = 1').map(([boot]) => boot as number),
    ...(kept?.sound
      ? { statuses: kept.statuses, sensors: kept.sensors }
      : {
          statuses: sums<Sum>(
            `SELECT CAST(p.device_id AS BLOB), CAST(p.device_status AS BLOB), ${of} FROM os_packets p GROUP BY p.device_id, p.device_status`,
          ),
          sensors: sums(
            `SELECT CAST(p.device_id AS BLOB), CAST(s.sensor_id AS BLOB), ${of}, ${VALUES}, ${UNITS}
             FROM os_packets p CROSS JOIN os_sensors s ON s.packet_seq = p.seq GROUP BY p.device_id, s.sensor_id`,
          ),
        }),
  }
}

export class SealedWindows {
  readonly folder: WindowFolder
  readonly #open: OpenDatabase
  readonly #main: WindowRows
  /** by name, the most recently used last */
  readonly #loaded = new Map<string, WindowRows>()
  readonly #spans = new Map<string, readonly [number, number]>()

  constructor(folder: WindowFolder, open: OpenDatabase, main: WindowRows) {
    this.folder = folder
    this.#open = open
    this.#main = main
    for (const window of folder.sealed) this.#count(window)
  }

  sum(of: 'packets' | 'duplicates'): number {
    return this.folder.sealed.reduce((sum, { summary }) => sum + (summary[of] ?? 0), 0)
  }

  /** The rows that match the filter, window by window. */
  pieces(what: What, filter: Filter): Piece[] {
    const { since = -NEVER, until = NEVER, device, status, sensor } = filter
    const where = new Where()
    where.equal('device_id', device)
    where.equal('part', what === 'packets' ? status : sensor)
    where.range('hi', since, undefined)
    where.range('lo', undefined, until)
    const rows = this.#main.rows(
      `SELECT win, SUM(n), MIN(lo), MAX(hi), MAX(lo < ? OR hi > ?) FROM sums.${what}${where.sql} GROUP BY win`,
      [since, until, ...where.values],
    ) as number[][]
    return rows.flatMap(([win, n, lo, hi, cut]) => {
      const window = this.folder.sealed.find(({ summary }) => summary.from === win)!
      const count = cut ? this.#rows(window).count(what, filter) : n!
      if (count === 0) return []
      return [{ count, lo: Math.max(lo!, since), hi: Math.min(hi!, until), rows: () => this.#rows(window) }]
    })
  }

  /** Windows with values of one sensor in a time range. */
  histories(device: string, sensor: string, since = -NEVER, until = NEVER): HistoryPiece[] {
    return this.folder.sealed.flatMap(window => {
      const { sensors, series } = window.summary
      const place = sensors.findIndex(([of, part]) => of === device && part === sensor)
      const sum = sensors[place]
      if (!sum || sum[4] < since || sum[3] > until) return []
      const [, , , first, last, count, min = null, max = null, mean = null, ...units] = sum
      const history = (_of: unknown, buckets: Buckets): BucketRows[] =>
        bucketed(this.folder.readBlock(window, place), sensors, place, buckets)
      return [
        {
          lo: Math.max(first, since),
          hi: Math.min(last, until),
          ...(count !== undefined &&
            since <= first &&
            last <= until && { values: [count, min, max, mean] as const, units }),
          // with several units, only the rows show which value has which unit
          rows: () => (series && units[0] === units[1] ? { history } : this.#rows(window)),
        },
      ]
    })
  }

  /** The window that contains a uuid; `at`: only windows with packets of that time. */
  holding(uuid: Uint8Array, at?: number): WindowRows | undefined {
    for (const window of this.folder.sealed) {
      const [first, last] = this.#spans.get(window.name)!
      if (at !== undefined && !window.summary.moved && (at < first || at > last)) continue
      if (!mayHold(window.bloom, uuid)) continue
      const rows = this.#rows(window)
      if (rows.has(uuid)) return rows
    }
    return undefined
  }

  /** Writes the open window of `bytes` as a file. Throws the system's error; then nothing has changed. */
  seal(
    summary: Summary,
    bloom: Uint8Array,
    series: EncodedSeries | undefined,
    bytes: number,
    attach: (file: string, run: string) => void,
  ): void {
    const out = this.#open(undefined, bytes)
    try {
      attach((out as SqlDatabase & { filename: string }).filename, SEAL)
      const whole = { ...summary, ...(series && { series: series.blocks }) }
      this.#count(this.folder.write(whole, bloom, out.export(), series?.bytes))
    } finally {
      out.close()
    }
  }

  /** Times of packets of `boot` before record `seq` moved: rewrites windows with such packets. Throws BadWindow. */
  correct(boot: number, seq: number, update: (rows: WindowRows) => void): void {
    for (const window of [...this.folder.sealed]) {
      const { summary, bloom, name } = window
      if (summary.corrected >= seq || !summary.unsynced.includes(boot)) continue
      const db = this.#open(this.folder.read(window))
      const rows = new WindowRows(db)
      try {
        update(rows)
        this.#forget(window)
        const { packets: _p, unsynced: _u, statuses: _s, sensors: _n, series: _v, ...span } = summary
        const after = summarize(rows, { ...span, corrected: seq, moved: true })
        this.#count(this.folder.write(after, bloom, db.export()))
      } catch (error) {
        if (!this.#spans.has(name)) this.#count(window)
        throw error
      } finally {
        rows.close()
      }
    }
  }

  /** Continues without a file. */
  lost(name: string, why: 'damaged' | 'foreign' = 'damaged'): void {
    const window = this.folder.sealed.find(sealed => sealed.name === name)
    this.folder.drop(name, why)
    if (window) this.#forget(window)
  }

  /** Removes windows beyond the limits of the folder. */
  retain(logFirst: number, now: number): void {
    for (const window of this.folder.retain(logFirst, now)) this.#forget(window)
  }

  #count({ name, summary }: Sealed): void {
    this.#spans.set(name, totals(summary.statuses))
    for (const [table, sums] of [
      ['packets', summary.statuses],
      ['sensors', summary.sensors],
    ] as const)
      for (const sum of sums)
        this.#main.run(`INSERT INTO sums.${table} VALUES (?,?,?,?,?,?)`, [summary.from, ...sum.slice(0, 5)])
  }

  #forget({ name, summary }: Sealed): void {
    this.#loaded.get(name)?.close()
    this.#loaded.delete(name)
    this.#spans.delete(name)
    for (const table of ['packets', 'sensors'])
      this.#main.run(`DELETE FROM sums.${table} WHERE win = ?`, [summary.from])
  }

  /** Loads the rows of a window. Throws BadWindow. */
  #rows(window: Sealed): WindowRows {
    let rows = this.#loaded.get(window.name)
    this.#loaded.delete(window.name)
    if (!rows) {
      for (const [name, oldest] of this.#loaded) {
        if (this.#loaded.size < LOADED) break
        oldest.close()
        this.#loaded.delete(name)
      }
      const db = this.#open(this.folder.read(window))
      db.exec('PRAGMA cache_size=-1024')
      rows = new WindowRows(db)
    }
    this.#loaded.set(window.name, rows)
    return rows
  }
}
