// The log's state: cursors, counters, losses. Each change is a record; the newest state is repeated in every segment header,
// so that dropping old segments loses none of it.
import { decodeRecord } from './decode'
import { AT_KIND, KIND_BOOT, KIND_CURSOR, KIND_LOSS } from './format'
import { Ledger } from './ledger'
import type { ListedSegment, SegmentSnapshot } from './segment'
import type { Segment } from './segments'

/** limits the size of headers: only this many of the oldest segments are listed, which are dropped next */
const LISTED = 400

/** seq 0 removes the cursor */
const put = (cursors: Map<string, number>, name: string, seq: number): void => {
  if (seq === 0) cursors.delete(name)
  else cursors.set(name, seq)
}

const listed = ({ base, last, facts, created, size, lastFact }: Segment): ListedSegment =>
  lastFact < last ? [base, last, facts, created, size, lastFact] : [base, last, facts, created, size]

export class LogState {
  readonly cursors = new Map<string, number>()
  /** the cursors that are on flash: only they allow segments to be dropped (decision 0008) */
  readonly kept = new Map<string, number>()
  /** cursors that wait for a commit, with the seq of their record */
  #moved: { name: string; seq: number; record: number }[] = []
  readonly counters = new Map<string, number>()
  readonly ledger = new Ledger()
  /** the newest boot record marks a clean stop */
  stopped = false

  load(snapshot: SegmentSnapshot): void {
    for (const [name, seq] of Object.entries(snapshot.cursors)) this.cursors.set(name, seq)
    for (const [name, value] of Object.entries(snapshot.counters ?? {})) this.counters.set(name, value)
    this.ledger.merge(snapshot.totals, snapshot.ranges)
  }

  /** The cursor is in record `record`, which waits for its commit. */
  moveCursor(name: string, seq: number, record: number): void {
    put(this.cursors, name, seq)
    // while the disk refuses, the newest position of each name is enough
    if (this.#moved.length > 100) this.#moved = this.#moved.filter(other => other.name !== name)
    this.#moved.push({ name, seq, record })
  }

  /** Everything up to `record` is on flash. */
  committed(record: number): void {
    while (this.#moved.length > 0 && this.#moved[0]!.record <= record) {
      const { name, seq } = this.#moved.shift()!
      put(this.kept, name, seq)
    }
  }

  /** Applies the record at `at` if it changes the state. */
  replay(b: Buffer, at: number): void {
    const kind = b[at + AT_KIND]
    if (kind !== KIND_CURSOR && kind !== KIND_LOSS && kind !== KIND_BOOT) return
    const { cursor, counter, loss, bootInfo } = decodeRecord(b, at)
    if (cursor) put(this.cursors, cursor.name, cursor.seq)
    else if (counter) this.counters.set(counter.name, counter.value)
    else if (loss) this.ledger.merge(loss.totals, loss.ranges)
    else if (bootInfo) this.stopped = bootInfo.stop
  }

  snapshot(segments: readonly Segment[]): SegmentSnapshot {
    return {
      cursors: Object.fromEntries(this.cursors),
      ...(this.counters.size > 0 && { counters: Object.fromEntries(this.counters) }),
      totals: this.ledger.totals,
      ranges: this.ledger.ranges,
      segments: segments.slice(0, LISTED).map(listed),
    }
  }
}
