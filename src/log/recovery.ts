// Reads the log at a start. Only the newest two segments and those that the newest header does not describe are read
// completely. For the others, header and size are compared with the newest header, so that a removed, truncated or
// overwritten segment is reported at the start (R29), and a start takes about as long with a full card. Damage inside older
// segments is found when they are read. Zeros at the end of a file are space for records to come, and are truncated. Nothing here throws because of file contents: damage is described, and repaired once
// the log can write again; a file with a bad block (EIO) is left unchanged and its records are reported.
import { join } from 'node:path'
import { asOsError, errno, OsError, orElse } from '../lib/errors'
import type { Files } from '../lib/files'
import { diskFault } from '../lib/writable'
import { lostBehind, readWitness, type Witness } from './chain-file'
import { AT_KIND, KIND_CLOCK, KIND_PACKET, RESERVE } from './format'
import type { LogSettings } from './log-options'
import { decodeHeader, lastBefore, type Scan, type SegmentSnapshot, scanSegment, segmentsIn } from './segment'
import { newSegment, onMedium, type Segment } from './segments'
import { LogState } from './state'

/** Damage found in one segment, to be repaired by repair.ts. */
export interface RecoveryFinding {
  readonly segment: Segment
  readonly bytes: Buffer
  readonly scan: Scan
}

export interface Recovered {
  readonly state: LogState
  readonly segments: Segment[]
  readonly findings: RecoveryFinding[]
  /** segments without data for readers: their state is in the next header */
  readonly empty: Segment[]
  /** segments that are missing without a note in the ledger */
  readonly vanished: Gone[]
  /** first record of a missing newest segment, if its last one is unknown */
  openEnd?: number
  /** the oldest segments of a full log: dropped, but not yet noted in the ledger */
  readonly dropped: Gone[]
  /** the newest segment, if it may be only in the page cache after a kill: the first commit writes it again */
  unsynced?: Segment
  /** newest record, and the newest that is certainly on flash */
  lastSeq: number
  committedSeq: number
  /** newest boot number on the medium, 0 on a new one */
  boot: number
  /** first seq that was never reserved */
  nextSeq: number
  /** the last boot ended with a clean stop */
  cleanStop: boolean
  /** entries with the name of a segment that are not segments */
  readonly other: string[]
  /** why the folder could not be read */
  unread: string | undefined
  /** the problem of the second witness */
  chain?: string
}

interface Gone {
  from: number
  to: number
  facts: number
  /** wall_ms of its creation */
  created: number
}

/** The limits that may have dropped the oldest segments. */
export type Bounds = Pick<LogSettings, 'maxBytes' | 'segmentBytes' | 'maxAgeMs' | 'clock'>

const FULL_SCANS = 2
/** large enough for most headers */
const HEAD_BYTES = 16_384

/** A log without records; `unread`: why the content of the folder is unknown. */
const nothingFound = (unread?: string): Recovered => ({
  state: new LogState(),
  segments: [],
  findings: [],
  empty: [],
  vanished: [],
  dropped: [],
  other: [],
  lastSeq: 0,
  committedSeq: 0,
  boot: 0,
  nextSeq: 1,
  cleanStop: false,
  unread,
})

/** Creates the folder if needed and reads it. Throws DATA_DIR if it cannot be a folder; a disk that refuses is a state. */
export function lookInto(o: LogSettings): Recovered {
  try {
    if (!o.files.exists(o.dir)) o.files.mkdir(o.dir)
    const found = recover(o.files, o.dir, o)
    found.nextSeq += o.skipSeqs
    for (const why of found.other) o.logger.warn(`${why} and is not a log segment; remove it`)
    return found
  } catch (error) {
    if (errno(error) === 'ENOTDIR' && o.files.exists(o.dir) && moveAway(o)) return lookInto(o)
    const text = `the log folder ${o.dir} cannot be used: ${asOsError(error).message}`
    if (!diskFault(error)) throw new OsError('DATA_DIR', text, { cause: error })
    o.logger.warn(`${text}; records wait in RAM`)
    return nothingFound(text)
  }
}

/** Renames a file that has the name of the folder, for example from a wrong copy command. */
function moveAway({ dir, files, logger, clock }: LogSettings): boolean {
  const kept = `${dir}.damaged-${Math.floor(clock.wall())}`
  try {
    files.rename(dir, kept)
  } catch {
    return false // the caller reports the error of the folder
  }
  logger.warn(`${dir} is a file, not a folder: it was renamed to ${kept}, and the log starts empty`)
  return true
}

/**
 * `bounds`: the limits that may have dropped the oldest segments; null: no checks, since the log belongs to another process.
 */
