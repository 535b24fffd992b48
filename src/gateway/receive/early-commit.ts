// Commits before their time for media that acknowledge by themselves. A broker sends only so many packets before it wants the
// first acknowledged (mosquitto: 20), and how many it does not say: waiting ack_commit_ms for each such handful would be
// 200 packets a second. So when several wait and nothing more comes, the log commits at once. Cannot fail: a disk that
// refuses is the log's matter.
import type { FlashLog } from '../../log'

/** fewer are not worth a commit of their own */
const SEVERAL = 8
const QUIET_MS = 2

export class EarlyCommit {
  readonly #log: Pick<FlashLog, 'flush'>
  #waiting = 0
  /** packets that ever waited */
  #came = 0
  #timer: NodeJS.Timeout | undefined

  constructor(log: Pick<FlashLog, 'flush'>) {
    this.#log = log
  }

  /** One more packet waits for its record. */
  waits(): void {
    this.#waiting++
    this.#came++
    if (this.#waiting >= SEVERAL) this.#watch()
  }

  settled(): void {
    this.#waiting--
  }

  #watch(): void {
    if (this.#timer) return
    const came = this.#came
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#waiting < SEVERAL) return
      if (came === this.#came) void this.#log.flush()
      else this.#watch()
    }, QUIET_MS)
    this.#timer.unref()
  }
}
