// Exports all data as one ordinary SQLite file: the sealed windows, oldest first, and the records that are only in the log.
// Its tables are those of the specification. RAM contains one window, the keys being sorted and a few pages, whatever the
// size; a temporary file of the uuids (22 bytes per packet) is stored next to the export.
//
// Errors: a window that cannot be read, or belongs to another log, is left out and reported; the log fills the gap if it has
// the records. A packet stored twice is found when the uuids are sorted: then everything is written again without its later
// rows. A failed write throws as OutFile does.
import { join } from 'node:path'
import { type CsvCell, csvLine } from '../lib/csv'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import { type LogFiles, type LogRecord, packetUuid, uuidText } from '../log'
import { factToDict, type SensorFact } from '../pipeline/fact'
import { exported, exportedDict, scaleOf, valueText } from '../units/display'
import { WindowFolder } from './folder'
import { isForeign } from './foreign'
import { BLOCK, OutFile } from './output-file'
import type { OpenDatabase } from './sealed'
import { BTree, SqliteFile } from './sqlitefile'
import { encodeRecord } from './sqliterecord'
import { UuidKeys } from './uuidkeys'
import { type StoredPacket, WindowRows } from './window'
import { readDatabase, readSealed, type Summary } from './windowfile'

const PACKETS = `CREATE TABLE os_packets (
  packet_uuid TEXT NOT NULL PRIMARY KEY,
  device_id TEXT NOT NULL,
  device_status TEXT NOT NULL,
  timestamp_raw INTEGER NOT NULL,
  payload_json TEXT NOT NULL,
  created_at INTEGER NOT NULL
)`
const SENSORS = `CREATE TABLE os_sensors (
  packet_uuid TEXT NOT NULL REFERENCES os_packets(packet_uuid),
  sensor_index INTEGER NOT NULL,
  sensor_id TEXT NOT NULL,
  sensor_status TEXT NOT NULL,
  normalized_value REAL,
  normalized_unit TEXT
)`
/** SQLite's name for the index of that key */
const PACKETS_KEY = 'sqlite_autoindex_os_packets_1'
/** packets between two progress reports */
const REPORT_EVERY = 2000

interface ExportSource {
  readonly log: LogFiles
  /** folder of the sealed windows; undefined: there are none */
  readonly windows: string | undefined
  readonly files: Files
  readonly open: OpenDatabase
  /** values in display units (units/display.ts); else canonical */
  readonly display?: boolean
}

export interface ExportResult {
  readonly bytes: number
  readonly rows: { readonly os_packets: number; readonly os_sensors: number }
  /** number of sealed windows in the export */
  readonly windows: number
  /** duplicate packets merged to one row */
  readonly duplicates: number
  /** unusable windows, with the reason */
  readonly left_out: readonly string[]
}

/** Like writeExport, as a text file with one line per sensor reading, in log order. */
export function writeCsv(
  source: ExportSource,
  path: string,
  report: (done: number, of: number) => void = () => undefined,
): ExportResult {
  // rows of duplicate packets, found by sorting the uuids
  const again = new Set<number>()
  const keys = new UuidKeys(source.files, `${path}.keys`)
  const out = new OutFile(source.files, path)
  try {
    for (const { seq, uuid } of new AllPackets(source)) keys.add(uuid, seq)
    let before: Buffer | undefined
    for (const [uuid, row] of keys.sorted()) {
      if (before?.equals(uuid)) again.add(row)
      before = uuid
    }
    const packets = new AllPackets(source)
    const rows = { os_packets: 0, os_sensors: 0 }
    let bytes = 0
    const line = (cells: readonly CsvCell[]): void => {
      const text = Buffer.from(csvLine(cells))
      for (let at = 0; at < text.length; at += BLOCK) out.write(text.subarray(at, at + BLOCK))
      bytes += text.length
    }
    line(CSV_HEAD)
    for (const { seq, uuid, createdAt, fact } of packets) {
      if (again.has(seq)) continue
      const time = new Date(fact.tRaw)
      const iso = Number.isNaN(time.getTime()) ? '' : time.toISOString()
      for (const [k, sensor] of fact.sensors.entries()) {
        const { id, status } = sensor
        const { value, unit } = csvValue(sensor, source.display)
        line([iso, fact.tRaw, fact.id, fact.state, k + 1, id, status, value, unit, uuidText(uuid), createdAt])
        rows.os_sensors++
      }
      if (++rows.os_packets % REPORT_EVERY === 0) report(rows.os_packets, packets.about)
    }
    out.flush()
    return { bytes, rows, windows: packets.windows, duplicates: again.size, left_out: [...packets.leftOut.values()] }
  } finally {
    out.close()
    keys.close()
  }
}

