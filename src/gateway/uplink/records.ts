// From records to packets: takes what goes next from the feed, asks identity, TID counter and session whether it may go,
// packs it, and packs it again when it must go again. What fails: a fact too large for this uplink, but not for another of the
// list, is set aside for that one; one that cannot be packed at all (too large for all, no unit fits) is counted in `refused`,
// told in the log, and passed, since it would block the road for ever.
import { asOsError, OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { FlashLog } from '../../log'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import type { RefusedFrame } from '../../protocol/nack'
import { isSecure } from '../../wire/commands'
import type { Identity } from '../identity'
import type { FactRecord, Feed } from './feed'
import type { Shipment } from './ledger'
import type { Packer } from './packer'
import type { UplinkSession } from './session'

/** What an uplink keeps with a record on its way. */
export interface Payload {
  fact: Fact
  /** went out in plaintext */
  plain: boolean
  /** null once it was sent again: which of the two is answered cannot be told */
  packet: EncodedFrame | null
}
export type Sent = Shipment<Payload>

export interface RecordsParts {
  log: FlashLog
  feed: Feed<Payload>
  packer: Packer
  session: UplinkSession
  identity: Identity
  logger: Logger
  /** bytes the largest of all uplinks carries */
  largest: () => number
  /** what was encrypted must go again, and its key is gone */
  keyGone: () => void
}

/** times a record goes again after a refusal: of an old key, of plaintext, and one more */
const MOST_TRIES = 3
const MOST_REFUSED = 1024

export class Records {
  readonly counters = {
    /** facts that cannot be packed */
    refused: 0,
    /** sent again since the upstream said that it could not use them */
    again: 0,
  }
  readonly #parts: RecordsParts
  #toldAside = false
  /** records that go again, oldest first, and how often each was refused */
  readonly #again: { readonly seq: number; readonly aid: number }[] = []
  readonly #tries = new Map<number, number>()
  readonly #taker = {
    limit: 0,
    beside: false,
    mayGo: (record: FactRecord) => this.#mayGo(record),
    sizeOf: (record: FactRecord) => this.#sizeOf(this.#named(record)),
  }

  constructor(parts: RecordsParts) {
    this.#parts = parts
  }

  /**
   * The next record that goes out, packed into at most `limit` bytes; null when there is none now. `beside`: another one carries,
   * and only what was too large for it is taken.
   */
  take(alarmsOnly: boolean, limit: number, beside = false): { shipment: Sent; packet: EncodedFrame } | null {
    const { feed, packer, session } = this.#parts
    this.#taker.limit = limit
    this.#taker.beside = beside
    for (;;) {
      const record = feed.peek(alarmsOnly, this.#taker)
      if (!record) return null
      const fact = this.#named(record)
      try {
        const packet = packer.pack(fact, record.medium !== 'local', limit)
        packer.sent(fact, packet, record.seq)
        const plain = !isSecure(packet.cmd)
        if (plain) session.sentPlain(fact.aid)
        return { shipment: feed.ship(record, { fact, plain, packet }), packet }
      } catch (error) {
        if (this.#fitsElsewhere(fact, error, limit)) feed.setAside(record, limit)
        else {
          feed.pass(record)
          this.#cannot(`record ${record.seq} of ${fact.id} cannot be sent`, error)
        }
      }
    }
  }

  /** The upstream has it: what is sent from now on may build on it. */
  acked({ payload: { fact, plain, packet } }: Sent): void {
    const { packer, session } = this.#parts
    if (plain) session.ackedPlain(fact.aid)
    if (packet) packer.acknowledged(fact.aid, packet)
  }

  /**
   * A packet goes again: as FULL with its own time; whether the first or this one is answered cannot be told (D6). Null: it need
   * not, or cannot.
   */
  again(shipment: Sent, limit: number): Uint8Array | null {
    const { feed, packer, keyGone } = this.#parts
    // another uplink has it now
    if (!feed.wants(shipment)) return null
    const { fact, packet: first } = shipment.payload
    shipment.payload.packet = null
    if (first) packer.unanswered(fact.aid, first)
    if (!packer.allowed(fact.aid)) {
      // not as it was sent and not in plaintext: the link starts anew, from the cursor, when the exchange is done with this
      keyGone()
      return null
    }
    try {
      return this.#packAgain(fact, limit).bytes
    } catch (error) {
      const elsewhere = this.#fitsElsewhere(fact, error, limit)
      if (elsewhere) feed.noteAside(shipment.seq, limit)
      feed.done(shipment)
      if (!elsewhere) this.#cannot(`record ${shipment.seq} of ${fact.id} cannot be sent again`, error)
      return null
    }
  }

  /** A frame the upstream could not use, where nothing repeats it: its record goes again, when its AID may send. */
  refused(refused: RefusedFrame): void {
    const seq = this.#parts.packer.refusedSeq(refused)
    if (seq === 0) return
    const tries = (this.#tries.get(seq) ?? 0) + 1
    if (tries > MOST_TRIES) return
    this.#tries.delete(seq)
    this.#tries.set(seq, tries)
    if (this.#tries.size > MOST_REFUSED) this.#tries.delete(this.#tries.keys().next().value!)
    this.#again.push({ seq, aid: refused.aid })
    if (this.#again.length <= MOST_REFUSED) return
    this.#again.shift()
    this.counters.refused++
  }

  /** The next of those, packed anew from the log; null: there is none now. */
  takeRefused(limit: number): { shipment: null; packet: EncodedFrame } | null {
    const { feed, log, packer } = this.#parts
    for (;;) {
      const at = this.#again.findIndex(({ aid }) => packer.allowed(aid))
      if (at < 0) return null
      const { seq } = this.#again.splice(at, 1)[0]!
      const record = log.reader(seq, { kinds: ['fact'], committedOnly: false }).next()
      if (!record?.fact || record.seq !== seq) continue
      const fact = this.#named(feed.right(record))
      try {
        const packet = this.#packAgain(fact, limit, seq)
        this.counters.again++
        return { shipment: null, packet }
      } catch (error) {
        if (this.#fitsElsewhere(fact, error, limit)) feed.noteAside(seq, limit)
        else this.#cannot(`record ${seq} of ${fact.id} cannot be sent again`, error)
      }
    }
  }

  #packAgain(fact: Fact, limit: number, seq = 0): EncodedFrame {
    const { packer } = this.#parts
    const packet = packer.packAgain(fact)
    if (packet.size > limit) throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes, the link carries ${limit}`)
    packer.sent(fact, packet, seq)
    return packet
  }

  /** Whether another uplink of the list could carry what is too large here; told once. */
  #fitsElsewhere(fact: Fact, error: unknown, limit: number): boolean {
    const { largest, logger } = this.#parts
    if (asOsError(error).code !== 'PACKET_TOO_LARGE') return false
    const bytes = this.#sizeOf(fact)
    if (bytes <= limit || bytes > largest()) return false
    if (!this.#toldAside)
      logger.warn(`facts too large for this uplink wait for another: ${fact.id} has ${bytes} bytes, ${limit} fit`)
    this.#toldAside = true
    return true
  }

  /** 0: no packet can hold it, which was told when its turn came. */
  #sizeOf(fact: Fact): number {
    try {
      return this.#parts.packer.sizeOf(fact)
    } catch {
      return 0
    }
  }

  #cannot(what: string, error: unknown): void {
    this.counters.refused++
    this.#parts.logger.error(`${what}: ${asOsError(error).message}`)
  }

  /** Whether a record may go now: its AID is known, its TIDs are safe, and it has its key. */
  #mayGo(record: FactRecord): boolean {
    const { identity, packer, session } = this.#parts
    const own = record.medium === 'local'
    if (own && !identity.assigned) return false
    const fact = this.#named(record)
    // relayed facts go as FULL only, so an old meaning of their TID does no harm, unless their AID is ours too
    if ((own || fact.aid === identity.assignedId) && !packer.ready(fact.aid)) return false
    return session.mayGo(fact)
  }

  /** Own facts go under the id of now, whatever it was when they were logged. */
  #named({ medium, fact }: FactRecord): Fact {
    const { assignedId } = this.#parts.identity
    return medium !== 'local' || fact.aid === assignedId ? fact : { ...fact, aid: assignedId }
  }
}
