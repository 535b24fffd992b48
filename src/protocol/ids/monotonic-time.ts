// A clock that may jump beside one that never does: how far the first has jumped since it was last read, so that leases can
// be moved along instead of ending or lasting for ever. Pure over the clocks handed in; nothing here fails.

/** a clock that runs away from the steady one by more than this has jumped */
const JUMP_SECONDS = 60

export class MonotonicTime {
  readonly #now: () => number
  readonly #mono: (() => number) | undefined
  #last: { now: number; mono: number } | null = null

  /** `now`: UNIX seconds; `mono`: milliseconds that never jump; without it no jump is seen */
  constructor(now: () => number, mono?: () => number) {
    this.#now = now
    this.#mono = mono
  }

  /** The time, and the seconds it jumped by since the last call; 0 for the ordinary course of time. */
  read(): { now: number; jump: number } {
    const now = this.#now()
    if (!this.#mono) return { now, jump: 0 }
    const mono = this.#mono() / 1000
    const last = this.#last
    this.#last = { now, mono }
    const jump = last ? now - last.now - (mono - last.mono) : 0
    return { now, jump: Math.abs(jump) > JUMP_SECONDS ? jump : 0 }
  }
}
