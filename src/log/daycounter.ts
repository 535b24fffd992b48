// Bytes written to flash since midnight UTC, for the card's budget (R5). The bytes of earlier runs today are estimated from
// existing segments created today.
import type { Clock } from '../lib/clock'

const DAY_MS = 86_400_000

export class DayCounter {
  readonly #clock: Clock
  readonly #written: () => number
  #day: number
  #base = 0

  /** `written` counts from 0 at the start of this run. */
  constructor(clock: Clock, written: () => number, segments: readonly { created: number; size: number }[]) {
    this.#clock = clock
    this.#written = written
    this.#day = Math.floor(clock.wall() / DAY_MS)
    for (const s of segments) if (Math.floor(s.created / DAY_MS) === this.#day) this.#base += s.size
  }

  get bytes(): number {
    const day = Math.floor(this.#clock.wall() / DAY_MS)
    if (day !== this.#day) {
      this.#day = day
      this.#base = -this.#written()
    }
    return this.#base + this.#written()
  }
}
