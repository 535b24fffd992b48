// Exponential backoff with full jitter, reset only after a stable minute (D7, R11): a peer that accepts and then kicks
// sees growing pauses, not a storm.

export interface BackoffOptions {
  minMs?: number
  maxMs?: number
  stableMs?: number
  random?: () => number
}

export class Backoff {
  readonly #minMs: number
  readonly #maxMs: number
  readonly #stableMs: number
  readonly #random: () => number
  #attempt = 0
  #upSince: number | undefined

  constructor({ minMs = 1000, maxMs = 60_000, stableMs = 60_000, random = Math.random }: BackoffOptions = {}) {
    this.#minMs = minMs
    this.#maxMs = maxMs
    this.#stableMs = stableMs
    this.#random = random
  }

  /** Call when the link came up. */
  up(nowMs: number): void {
    this.#upSince = nowMs
  }

  /** The cause is gone, as seen from outside: what went before does not count any more. */
  reset(): void {
    this.#attempt = 0
  }

  /** The pause in milliseconds before the next try, after a failure at `nowMs`. */
  next(nowMs: number): number {
    if (this.#upSince !== undefined && nowMs - this.#upSince >= this.#stableMs) this.#attempt = 0
    this.#upSince = undefined
    const ceiling = Math.min(this.#maxMs, this.#minMs * 2 ** this.#attempt)
    if (ceiling < this.#maxMs) this.#attempt++
    return Math.round(this.#minMs / 2 + this.#random() * (ceiling - this.#minMs / 2))
  }
}
