// The addresses each AID sends from (decision 0018). If an AID sends from a new address, the device has moved, or two devices have the
// same AID; either is counted and reported. The port is ignored, since each connection has a new one. Bounded: the AIDs
// without packets for longest are evicted.
import { LruMap } from '../../lib/lru-map'
import { senderOf } from '../../protocol/address'

const MAX_AIDS = 32_768
const MAX_ADDRESSES = 4

interface Heard {
  /** as the medium last wrote it, so that nearly every packet needs one comparison only */
  from: string
  readonly addresses: string[]
}

export class Addresses {
  readonly #byAid = new LruMap<number, Heard>(MAX_AIDS, aid => this.#shared.delete(aid))
  /** AIDs with several addresses: some of those in #byAid, so its bound is theirs */
  readonly #shared = new LruMap<number, string[]>(MAX_AIDS)

  /** True if the AID is known, but not from this address. */
  heard(aid: number, from: string): boolean {
    const heard = this.#byAid.get(aid)
    if (heard?.from === from) return false
    const address = senderOf(from)
    if (heard) {
      const { addresses } = heard
      heard.from = from
      if (addresses.includes(address)) return false
      addresses.push(address)
      if (addresses.length > MAX_ADDRESSES) addresses.shift()
      this.#shared.set(aid, addresses)
      return true
    }
    this.#byAid.set(aid, { from, addresses: [address] })
    return false
  }

  /** The AIDs with several addresses, the last moved first, with their last addresses. */
  several(most = 16): { aid: number; addresses: readonly string[] }[] {
    return [...this.#shared]
      .reverse()
      .slice(0, most)
      .map(([aid, addresses]) => ({ aid, addresses: [...addresses] }))
  }
}
