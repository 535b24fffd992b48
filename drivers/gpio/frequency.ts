// Frequency from the kernel's edge timestamps: periods are averaged, so the result is exact however late the process
// runs. Pure. Without edges the last value is only an upper bound: it falls as the silence grows, and is 0 after the
// time-out.

/** readings a window can span; with more of them the window is shorter */
const MARKS = 128

interface FrequencyOptions {
  /** averaged over at least this long; 0: from reading to reading */
  windowNs: number
  timeoutNs: number
}

export class Frequency {
  readonly #options: FrequencyOptions
  readonly #counts = new Float64Array(MARKS)
  readonly #times = new Float64Array(MARKS)
  /** stored marks, the oldest at #first */
  #first = 0
  #kept = 0
  #count = 0
  #lastNs = 0
  /** Hz, as averaged when the newest edges were seen */
  #last = 0

  constructor(options: FrequencyOptions) {
    this.#options = options
  }

  /** Edge number `count`, at `ns` of the kernel's clock. Runs once per edge. */
  edge(count: number, ns: number): void {
    if (this.#kept === 0) this.#mark(count, ns)
    this.#count = count
    this.#lastNs = ns
  }

  /** Hz at `ns` of the same clock. */
  at(ns: number): number {
    const { windowNs, timeoutNs } = this.#options
    const silentNs = ns - this.#lastNs
    if (this.#kept === 0 || silentNs >= timeoutNs) {
      this.reset()
      return 0
    }
    const newest = (this.#first + this.#kept - 1) % MARKS
    if (this.#counts[newest] !== this.#count) {
      this.#mark(this.#count, this.#lastNs)
      this.#last = this.#average(this.#count, this.#lastNs)
    }
    // no edge for longer than a period: the frequency is at most one edge in that time
    return silentNs > windowNs && silentNs * this.#last > 1e9 ? 1e9 / silentNs : this.#last
  }

  /** After a pause the next edge starts a new measurement. */
  reset(): void {
    this.#kept = 0
    this.#last = 0
  }

  #mark(count: number, ns: number): void {
    if (this.#kept === MARKS) {
      this.#first = (this.#first + 1) % MARKS
      this.#kept--
    }
    const at = (this.#first + this.#kept++) % MARKS
    this.#counts[at] = count
    this.#times[at] = ns
  }

  /** Drops marks that the window no longer needs, and averages since the oldest one kept. */
  #average(count: number, ns: number): number {
    while (this.#kept > 2 && ns - this.#times[(this.#first + 1) % MARKS]! >= this.#options.windowNs) {
      this.#first = (this.#first + 1) % MARKS
      this.#kept--
    }
    const span = ns - this.#times[this.#first]!
    return span > 0 ? ((count - this.#counts[this.#first]!) * 1e9) / span : 0
  }
}
