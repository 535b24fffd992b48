// Debouncing by the times of edges, for chips whose kernel driver refuses to do it. Pure. A change counts once the level has
// stayed for the whole time, as the kernel does it; it is reported with the next edge or with the next settle().

export class Debounce {
  /** the level that counts: 1 active */
  level: 0 | 1
  readonly #periodNs: number
  #pending: 0 | 1
  #sinceNs = 0

  constructor(periodNs: number, level: 0 | 1) {
    this.#periodNs = periodNs
    this.level = level
    this.#pending = level
  }

  /** An edge to `level`. Returns true when the level before it had stayed long enough to count as a change. */
  edge(level: 0 | 1, ns: number): boolean {
    const changed = this.settle(ns)
    this.#pending = level
    this.#sinceNs = ns
    return changed
  }

  /** The time is `ns` now. Returns true when that makes the newest level count as a change. */
  settle(ns: number): boolean {
    if (this.#pending === this.level || ns - this.#sinceNs < this.#periodNs) return false
    this.level = this.#pending
    return true
  }
}
