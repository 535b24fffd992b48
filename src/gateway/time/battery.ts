// The battery clock of this machine is a chip on a bus, mostly I2C: asking it may wait for hardware. The first time, at the
// start, it is waited for; from then on it is asked on a thread of the addon, and what it said last counts, with the time since.
// What fails: no such clock, or one that does not answer: nothing is known of it until it does. Without the addon it is waited
// for each time.
import { existsSync, readFileSync } from 'node:fs'
import { systemClock } from '../../lib/clock'
import { nativeOrNull } from '../../native'
import { FileReader } from '../../native/files'

const DEADLINE_MS = 2000

export class BatteryClock {
  #said: { readonly s: number; readonly mono: number } | undefined
  #asked = false
  /** settles when the last question is answered, or given up */
  answered: Promise<void> = Promise.resolve()

  constructor(
    readonly path = '/sys/class/rtc/rtc0/since_epoch',
    readonly clock = systemClock,
  ) {}

  /** UNIX seconds, undefined: not known. */
  seconds(): number | undefined {
    if (!existsSync(this.path)) this.#said = undefined
    else if (this.#asked && nativeOrNull()) this.answered = this.#ask()
    else this.#keep(readFileSync(this.path, 'latin1'))
    return this.#said && this.#said.s + (this.clock.mono() - this.#said.mono) / 1000
  }

  #keep(text: string): void {
    this.#asked = true
    this.#said = { s: Number(text), mono: this.clock.mono() }
  }

  async #ask(): Promise<void> {
    let reader: FileReader | undefined
    try {
      reader = new FileReader(this.path)
      const text = Buffer.alloc(32)
      this.#keep(text.toString('latin1', 0, await reader.read(this.path, text, DEADLINE_MS)))
    } catch {
      this.#said = undefined // it does not answer, or an earlier question still waits for it
    } finally {
      reader?.close()
    }
  }
}
