// Two devices with one AID, as a copied SD card makes them. Each run of a sender has an epoch of its own (X29), and a device
// goes on to a new one for ever; where two epochs of one AID take turns, two devices send. A gateway that changes between
// uplinks to one receiver stays a minute with each, and one that passes on packets of others carries more than one AID: two
// gateways that hear the same device are no fault. Bounded: the AIDs not heard for longest are forgotten.
import { LruMap } from '../../lib/lru-map'

const MAX_AIDS = 32_768
/** a gateway gives back to its first uplink after `failover.back_s` (60) */
const QUICK_MS = 60_000
/** or after so few packets, where a device sends seldom */
const FEW_PACKETS = 2
/** A, B, A, B, A */
const RETURNS = 3

interface Heard {
  epoch: number
  /** the one before */
  other: number
  since: number
  packets: number
  /** how often in a row the epoch before came back soon */
  returns: number
}

export class Epochs {
  readonly #byAid = new LruMap<number, Heard>(MAX_AIDS)

  get size(): number {
    return this.#byAid.size
  }

  /** A packet of the exchange. True when two devices take turns under this AID. `now`: monotonic ms. */
  alternate(aid: number, epoch: number, now: number): boolean {
    const heard = this.#byAid.get(aid)
    if (heard?.epoch === epoch) {
      heard.packets++
      return false
    }
    if (!heard) {
      this.#byAid.set(aid, { epoch, other: epoch, since: now, packets: 1, returns: 0 })
      return false
    }
    const soon = now - heard.since < QUICK_MS || heard.packets <= FEW_PACKETS
    heard.returns = epoch === heard.other && soon ? heard.returns + 1 : 0
    heard.other = heard.epoch
    heard.epoch = epoch
    heard.since = now
    heard.packets = 1
    // moved to the end: it is in use
    this.#byAid.set(aid, heard)
    if (heard.returns < RETURNS) return false
    heard.returns = 0
    return !this.#passedOn(aid, heard)
  }

  /** One of the two carries other AIDs too. */
  #passedOn(aid: number, { epoch, other }: Heard): boolean {
    for (const [one, heard] of this.#byAid)
      if (one !== aid && [heard.epoch, heard.other].some(of => of === epoch || of === other)) return true
    return false
  }
}