/** In display units with the significant digits of the value, else canonical with all digits that a double guarantees. */
function csvValue({ value, unit }: SensorFact, display: boolean | undefined): { value: number | null; unit: string } {
  if (!display) return { value: value === null ? null : Number(value.toPrecision(15)), unit }
  const scale = scaleOf(unit)
  return { value: value === null ? null : Number(valueText(value, unit, scale).value), unit: scale.unit }
}

const CSV_HEAD =
  'time,t_raw_ms,device_id,device_status,sensor_index,sensor_id,sensor_status,value,unit,packet_uuid,created_at'.split(
    ',',
  )

/** Writes `path`, which is replaced. `report`: packets so far, and the approximate total. */
export function writeExport(
  source: ExportSource,
  path: string,
  report: (done: number, of: number) => void = () => undefined,
): ExportResult {
  const again = new Set<number>()
  for (;;) {
    const packets = new AllPackets(source)
    const out = new OutFile(source.files, path)
    const keys = new UuidKeys(source.files, `${path}.keys`)
    const known = again.size
    try {
      const file = new SqliteFile(out)
      const rows = writeRows(file, packets, keys, { without: again, display: source.display === true }, report)
      const index = writeIndex(file, keys, again, () => report(rows.counts.os_packets, packets.about))
      if (again.size > known) continue
      file.finish([
        { type: 'table', name: 'os_packets', table: 'os_packets', root: rows.packets, sql: PACKETS },
        { type: 'index', name: PACKETS_KEY, table: 'os_packets', root: index, sql: null },
        { type: 'table', name: 'os_sensors', table: 'os_sensors', root: rows.sensors, sql: SENSORS },
      ])
      const { windows, leftOut } = packets
      return { bytes: file.bytes, rows: rows.counts, windows, duplicates: again.size, left_out: [...leftOut.values()] }
    } finally {
      out.close()
      keys.close()
    }
  }
}

/** Rows of both tables; the row id of a packet is the seq of its record. */
function writeRows(
  file: SqliteFile,
  packets: AllPackets,
  keys: UuidKeys,
  { without, display }: { readonly without: ReadonlySet<number>; readonly display: boolean },
  report: (done: number, of: number) => void,
) {
  const [packetTree, sensorTree] = [new BTree(file, 'table'), new BTree(file, 'table')]
  const counts = { os_packets: 0, os_sensors: 0 }
  for (const { seq, uuid, createdAt, fact } of packets) {
    if (without.has(seq)) continue
    const id = uuidText(uuid)
    const seconds = Math.floor(fact.tRaw / 1000)
    const dict = factToDict(fact)
    const payload = JSON.stringify(display ? exportedDict(dict) : dict)
    packetTree.addRow(seq, encodeRecord([id, fact.id, fact.state, seconds, payload, createdAt]))
    keys.add(uuid, seq)
    for (const [k, sensor] of fact.sensors.entries()) {
      const { value, unit } = display ? exported(sensor.value, sensor.unit) : sensor
      const row = encodeRecord([id, k + 1, sensor.id, sensor.status, value, unit])
      sensorTree.addRow(++counts.os_sensors, row)
    }
    if (++counts.os_packets % REPORT_EVERY === 0) report(counts.os_packets, packets.about)
  }
  return { counts, packets: packetTree.finish(), sensors: sensorTree.finish() }
}

/** The index of the uuids; duplicate rows are added to `again`, except for the first of each. */
function writeIndex(file: SqliteFile, keys: UuidKeys, again: Set<number>, report: () => void): number {
  const tree = new BTree(file, 'index')
  let before: Buffer | undefined
  let count = 0
  for (const [uuid, row] of keys.sorted()) {
    if (before?.equals(uuid)) again.add(row)
    else tree.addKey(encodeRecord([uuidText(uuid), row]))
    before = uuid
    if (++count % REPORT_EVERY === 0) report()
  }
  return tree.finish()
}

