// Checks a log folder without opening it: every record, and the chain of segments (R29). Read-only, so that it may run in
// parallel with a gateway. An unfinished write of a running gateway looks like a torn end and is not damage; it may also be
// dropping its oldest segments, so missing ones at the old end are only checked in a log that no gateway has open, whose limits
// are known. A selection counts the records
// of a device and a time range; lost records are placed by the log times of their neighbours, and may belong to any device.
import { join } from 'node:path'
import { orElse } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { CHAIN_FILE, lostBehind, readWitness } from './chain-file'
import { decodeRecord } from './decode'
import type { LossRange, LossReason } from './record'
import { type Bounds, droppedByLimits } from './recovery'
import {
  decodeHeader,
  lastBefore,
  type Scan,
  type SegmentSnapshot,
  scanSegment,
  segmentBase,
  segmentFiles,
  segmentName,
  unlessDropped,
} from './segment'
import { LogState } from './state'

export interface VerifyResult {
  /** every byte is as written (except for a torn end) */
  ok: boolean
  /** facts, as the status counts them, without the log's own records */
  records: number
  first_seq: number
  last_seq: number
  /** seqs lost to damage, including those of the ledger */
  damaged: number
  /** facts dropped by the limits or a full RAM */
  lost: number
  /** bytes of a partial record at the end, truncated at the next start */
  torn_bytes: number
  /** position: file, offset, length and the seqs that were there */
  pieces: { file: string; offset: number; length: number; from?: number; to?: number }[]
  /** the ranges of the loss ledger with their reason, the newest 64 of each, including damage found now */
  gaps: readonly LossRange[]
}

/** Facts of `device` (absent: all) with a time (t_raw) from `since` to `until`, inclusive, UNIX ms. */
export interface Selection {
  readonly since?: number
  readonly until?: number
  readonly device?: string
}

