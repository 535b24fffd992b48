// Which frames went out lately, so that a NACK is obeyed only for a frame that was really sent (X9): within 60 s, and at
// most once in 10 s for each AID.

// twice the window of the delivery exchange
const REMEMBERED = 2048
const FRAME_MS = 60_000
const PAUSE_MS = 10_000

export class RecentFrames {
  readonly #keys = new Array<string>(REMEMBERED).fill('')
  readonly #at = new Float64Array(REMEMBERED)
  readonly #obeyed = new Map<number, number>()
  #next = 0

  /** `ts` is the 48-bit TS field in ms. */
  note(aid: number, tid: number, ts: number, now: number): void {
    this.#keys[this.#next] = `${aid};${tid};${ts}`
    this.#at[this.#next] = now
    this.#next = (this.#next + 1) % REMEMBERED
  }

  /** True when a NACK about that frame is to be obeyed now. */
  obey(aid: number, tid: number, ts: number, now: number): boolean {
    const at = this.#keys.indexOf(`${aid};${tid};${ts}`)
    if (at < 0 || now - this.#at[at]! > FRAME_MS) return false
    if (now - (this.#obeyed.get(aid) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return false
    if (this.#obeyed.size > 4096) this.#obeyed.clear()
    this.#obeyed.set(aid, now)
    return true
  }
}
