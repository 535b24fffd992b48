// Limits key frames on a medium with limited airtime (decision 0036): all of them together may take only a share of it, so their
// interval depends on their cost. More templates, longer FULLs or a smaller airtime share mean fewer key frames; forced ones
// (first use, reconnect, NACK) are always sent. Pure; cannot fail.
import { LruMap } from '../../lib/lru-map'
import type { Airtime } from '../../links/contracts'

/** share of the allowed airtime for key frames */
const PART = 0.2
/** counted templates; the oldest are evicted */
const MOST = 1024

export class KeyFramePlan {
  /** minimum ms between two planned key frames of one template */
  gapMs = 0
  readonly #airtime: Airtime
  /** airtime in ms of each template's FULL, least recently sent first */
  readonly #costs = new LruMap<number, number>(MOST, (_, ms) => {
    this.#sum -= ms
  })
  #sum = 0

  constructor(airtime: Airtime) {
    this.#airtime = airtime
  }

  /** A FULL of that template is being sent. */
  note(aid: number, tid: number, bytes: number): void {
    const key = aid * 256 + tid
    const cost = this.#airtime.of(bytes)
    this.#sum += cost - (this.#costs.get(key) ?? 0)
    this.#costs.set(key, cost)
    this.gapMs = this.#sum / (this.#airtime.share * PART)
  }
}