export function recover(files: Files, dir: string, bounds: Bounds | null): Recovered {
  const found = nothingFound()
  const { state } = found
  // harmless files of an interrupted start; if the disk cannot be written, the next start removes them
  const left = bounds ? files.list(dir).filter(name => name.endsWith('.tmp')) : []
  orElse(undefined, () => {
    for (const name of left) files.remove(join(dir, name))
  })
  let taken = 0
  const segments = segmentsIn(dir, files, (why, base) => {
    found.other.push(why)
    taken = Math.max(taken, base)
  }).map(({ base, size }) => newSegment(dir, base, size))
  // a segment cannot use an existing name
  const free = (seq: number): number => (seq > taken ? seq : taken + RESERVE)
  found.nextSeq = free(found.nextSeq)
  const newest = segments.at(-1)
  const witness = bounds ? witnessOf(files, dir, found) : undefined
  if (!newest) {
    if (witness) newestGone(found, witness, 0)
    return found
  }
  found.segments.push(...segments)

  const unreadable = new Set<Segment>()
  const load = (segment: Segment): Buffer | undefined => {
    try {
      return files.read(segment.path)
    } catch (error) {
      if (!bounds || errno(error) !== 'EIO') throw error
      unreadable.add(segment)
      return undefined
    }
  }
  // back to the newest valid header
  const loaded = new Map<Segment, Buffer>()
  let from = segments.length
  let snapshot: SegmentSnapshot | undefined
  while (from > 0 && !snapshot) {
    const segment = segments[--from]!
    const bytes = load(segment)
    if (!bytes) continue
    loaded.set(segment, bytes)
    const head = decodeHeader(bytes)
    if (head && !head.header.snapshot.partial) snapshot = head.header.snapshot
  }
  if (snapshot) {
    state.load(snapshot)
    describe(found, segments, snapshot)
    if (bounds) compare(files, found, snapshot)
  }
  const listed = new Map(snapshot?.segments.map(([base, last]) => [base, last]))
  const named = witness?.base === newest.base ? witness : undefined
  const scanFrom = Math.min(from, segments.length - FULL_SCANS)
  segments.forEach((segment, index) => {
    const known = segment.last >= segment.base
    if (index < scanFrom && known) return
    const bytes = loaded.get(segment) ?? (unreadable.has(segment) ? undefined : load(segment))
    if (!bytes) {
      // unchanged; the next start checks it again
      const to = Math.max(segment.base, known ? segment.last : (listed.get(segment.base) ?? 0))
      found.vanished.push({ from: segment.base, to, facts: to - segment.base + 1, created: 0 })
      forget(segment)
      return
    }
    loaded.delete(segment)
    // records that are identified by their position alone: no header lists them
    let kept = false
    const next = segments[index + 1]
    const nextPrevious = next && (lastOf(segment.base, files, next) ?? listed.get(segment.base))
    const knownLast = nextPrevious !== undefined && nextPrevious >= segment.base ? nextPrevious : undefined
    // records after the last one in the next header were truncated by an earlier start; a power cut undid that
    const limit = next && Math.min(next.base, (knownLast ?? next.base) + 1)
    const scan = scanSegment(
      bytes,
      {
        base: segment.base,
        ...(limit !== undefined && { limit }),
        ...(knownLast !== undefined && { knownLast }),
        ...(!next && named && { headed: true, ...(named.last !== undefined && { knownLast: named.last }) }),
      },
      at => {
        const kind = bytes[at + AT_KIND]
        if (kind === KIND_CLOCK || kind === KIND_PACKET) kept = true
        if (index >= from) state.replay(bytes, at)
      },
    )
    const head = decodeHeader(bytes)
    segment.headerLength = head?.length ?? 0
    segment.created = head?.header.created ?? 0
    const intact = scan.sound.at(-1) ?? segment.headerLength
    const end = Math.max(intact, ...scan.pieces.map(({ offset, length }) => offset + length))
    segment.size = bounds ? end : intact
    // zeros at its end; on a disk that cannot be written they do no harm
    if (bounds && end < bytes.length) orElse(undefined, () => files.truncate(segment.path, end))
    segment.last = scan.last
    segment.facts = scan.facts
    segment.lastFact = scan.lastFact
    found.boot = Math.max(found.boot, scan.boot)
    if (scan.pieces.length > 0 || !head) found.findings.push({ segment, bytes, scan })
    // a listed one is dropped in order: if it stayed while later ones were dropped, they would be a hole
    const nothing = scan.facts === 0 && !kept && !scan.pieces.some(({ from, to }) => to >= from)
    if (nothing && !listed.has(segment.base)) found.empty.push(segment)
  })
  if (snapshot && bounds) sortGone(found, snapshot, bounds)
  // after a clean stop its mark is the last record, so the next seq is known; otherwise the complete range is used up
  found.cleanStop = state.stopped && newest.last >= newest.base && !found.findings.some(f => f.segment === newest)
  found.nextSeq = free(found.cleanStop ? newest.last + 1 : newest.base + RESERVE)
  // a clean stop stored the last record after the sync; everything before a segment was synced before it was created
  const sure = found.cleanStop && named?.last === newest.last
  if (!sure && !found.empty.includes(newest) && !unreadable.has(newest)) found.unsynced = newest
  for (const segment of segments) {
    found.lastSeq = Math.max(found.lastSeq, segment.last)
    if (sure || segment !== newest) found.committedSeq = found.lastSeq
  }
  if (witness && witness.base > newest.base) newestGone(found, witness, newest.last)
  return found
}

