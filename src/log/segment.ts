// One segment file: its name, its header, and the scan that separates intact records from damage. The scan never throws:
// unknown bytes become pieces with the seqs that must have been there, and the search continues after them.
import { join } from 'node:path'
import { asOsError, errno, OsError } from '../lib/errors'
import { type Files, MOST_BYTES } from '../lib/files'
import { diskFault } from '../lib/writable'
import { crc32c } from '../wire/crc'
import { checkRecord, recordSeq } from './decode'
import {
  AT_KIND,
  KIND_FACT,
  MAGIC,
  MARK,
  MAX_RECORD,
  RECORD_OVERHEAD,
  RESERVE,
  readU64,
  recordLength,
  SEGMENT_FIXED,
  writeU64,
} from './format'
import type { LossRange, LossTotals } from './record'

/** An older segment in a header; older logs have no size. The last fact is absent if it is the last record. */
export type ListedSegment = readonly [
  base: number,
  last: number,
  facts: number,
  created: number,
  size?: number,
  lastFact?: number,
]

/** The log's state in a header, at the start of its segment. */
export interface SegmentSnapshot {
  cursors: Record<string, number>
  counters?: Record<string, number>
  totals: LossTotals
  ranges: readonly LossRange[]
  segments: readonly ListedSegment[]
  /** true in a header rewritten after damage: an earlier header has the state */
  partial?: boolean
}

interface SegmentHeader {
  boot: number
  base: number
  previousLast: number
  created: number
  snapshot: SegmentSnapshot
}

/** a header whose JSON is {} */
const HEADER_LEAST = SEGMENT_FIXED + 6

/** more than a record has */
const ZEROS = Buffer.alloc(RECORD_OVERHEAD)
/** what a medium writes as a whole, or not at all */
const SECTOR = 512

export const segmentName = (base: number): string => `${String(base).padStart(16, '0')}.seg`

/** undefined for an invalid name, or one with no numbers left after it. */
export function segmentBase(name: string): number | undefined {
  const base = /^\d{16}\.seg$/.test(name) ? Number(name.slice(0, 16)) : Number.NaN
  return Number.isSafeInteger(base + RESERVE) ? base : undefined
}

/** The segment files of a log folder, oldest first. Throws NOT_FOUND if there is no log yet. */
export function segmentFiles(dir: string, files: Files): string[] {
  if (!files.exists(dir))
    throw new OsError('NOT_FOUND', `no log in ${dir}`, { hint: 'os-node run creates one; check --data-dir' })
  return segmentsIn(dir, files).map(({ name }) => name)
}

/**
 * Last seq of the older segment `base`, from the next header; `previousLast` belongs to a missing segment between them, if
 * any.
 */
export function lastBefore({ snapshot, previousLast }: SegmentHeader, base: number): number | undefined {
  if (snapshot.partial) return undefined
  const { segments } = snapshot
  return segments.some(([listed]) => listed > base) ? segments.find(([listed]) => listed === base)?.[1] : previousLast
}

/**
 * The segments in a folder, oldest first. Other entries with a segment name (a folder, a FIFO, a dangling or circular link, a
 * file larger than any segment) are passed to `other` and left out: their records are lost.
 */
export function segmentsIn(dir: string, files: Files, other?: (why: string, base: number) => void): SegmentFile[] {
  return files
    .list(dir)
    .flatMap(name => {
      const base = segmentBase(name)
      if (base === undefined) return []
      const path = join(dir, name)
      try {
        const size = files.size(path)
        if (size <= MOST_BYTES) return [{ name, base, size }]
        other?.(`${path} has ${size} bytes`, base)
      } catch (error) {
        if (diskFault(error)) throw error
        other?.(asOsError(error).message, base)
      }
      return []
    })
    .sort((a, b) => a.base - b.base)
}

interface SegmentFile {
  readonly name: string
  readonly base: number
  readonly size: number
}

export function encodeHeader(header: SegmentHeader): Buffer {
  const json = Buffer.from(JSON.stringify(header.snapshot))
  const b = Buffer.alloc(SEGMENT_FIXED + json.length + 4)
  b.write(MAGIC, 0, 'latin1')
  b.writeUInt32LE(b.length, 8)
  b.writeUInt32LE(header.boot, 12)
  writeU64(b, header.base, 16)
  writeU64(b, header.base + RESERVE, 24)
  writeU64(b, header.previousLast, 32)
  writeU64(b, Math.max(0, Math.floor(header.created)), 40)
  json.copy(b, SEGMENT_FIXED)
  b.writeUInt32LE(crc32c(b, 0, b.length - 4), b.length - 4)
  return b
}

/** The header and its length, or undefined if it is damaged or of another version. */
export function decodeHeader(b: Buffer): { header: SegmentHeader; length: number } | undefined {
  if (b.length < HEADER_LEAST || b.toString('latin1', 0, 8) !== MAGIC) return undefined
  const length = b.readUInt32LE(8)
  if (length < HEADER_LEAST || length > b.length) return undefined
  if (crc32c(b, 0, length - 4) !== b.readUInt32LE(length - 4)) return undefined
  const header: SegmentHeader = {
    boot: b.readUInt32LE(12),
    base: readU64(b, 16),
    previousLast: readU64(b, 32),
    created: readU64(b, 40),
    snapshot: JSON.parse(b.toString('utf8', SEGMENT_FIXED, length - 4)) as SegmentSnapshot,
  }
  return { header, length }
}

/** Bytes that are no intact record. `from > to`: no seq is missing, the bytes are only superfluous. */
interface Piece {
  offset: number
  length: number
  from: number
  to: number
  torn: boolean
}

