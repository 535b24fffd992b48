// The progress token (decision 0046, R23): every few seconds it passes loop → intake → log buffer → uplink scheduler and returns. While
// it returns the gateway works, even if it is idle, links are down or the disk is slow.
//
// Errors: a token that throws or does not return is logged and not counted. After `stallMs` without a token the gateway has
// stalled, which is logged once. If the machine slept or the process was stopped, the time counts from the resume: time in
// which this process did not run is ignored.
import type { Clock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'

interface ProgressParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly timers?: Timers
  readonly everyMs?: number
  /** time without a token that counts as a stall */
  stallMs(): number
  /** one pass; settles when the token has returned */
  pass(): Promise<void>
  /** the token did not return for stallMs */
  stalled(ms: number): void
}

/** a timer this many times too late: the process did not run */
const SLEPT = 3

export class Progress {
  readonly #parts: ProgressParts
  readonly #timers: Timers
  readonly #everyMs: number
  #lastSeen: number
  #lastTurn: number
  #underway = false
  #reported = false
  #cancel: (() => void) | undefined
  /** tokens that returned */
  passes = 0

  constructor(parts: ProgressParts) {
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#everyMs = parts.everyMs ?? 5000
    this.#lastSeen = this.#lastTurn = parts.clock.mono()
  }

  start(): void {
    this.#lastSeen = this.#lastTurn = this.#parts.clock.mono()
    this.#turn()
  }

  stop(): void {
    this.#cancel?.()
  }

  /** ms since the last token returned */
  get unseenMs(): number {
    return this.#parts.clock.mono() - this.#lastSeen
  }

  /** True while tokens return in time. */
  get alive(): boolean {
    return this.unseenMs < this.#parts.stallMs()
  }

  #turn(): void {
    const now = this.#parts.clock.mono()
    if (now - this.#lastTurn > SLEPT * this.#everyMs) this.#lastSeen = now
    this.#lastTurn = now
    // several passes within the limit: one late token is no stall
    const next = Math.min(this.#everyMs, Math.max(1, this.#parts.stallMs() / 4))
    this.#cancel = this.#timers.after(next, () => this.#turn())
    if (!this.alive && !this.#reported) {
      this.#reported = true
      this.#parts.stalled(this.unseenMs)
    }
    if (this.#underway) return
    this.#underway = true
    this.#parts
      .pass()
      .then(() => {
        this.#lastSeen = this.#parts.clock.mono()
        this.#reported = false
        this.passes++
      })
      .catch(error => this.#parts.logger.error(`the progress token was lost: ${asOsError(error).message}`))
      .finally(() => {
        this.#underway = false
      })
  }
}
