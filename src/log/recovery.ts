// What a start finds on the medium. Only the newest two segments and those the newest header does not describe are read
// in full, so that a start costs the same with a full card; damage in older ones is found when they are read. Nothing here
// throws because of what the files hold: damage is described, and mended once the log can write again.
import { join } from 'node:path'
import type { Files } from '../lib/files'
import { AT_KIND, KIND_CLOCK, RESERVE } from './format'
import { decodeHeader, type Piece, type Scan, type Snapshot, scanSegment, segmentBase } from './segment'
import type { Segment } from './segments'
import { LogState } from './state'

/** Damage found in one segment, to be mended by mend.ts. */
export interface Finding {
  readonly segment: Segment
  readonly bytes: Buffer
  readonly scan: Scan
}

export interface Recovered {
  readonly state: LogState
  readonly segments: Segment[]
  readonly findings: Finding[]
  /** segments that hold nothing a reader could want: their state is in the next header */
  readonly empty: Segment[]
  /** listed segments that are gone without a note in the ledger */
  readonly vanished: { from: number; to: number; facts: number }[]
  /** newest boot number on the medium, 0 on a new one */
  boot: number
  /** first seq that was never reserved */
  nextSeq: number
  /** the last boot ended with a clean stop */
  cleanStop: boolean
}

const FULL_SCANS = 2

export function recover(files: Files, dir: string): Recovered {
  const state = new LogState()
  const found: Recovered = {
    state,
    segments: [],
    findings: [],
    empty: [],
    vanished: [],
    boot: 0,
    nextSeq: 1,
    cleanStop: false,
  }
  const names = files.list(dir).sort()
  for (const name of names) if (name.endsWith('.tmp')) files.remove(join(dir, name))
  const segments = names.flatMap(name => {
    const base = segmentBase(name)
    return base === undefined ? [] : [newSegment(dir, name, base, files.size(join(dir, name)))]
  })
  const newest = segments.at(-1)
  if (!newest) return found
  found.segments.push(...segments)

  // back to the newest header that can be believed
  const loaded = new Map<Segment, Buffer>()
  let from = segments.length
  let snapshot: Snapshot | undefined
  while (from > 0 && !snapshot) {
    const segment = segments[--from]!
    const bytes = files.read(segment.path)
    loaded.set(segment, bytes)
    const head = decodeHeader(bytes)
    if (head && !head.header.snapshot.partial) snapshot = head.header.snapshot
  }
  if (snapshot) {
    state.load(snapshot)
    describe(found, segments, snapshot, from)
  }
  const scanFrom = Math.min(from, segments.length - FULL_SCANS)
  segments.forEach((segment, index) => {
    const known = segment.last >= segment.base
    if (index < scanFrom && known) return
    const bytes = loaded.get(segment) ?? files.read(segment.path)
    loaded.delete(segment)
    let clock = false
    const next = segments[index + 1]
    const nextPrevious = next && previousLast(files, next)
    const scan = scanSegment(
      bytes,
      {
        base: segment.base,
        ...(next && { limit: next.base }),
        ...(nextPrevious !== undefined && nextPrevious >= segment.base && { knownLast: nextPrevious }),
      },
      at => {
        if (bytes[at + AT_KIND] === KIND_CLOCK) clock = true
        if (index >= from) state.replay(bytes, at)
      },
    )
    const head = decodeHeader(bytes)
    segment.headerLength = head?.length ?? 0
    segment.created = head?.header.created ?? 0
    segment.last = scan.last
    segment.facts = scan.facts
    segment.lastFact = scan.lastFact
    found.boot = Math.max(found.boot, scan.boot)
    if (scan.pieces.length > 0 || !head) found.findings.push({ segment, bytes, scan })
    if (scan.facts === 0 && !clock && losses(scan.pieces) === 0) found.empty.push(segment)
  })
  // after a clean stop its mark is the last record there is, so the next seq is known; else the whole range is spent
  found.cleanStop = state.stopped && newest.last >= newest.base && !found.findings.some(f => f.segment === newest)
  found.nextSeq = found.cleanStop ? newest.last + 1 : newest.base + RESERVE
  return found
}

export const newSegment = (dir: string, name: string, base: number, size: number): Segment => ({
  base,
  name,
  path: join(dir, name),
  size,
  headerLength: 0,
  last: base - 1,
  facts: 0,
  lastFact: 0,
  created: 0,
  generation: 0,
})

/** Fills in what the newest header knows about older segments, and notices those that are gone. */
function describe(found: Recovered, segments: readonly Segment[], snapshot: Snapshot, before: number): void {
  const byBase = new Map(segments.map(s => [s.base, s]))
  snapshot.segments.forEach(([base, last, facts, created]) => {
    const segment = byBase.get(base)
    if (!segment) {
      if (last >= base && !found.state.ledger.covers(last)) found.vanished.push({ from: base, to: last, facts })
    } else if (segments.indexOf(segment) < before) {
      Object.assign(segment, { last, facts, lastFact: facts > 0 ? last : 0, created })
    }
  })
}

/** Last seq of the segment before, as the header of `segment` says it; undefined when that header is damaged. */
function previousLast(files: Files, segment: Segment): number | undefined {
  const length = Math.min(segment.size, 64 * 1024)
  const head = decodeHeader(files.readAt(segment.path, 0, length))
  return head && !head.header.snapshot.partial ? head.header.previousLast : undefined
}

const losses = (pieces: readonly Piece[]): number => pieces.reduce((n, p) => n + Math.max(0, p.to - p.from + 1), 0)
