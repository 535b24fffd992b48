// A progress bar: one line that is rewritten, only on a terminal.

import { systemClock } from './clock'

/** stderr of the program, or its substitute. */
export interface Terminal {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const EVERY_MS = 100

export class ProgressBar {
  readonly #terminal: Terminal | undefined
  #total: number
  readonly #text: (n: number) => string
  readonly #now: () => number
  readonly #start: number
  #last = Number.NEGATIVE_INFINITY

  /** Does nothing without a terminal. */
  constructor(
    terminal: Terminal | undefined,
    total: number,
    now: () => number = () => systemClock.mono(),
    text: (n: number) => string = String,
  ) {
    this.#terminal = terminal?.isTTY ? terminal : undefined
    this.#total = total
    this.#now = now
    this.#text = text
    this.#start = now()
  }

  show(done: number, total = this.#total): void {
    this.#total = total
    const now = this.#now()
    if (!this.#terminal || now - this.#last < EVERY_MS) return
    this.#last = now
    this.#terminal.write(`\r${this.#line(done, now - this.#start)}\x1b[K`)
  }

  /** Erases the line. */
  end(): void {
    if (this.#terminal && this.#last > Number.NEGATIVE_INFINITY) this.#terminal.write('\r\x1b[K')
    this.#last = Number.NEGATIVE_INFINITY
  }

  #line(done: number, ms: number): string {
    const share = this.#total > 0 ? Math.min(1, done / this.#total) : 1
    const rate = ms > 0 ? Math.round((done / ms) * 1000) : 0
    const counts = `${this.#text(done)}/${this.#text(this.#total)}  ${this.#text(rate)}/s`
    const words = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${counts}`
    const width = Math.max(0, Math.min(40, (this.#terminal?.columns || 80) - words.length - 3))
    const filled = Math.round(share * width)
    return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}]${words}`
  }
}