export interface Scan {
  header: SegmentHeader | undefined
  /** intact record bytes: [start, end) pairs, flat */
  sound: number[]
  records: number
  facts: number
  first: number
  last: number
  lastFact: number
  boot: number
  pieces: Piece[]
}

interface ScanBounds {
  /** from the file's name */
  base: number
  /** first seq of the next segment; records from there on are remains of a failed write */
  limit?: number
  /** last seq written to this segment, if known */
  knownLast?: number
  /** its header was on flash */
  headed?: boolean
}

/** Checks every byte of a segment; `visit` gets each intact record in order. */
export function scanSegment(
  b: Buffer,
  { base, limit = Number.POSITIVE_INFINITY, knownLast, headed = false }: ScanBounds,
  visit?: (at: number, length: number) => void,
): Scan {
  const head = decodeHeader(b)
  const scan: Scan = {
    header: head?.header,
    sound: [],
    records: 0,
    facts: 0,
    first: 0,
    last: base - 1,
    lastFact: 0,
    boot: head?.header.boot ?? 0,
    pieces: [],
  }
  let expected = base
  let at = head?.length ?? 0
  let ended = false
  const written = withoutZeros(b)
  // nothing says that the newest segment was synced
  const unsynced = limit === Number.POSITIVE_INFINITY && knownLast === undefined
  while (at < b.length && !ended) {
    const length = checkRecord(b, at)
    const seq = length === 0 ? Number.NaN : recordSeq(b, at)
    if (seq >= limit) {
      scan.pieces.push({ offset: at, length: Math.max(0, written.length - at), from: 1, to: 0, torn: true })
      ended = true
    } else if (seq >= expected) {
      visit?.(at, length)
      if (scan.sound.at(-1) === at) scan.sound[scan.sound.length - 1] = at + length
      else scan.sound.push(at, at + length)
      scan.records++
      if (scan.records === 1) {
        scan.first = seq
        if (!head) scan.boot = b.readUInt32LE(at + 4)
      }
      if (b[at + AT_KIND] === KIND_FACT) {
        scan.facts++
        scan.lastFact = seq
      }
      scan.last = seq
      expected = seq + 1
      at += length
    } else {
      const next = findRecord(b, at + 1, expected, Math.min(limit, base + RESERVE))
      const torn = unsynced && hasHole(next === -1 ? written : b.subarray(0, next), at)
      if (next !== -1) {
        scan.pieces.push({ offset: at, length: next - at, from: expected, to: recordSeq(b, next) - 1, torn })
        at = next
      } else {
        // zeros after the last record are space for the next ones
        if (at === 0 || at < written.length || expected <= (knownLast ?? 0)) {
          const piece = tailPiece(unsynced ? written : b, at, expected, limit, knownLast)
          scan.pieces.push({ ...piece, length: Math.max(0, written.length - at), torn: piece.torn || torn })
        }
        ended = true
      }
    }
  }
  if (knownLast !== undefined && expected <= knownLast && !scan.pieces.some(p => p.to >= knownLast)) {
    scan.pieces.push({ offset: written.length, length: 0, from: expected, to: knownLast, torn: false })
  }
  // the header was not torn by a crash, so records may have followed it
  if (headed && !head && scan.records === 0 && !scan.pieces.some(p => p.to >= p.from))
    scan.pieces.push({ offset: written.length, length: 0, from: base, to: base, torn: false })
  return scan
}

/** Position of the first intact record at or after `from` with `low` ≤ seq < `high`, or -1. */
export function findRecord(b: Buffer, from: number, low: number, high: number): number {
  for (let at = b.indexOf(MARK, from); at !== -1; at = b.indexOf(MARK, at + 1)) {
    if (at + RECORD_OVERHEAD > b.length) return -1
    const seq = recordSeq(b, at)
    if (seq >= low && seq < high && checkRecord(b, at) !== 0) return at
  }
  return -1
}

function withoutZeros(b: Buffer): Buffer {
  let end = b.length
  while (end > 0 && b[end - 1] === 0) end--
  return b.subarray(0, end)
}

/**
 * Whether the bytes from `from` on may be a write that a power cut stopped before the sync: of each sector it left all or
 * nothing, in any order.
 */
function hasHole(b: Buffer, from: number): boolean {
  if (b.includes(ZEROS, from)) return true
  for (let at = from, next = at; at < b.length; at = next) {
    next = at + SECTOR - (at % SECTOR)
    if (!b.subarray(at, next).some(byte => byte !== 0)) return true
  }
  return false
}

/** Bytes after the last intact record. A partial record is torn; a complete one with a wrong CRC is damage. */
function tailPiece(b: Buffer, offset: number, expected: number, limit: number, knownLast: number | undefined): Piece {
  const length = b.length - offset
  const zeros = !b.subarray(offset).some(byte => byte !== 0)
  // a torn header: it is synced before the first record is written, so no record is lost
  if (offset === 0 && (zeros || length < HEADER_LEAST || b.readUInt32LE(8) > length)) {
    return { offset, length, from: 1, to: 0, torn: true }
  }
  if (knownLast !== undefined) return { offset, length, from: expected, to: knownLast, torn: false }
  let at = offset
  let count = 0
  let whole = false
  while (at < b.length) {
    const size = b[at] === MARK && at + 4 <= b.length ? recordLength(b, at) : 0
    count++
    if (size < RECORD_OVERHEAD || size > MAX_RECORD || at + size > b.length) break
    if (at === offset) whole = true
    at += size
  }
  return { offset, length, from: expected, to: Math.min(expected + count, limit) - 1, torn: zeros || !whole }
}

/** Reads a segment of a log that is written meanwhile; undefined: it was dropped. */
export function unlessDropped<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (errno(error) === 'ENOENT') return undefined
    throw error
  }
}
