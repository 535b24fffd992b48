// When a radio that hears nothing is to be helped, and how far (R20): scan anew, then reset the adapter, then open the
// library anew, each after the same silence; then the same again after twice the time, up to a quarter of an hour, since a
// place without any device is silent by nature. Pure: asks for no clock.

export type Remedy = 'scan' | 'reset' | 'reopen'

const REMEDIES: readonly Remedy[] = ['scan', 'reset', 'reopen']
const MOST_MS = 900_000

export class Silence {
  #at = 0
  #taken = 0
  #waitMs: number

  constructor(readonly afterMs: number) {
    this.#waitMs = afterMs
  }

  /** An advertisement, or the begin of a scan that was requested. Runs for every report. */
  heard(now: number): void {
    this.#at = now
    this.#taken = 0
    this.#waitMs = this.afterMs
  }

  /** remedies taken since something was heard */
  get taken(): number {
    return this.#taken
  }

  /** When next() is to be called. */
  get due(): number {
    return this.#at + this.#waitMs
  }

  /** What is to be done now, or null: it is not time. */
  next(now: number): Remedy | null {
    if (now < this.due) return null
    const remedy = REMEDIES[this.#taken % REMEDIES.length]!
    this.#taken++
    this.#at = now
    if (this.#taken % REMEDIES.length === 0) this.#waitMs = Math.min(this.#waitMs * 2, Math.max(MOST_MS, this.afterMs))
    return remedy
  }
}
