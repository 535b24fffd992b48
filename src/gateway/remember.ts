// What a restart must not forget: the last time each device was stamped with, and what came lately and was acknowledged. It
// is read back from the log, counted in facts: after a crash the numbers go on in the next range, far behind the last record.
import type { FlashLog } from '../log'
import type { Fact } from '../pipeline/fact'
import type { Receiver } from '../pipeline/receiver'
import type { NodeClock } from '../protocol/time'
import { Replay } from './receive/templates'

/** facts read back, at least */
const REMEMBERED_FACTS = 65_536

export interface Memories {
  readonly time: NodeClock
  readonly receiver: Receiver
  /** a packet of another node that was acknowledged */
  packet(fact: Fact): void
}

export function remember(log: FlashLog, { time, receiver, packet }: Memories): void {
  const reader = log.reader(log.startOfLast(REMEMBERED_FACTS), { kinds: ['fact'], committedOnly: false })
  const replay = log.cleanStop ? null : new Replay(log, receiver)
  for (let record = reader.next(); record; record = reader.next()) {
    const fact = record.fact!
    if (record.medium === 'local') time.noteStamp(fact.id, fact.tRaw)
    else {
      packet(fact)
      receiver.remember(fact)
      replay?.take(record)
      time.noteStamp(fact.aid, fact.tRaw)
    }
  }
}
