// What the log remembers besides its records: cursors, identity, losses. Each is a record; the newest state is repeated in
// every segment header, so that dropping old segments never forgets it.
import { decodeRecord } from './decode'
import { AT_KIND, KIND_BOOT, KIND_CURSOR, KIND_IDENTITY, KIND_LOSS } from './format'
import { Ledger } from './ledger'
import type { LogRecord } from './record'
import type { Snapshot } from './segment'
import type { Segment } from './segments'

/** headers stay small: this many of the oldest segments are listed, the ones that are dropped next */
const LISTED = 400

export class LogState {
  readonly cursors = new Map<string, number>()
  readonly counters = new Map<string, number>()
  readonly ledger = new Ledger()
  identity: unknown
  /** the newest boot record is the mark of a clean stop */
  stopped = false

  load(snapshot: Snapshot): void {
    for (const [name, seq] of Object.entries(snapshot.cursors)) this.cursors.set(name, seq)
    for (const [name, value] of Object.entries(snapshot.counters ?? {})) this.counters.set(name, value)
    if (snapshot.identity !== undefined) this.identity = snapshot.identity
    this.ledger.merge(snapshot.totals, snapshot.ranges)
  }

  /** Takes over the record at `at` if it says something about the state. */
  replay(b: Buffer, at: number): void {
    const kind = b[at + AT_KIND]
    if (kind === KIND_CURSOR || kind === KIND_IDENTITY || kind === KIND_LOSS || kind === KIND_BOOT) {
      this.apply(decodeRecord(b, at))
    }
  }

  apply(record: LogRecord): void {
    if (record.cursor) this.setCursor(record.cursor.name, record.cursor.seq)
    else if (record.counter) this.counters.set(record.counter.name, record.counter.value)
    else if (record.loss) this.ledger.merge(record.loss.totals, record.loss.ranges)
    else if (record.bootInfo) this.stopped = record.bootInfo.stop
    else if (record.kind === 'identity') this.identity = record.identity
  }

  setCursor(name: string, seq: number): void {
    if (seq === 0) this.cursors.delete(name)
    else this.cursors.set(name, seq)
  }

  snapshot(segments: readonly Segment[]): Snapshot {
    return {
      cursors: Object.fromEntries(this.cursors),
      ...(this.counters.size > 0 && { counters: Object.fromEntries(this.counters) }),
      ...(this.identity !== undefined && { identity: this.identity }),
      totals: this.ledger.totals,
      ranges: this.ledger.ranges,
      segments: segments.slice(0, LISTED).map(s => [s.base, s.last, s.facts, s.created, s.size] as const),
    }
  }
}
