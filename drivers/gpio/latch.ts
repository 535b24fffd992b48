// The value of each reading of an input of mode edge: the level after the last edge. A pulse that began and ended since
// the last reading is in this reading, its end in the next. The level of the line counts only in the first reading:
// later it can be ahead of the edges or behind them, and would add a false pulse or hide one.

export class Latch {
  #reported: 0 | 1 | undefined
  /** edges since the last reading */
  #edges = 0
  /** after the last edge, or in the first reading */
  #level: 0 | 1 | undefined

  /** `count` edges arrived, the last one to `level`. */
  changed(level: 0 | 1, count: number): void {
    // the same level twice: an edge in between was missed
    this.#edges += count + (level === this.#level ? 1 : 0)
    this.#level = level
  }

  /** The value of a reading; `line`: the level of the line. `more`: the next reading is due immediately. */
  read(line: 0 | 1): { value: 0 | 1; more: boolean } {
    this.#level ??= line
    const level = this.#level
    const more = this.#edges >= 2 && level === this.#reported
    this.#edges = 0
    this.#reported = more ? ((1 - level) as 0 | 1) : level
    return { value: this.#reported, more }
  }
}
