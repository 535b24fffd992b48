// Detects two devices with one AID, for example after an SD card was copied. Each run of a sender has its own epoch (X29) and
// never returns to an older one; if two epochs of one AID alternate, two devices send. Not a conflict: a gateway that
// switches between uplinks to one receiver, which stays at least a minute with each, and two gateways that receive the same
// device, each of which forwards more than one AID. Bounded: the AIDs without packets for longest are evicted.
import { LruMap } from '../../lib/lru-map'

const MAX_AIDS = 32_768
/** a gateway returns to its first uplink after `failover.back_s` (60) */
const QUICK_MS = 60_000
/** or after this few packets, for a device that rarely sends */
const FEW_PACKETS = 2
/** returns in a row that mean two devices: A, B, A, B, A */
const RETURNS = 3

interface Heard {
  epoch: number
  /** the previous epoch */
  other: number
  since: number
  packets: number
  /** how many times in a row the previous epoch returned soon */
  returns: number
}

export class Epochs {
  readonly #byAid = new LruMap<number, Heard>(MAX_AIDS)

  get size(): number {
    return this.#byAid.size
  }

  /** A packet of the exchange. True if two devices alternate with this AID. `now`: monotonic ms. */
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
    // moved to the end: recently used
    this.#byAid.set(aid, heard)
    if (heard.returns < RETURNS) return false
    heard.returns = 0
    return !this.#isForwarded(aid, heard)
  }

  /** One of the two senders forwards other AIDs too. */
  #isForwarded(aid: number, { epoch, other }: Heard): boolean {
    for (const [one, heard] of this.#byAid)
      if (one !== aid && [heard.epoch, heard.other].some(of => of === epoch || of === other)) return true
    return false
  }
}
