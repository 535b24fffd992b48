// Whether a sealed window is of this log.
import type { LogSource } from '../log'
import type { Summary } from './windowfile'

/** A window of another log, or of this one before it was removed: its newest fact is not in the log where it should be. */
export function isForeign({ witness, to }: Pick<Summary, 'to' | 'witness'>, log: LogSource): boolean {
  if (to > log.lastSeq) return true
  if (witness.seq < log.firstSeq) return false
  // none: the log lost it, and the window is what is left
  const record = log.reader(witness.seq, { upTo: witness.seq }).next()
  return (
    record !== null && (record.kind !== 'fact' || record.boot !== witness.boot || record.wallMs !== witness.wall_ms)
  )
}