/** Every packet in log order, with its time corrected as far as the log knows. */
class AllPackets {
  windows = 0
  readonly leftOut = new Map<string, string>()
  /** approximate number of packets */
  about!: number
  readonly #o: ExportSource
  #clocks: LogRecord[] | undefined

  constructor(source: ExportSource) {
    this.#o = source
  }

  *[Symbol.iterator](): Iterator<StoredPacket> {
    const { log } = this.#o
    let next = 1
    // a running gateway may seal another window while the older ones are read
    for (let more = true; more; ) {
      more = false
      const sealed = this.#sealed(next)
      log.refresh()
      this.#clocks = undefined
      const last = sealed.at(-1)?.to ?? next - 1
      this.about ??= sealed.reduce((sum, { packets }) => sum + packets, 0) + log.factsAfter(last)
      for (const { name, from } of sealed) {
        const window = this.#load(name)
        if (!window) continue
        yield* this.#ofLog(next, from - 1)
        try {
          yield* this.#righted(window.rows.all(), window.summary.corrected)
        } finally {
          window.rows.close()
        }
        next = window.summary.to + 1
        more = true
        this.windows++
      }
    }
    yield* this.#ofLog(next, log.committedSeq)
  }

  /** Windows after those already read. */
  #sealed(next: number): (Summary & { readonly name: string })[] {
    const { windows: dir, files } = this.#o
    if (dir === undefined) return []
    const folder = new WindowFolder({ dir, files, readOnly: true })
    for (const name of folder.damaged) this.leftOut.set(name, `${name}: its summary is damaged`)
    if (folder.problem !== undefined) this.leftOut.set(dir, `${dir}: ${folder.problem}`)
    return folder.sealed
      .map(({ name, summary }) => ({ name, ...summary }))
      .filter(({ name, from }) => from >= next && !this.leftOut.has(name))
  }

  /** undefined: it is left out. It may be rewritten, or removed by age, while it is read. */
  #load(name: string): { rows: WindowRows; summary: Summary } | undefined {
    const { windows: dir, files, open, log } = this.#o
    const path = join(dir!, name)
    for (const last of [false, true])
      try {
        if (!files.exists(path)) return undefined
        const size = files.size(path)
        const read = (offset: number, length: number): Buffer => files.readAt(path, offset, length)
        const { summary } = readSealed(name, size, read)
        if (isForeign(summary, log)) {
          this.leftOut.set(name, `${name}: it is of another log`)
          return undefined
        }
        return { rows: new WindowRows(open(readDatabase(name, size, read))), summary }
      } catch (error) {
        if (last) this.leftOut.set(name, asOsError(error).message)
      }
    return undefined
  }

  *#ofLog(from: number, to: number): Iterable<StoredPacket> {
    const reader = this.#o.log.reader(from, { kinds: ['fact'], upTo: to })
    for (let record = reader.next(); record; record = reader.next()) {
      const { seq, boot, wallMs, quality } = record
      const fact = record.fact!
      const uuid = packetUuid(fact)
      const packet = {
        seq,
        uuid,
        createdAt: Math.floor(wallMs / 1000),
        boot,
        unsynced: quality === 'unsynced',
        fact: Number.isFinite(fact.tRaw) ? fact : { ...fact, tRaw: 0 },
      }
      yield* this.#righted([packet], seq)
    }
  }

  /** Corrects times taken before a time source confirmed them, by every later clock record that was not yet applied. */
  *#righted(packets: Iterable<StoredPacket>, corrected: number): Iterable<StoredPacket> {
    for (const packet of packets) {
      if (!packet.unsynced) {
        yield packet
        continue
      }
      let { tRaw } = packet.fact
      for (const { seq, boot, clock, quality } of this.#clockRecords()) {
        if (boot !== packet.boot || seq <= Math.max(packet.seq, corrected)) continue
        tRaw = Math.round(tRaw + clock!.offsetMs)
        if (quality === 'synced') break
      }
      yield { ...packet, fact: { ...packet.fact, tRaw } }
    }
  }

  #clockRecords(): readonly LogRecord[] {
    if (this.#clocks) return this.#clocks
    const { log } = this.#o
    const reader = log.reader(log.firstSeq, { kinds: ['clock'] })
    const found: LogRecord[] = []
    for (let record = reader.next(); record; record = reader.next()) found.push(record)
    this.#clocks = found
    return found
  }
}
