// Packs facts into frames for one uplink: decides whether a record may be sent now (identity, TID counter, session), builds
// its packet, and builds it again for a retransmit.
//
// Errors: a fact too large for this uplink, but not for another of the list, is `oversized`. One that cannot be packed at all
// (too large for all, no unit fits) is `refused`: counted, logged and passed, since it would block its lane for ever.
import { asOsError, OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import type { RefusedFrame } from '../../protocol/nack'
import { isSecure } from '../../wire/commands'
import type { Identity } from '../identity'
import type { Encoders } from './encoders'
import type { FactRecord, Item } from './lane'
import { MOST_REFUSED, type RecentFrames } from './recent'
import type { UplinkSession } from './session'

interface PackerParts {
  encoders: Encoders
  recent: RecentFrames
  session: UplinkSession
  identity: Identity
  logger: Logger
  /** maximum packet size of the largest uplink */
  largest: () => number
}

/** Why an item has no packet. */
export type Misfit = 'oversized' | 'refused'

/** how often a record is sent again after a refusal: once for an old key, once for plaintext, and once more */
const MOST_TRIES = 3

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
      const packet = encoders.encode(item.fact, !item.local, limit, item.seq)
      encoders.sent(item.fact, packet, item.seq)
      item.packet = packet
      item.plain = !isSecure(packet.cmd)
      if (item.plain) session.sentPlain(item.fact.aid)
      return packet
    } catch (error) {
      return this.#misfit(item, error, limit, 'cannot be sent')
    }
  }

  /** Builds the item's packet again: as FULL with its own time (D6). `recalled`: it was refused, and may be refused again. */
  packAgain(item: Item, limit: number, recalled: boolean): EncodedFrame | Misfit {
    const { encoders } = this.#parts
    if (recalled) item.fact = this.#named(item.local, item.fact)
    try {
      const packet = encoders.encodeAgain(item.fact)
      if (packet.size > limit) throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes, the link carries ${limit}`)
      encoders.sent(item.fact, packet, recalled ? item.seq : 0)
      if (recalled) this.counters.again++
      return packet
    } catch (error) {
      return this.#misfit(item, error, limit, 'cannot be sent again')
    }
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

  /**
   * A frame the upstream could not use, without an exchange that repeats it: its record is sent again when its AID may send.
   */
  refused(refused: RefusedFrame): void {
    const { recent } = this.#parts
    const seq = recent.takeSeq(refused)
    if (seq === 0) return
    const tries = (recent.tries.get(seq) ?? 0) + 1
    if (tries > MOST_TRIES) {
      this.#dropRefused(seq)
      return
    }
    recent.tries.set(seq, tries)
    recent.again.push({ seq, aid: refused.aid })
    if (recent.again.length > MOST_REFUSED) this.#dropRefused(recent.again.shift()!.seq)
  }

  #dropRefused(seq: number): void {
    this.counters.refused++
    this.#parts.logger.error(`record ${seq} is not sent again: the upstream refused it too often`)
  }

  /** The seq of the next refused record to send again; 0: none now. */
  nextRefused(): number {
    const { encoders, recent } = this.#parts
    const at = recent.again.findIndex(({ aid }) => encoders.allowed(aid))
    return at < 0 ? 0 : recent.again.splice(at, 1)[0]!.seq
  }

  #misfit({ seq, fact }: Item, error: unknown, limit: number, what: string): Misfit {
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
    try {
      return this.#parts.encoders.sizeOf(fact)
    } catch {
      return 0
    }
  }

  /** Own facts are sent under the current id, even those logged under an earlier one. */
  #named(own: boolean, fact: Fact): Fact {
    const { assignedId } = this.#parts.identity
    return !own || fact.aid === assignedId ? fact : { ...fact, aid: assignedId }
  }
}
