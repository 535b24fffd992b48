// What became of the sealed windows over the lives of the worker: files that could not be used are counted and named, and each
// is logged once.
import type { Logger } from '../lib/logger'
import type { SealedCounts } from './view'

/** The sealed windows. Those that could not be used are put aside, and filled from the log where it has the records. */
export type WindowReport = Omit<SealedCounts, 'upTo'>

export class WindowDamage {
  readonly #logger: Logger
  /** files that workers before this one could not use */
  #files: readonly string[] = []
  #count = 0
  /** of the worker that runs: how many of them were logged */
  #logged = 0
  #problem: string | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** The report of a worker, with what the ones before it could not use. */
  of({ upTo: _upTo, ...report }: SealedCounts): WindowReport {
    return {
      ...report,
      damaged: this.#count + report.damaged,
      damaged_files: [...this.#files, ...report.damaged_files].slice(-8),
    }
  }

  /** Logs what is new. */
  look({ damaged, damaged_files, problem }: SealedCounts): void {
    if (damaged > this.#logged)
      this.#logger.warn(
        `the SQL view cannot use ${damaged_files.join(', ')}; what the log still has of it is taken from there`,
      )
    if (problem !== undefined && problem !== this.#problem) this.#logger.warn(`the SQL view: ${problem}`)
    this.#logged = damaged
    this.#problem = problem
  }

  /** The worker ends: what it could not use stays counted here, and is taken out of `counts`. */
  keep(counts: SealedCounts): void {
    this.look(counts)
    this.#logged = 0
    this.#count += counts.damaged
    this.#files = [...this.#files, ...counts.damaged_files].slice(-8)
    Object.assign(counts, { damaged: 0, damaged_files: [] })
  }
}
