// Packs facts into frames for one uplink: decides whether a record may be sent now (identity, TID counter, session), builds
// its packet, and builds it again for a retransmit.
//
// Errors: a fact too large for this uplink, but not for another of the list, is `oversized`. One that cannot be packed at all
// (too large for all, no unit fits) is `refused`: counted, logged and passed, since it would block its lane for ever.
import { asOsError, OsError, orElse } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import { isSecure } from '../../wire/commands'
import type { Identity } from '../identity'
import type { Encoders } from './encoders'
import type { FactRecord, Item } from './lane'
import type { UplinkSession } from './session'

interface PackerParts {
  encoders: Encoders
  session: UplinkSession
  identity: Identity
  logger: Logger
  /** maximum packet size of the largest uplink */
  largest: () => number
}

/** Why an item has no packet. */
export type Misfit = 'oversized' | 'refused'

export class Packer {
  readonly counters = {
    /** facts that cannot be packed */
    refused: 0,
    /** sent again since the upstream refused their frame */
    again: 0,
  }
  readonly #parts: PackerParts
  #warned = false

  constructor(parts: PackerParts) {
    this.#parts = parts
  }

  /** Whether a record may be sent now: its AID is known, its TIDs are safe, and it has its key. */
  readonly mayGo = ({ medium, fact }: FactRecord): boolean => {
    const { identity, encoders, session } = this.#parts
    const own = medium === 'local'
    if (own && !identity.assigned) return false
    const named = this.#named(own, fact)
    // relayed facts are sent as FULL only, so an old meaning of their TID is harmless, unless their AID is also ours
    if ((own || named.aid === identity.assignedId) && !encoders.ready(named.aid)) return false
    return session.mayGo(named)
  }

  /** Size of the record as FULL; 0: no packet can carry it, which is logged when it is packed. */
  readonly sizeOf = ({ medium, fact }: FactRecord): number => this.#sizeOf(this.#named(medium === 'local', fact))

  /** Builds the item's packet, of at most `limit` bytes, to be sent now. */
  pack(item: Item, limit: number): EncodedFrame | Misfit {
    const { encoders, session } = this.#parts
    item.fact = this.#named(item.local, item.fact)
    try {
      const packet = item.again
        ? this.#late(item.fact, limit)
        : encoders.encode(item.fact, !item.local, limit, item.seq)
      encoders.sent(item.fact, packet, item.seq)
      if (item.again) this.counters.again++
      item.packet = packet
      item.plain = !isSecure(packet.cmd)
      if (item.plain) session.sentPlain(item.fact.aid)
      return packet
    } catch (error) {
      return this.#misfit(item, error, limit, 'cannot be sent')
    }
  }

  /** Builds the item's packet again, for a retransmit. */
  packAgain({ seq, fact }: Item, limit: number): EncodedFrame | Misfit {
    try {
      const packet = this.#late(fact, limit)
      this.#parts.encoders.sent(fact, packet, 0)
      return packet
    } catch (error) {
      return this.#misfit({ seq, fact }, error, limit, 'cannot be sent again')
    }
  }

  /** A FULL with its own time (decision 0016). */
  #late(fact: Fact, limit: number): EncodedFrame {
    const packet = this.#parts.encoders.encodeAgain(fact)
    if (packet.size > limit) throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes, the link carries ${limit}`)
    return packet
  }

  /** The upstream has it: later frames may build on it. */
  acked({ fact, plain, packet }: Item): void {
    const { encoders, session } = this.#parts
    if (plain) session.ackedPlain(fact.aid)
    if (packet) encoders.acknowledged(fact.aid, packet)
  }

  /** An item timed out: nothing may build on its packet. False: its AID must wait for a key. */
  unanswered(item: Item): boolean {
    const { encoders } = this.#parts
    if (item.packet) encoders.unanswered(item.fact.aid, item.packet)
    item.packet = null
    return encoders.allowed(item.fact.aid)
  }

  #misfit({ seq, fact }: Pick<Item, 'seq' | 'fact'>, error: unknown, limit: number, what: string): Misfit {
    const { largest, logger } = this.#parts
    const { code, message } = asOsError(error)
    const bytes = code === 'PACKET_TOO_LARGE' ? this.#sizeOf(fact) : 0
    if (bytes > limit && bytes <= largest()) {
      if (!this.#warned)
        logger.warn(`facts too large for this uplink wait for another: ${fact.id} has ${bytes} bytes, ${limit} fit`)
      this.#warned = true
      return 'oversized'
    }
    this.counters.refused++
    logger.error(`record ${seq} of ${fact.id} ${what}: ${message}`)
    return 'refused'
  }

  #sizeOf(fact: Fact): number {
    return orElse(0, () => this.#parts.encoders.sizeOf(fact))
  }

  /** Own facts are sent under the current id, even those logged under an earlier one. */
  #named(own: boolean, fact: Fact): Fact {
    const { assignedId } = this.#parts.identity
    return !own || fact.aid === assignedId ? fact : { ...fact, aid: assignedId }
  }
}
