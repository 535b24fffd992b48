// The progress token (D14, R23): every few seconds it passes loop → intake → log buffer → uplink scheduler and comes back.
// While it comes back the gateway works, however quiet it is, however many links are down, however slow the disk is.
//
// What fails: a token that throws or does not come back is logged and is not counted; after `stallMs` without one
// the gateway has stalled, which is logged once. A machine that slept, or a process that was stopped for a while,
// gets a new start: time in which nothing of this process ran is not held against it.
import type { Clock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'

interface ProgressParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly timers?: Timers
  readonly everyMs?: number
  /** how long it may be unseen */
  stallMs(): number
  /** one way around; settles when the token is back */
  pass(): Promise<void>
  /** it came back */
  seen?(): void
  /** it was not seen for stallMs */
  stalled(ms: number): void
}

/** a timer this late did not run because nothing ran */
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
  /** tokens that came back */
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

  /** ms since the token was seen last */
  get unseenMs(): number {
    return this.#parts.clock.mono() - this.#lastSeen
  }

  /** True while the token was seen lately. */
  get alive(): boolean {
    return this.unseenMs < this.#parts.stallMs()
  }

  #turn(): void {
    const now = this.#parts.clock.mono()
    if (now - this.#lastTurn > SLEPT * this.#everyMs) this.#lastSeen = now
    this.#lastTurn = now
    // several turns within the bound: one that is late is no stall
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
        this.#parts.seen?.()
      })
      .catch(error => this.#parts.logger.error(`the progress token was lost: ${asOsError(error).message}`))
      .finally(() => {
        this.#underway = false
      })
  }
}
