// The timestamp check of the reference: one rising watermark per AID. The receive path does not use it, since backlog and
// reordering are valid (D16, X10); it exists for callers that need strictly rising times. Bounded: the AID not checked for
// longest is evicted, and its next timestamp is accepted.
import { LruMap } from '../../lib/lru-map'

export type TimestampVerdict = 'ACCEPT' | 'REPLAY' | 'OUT_OF_ORDER'

export class TimestampWatermarks {
  readonly #newest: LruMap<number, number>

  constructor(maxSources = 65_536) {
    this.#newest = new LruMap(maxSources)
  }

  /** `aid` as a number or its text, which are equal; a missing timestamp counts as 0. */
  check(aid: number | string, timestamp: number | null): TimestampVerdict {
    const source = Number(aid)
    const ts = timestamp ?? 0
    const newest = this.#newest.get(source)
    if (newest !== undefined && ts <= newest) return ts === newest ? 'REPLAY' : 'OUT_OF_ORDER'
    this.#newest.set(source, ts)
    return 'ACCEPT'
  }
}