/** The segments after record `after` are missing; their end is only known after a clean stop. */
function newestGone(found: Recovered, witness: Witness, after: number): void {
  const { base, boot } = witness
  if (witness.last === undefined) found.openEnd = base
  for (const { from, to, records } of lostBehind(witness, after))
    found.vanished.push({ from, to, facts: records, created: 0 })
  found.boot = Math.max(found.boot, boot)
  found.cleanStop = false
  found.nextSeq = Math.max(found.nextSeq, base + RESERVE)
}

function witnessOf(files: Files, dir: string, found: Recovered): Witness | undefined {
  try {
    return readWitness(files, dir)
  } catch (error) {
    found.chain = asOsError(error).message
    return undefined
  }
}

/** Checks header and size of every listed segment that would not be read; one that differs is read completely. */
function compare(files: Files, found: Recovered, snapshot: SegmentSnapshot): void {
  const sizes = new Map(snapshot.segments.map(([base, , , , size]) => [base, size]))
  for (const segment of found.segments) {
    if (segment.last < segment.base) continue
    const size = sizes.get(segment.base)
    const sound = (size === undefined || size === segment.size) && headIsSound(files, segment)
    if (!sound) forget(segment)
  }
}

/** Drops by the limits are not damage, even if a kill prevented the note in the ledger. */
function sortGone(found: Recovered, snapshot: SegmentSnapshot, bounds: Bounds): void {
  const gone = found.vanished.splice(0).filter(({ to }) => !found.state.ledger.covers(to))
  const explained = droppedByLimits(gone, found.segments, snapshot, bounds)
  for (const one of gone) {
    if (explained(one)) found.dropped.push(one)
    else found.vanished.push({ ...one, facts: one.to - one.from + 1 })
  }
}

/** A log at one of its limits drops its oldest segments: whether that explains why one of the missing segments `gone` is missing. */
export function droppedByLimits(
  gone: readonly Pick<Gone, 'from'>[],
  existing: readonly Pick<Segment, 'base' | 'size'>[],
  snapshot: SegmentSnapshot,
  { maxBytes, segmentBytes, maxAgeMs, clock }: Bounds,
): (one: Pick<Gone, 'from' | 'created'>) => boolean {
  const oldest = existing[0]!.base
  const listed = new Map(snapshot.segments.map(([base, , , , size]) => [base, size]))
  const sizes = [...existing.map(({ size }) => size), ...gone.map(({ from }) => listed.get(from) ?? segmentBytes)]
  // a log that refuses when full reserves a segment and the pending RAM; damaged pieces may need another
  const full = sizes.reduce((sum, size) => sum + onMedium(size), 0) > maxBytes - 3 * segmentBytes
  return ({ from, created }) => from < oldest && (full || (maxAgeMs > 0 && created <= clock.wall() - maxAgeMs))
}

function headIsSound(files: Files, { path, base, size }: Segment): boolean {
  // unreadable now: the reader that reaches it reports the loss
  return orElse(true, () => {
    const head = decodeHeader(files.readAt(path, 0, Math.min(size, HEAD_BYTES)))
    return (head ?? decodeHeader(files.readAt(path, 0, size)))?.header.base === base
  })
}

/** The content is unknown. */
function forget(segment: Segment): void {
  Object.assign(segment, { last: segment.base - 1, facts: 0, lastFact: 0 })
}

/** Fills in what the newest header says about older segments, and detects missing ones. */
function describe(found: Recovered, segments: readonly Segment[], snapshot: SegmentSnapshot): void {
  const byBase = new Map(segments.map(s => [s.base, s]))
  snapshot.segments.forEach(([base, last, facts, created, , lastFact]) => {
    const segment = byBase.get(base)
    if (!segment) {
      if (last >= base) found.vanished.push({ from: base, to: last, facts, created })
    } else Object.assign(segment, { last, facts, lastFact: facts > 0 ? (lastFact ?? last) : 0, created })
  })
}

/** Last seq of the older segment `base`, from the header of `segment`; undefined if that header is damaged. */
function lastOf(base: number, files: Files, segment: Segment): number | undefined {
  // its own scan reports the problem
  return orElse(undefined, () => {
    const head = decodeHeader(files.readAt(segment.path, 0, Math.min(segment.size, 64 * 1024)))
    return head && lastBefore(head.header, base)
  })
}
