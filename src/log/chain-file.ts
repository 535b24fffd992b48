// A second witness of the newest segment, beside the segments: `chain.json` names it once its header is on flash, and its
// last record after a clean stop; also which sequence numbers the segments before it hold. Headers describe the segments before them; the newest has none behind it, so without this a
// newest (or only) segment that is deleted or overwritten would look like a log that never had it (R29).
//
// What fails: a witness that cannot be written makes the check weaker and nothing else; one that is damaged too, and is said
// to be. The file is made and moved in
// place without a sync of the folder: an older witness that a power cut brings back names a segment that is still known.
import { join } from 'node:path'
import { asOsError, OsError } from '../lib/errors'
import type { Files } from '../lib/files'
import { joinRange } from './ledger'
import type { LossRange } from './record'

export interface Witness {
  /** of the newest segment */
  readonly base: number
  readonly boot: number
  /** seq of the oldest record at that time */
  readonly first: number
  /** of the newest segment, after a clean stop only */
  readonly last?: number
  /** from and to of what the older segments hold: the newest 64 runs without a gap (none in older logs) */
  readonly runs: readonly (readonly [from: number, to: number])[]
}

export const CHAIN_FILE = 'chain.json'
const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** undefined: none yet. Throws where there is one that says nothing. */
export function readWitness(files: Files, dir: string): Witness | undefined {
  const path = join(dir, CHAIN_FILE)
  if (!files.exists(path)) return undefined
  try {
    const { base, boot, first, last, runs = [] } = JSON.parse(files.read(path).toString('utf8')) as Partial<Witness>
    if (!isSeq(base) || !isSeq(boot) || !isSeq(first) || !runs.every(run => run.every(isSeq)))
      throw new TypeError('it names no segment')
    return { base, boot, first, runs, ...(isSeq(last) && { last }) }
  } catch (error) {
    const text = `${CHAIN_FILE} is damaged (${asOsError(error).message}): newest segments that are gone cannot be named`
    throw new OsError('STORAGE', text, { cause: error })
  }
}

/**
 * What is lost where every segment behind record `after` is gone (0: all segments). Numbers that a killed start reserved and never
 * gave out are not among it. Two ends are not known exactly: before the oldest run that the file names, every number from `first` on
 * counts, which may be too many; of a newest segment without `last` (after a kill) only its first record counts.
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

/** Returns the bytes written, 0 when the disk refused. */
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
    return 0 // the write of the next record tells of the disk
  }
}

/** The segment it names was taken back before a record was in it. */
export function removeWitness(files: Files, dir: string): void {
  try {
    files.remove(join(dir, CHAIN_FILE))
  } catch {
    // the disk refuses: the next segment brings a new one
  }
}
