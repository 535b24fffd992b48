// The RTC of this machine is a chip on a bus, mostly I2C: a query may wait for hardware. So it is queried on a thread
// of the addon, without one in the pool of the process, never on the main thread; what it said last counts, with the time since.
// What fails: no such clock, or one that does not answer: nothing is known of it until it does. A question that hangs is not
// asked a second time.

import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { systemClock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import { systemTimers } from '../../lib/timers'
import { nativeOrNull } from '../../native'
import { FileReader } from '../../native/files'

const DEADLINE_MS = 2000

export class RtcClock {
  #said: { readonly s: number; readonly mono: number } | undefined
  #asking = false
  /** in the pool */
  #reading: Promise<string> | undefined
  /** settles when the last question is answered, or given up */
  answered: Promise<void> = Promise.resolve()

  constructor(
    readonly path = '/sys/class/rtc/rtc0/since_epoch',
    readonly clock = systemClock,
    readonly native = nativeOrNull,
  ) {}

  /** UNIX seconds, undefined: not known, or not yet. Asks it again meanwhile. */
  seconds(): number | undefined {
    if (!existsSync(this.path)) this.#said = undefined
    else if (!this.#asking) this.answered = this.#ask()
    return this.#said && this.#said.s + (this.clock.mono() - this.#said.mono) / 1000
  }

  async #ask(): Promise<void> {
    this.#asking = true
    try {
      const text = await (this.native() ? this.#onThread() : this.#inPool())
      this.#said = { s: Number(text), mono: this.clock.mono() }
    } catch {
      this.#said = undefined // it does not answer, or an earlier question still waits for it
    } finally {
      this.#asking = false
    }
  }

  async #onThread(): Promise<string> {
    const reader = new FileReader(this.path)
    try {
      const text = Buffer.alloc(32)
      return text.toString('latin1', 0, await reader.read(this.path, text, DEADLINE_MS))
    } finally {
      reader.close()
    }
  }

  async #inPool(): Promise<string> {
    if (this.#reading) throw new Error('it is read already')
    this.#reading = readFile(this.path, 'latin1')
    const done = (): void => {
      this.#reading = undefined
    }
    this.#reading.then(done, done)
    return within(systemTimers, DEADLINE_MS, this.#reading, () => {
      throw new Error('it does not answer')
    })
  }
}
