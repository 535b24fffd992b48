// Splits a group of readings into packets that fit the smallest uplink (decision 0020). The split of a device and its sensors is reused
// for every later sample, so that each part keeps its template. It changes when the packet size limit changes, and becomes
// finer when a part no longer fits (a longer status).
//
// Errors: a sensor that does not fit alone is left out and reported with its size.
import { LruMap } from '../../lib/lru-map'
import type { Fact } from '../../pipeline/fact'

export interface Cut {
  readonly pieces: readonly Fact[]
  /** sensors that fit no packet: index in the fact, and the required bytes */
  readonly tooLarge: readonly { readonly index: number; readonly bytes: number }[]
}

/** stored splits; the oldest is evicted and computed again when needed */
const MAX_GROUPS = 1024

export class Groups {
  readonly #sizeOf: (fact: Fact) => number
  /** number of sensors per part, by device and sensor ids; only groups that were split */
  readonly #cuts = new LruMap<string, readonly number[]>(MAX_GROUPS)
  #limit = 0

  constructor(sizeOf: (fact: Fact) => number) {
    this.#sizeOf = sizeOf
  }

  /** `limit`: bytes of the largest packet; a changed limit computes every split again. */
  cut(fact: Fact, limit: number): Cut {
    if (limit !== this.#limit) this.#cuts.clear()
    this.#limit = limit
    if (this.#cuts.size === 0 && this.#sizeOf(fact) <= limit) return { pieces: [fact], tooLarge: [] }
    const key = [fact.id, ...fact.sensors.map(({ id }) => id)].join('\0')
    const known = this.#cuts.get(key)
    if (!known && this.#sizeOf(fact) <= limit) return { pieces: [fact], tooLarge: [] }
    const pieces: Fact[] = []
    const counts: number[] = []
    const tooLarge: { index: number; bytes: number }[] = []
    let first = 0
    for (const count of known ?? [fact.sensors.length]) {
      for (let from = first, end = first + count; from < end; from += counts.at(-1)!) {
        const most = this.#fitting(fact, from, end)
        counts.push(Math.max(1, most))
        const piece = { ...fact, sensors: fact.sensors.slice(from, from + Math.max(1, most)) }
        if (most > 0) pieces.push(piece)
        else tooLarge.push({ index: from, bytes: this.#sizeOf(piece) })
      }
      first += count
    }
    this.#cuts.set(key, counts)
    return { pieces, tooLarge }
  }

  /** Number of sensors from `from` on that fit into one packet. */
  #fitting(fact: Fact, from: number, end: number): number {
    const fits = (count: number): boolean =>
      this.#sizeOf({ ...fact, sensors: fact.sensors.slice(from, from + count) }) <= this.#limit
    if (fits(end - from)) return end - from
    let count = 0
    while (from + count + 1 < end && fits(count + 1)) count++
    return count
  }
}
