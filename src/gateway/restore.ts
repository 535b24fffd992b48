// Restores after a restart: the last time stamp of each device, the recently acknowledged packets, and the clock records that
// correct older times. Read back from the log and counted in facts: after a crash, sequence numbers continue in the next
// range, far after the last record.
import type { FlashLog, LogRecord } from '../log'
import type { Fact, LinkMetadata } from '../pipeline/fact'
import type { Receiver } from '../pipeline/receiver'
import type { NodeClock } from '../protocol/time'
import { type KnownFrames, Replay } from './receive/template-recovery'
import type { ClockStep, TimeCorrections } from './time/corrections'

/** minimum number of facts to read back */
const REMEMBERED_FACTS = 65_536

interface Memories {
  readonly time: NodeClock
  readonly corrections: TimeCorrections
  readonly receiver: Receiver
  /** packets of media that acknowledge automatically, as received */
  readonly frames: KnownFrames
  /** gets own facts, oldest first */
  local(fact: Fact): void
  /** false: do not restore templates of senders from the log, which is older than they are */
  readonly templates: boolean
  /** gets acknowledged packets of other nodes */
  packet(fact: Fact, link: LinkMetadata | undefined): void
}

interface Stamped extends Pick<LogRecord, 'seq' | 'boot' | 'quality'> {
  readonly device: string | number
  readonly tRaw: number
}

/** Clock records of a part of the log, from <= seq < to; other records are not decoded. */
function clockSteps(log: FlashLog, from: number, to: number): ClockStep[] {
  const steps: ClockStep[] = []
  const reader = log.reader(from, { kinds: ['clock'], committedOnly: false, most: 4096 })
  for (let before = -1; reader.position < to && reader.position !== before; ) {
    before = reader.position
    const record = reader.next()
    if (record?.clock && record.seq < to)
      steps.push({
        boot: record.boot,
        seq: record.seq,
        movedMs: record.clock.offsetMs,
        synced: record.quality === 'synced',
      })
  }
  return steps
}

/** Reads back the newest facts, at least `facts` of them. */
export function restoreMemory(
  log: FlashLog,
  { time, corrections, receiver, frames, local: own, packet, templates }: Memories,
  facts = REMEMBERED_FACTS,
): void {
  const from = log.startOfLast(facts)
  corrections.beginAt(from, (seq, to) => clockSteps(log, seq, to))
  const reader = log.reader(from, { kinds: ['fact', 'clock', 'packet'], committedOnly: false })
  const replay = log.cleanStop || !templates ? null : new Replay(log, receiver, frames)
  // times can only be corrected after all clock records were read
  const stamped: Stamped[] = []
  let right = 0
  for (let record = reader.next(); record; record = reader.next()) {
    const { seq, boot, quality, clock, fact, link } = record
    if (quality === 'synced') right = Math.max(right, record.wallMs)
    if (clock) corrections.note(boot, seq, clock.offsetMs, quality === 'synced')
    if (record.packet) replay?.take(record)
    if (!fact) continue
    const local = record.medium === 'local'
    if (!link?.future) stamped.push({ device: local ? fact.id : fact.aid, seq, boot, quality, tRaw: fact.tRaw })
    if (local) {
      own(fact)
      continue
    }
    packet(fact, link)
    if (!link?.future && !replay?.repeats(record)) receiver.remember(fact)
    replay?.take(record)
  }
  time.noteSaved(right)
  for (const one of stamped) time.noteStamp(one.device, one.tRaw + corrections.of(one))
}
