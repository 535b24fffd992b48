// Checks a log folder without opening it: read-only, so it may run beside a gateway. What a running gateway is just
// writing looks like a torn end and is not damage.
import { join } from 'node:path'
import { type Files, realFiles } from '../lib/files'
import { decodeHeader, type Scan, scanSegment, segmentBase, segmentFiles } from './segment'
import { LogState } from './state'

export interface VerifyResult {
  /** every byte is as it was written (a torn end excepted) */
  ok: boolean
  records: number
  first_seq: number
  last_seq: number
  /** seqs lost by damage, those of the ledger included */
  damaged: number
  /** facts that the bounds or a full RAM took */
  lost: number
  /** bytes of a half-written end, cut at the next start */
  torn_bytes: number
  /** where: file, offset, length and the seqs that were there */
  pieces: { file: string; offset: number; length: number; from?: number; to?: number }[]
}

/** Reads every segment of `dir`. Throws NOT_FOUND when there is no log. */
export function verify(dir: string, files: Files = realFiles): VerifyResult {
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
  }
  const state = new LogState()
  const previous = names.map(name => {
    const path = join(dir, name)
    const head = decodeHeader(files.readAt(path, 0, 64 * 1024))
    return head && !head.header.snapshot.partial ? head.header.previousLast : undefined
  })
  names.forEach((name, k) => {
    const base = segmentBase(name)!
    const bytes = files.read(join(dir, name))
    const next = names[k + 1]
    const knownLast = previous[k + 1]
    const scan = scanSegment(
      bytes,
      {
        base,
        ...(next !== undefined && { limit: segmentBase(next)! }),
        ...(knownLast !== undefined && knownLast >= base && { knownLast }),
      },
      at => state.replay(bytes, at),
    )
    if (scan.header) state.load(scan.header.snapshot)
    report(result, state, name, scan)
  })
  const { totals } = state.ledger
  result.damaged = totals.damaged
  result.lost = totals.dropped + totals.overflow
  return result
}

function report(result: VerifyResult, state: LogState, file: string, scan: Scan): void {
  result.records += scan.records
  if (scan.records > 0) {
    if (result.first_seq === 0) result.first_seq = scan.first
    result.last_seq = scan.last
  }
  if (!scan.header && (scan.records > 0 || scan.pieces.some(p => !p.torn))) result.ok = false
  for (const piece of scan.pieces) {
    if (piece.torn) {
      result.torn_bytes += piece.length
      continue
    }
    result.ok = false
    const named = piece.to >= piece.from
    if (named) state.ledger.add('damaged', piece.from, piece.to)
    result.pieces.push({
      file,
      offset: piece.offset,
      length: piece.length,
      ...(named && { from: piece.from, to: piece.to }),
    })
  }
}
