// Detects whether a sealed window belongs to another log.
import type { LogSource } from '../log'
import type { Summary } from './windowfile'

/** A window of another log, or of an earlier log in this folder: its newest fact is not at that position in the log. */
export function isForeign({ witness, to }: Pick<Summary, 'to' | 'witness'>, log: LogSource): boolean {
  if (to > log.lastSeq) return true
  if (witness.seq < log.firstSeq) return false
  // no record: the log lost it, and only the window still has it
  const record = log.reader(witness.seq, { upTo: witness.seq }).next()
  return (
    record !== null && (record.kind !== 'fact' || record.boot !== witness.boot || record.wallMs !== witness.wall_ms)
  )
}
