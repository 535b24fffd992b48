// Reads the RTC of this machine. It is a chip on a bus, mostly I2C, so a read may wait for hardware: it runs on a thread of
// the addon (without the addon in the thread pool), never on the main thread. The last answer is used, advanced by the time
// since.
// Errors: an RTC that is missing or does not answer: its time is unknown until it answers. No second read starts while one
// hangs.

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
  /** the read in the thread pool */
  #reading: Promise<string> | undefined
  /** settles when the last read has ended or timed out */
  answered: Promise<void> = Promise.resolve()

  constructor(
    readonly path = '/sys/class/rtc/rtc0/since_epoch',
    readonly clock = systemClock,
    readonly native = nativeOrNull,
  ) {}

  /** UNIX seconds; undefined: unknown, or not yet known. Starts the next read. */
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
      this.#said = undefined // it does not answer, or an earlier read still waits for it
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
