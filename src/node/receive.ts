// What a node understands of its peers: any frame, in order or late (D6), from any peer of the ecosystem, to the fact dict
// of the specification. It keeps templates in memory only. Nothing here throws for any bytes: what cannot be decoded is
// `{error, __packet_meta__}`; relay alone throws RELAY_UNDECODABLE.
import { OsError } from '../lib/errors'
import { factToDict } from '../pipeline/fact'
import type { DecodedPacket, Fusion } from '../pipeline/fuse'
import { isFull, TextTemplate } from '../pipeline/receive'
import { type Received, Receiver } from '../pipeline/receiver'
import { hashText } from '../pipeline/slot-meta-cache'
import { isPlainSignature, msToken } from '../pipeline/text'
import { DuplicateFilter } from '../protocol/duplicates'
import type { DeviceRole } from '../protocol/handshake/roles'
import { readHeader } from '../wire/frame'
import type { NodeSecurity } from './secure'

export class NodeReceiver {
  readonly #fusion: Fusion
  readonly #security: NodeSecurity
  readonly #role: DeviceRole
  readonly #receiver: Receiver
  readonly #duplicates = new DuplicateFilter()
  /** what the protocol wants the frame at hand deciphered with */
  #key: Uint8Array | null = null

  constructor(fusion: Fusion, security: NodeSecurity, role: DeviceRole) {
    this.#fusion = fusion
    this.#security = security
    this.#role = role
    this.#receiver = new Receiver({
      engine: fusion.engine,
      clock: fusion.clock,
      inboundKey: aid => this.#key ?? security.inboundKeys(aid),
    })
  }

  /** Decodes with every key that may fit: several are in use while a session begins. */
  decode(raw: Uint8Array): DecodedPacket {
    return this.#reported(this.#receive(raw))
  }

  /** For the protocol, which knows the key: a packet that came before is `duplicate` in its metadata (D16). */
  decodeOnce(raw: Uint8Array, key?: Uint8Array): DecodedPacket {
    const received = this.#receive(raw, key)
    if (received.kind === 'fact') {
      const { aid, tRaw, id, state, sensors } = received.fact
      const hash = hashText(JSON.stringify([id, state, sensors]))
      if (this.#duplicates.seen(aid, tRaw, hash)) received.meta.duplicate = true
    }
    return this.#reported(received)
  }

  /** The packet as a FULL frame under its source's AID, TID and TS (X15). */
  relay(packet: Uint8Array): Buffer {
    const received = this.#receive(packet)
    const header = readHeader(packet)
    if (received.kind === 'error' || typeof header === 'string')
      throw new OsError('RELAY_UNDECODABLE', received.kind === 'error' ? received.message : 'no header')
    const { meta } = received
    const { sourceAid: aid, tid, ts } = header
    const key = meta.secure ? (received.key ?? this.#security.inbound(aid)) : null
    if (isFull(meta.base_cmd!)) return this.#fusion.relay(packet, key ?? undefined)
    const kept = meta.late ? null : this.#receiver.template(aid, tid)
    if (!kept?.slots) throw new OsError('RELAY_UNDECODABLE', `what TID=${meta.tid} held at that time is not kept`)
    const text = new TextTemplate(kept.signature, kept.slots).text(msToken(ts))
    // what C firmware sent stays recognizable as such: its units are read in another way
    const body = isPlainSignature(kept.signature) ? text : `${aid};${text}`
    return this.#fusion.fullFrame(aid, tid, ts, body, key)
  }

  #receive(raw: Uint8Array, key: Uint8Array | null = null): Received {
    this.#key = key
    return this.#receiver.receive(raw)
  }

  #reported(received: Received): DecodedPacket {
    const { meta } = received
    // this role does not look at the time of a packet
    if (this.#role === 'rx_only') meta.timestamp_raw = 0
    const reported = received.kind === 'fact' ? factToDict(received.fact) : { error: received.message }
    return { ...reported, __packet_meta__: meta } as DecodedPacket
  }
}
