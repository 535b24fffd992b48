// What sources count, kept in the log (pulses of a counter): a change is in the next commit, and where nothing else would be
// committed it is what plans one. So a killed process or a power cut loses at most the pulses of one commit interval, and an
// orderly stop none: the last counts come while the sources are closed, before the last commit. One record of about 80 bytes for
// each counter that moved, once a commit; nothing while none moves. Nothing fails.
import type { Counts } from '../../links/contracts'
import type { FlashLog } from '../../log'

type CountLog = Pick<FlashLog, 'counter' | 'appendCounter' | 'beforeCommit'>

export class KeptCounts {
  readonly #log: CountLog
  readonly #planCommit: () => void
  /** what changed since the last commit */
  readonly #moved = new Map<string, number>()

  constructor(log: CountLog) {
    this.#log = log
    this.#planCommit = log.beforeCommit(() => this.#keep())
  }

  /** For one source: `logged` as Counts has it; without it, what the log has is left out too. */
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
