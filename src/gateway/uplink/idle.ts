// Waiting for the moment when nothing is on its way any more, but not for ever.
import type { Timers } from '../../lib/timers'

export class Idle {
  readonly #timers: Timers
  #settle: () => void = () => undefined

  constructor(timers: Timers) {
    this.#timers = timers
  }

  /** Settles with settle(), or after `limitMs`. */
  wait(limitMs: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#timers.after(limitMs, resolve)
      this.#settle = () => {
        cancel()
        resolve()
      }
    })
  }

  settle(): void {
    this.#settle()
  }
}
