// From where each AID is heard (D16). An AID that turns up at an address it was not heard from lately has moved, or two
// devices were given the same one; either is counted and shown. The port does not count, it is a new one with every
// connection. Bounded: the AIDs not heard for longest are forgotten.
import { isIP } from 'node:net'

const MAX_AIDS = 4096
const MAX_ADDRESSES = 4

/** `192.0.2.1:8080`, `[fd00::1]:8080` or a bare address → the IP in it, '' when there is none. IPv4 in IPv6 counts as IPv4. */
export function ipOf(address: string): string {
  const host = /^\[([^\]]+)\](?::\d+)?$/.exec(address)?.[1] ?? (isIP(address) ? address : address.replace(/:\d+$/, ''))
  const ip = host.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')
  return isIP(ip) ? ip : ''
}

export class Addresses {
  readonly #byAid = new Map<number, string[]>()
  readonly #shared = new Map<number, string[]>()

  /** True when the AID was heard before, but not from there. */
  heard(aid: number, from: string): boolean {
    const address = ipOf(from) || from
    const known = this.#byAid.get(aid)
    if (known?.includes(address)) return false
    if (known) {
      known.push(address)
      if (known.length > MAX_ADDRESSES) known.shift()
      this.#shared.delete(aid)
      this.#shared.set(aid, known)
      return true
    }
    if (this.#byAid.size >= MAX_AIDS) {
      const oldest = this.#byAid.keys().next().value!
      this.#byAid.delete(oldest)
      this.#shared.delete(oldest)
    }
    this.#byAid.set(aid, [address])
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
