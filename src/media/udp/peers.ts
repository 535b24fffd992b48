// The sender of a packet, by the raw bytes of the address: the text is made for a new peer, not per packet. A table of
// fixed size without chains: a peer with the same index replaces the previous one, which counts as new when it sends
// again.
import type { Native } from '../../native'
import { PEER_BYTES } from '../../native'
import type { UdpPeer } from './port'

const WORDS = PEER_BYTES / 4
const PLACES = 4096

export class PeerTable {
  readonly #addon: Native
  readonly #keys = new Uint32Array(PLACES * WORDS)
  readonly #peers: (UdpPeer | undefined)[] = new Array(PLACES)

  constructor(addon: Native) {
    this.#addon = addon
  }

  /** The peer at `slot` of receive()'s addresses; `words` is a view of the same memory. */
  at(bytes: Uint8Array, words: Uint32Array, slot: number): UdpPeer {
    const from = slot * WORDS
    let hash = 0
    for (let k = 0; k < WORDS; k++) hash = Math.imul(hash ^ words[from + k]!, 0x9e3779b1)
    const place = (hash ^ (hash >>> 15)) & (PLACES - 1)
    const key = place * WORDS
    const known = this.#peers[place]
    let same = known !== undefined
    for (let k = 0; same && k < WORDS; k++) same = this.#keys[key + k] === words[from + k]
    if (same) return known!
    for (let k = 0; k < WORDS; k++) this.#keys[key + k] = words[from + k]!
    const raw = bytes.slice(slot * PEER_BYTES, (slot + 1) * PEER_BYTES)
    // in both address families the port follows the family, most significant byte first
    const peer = { address: this.#addon.addressText(raw, 0), port: (raw[2]! << 8) | raw[3]!, raw }
    this.#peers[place] = peer
    return peer
  }
}
