// When each AID was last answered with the time (X11): a device without a clock gets it once in ten seconds, however many
// packets without a time it sends. Bounded: the AIDs answered longest ago are evicted, and then get the time again. Cannot
// fail.
import { LruMap } from '../../lib/lru-map'

const MIN_INTERVAL_MS = 10_000
const MAX_AIDS = 32_768

export class TimeReplies {
  readonly #at = new LruMap<number, number>(MAX_AIDS)

  get size(): number {
    return this.#at.size
  }

  /** Whether that AID should get the time now; if so, it counts as answered. `now`: monotonic ms. */
  due(aid: number, now: number): boolean {
    if (now - (this.#at.get(aid) ?? Number.NEGATIVE_INFINITY) < MIN_INTERVAL_MS) return false
    this.#at.set(aid, now)
    return true
  }
}
