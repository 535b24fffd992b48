// Timers are handed in like the clock, so that minutes of retries are tested in milliseconds. Nothing here fails.
import type { ManualClock } from './clock'

export interface Timers {
  /** Runs `run` once after `ms` milliseconds (at most 2^31 - 1); the function returned cancels it. */
  after(ms: number, run: () => void): () => void
}

export const systemTimers: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** Timers for tests: nothing runs until `advance` moves the clock they were given. */
export class ManualTimers implements Timers {
  #due: { at: number; order: number; run: () => void }[] = []
  #order = 0

  constructor(readonly clock: ManualClock) {}

  after(ms: number, run: () => void): () => void {
    const entry = { at: this.clock.mono() + ms, order: this.#order++, run }
    this.#due.push(entry)
    return () => {
      this.#due = this.#due.filter(other => other !== entry)
    }
  }

  /** timers set since the start */
  get armed(): number {
    return this.#order
  }

  get pending(): number {
    return this.#due.length
  }

  /** Moves the clock by `ms`, running what falls due in order, and lets promises settle in between. */
  async advance(ms: number): Promise<void> {
    const end = this.clock.mono() + ms
    await settle()
    for (;;) {
      const next = this.#due.filter(entry => entry.at <= end).sort((a, b) => a.at - b.at || a.order - b.order)[0]
      if (!next) break
      this.#due = this.#due.filter(entry => entry !== next)
      this.clock.advance(Math.max(0, next.at - this.clock.mono()))
      next.run()
      await settle()
    }
    this.clock.advance(end - this.clock.mono())
    await settle()
  }
}

/** Long enough for chains of settled promises to run to their end. */
const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
