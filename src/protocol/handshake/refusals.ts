// Decides which NACKs about our frames are accepted (X7, X9): only those that name a frame sent in the last 60 s, and at most
// one per 10 s for each reason and AID. The caller checks that they come from the uplink's own address. Bounded: if more
// frames are sent in a minute than are remembered, a refusal of an older one is ignored and the next one counts.

import type { Clock } from '../../lib/clock'
import { LruMap } from '../../lib/lru-map'
import type { RefusedFrame } from '../nack'

const LIFETIME_MS = 60_000
const MIN_INTERVAL_MS = 10_000
const REMEMBERED = 4096
const MAX_SOURCES = 4096

export class SentFrames {
  readonly #clock: Clock
  readonly #aids: Uint32Array
  readonly #times: Float64Array
  /** TID and CRC-16 of the frame in one word */
  readonly #marks: Uint32Array
  readonly #sentAt: Float64Array
  /** when a refusal was last accepted, by reason and AID */
  readonly #obeyedAt = new LruMap<string, number>(MAX_SOURCES)
  #next = 0

  constructor(clock: Clock, remembered = REMEMBERED) {
    this.#clock = clock
    this.#aids = new Uint32Array(remembered)
    this.#times = new Float64Array(remembered)
    this.#marks = new Uint32Array(remembered)
    this.#sentAt = new Float64Array(remembered).fill(Number.NEGATIVE_INFINITY)
  }

  /** A frame is being sent; `ts` is its TS field, `crc16` its last two bytes. Per packet: no allocation. */
  sent(aid: number, tid: number, ts: number, crc16: number): void {
    const at = this.#next
    this.#aids[at] = aid
    this.#times[at] = ts
    this.#marks[at] = (tid << 16) | crc16
    this.#sentAt[at] = this.#clock.mono()
    this.#next = (at + 1) % this.#aids.length
  }

  /** Whether to accept the refusal; notes the time if so. */
  obeys({ reason, aid, tid, ts, crc16 }: RefusedFrame): boolean {
    const now = this.#clock.mono()
    const key = `${reason} ${aid}`
    if (now - (this.#obeyedAt.get(key) ?? Number.NEGATIVE_INFINITY) < MIN_INTERVAL_MS) return false
    if (!this.#wasSent(aid, ts, (tid << 16) | crc16, now - LIFETIME_MS)) return false
    this.#obeyedAt.set(key, now)
    return true
  }

  #wasSent(aid: number, ts: number, mark: number, since: number): boolean {
    for (let k = 0; k < this.#aids.length; k++) {
      if (this.#aids[k] === aid && this.#times[k] === ts && this.#marks[k] === mark && this.#sentAt[k]! >= since)
        return true
    }
    return false
  }
}
