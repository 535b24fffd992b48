// Decides when and how to recover a radio that hears nothing (R20): restart the scan, then reset the adapter, then
// reopen the library, each after the same silence. The cycle repeats with the interval doubled, up to a quarter of an
// hour, because a place without any device is silent too. Pure: the caller passes the time.

export type RadioRemedy = 'scan' | 'reset' | 'reopen'

const REMEDIES: readonly RadioRemedy[] = ['scan', 'reset', 'reopen']
const MOST_MS = 900_000

export class Silence {
  #at = 0
  #taken = 0
  #waitMs: number

  constructor(readonly afterMs: number) {
    this.#waitMs = afterMs
  }

  /** An advertisement arrived, or a requested scan began. Runs for every report. */
  heard(now: number): void {
    this.#at = now
    this.#taken = 0
    this.#waitMs = this.afterMs
  }

  /** remedies applied since something was heard */
  get taken(): number {
    return this.#taken
  }

  /** Time of the next call of next(). */
  get due(): number {
    return this.#at + this.#waitMs
  }

  /** The remedy that is due now, or null. */
  next(now: number): RadioRemedy | null {
    if (now < this.due) return null
    const remedy = REMEDIES[this.#taken % REMEDIES.length]!
    this.#taken++
    this.#at = now
    if (this.#taken % REMEDIES.length === 0) this.#waitMs = Math.min(this.#waitMs * 2, Math.max(MOST_MS, this.afterMs))
    return remedy
  }
}
