// The progress bar of a stress run: one line that is written again, on a terminal only.

/** stderr of the program, or its substitute. */
export interface Terminal {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const EVERY_MS = 100

export class ProgressBar {
  readonly #terminal: Terminal | undefined
  readonly #total: number
  readonly #now: () => number
  readonly #start: number
  #last = Number.NEGATIVE_INFINITY

  /** Without a terminal it does nothing. */
  constructor(terminal: Terminal | undefined, total: number, now: () => number = () => performance.now()) {
    this.#terminal = terminal?.isTTY ? terminal : undefined
    this.#total = total
    this.#now = now
    this.#start = now()
  }

  show(done: number): void {
    const now = this.#now()
    if (!this.#terminal || now - this.#last < EVERY_MS) return
    this.#last = now
    this.#terminal.write(`\r${this.#line(done, now - this.#start)}\x1b[K`)
  }

  /** Takes the line away. */
  end(): void {
    if (this.#terminal && this.#last > Number.NEGATIVE_INFINITY) this.#terminal.write('\r\x1b[K')
  }

  #line(done: number, ms: number): string {
    const share = Math.min(1, done / this.#total)
    const rate = ms > 0 ? Math.round((done / ms) * 1000) : 0
    const words = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${done}/${this.#total}  ${rate}/s`
    const width = Math.max(0, Math.min(40, (this.#terminal?.columns || 80) - words.length - 3))
    const filled = Math.round(share * width)
    return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}]${words}`
  }
}
