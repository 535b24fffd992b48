// The open requests of this node (decision 0018, S13): an answer about time or identity counts only with the seq of one of them, and
// only once. The caller checks the address. Bounded; a request without an answer is forgotten after a minute.

import type { Clock } from '../../lib/clock'
import { LruMap } from '../../lib/lru-map'

const LIFETIME_MS = 60_000
const MOST = 64

export class OpenRequests {
  readonly #clock: Clock
  readonly #open = new LruMap<number, { cmd: number; at: number }>(MOST)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Adds a request; `cmd` is the command of its answer. */
  opened(seq: number, cmd: number): void {
    this.#open.set(seq, { cmd, at: this.#clock.mono() })
  }

  closed(seq: number): void {
    this.#open.delete(seq)
  }

  /** Milliseconds since the request was first sent; null if none is open with that seq for that answer. */
  age(seq: number, cmd: number): number | null {
    const request = this.#open.get(seq)
    if (!request || request.cmd !== cmd) return null
    const age = this.#clock.mono() - request.at
    return age <= LIFETIME_MS ? age : null
  }
}
