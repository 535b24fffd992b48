// Decodes a peer's packets: any frame, in order or late (decision 0016), from any implementation, to the fact dict of the
// specification. Templates are only in memory. Nothing here throws for any bytes: a packet that cannot be decoded is
// `{error, __packet_meta__}`; only relay throws RELAY_UNDECODABLE.
import type { Fusion } from '../pipeline/fuse'
import { type DecodedPacket, decodedPacket, type Received } from '../pipeline/received'
import { Receiver } from '../pipeline/receiver'
import { hashText } from '../pipeline/slot-meta-cache'
import { DuplicateFilter } from '../protocol/duplicates'
import type { DeviceRole } from '../protocol/handshake/roles'
import type { NodeSecurity } from './secure'

export class NodeReceiver {
  readonly #fusion: Fusion
  readonly #role: DeviceRole
  readonly #receiver: Receiver
  readonly #duplicates = new DuplicateFilter()
  /** the key that the protocol selected for the current frame */
  #key: Uint8Array | null = null

  constructor(fusion: Fusion, security: NodeSecurity, role: DeviceRole) {
    this.#fusion = fusion
    this.#role = role
    this.#receiver = new Receiver({
      engine: fusion.engine,
      clock: fusion.clock,
      inboundKey: aid => this.#key ?? security.inboundKeys(aid),
    })
  }

  /** Decodes with every possible key: several are in use while a session begins. */
  decode(raw: Uint8Array): DecodedPacket {
    return this.#reported(this.#receive(raw))
  }

  /** For the protocol, which knows the key: a packet received before is `duplicate` in its metadata (decision 0018). */
  decodeOnce(raw: Uint8Array, key?: Uint8Array): DecodedPacket {
    const received = this.#receive(raw, key)
    if (received.kind === 'fact') {
      const { aid, tRaw, id, state, sensors } = received.fact
      const hash = hashText(JSON.stringify([id, state, sensors]))
      if (this.#duplicates.seen(aid, tRaw, hash)) received.meta.duplicate = true
    }
    return this.#reported(received)
  }

  /** The packet as a FULL frame with its source's AID, TID and TS (X15). */
  relay(packet: Uint8Array): Buffer {
    return this.#fusion.relayed(packet, this.#receive(packet), this.#receiver)
  }

  #receive(raw: Uint8Array, key: Uint8Array | null = null): Received {
    this.#key = key
    return this.#receiver.receive(raw)
  }

  #reported(received: Received): DecodedPacket {
    // this role ignores the time of a packet
    if (this.#role === 'rx_only') received.meta.timestamp_raw = 0
    return decodedPacket(received)
  }
}
