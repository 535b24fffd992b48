// Templates after a crash, for packets of media that acknowledge by themselves (MQTT). What such a medium acknowledged does
// not come again, so a DIFF that waits in the broker must decode although this process was killed (D4 would drop the slot
// values, and the DIFF would be lost). Therefore the packet itself is kept with its fact, and after an unclean stop the
// packets of the log go through the receiver once more: it then knows exactly what it knew, since nothing is acknowledged
// before its record is on flash and what was not comes again in order.
//
// What would make that wrong: a template that moved without a record, by a packet that is a duplicate of one which came
// another way, or too large for the log. That writes a mark, and only what follows the mark is believed. A record of the
// same AID without its packet came over another medium, and its templates are forgotten. Forgotten means NEED_FULL.
import type { FlashLog, LogRecord } from '../../log'
import type { LinkMetadata } from '../../pipeline/fact'
import type { PacketMeta } from '../../pipeline/receive'
import type { Receiver } from '../../pipeline/receiver'
import type { DuplicateFilter } from '../../protocol/duplicates'

const MARK = 'receive:templates'
const NOTHING = new Uint8Array(0)

/** The link metadata with the packet beside it; one that came late changed no template. */
export const framed = (link: LinkMetadata, packet: Uint8Array, { late }: PacketMeta): LinkMetadata => ({
  ...link,
  frame: late ? NOTHING : packet,
})

/** A template moved and no record tells of it. The mark is on flash before anything after it is acknowledged. */
export function templatesMoved(log: FlashLog): void {
  log.appendCounter(MARK, log.lastSeq)
}

/**
 * Whether a packet that cannot be decoded any more is in the log already: sent again after a crash, and older than the
 * states kept. A device counts its times up, so one AID and millisecond is one packet; whole seconds prove nothing.
 */
export const isRepeat = ({ source_aid: aid, timestamp_raw: ts }: PacketMeta, known: DuplicateFilter): boolean =>
  aid != null && ts != null && ts % 1000 !== 0 && known.hasTime(aid, ts)

/** Takes the records of a log in order, after an unclean stop. */
export class Replay {
  readonly #receiver: Receiver
  readonly #from: number

  constructor(log: FlashLog, receiver: Receiver) {
    this.#receiver = receiver
    this.#from = log.counter(MARK) ?? 0
  }

  take({ seq, fact, link }: LogRecord): void {
    if (!fact || seq <= this.#from) return
    const frame = link?.frame
    if (!frame) this.#receiver.forget(fact.aid)
    else if (frame.length > 0) this.#receiver.replay(frame, fact.aid)
  }
}
