// Runs the turns of an uplink: one at a time, once more if something changed meanwhile, and by timer if nothing did.
//
// Errors: a turn that throws is logged, and the next one tries again. A turn that never returns belongs to its opening of the
// link: the next opening does not wait for it.
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Timers } from '../../lib/timers'

interface PumpParts {
  timers: Timers
  logger: Logger
  /** one turn; it ends early if isCurrent() is false */
  turn: (opening: number) => Promise<void>
  /** called after the last turn: ms until the next one */
  waitMs: () => number
}

const LEAST_WAIT_MS = 5

export class Pump {
  readonly #parts: PumpParts
  #open = false
  /** counts openings and closings */
  #opening = 0
  #running = false
  #again = false
  #cancelTimer: (() => void) | undefined

  constructor(parts: PumpParts) {
    this.#parts = parts
  }

  get open(): boolean {
    return this.#open
  }

  /** Whether a turn of that opening may continue. */
  isCurrent(opening: number): boolean {
    return this.#open && opening === this.#opening
  }

  /** The link was opened or closed. */
  set(open: boolean): void {
    this.#open = open
    this.#opening++
    this.#running = false
    if (!open) this.#cancelTimer?.()
  }

  /** The running turn is followed by another. */
  again(): void {
    this.#again = true
  }

  run(): void {
    if (!this.#open) return
    if (this.#running) {
      this.#again = true
      return
    }
    this.#running = true
    const { turn, logger } = this.#parts
    const opening = this.#opening
    turn(opening)
      .catch(error => logger.error(`sending stopped: ${asOsError(error).message}`))
      .finally(() => {
        if (opening !== this.#opening) return
        this.#running = false
        if (this.#again) {
          this.#again = false
          setImmediate(() => this.run())
        } else this.#wait()
      })
  }

  #wait(): void {
    this.#cancelTimer?.()
    const { timers, waitMs } = this.#parts
    this.#cancelTimer = timers.after(Math.max(LEAST_WAIT_MS, waitMs()), () => this.run())
  }
}
