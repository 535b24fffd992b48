// What the readings of an input of mode edge say: the level after the last edge; a pulse that came and went since the last reading
// is in one reading, its end in the next. The level of the line itself counts only in the first reading: beside edges it is
// ahead of them or behind, and would make a pulse of nothing or hide one.

export class Latch {
  #reported: 0 | 1 | undefined
  /** edges since the last reading */
  #edges = 0
  /** after the last edge, or in the first reading */
  #level: 0 | 1 | undefined

  /** Edges came, the last one to `level`. */
  changed(level: 0 | 1, count: number): void {
    // twice to the same level: the kernel saw the line only when it was back
    this.#edges += count + (level === this.#level ? 1 : 0)
    this.#level = level
  }

  /** What a reading says; `line`: the level of the line. `more`: the next reading is due at once. */
  read(line: 0 | 1): { value: 0 | 1; more: boolean } {
    this.#level ??= line
    const level = this.#level
    const more = this.#edges >= 2 && level === this.#reported
    this.#edges = 0
    this.#reported = more ? ((1 - level) as 0 | 1) : level
    return { value: this.#reported, more }
  }
}
