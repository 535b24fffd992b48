// Stores the counts of sources (pulses of a counter) in the log. A change is part of the next commit; if no commit is
// planned, it plans one. So a killed process or a power cut loses at most the pulses of one commit interval, and an orderly
// stop loses none: the final counts are taken when the sources close, before the last commit. Each commit writes one record
// of about 80 bytes per changed counter. Cannot fail.
import type { Counts } from '../../links/contracts'
import type { FlashLog } from '../../log'

type CountLog = Pick<FlashLog, 'counter' | 'appendCounter' | 'beforeCommit'>

export class KeptCounts {
  readonly #log: CountLog
  readonly #planCommit: () => void
  /** changes since the last commit */
  readonly #moved = new Map<string, number>()

  constructor(log: CountLog) {
    this.#log = log
    this.#planCommit = log.beforeCommit(() => this.#keep())
  }

  /** For one source: `logged` as in Counts; without it, the logged counts are not read either. */
  of(source: string, logged?: Counts['logged']): Counts {
    const keyOf = (name: string): string => `count ${source} ${name}`
    return {
      logged: logged ?? (() => undefined),
      kept: name => (logged ? this.#log.counter(keyOf(name)) : undefined),
      keep: (name, count) => this.#moves(keyOf(name), count),
    }
  }

  #moves(key: string, count: number): void {
    if (this.#moved.size === 0) this.#planCommit()
    this.#moved.set(key, count)
  }

  #keep(): void {
    for (const [key, count] of this.#moved)
      if (count !== (this.#log.counter(key) ?? 0)) this.#log.appendCounter(key, count)
    this.#moved.clear()
  }
}
