// Cuts a group of readings into packets that fit the smallest uplink (D6). The cut is fixed: once made it is used for every
// later sample of that device and those sensors, so that each part keeps its template. It changes when the size that must be
// kept changes, and only gets finer when a part does not fit any more (a longer status).
//
// What fails: a sensor that does not fit alone is left out and named with its bytes.
import { LruMap } from '../../lib/lru-map'
import type { Fact } from '../../pipeline/fact'

export interface Cut {
  readonly pieces: readonly Fact[]
  /** sensors that fit no packet: where in the fact, and the bytes each would need */
  readonly tooLarge: readonly { readonly index: number; readonly bytes: number }[]
}

/** groups remembered; the oldest is forgotten, and cut anew */
const MAX_GROUPS = 1024

export class Groups {
  readonly #sizeOf: (fact: Fact) => number
  /** how many sensors each part has, by device and sensor ids; only of groups that were cut */
  readonly #cuts = new LruMap<string, readonly number[]>(MAX_GROUPS)
  #limit = 0

  constructor(sizeOf: (fact: Fact) => number) {
    this.#sizeOf = sizeOf
  }

  /** `limit`: bytes of the largest packet; another than before makes every cut anew. */
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

  /** How many sensors from there on fit into one packet. */
  #fitting(fact: Fact, from: number, end: number): number {
    const fits = (count: number): boolean =>
      this.#sizeOf({ ...fact, sensors: fact.sensors.slice(from, from + count) }) <= this.#limit
    if (fits(end - from)) return end - from
    let count = 0
    while (from + count + 1 < end && fits(count + 1)) count++
    return count
  }
}
