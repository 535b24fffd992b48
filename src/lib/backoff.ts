// Exponential backoff with full jitter, reset only after a stable minute (decision 0045, R11): a peer that accepts and then
// disconnects causes growing delays, not a storm. If the peer worked in the last ten minutes, or is on this machine,
// delays stay below five seconds, so that a short outage ends quickly. A first failure is treated the same way, because
// after a power cut the peer restarts together with this machine.

export interface BackoffOptions {
  minMs?: number
  maxMs?: number
  stableMs?: number
  /** longest delay if the peer worked recently, or is `local` */
  quickMs?: number
  local?: boolean
  random?: () => number
}

/** how long a peer that worked is expected to return soon */
const QUICK_FOR_MS = 600_000
/** a shorter connection does not count as working: the peer may accept and then disconnect */
const WORKED_MS = 5000

export class Backoff {
  readonly #options: Required<BackoffOptions>
  #workedAt: number | undefined
  #attempt = 0
  #upSince: number | undefined

  constructor(options: BackoffOptions = {}) {
    const standard = { minMs: 1000, maxMs: 60_000, stableMs: 60_000, quickMs: 5000, local: false, random: Math.random }
    this.#options = { ...standard, ...options }
  }

  /** Call when the link is up. */
  up(nowMs: number): void {
    this.#upSince = nowMs
  }

  /** The cause has been removed, as reported from outside: clears the history. */
  reset(): void {
    this.#attempt = 0
  }

  /** The delay in milliseconds before the next attempt, after a failure at `nowMs`. */
  next(nowMs: number): number {
    const { minMs, maxMs, stableMs, quickMs, local, random } = this.#options
    const up = this.#upSince === undefined ? 0 : nowMs - this.#upSince
    if (up >= stableMs) this.#attempt = 0
    if (up >= WORKED_MS || this.#workedAt === undefined) this.#workedAt = nowMs
    this.#upSince = undefined
    const quick = local || nowMs - this.#workedAt < QUICK_FOR_MS
    const grown = minMs * 2 ** this.#attempt
    const ceiling = Math.min(quick ? Math.min(quickMs, maxMs) : maxMs, grown)
    if (grown < maxMs) this.#attempt++
    return Math.round(minMs / 2 + random() * (ceiling - minMs / 2))
  }
}
