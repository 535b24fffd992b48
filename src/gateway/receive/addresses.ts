// From where each AID is heard (D16). An AID that turns up at an address it was not heard from lately has moved, or two
// devices have the same one; either is counted and shown. The port does not count, it is a new one with every
// connection. Bounded: the AIDs not heard for longest are forgotten.
import { senderOf } from '../../protocol/address'

const MAX_AIDS = 32_768
const MAX_ADDRESSES = 4

interface Heard {
  /** as the medium wrote it last, so that nearly every packet is one comparison */
  from: string
  readonly addresses: string[]
}

export class Addresses {
  readonly #byAid = new Map<number, Heard>()
  readonly #shared = new Map<number, string[]>()

  /** True when the AID was heard before, but not from there. */
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
      this.#shared.delete(aid)
      this.#shared.set(aid, addresses)
      return true
    }
    if (this.#byAid.size >= MAX_AIDS) {
      const oldest = this.#byAid.keys().next().value!
      this.#byAid.delete(oldest)
      this.#shared.delete(oldest)
    }
    this.#byAid.set(aid, { from, addresses: [address] })
    return false
  }

  /** The AIDs heard from several addresses, those that moved last first, with their last addresses. */
  several(most = 16): { aid: number; addresses: readonly string[] }[] {
    return [...this.#shared]
      .reverse()
      .slice(0, most)
      .map(([aid, addresses]) => ({ aid, addresses: [...addresses] }))
  }
}
