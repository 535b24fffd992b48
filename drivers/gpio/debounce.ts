// Debouncing by edge timestamps, for chips whose kernel driver does not support it. Pure. As in the kernel, a change
// counts once the level has been stable for the complete time; it is reported at the next edge or the next settle().

export class Debounce {
  /** the debounced level: 1 active */
  level: 0 | 1
  readonly #periodNs: number
  #pending: 0 | 1
  #sinceNs = 0

  constructor(periodNs: number, level: 0 | 1) {
    this.#periodNs = periodNs
    this.level = level
    this.#pending = level
  }

  /** An edge to `level`. True if the level before it was stable long enough to count as a change. */
  edge(level: 0 | 1, ns: number): boolean {
    const changed = this.settle(ns)
    this.#pending = level
    this.#sinceNs = ns
    return changed
  }

  /** The time is now `ns`. True if the newest level now counts as a change. */
  settle(ns: number): boolean {
    if (this.#pending === this.level || ns - this.#sinceNs < this.#periodNs) return false
    this.level = this.#pending
    return true
  }
}
