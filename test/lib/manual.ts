// Test doubles for the outside world: a clock and timers that advance only when the test says so, and an id store without a
// file.
import type { Clock } from '../../src/lib/clock'
import type { Timers } from '../../src/lib/timers'
import type { IdStore } from '../../src/protocol/ids/id-store'

/** A clock for tests: it is stopped until it is moved. */
export class ManualClock implements Clock {
  constructor(
    public wallMs = 1_710_000_000_000,
    public monoMs = 0,
  ) {}
  wall(): number {
    return this.wallMs
  }
  mono(): number {
    return this.monoMs
  }
  advance(ms: number): void {
    this.wallMs += ms
    this.monoMs += ms
  }
}

/** Timers for tests: nothing runs until `advance` moves their clock. */
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

  /** Advances the clock by `ms`, runs due timers in order, and lets promises settle in between. */
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

/** Long enough for chains of settled promises. */
const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Stores nothing. */
export const memoryIdStore = (): IdStore => ({
  load: () => [].values(),
  append: () => undefined,
  commit: () => Promise.resolve(),
  checkpoint: () => Promise.resolve(),
  checkpointNow: () => undefined,
  close: () => undefined,
})
