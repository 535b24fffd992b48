// Tracks unusable sealed windows over several workers: counts and names them, and logs each once.
import type { Logger } from '../lib/logger'
import type { SealedCounts } from './view'

/** The sealed windows. Unusable ones are renamed, and rebuilt from the log if it has the records. */
export type WindowReport = Omit<SealedCounts, 'upTo'>

export class WindowDamage {
  readonly #logger: Logger
  /** files that earlier workers could not use */
  #files: readonly string[] = []
  #count = 0
  /** number of files of the current worker that were logged */
  #logged = 0
  #problem: string | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** The report of a worker, including the unusable files of earlier ones. */
  of({ upTo: _upTo, ...report }: SealedCounts): WindowReport {
    return {
      ...report,
      damaged: this.#count + report.damaged,
      damaged_files: [...this.#files, ...report.damaged_files].slice(-8),
    }
  }

  /** Logs new damage. */
  look({ damaged, damaged_files, problem }: SealedCounts): void {
    if (damaged > this.#logged)
      this.#logger.warn(
        `the SQL view cannot use ${damaged_files.join(', ')}; their records are read from the log if it has them`,
      )
    if (problem !== undefined && problem !== this.#problem) this.#logger.warn(`the SQL view: ${problem}`)
    this.#logged = damaged
    this.#problem = problem
  }

  /** The worker ends: keeps its unusable files here, and removes them from `counts`. */
  keep(counts: SealedCounts): void {
    this.look(counts)
    this.#logged = 0
    this.#count += counts.damaged
    this.#files = [...this.#files, ...counts.damaged_files].slice(-8)
    Object.assign(counts, { damaged: 0, damaged_files: [] })
  }
}
