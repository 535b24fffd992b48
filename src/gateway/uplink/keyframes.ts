// Key frames on a medium whose time on the air is bounded (D6): all of them together may take no more than a part of it, so
// their distance follows from what they cost. The more templates, the longer their FULLs and the smaller the share of time,
// the rarer they come; those that are forced (first use, reconnect, NACK) come all the same. Pure; nothing fails.
import type { Airtime } from '../../links/contracts'

/** part of the allowed time that key frames may take */
const PART = 0.2
/** templates counted; of more the oldest are forgotten */
const MOST = 1024

export class KeyFramePlan {
  /** least ms between two planned key frames of one template */
  gapMs = 0
  readonly #airtime: Airtime
  /** ms on the air of each template's FULL, least recently sent first */
  readonly #costs = new Map<number, number>()
  #sum = 0

  constructor(airtime: Airtime) {
    this.#airtime = airtime
  }

  /** A FULL of that template goes out. */
  note(aid: number, tid: number, bytes: number): void {
    const key = aid * 256 + tid
    const cost = this.#airtime.of(bytes)
    this.#sum += cost - (this.#costs.get(key) ?? 0)
    this.#costs.delete(key)
    this.#costs.set(key, cost)
    if (this.#costs.size > MOST) {
      const [oldest, ms] = this.#costs.entries().next().value!
      this.#costs.delete(oldest)
      this.#sum -= ms
    }
    this.gapMs = this.#sum / (this.#airtime.share * PART)
  }
}
