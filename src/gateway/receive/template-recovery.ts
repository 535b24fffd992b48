// Restores templates after a crash, for packets of media that acknowledge automatically (MQTT). Such a medium does not repeat
// acknowledged packets, so a DIFF that waits in the broker must decode even if this process was killed (decision 0017 would drop the
// slot values, and the DIFF would be lost). Therefore the packet is logged with its fact, and after an unclean stop the
// packets of the log are passed through the receiver again. It then has exactly its earlier state, since nothing is
// acknowledged before its record is on flash, and unacknowledged packets are repeated in order. After a torn range the log may
// have more records of that run: they are unacknowledged too, and change no template here.
//
// A duplicate fact in another frame (a FULL after the same fact as a DIFF) changes its template and gives no fact: the packet
// is logged as a record of kind `packet`. If it is too large for the log, a mark is logged instead; templates from before the
// mark are discarded, and a DIFF gives only the values it carries until the next FULL. A record of the same AID without a
// packet was received bare over another medium: only shape, states and units of its templates are restored, and a DIFF gives
// only the values it carries (X33, rebuilt). Bare packets of such media are kept if they changed a shape, a state or a unit.
import { asOsError } from '../../lib/errors'
import { type FlashLog, type LogRecord, type LossRange, RESERVE } from '../../log'
import type { Fact, LinkMetadata } from '../../pipeline/fact'
import type { PacketMeta } from '../../pipeline/receive'
import type { Received } from '../../pipeline/received'
import type { Receiver } from '../../pipeline/receiver'
import { DuplicateFilter } from '../../protocol/duplicates'
import { crc32c } from '../../wire/crc'
import { sourceAid } from './receiver-session'

const MARK = 'receive:templates'
const NOTHING = new Uint8Array(0)

/** precedes a kept packet that only gives the shape, states and units of its template; no command byte is 0 */
const SHAPE_ONLY = 0

/**
 * The link metadata of a fact, with what a restart needs of its packet. `acknowledges`: the medium does, so the packet itself;
 * nothing of a late one or of one in the exchange (`peer`), which changed no bare template. Of other bare packets, those that
 * changed the shape of a template: later ones may be lost in a crash, so its values are never a base, but its units allow a
 * DIFF to be decoded (X33).
 */
export function keeping(
  link: LinkMetadata,
  packet: Uint8Array,
  { meta, fact, reshaped }: Extract<Received, { kind: 'fact' }>,
  { acknowledges, peer, receiver }: { acknowledges: unknown; peer: unknown; receiver: Receiver },
): LinkMetadata {
  if (acknowledges) return { ...link, frame: meta.late ? NOTHING : packet }
  if (peer) return receiver.hasBare(fact.aid) ? { ...link, frame: NOTHING } : link
  if (!reshaped || meta.late || meta.future) return link
  return { ...link, frame: Buffer.concat([Buffer.of(SHAPE_ONLY), packet]) }
}

/** Logs a packet that changed a template and gave no fact, so that it is on flash before any later packet is acknowledged. */
export function templatesMoved(log: FlashLog, packet: Uint8Array, { future }: PacketMeta): void {
  try {
    log.appendPacket(packet, future === true)
  } catch (error) {
    if (asOsError(error).code !== 'PACKET_TOO_LARGE') throw error
    log.appendCounter(MARK, log.lastSeq)
  }
}

/**
 * Packets in the log, compared byte for byte: after a crash the broker repeats unacknowledged packets, and some are older
 * than the stored states, so that their content is unknown.
 */
export class KnownFrames {
  readonly #filter = new DuplicateFilter()

  note(packet: Uint8Array, { aid, tRaw }: Fact): void {
    this.#filter.restore(aid, tRaw, crc32c(packet))
  }

  forget(packet: Uint8Array, { aid, tRaw }: Fact): void {
    this.#filter.forget(aid, tRaw, crc32c(packet))
  }

  has(packet: Uint8Array, { source_aid: aid, timestamp_raw: tRaw }: PacketMeta): boolean {
    return this.#filter.has(aid!, tRaw!, crc32c(packet))
  }
}

/** Replays the records of a log in order, after an unclean stop. */
export class Replay {
  readonly #receiver: Receiver
  readonly #frames: KnownFrames
  readonly #from: number
  readonly #torn: readonly LossRange[]

  constructor(log: FlashLog, receiver: Receiver, frames: KnownFrames) {
    this.#receiver = receiver
    this.#frames = frames
    this.#from = log.counter(MARK) ?? 0
    this.#torn = log.losses.filter(({ reason }) => reason === 'torn')
  }

  /** Whether the medium repeats the record's packet: it is from the run of a torn range, after that range. */
  repeats({ seq, link, packet }: LogRecord): boolean {
    const kept = packet || (link?.frame && link.frame[0] !== SHAPE_ONLY)
    // the next run begins a reservation later
    return !!kept && this.#torn.some(({ from, to }) => seq > to && seq < from + RESERVE / 2)
  }

  take(record: LogRecord): void {
    const { seq, fact, link, packet } = record
    const frame = link?.frame
    const repeated = this.repeats(record)
    if (packet && seq > this.#from && !repeated)
      this.#receiver.replay(packet.bytes, sourceAid(packet.bytes), packet.future)
    if (!fact) return
    const isShape = frame !== undefined && frame[0] === SHAPE_ONLY
    if (frame && !isShape) this.#frames.note(frame, fact)
    if (seq <= this.#from || repeated) return
    if (isShape) this.#receiver.replay(frame.subarray(1), fact.aid)
    if (isShape || !frame) this.#receiver.rebuild(fact.aid)
    else if (frame.length > 0) this.#receiver.replay(frame, fact.aid, link?.future === true)
  }
}
