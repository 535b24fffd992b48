// Early commits for media that acknowledge automatically. A broker limits its unacknowledged packets (mosquitto: 20) and does
// not announce the limit: waiting ack_commit_ms per window would limit it to 200 packets a second. So the log commits immediately
// if several packets wait and no more arrive. Cannot fail: the log handles a disk that refuses.
import type { FlashLog } from '../../log'

/** fewer do not justify an early commit */
const SEVERAL = 8
const QUIET_MS = 2

export class EarlyCommit {
  readonly #log: Pick<FlashLog, 'flush'>
  #waiting = 0
  /** number of packets that waited since the start */
  #came = 0
  #timer: NodeJS.Timeout | undefined

  constructor(log: Pick<FlashLog, 'flush'>) {
    this.#log = log
  }

  /** Another packet waits for its record. */
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
