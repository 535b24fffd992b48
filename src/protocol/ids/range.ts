// Selects the next id to assign, from a range or from the ids that an upstream granted. Pure over the state; null if none is
// left. 0 and 4294967295 mean "no id" and are never assigned.
import { UNASSIGNED } from '../../lib/assigned-id'
import type { IdState } from './state'

/** ids that one call checks to find one in no list */
const SCAN_AT_ONCE = 1 << 18

export class IdRange {
  readonly start: number
  readonly end: number
  readonly first: number
  /** no range: ids granted by an upstream */
  readonly granted: boolean
  readonly #last: number
  /** the next id to check */
  #scanned = 0

  constructor(start: number, end: number) {
    this.start = start
    this.end = end
    this.first = Math.max(1, start)
    this.granted = end < start
    this.#last = Math.min(end, UNASSIGNED - 1)
  }

  /** The smallest freed id, else the next never used, else one that is in no list. */
  next(state: IdState, now: number): number | null {
    if (this.granted) return this.left(state, now) > 0 ? (state.lowestReleased ?? state.returned[0]!) : null
    for (let freed = state.lowestReleased; freed !== undefined; freed = state.lowestReleased) {
      if (freed >= this.first && freed <= this.#last) return freed
      // of an earlier configured range; #unlisted() finds it if the range returns
      state.forget(freed)
    }
    return state.next_candidate <= this.#last ? state.next_candidate : this.#unlisted(state)
  }

  /**
   * Ids that were in use and are free: those in the list, and those that #unlisted() finds. Of granted ids: those left, none
   * after their time, since the upstream may then assign them to another device.
   */
  left({ entries, damaged, next_candidate, releasedCount, returned, granted_until }: IdState, now: number): number {
    if (this.granted) return now < granted_until ? releasedCount + returned.length : 0
    const used = Math.min(next_candidate, this.#last + 1) - this.first
    return damaged ? releasedCount : Math.max(releasedCount, used - entries.size)
  }

  /**
   * An id of the range that is neither in use nor in a list: taken back, freed beyond max_released, or added by a wider
   * range. The search wraps around and is limited: in a used-up larger range, one request may fail and the next one continues
   * there.
   */
  #unlisted({ entries, damaged }: IdState): number | null {
    const size = this.#last - this.first + 1
    if (damaged || entries.size >= size) return null
    for (let k = Math.min(size, SCAN_AT_ONCE); k > 0; k--) {
      const id = Math.min(Math.max(this.#scanned, this.first), this.#last)
      this.#scanned = id < this.#last ? id + 1 : this.first
      if (!entries.has(id)) return id
    }
    return null
  }
}