/** Reads every segment of `dir`. Throws NOT_FOUND if there is no log. */
export function verify(dir: string, files?: Files, selection?: Selection, limits?: Bounds): VerifyResult {
  const steps = verifying(dir, files, selection, limits)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/**
 * Like verify(), one segment per step, so that other work may run in between: each step yields the bytes read and the total. `limits`: those of
 * a log that no gateway has open.
 */
export function* verifying(
  dir: string,
  files: Files = realFiles,
  selection: Selection = {},
  limits?: Bounds,
): Generator<[done: number, total: number], VerifyResult> {
  // before the names: a gateway may create the next segment meanwhile
  const chain = orElse(null, () => ({ witness: readWitness(files, dir) }))
  const witness = chain?.witness
  const names = segmentFiles(dir, files)
  const result: VerifyResult = {
    ok: true,
    records: 0,
    first_seq: 0,
    last_seq: 0,
    damaged: 0,
    lost: 0,
    torn_bytes: 0,
    pieces: [],
    gaps: [],
  }
  if (!chain) fault(result, { file: CHAIN_FILE, offset: 0, length: 0 })
  const state = new LogState()
  const chosen = new Chosen(selection)
  const listed = new Map<number, number>()
  const existing: { base: number; size: number }[] = []
  let newestSnapshot: SegmentSnapshot | undefined
  const previous = names.map((name, k) => {
    const head =
      k > 0 && decodeHeader(unlessDropped(() => files.readAt(join(dir, name), 0, 64 * 1024)) ?? Buffer.alloc(0))
    return head ? lastBefore(head.header, segmentBase(names[k - 1]!)!) : undefined
  })
  const total = names.reduce((sum, name) => sum + (unlessDropped(() => files.size(join(dir, name))) ?? 0), 0)
  let done = 0
  for (const [k, name] of names.entries()) {
    const base = segmentBase(name)!
    const bytes = unlessDropped(() => files.read(join(dir, name)))
    if (!bytes) continue
    existing.push({ base, size: bytes.length })
    const next = names[k + 1]
    const named = !next && witness?.base === base
    const knownLast = named ? witness.last : previous[k + 1]
    const scan = scanSegment(
      bytes,
      {
        base,
        ...(next !== undefined && { limit: segmentBase(next)! }),
        ...(knownLast !== undefined && knownLast >= base && { knownLast }),
        headed: named,
      },
      at => {
        state.replay(bytes, at)
        chosen.see(bytes, at)
      },
    )
    if (scan.header) {
      const { snapshot } = scan.header
      state.load(snapshot)
      if (!snapshot.partial) newestSnapshot = snapshot
      for (const [from, to] of snapshot.segments) listed.set(from, to)
    }
    report(result, state, name, scan)
    done += bytes.length
    yield [done, total]
  }
  const bases = names.map(name => segmentBase(name)!)
  const newest = bases.at(-1)
  const gone = (from: number, to: number): void => {
    if (to < from || state.ledger.covers(to)) return
    state.ledger.add('damaged', from, to)
    fault(result, { file: segmentName(from), offset: 0, length: 0, from, to })
  }
  for (const [base, last] of listed) if (base > bases[0]! && !bases.includes(base)) gone(base, last)
  if (limits && newestSnapshot) {
    const older = newestSnapshot.segments
      .map(([from, to, , created]) => ({ from, to, created }))
      .filter(({ from, to }) => from < bases[0]! && to >= from && !state.ledger.covers(to))
    const explained = droppedByLimits(older, existing, newestSnapshot, limits)
    for (const one of older) if (!explained(one)) gone(one.from, one.to)
  }
  if (witness && (newest === undefined || witness.base > newest))
    for (const { from, to } of lostBehind(witness, newest === undefined ? 0 : result.last_seq)) gone(from, to)
  const { totals, ranges } = state.ledger
  result.gaps = ranges
  result.damaged = totals.damaged
  result.lost = totals.dropped + totals.overflow
  return chosen.all ? result : chosen.of(result, state)
}

/** earlier times are from clocks that were never set */
const SET_MS = 1_500_000_000_000

/** The records that match a selection. */
class Chosen {
  readonly all: boolean
  readonly #since: number
  readonly #until: number
  readonly #device: string | undefined
  #records = 0
  #first = 0
  #last = 0
  /** missing seqs, between the log times of their neighbours */
  readonly #gaps: { from: number; to: number; after: number; before: number }[] = []
  #seq = 0
  #wall = Number.NEGATIVE_INFINITY

  constructor({ since, until, device }: Selection) {
    this.all = since === undefined && until === undefined && device === undefined
    this.#since = since ?? Number.NEGATIVE_INFINITY
    this.#until = until ?? Number.POSITIVE_INFINITY
    this.#device = device
  }

  /** Counts the intact record at `at` if it matches. */
  see(bytes: Buffer, at: number): void {
    if (this.all) return
    const { seq, wallMs, fact } = decodeRecord(bytes, at)
    const wall = wallMs >= SET_MS ? wallMs : undefined
    if (seq > this.#seq + 1)
      this.#gaps.push({ from: this.#seq + 1, to: seq - 1, after: this.#wall, before: wall ?? Number.POSITIVE_INFINITY })
    this.#seq = seq
    this.#wall = wall ?? Number.NEGATIVE_INFINITY
    if (!fact) return
    const { id, tRaw } = fact
    if ((this.#device !== undefined && id !== this.#device) || tRaw < this.#since || tRaw > this.#until) return
    this.#records++
    this.#first ||= seq
    this.#last = seq
  }

  /** The result for this selection only. */
  of(whole: VerifyResult, { ledger }: LogState): VerifyResult {
    const end = {
      from: this.#seq + 1,
      to: Number.POSITIVE_INFINITY,
      after: this.#wall,
      before: Number.POSITIVE_INFINITY,
    }
    const gaps = [...this.#gaps, end]
    const taken = ({ from, to }: { from: number; to: number }): boolean => {
      const around = gaps.filter(gap => gap.from <= to && gap.to >= from)
      return around.length === 0 || around.some(({ after, before }) => before >= this.#since && after <= this.#until)
    }
    const ranges = ledger.ranges.filter(taken)
    const lost = (...reasons: LossReason[]): number =>
      ranges.filter(({ reason }) => reasons.includes(reason)).reduce((sum, { records }) => sum + records, 0)
    const pieces = whole.pieces.filter(({ from, to }) => from === undefined || to === undefined || taken({ from, to }))
    return {
      ...whole,
      ok: whole.ok || (whole.pieces.length > 0 && pieces.length === 0),
      records: this.#records,
      first_seq: this.#first,
      last_seq: this.#last,
      damaged: lost('damaged'),
      lost: lost('dropped', 'overflow'),
      pieces,
      gaps: ranges,
    }
  }
}

function fault(result: VerifyResult, piece: VerifyResult['pieces'][number]): void {
  result.ok = false
  result.pieces.push(piece)
}

function report(result: VerifyResult, state: LogState, file: string, scan: Scan): void {
  result.records += scan.facts
  if (scan.records > 0) {
    if (result.first_seq === 0) result.first_seq = scan.first
    result.last_seq = scan.last
  }
  // records from the first byte on: no piece covers the missing header
  if (!scan.header && scan.records > 0) result.ok = false
  for (const piece of scan.pieces) {
    if (piece.torn) {
      result.torn_bytes += piece.length
      continue
    }
    const named = piece.to >= piece.from
    if (named) state.ledger.add('damaged', piece.from, piece.to)
    const where = { file, offset: piece.offset, length: piece.length }
    fault(result, { ...where, ...(named && { from: piece.from, to: piece.to }) })
  }
}
