// A second witness of the newest segment: `chain.json` names it once its header is on flash, and its last record after a
// clean stop; it also lists the sequence numbers of older segments. A header describes the segments before it, but no header
// follows the newest segment. Without this file, a deleted or overwritten newest (or only) segment would not be noticed
// (R29).
//
// Errors: if it cannot be written, the check is only weaker. If it is damaged, the check is weaker too, and that is reported.
// The file is replaced without a sync of the folder: an older version after a power cut names a segment that is still known.
import { join } from 'node:path'
import { asOsError, OsError, orElse } from '../lib/errors'
import type { Files } from '../lib/files'
import { joinRange } from './ledger'
import type { LossRange } from './record'

export interface Witness {
  /** of the newest segment */
  readonly base: number
  readonly boot: number
  /** seq of the oldest record when the file was written */
  readonly first: number
  /** of the newest segment, after a clean stop only */
  readonly last?: number
  /** ranges of seqs in the older segments: the newest 64 without a gap (none in older logs) */
  readonly runs: readonly (readonly [from: number, to: number])[]
}

export const CHAIN_FILE = 'chain.json'
const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** undefined: none yet. Throws if it exists but is invalid. */
export function readWitness(files: Files, dir: string): Witness | undefined {
  const path = join(dir, CHAIN_FILE)
  if (!files.exists(path)) return undefined
  try {
    const { base, boot, first, last, runs = [] } = JSON.parse(files.read(path).toString('utf8')) as Partial<Witness>
    if (!isSeq(base) || !isSeq(boot) || !isSeq(first) || !runs.every(run => run.every(isSeq)))
      throw new TypeError('it names no segment')
    return { base, boot, first, runs, ...(isSeq(last) && { last }) }
  } catch (error) {
    const text = `${CHAIN_FILE} is damaged (${asOsError(error).message}): missing newest segments cannot be detected`
    throw new OsError('STORAGE', text, { cause: error })
  }
}

/**
 * The ranges lost if every segment after record `after` is gone (0: all segments). Numbers reserved but not used before a
 * kill are not included. Two ends are inexact: before the oldest range in the file, every number from `first` on counts,
 * which may be too many; of a newest segment without `last` (after a kill) only its first record counts.
 */
export function lostBehind({ base, first, last = base, runs }: Witness, after: number): LossRange[] {
  const lost: LossRange[] = []
  const behind = Math.min(after + 1, base)
  for (const [start, to] of [[first, (runs[0]?.[0] ?? base) - 1] as const, ...runs, [base, last] as const]) {
    const from = Math.max(start, behind)
    if (to >= from) joinRange(lost, { reason: 'damaged', from, to, records: to - from + 1 })
  }
  return lost
}

/** Returns the bytes written, 0 if the disk refused. */
export async function writeWitness(files: Files, dir: string, witness: Witness): Promise<number> {
  const path = join(dir, CHAIN_FILE)
  const bytes = Buffer.from(JSON.stringify(witness))
  try {
    const fd = files.open(`${path}.tmp`, 'w')
    try {
      files.write(fd, bytes)
      await files.sync(fd)
    } finally {
      files.close(fd)
    }
    files.rename(`${path}.tmp`, path)
    return bytes.length
  } catch {
    return 0 // the next record write reports the disk error
  }
}

/** The segment it names was removed before it contained a record. */
export function removeWitness(files: Files, dir: string): void {
  // if the disk refuses, the next segment writes a new file
  orElse(undefined, () => files.remove(join(dir, CHAIN_FILE)))
}
