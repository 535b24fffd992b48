// The order in which the records of the log are sent: alarms first, then one lane for everything; after an outage with a large
// backlog two lanes alternate, the backlog and the records logged since, so that neither starves the other (R8); the same if
// more is logged than the uplink carries. A live lane that falls behind starts again at the newest record. Ranges that it
// delivered ahead of the cursor are remembered, even over a restart.
import type { Clock } from '../../lib/clock'
import type { FlashLog, RecordTimeQuality } from '../../log'
import { AheadRanges, type Range } from './ahead-ranges'
import { Alarms } from './alarms'
import { type FactRecord, type Item, Lane } from './lane'

export interface LanesParts {
  log: FlashLog
  clock: Clock
  /** ms for which a record of bad time quality is held back */
  holdMs: (quality: RecordTimeQuality) => number
}

/** Makes the item of a record, which `from` then waits for. */
export type TakeRecord = (record: FactRecord, from: { take(item: Item): void }) => Item

/** how often the size of the backlog is checked */
const LOOK_EVERY_MS = 1000
/** a backlog of at least this many facts gets a separate live lane */
const LARGE_BACKLOG = 1000

export class Lanes {
  readonly #parts: LanesParts
  /** everything, or the backlog while there is a live lane */
  #main: Lane
  #live: Lane | null = null
  /** the live lane's first seq; the main lane ends there */
  #liveFrom = Number.POSITIVE_INFINITY
  /** the live lane takes no more records, and restarts when all its items are settled */
  #closing = false
  #lookedAt = Number.NEGATIVE_INFINITY
  readonly #alarms: Alarms
  readonly #ahead: AheadRanges

  /** Begins after the record `saved`; `name` is the name of the cursor in the log. */
  constructor(name: string, parts: LanesParts, saved: number) {
    this.#parts = parts
    const { log } = parts
    this.#main = new Lane(log, saved)
    this.#alarms = new Alarms(log, saved)
    this.#ahead = new AheadRanges(name, log, saved)
  }

  /** Everything up to this record is at the upstream, or is never sent from here. */
  get cursor(): number {
    return this.#main.cursor
  }

  /** Facts after the cursor that the upstream does not have yet; inside the log's segments an upper bound. */
  get behind(): number {
    const { log } = this.#parts
    const all = log.factsAfter(this.#main.cursor)
    const ranges = [...this.#ahead.list, ...(this.#growing ? [this.#growing] : [])]
    if (ranges.length === 0) return all
    const there = ranges.reduce((sum, { from, to }) => sum + log.factsAfter(from - 1) - log.factsAfter(to), 0)
    return Math.max(Math.min(1, all), all - there)
  }

  /** When the first record held at `now` may be sent, in the clock's mono time; Infinity: none is held. */
  heldUntil(now: number): number {
    const held = [this.#main, this.#live].map(lane => (lane && lane.heldUntil > now ? lane.heldUntil : Infinity))
    return Math.min(...held)
  }

  /** If the backlog is large, later records get a separate lane. */
  begin(): void {
    const { log } = this.#parts
    if (this.#live || log.degraded || log.factsAfter(this.#main.cursor) <= LARGE_BACKLOG) return
    this.#goLive()
  }

  /** Checks once a second: is more logged than sent? */
  look(): void {
    const { log, clock } = this.#parts
    const now = clock.mono()
    if (now - this.#lookedAt < LOOK_EVERY_MS) return
    this.#lookedAt = now
    const live = this.#live
    if (!live) this.begin()
    else if (log.factsAfter(live.cursor) > LARGE_BACKLOG) {
      this.#closing = true
      if (live.outstanding === 0) this.#goLive()
    }
  }

  /** The next alarm that may go, ahead of its lane. */
  nextAlarm(mayGo: (record: FactRecord) => boolean, take: TakeRecord): Item | null {
    const alarm = this.#alarms.head(this.#main.front, this.#isTaken) as FactRecord | null
    return alarm && this.#hold(alarm) <= 0 && mayGo(alarm) ? take(alarm, this.#alarms) : null
  }

  /** The next record of the lanes; `backlogFirst` chooses between the two. */
  next(backlogFirst: boolean, mayGo: (record: FactRecord) => boolean, take: TakeRecord): Item | null {
    const live = this.#live
    const main = this.#main
    if (!live) return this.#nextOf(main, mayGo, take)
    return backlogFirst
      ? (this.#nextOf(main, mayGo, take) ?? this.#nextOf(live, mayGo, take))
      : (this.#nextOf(live, mayGo, take) ?? this.#nextOf(main, mayGo, take))
  }

  /** Whether that record was sent, or is passed: no lane sends it again. */
  hasPassed(seq: number): boolean {
    const live = this.#growing
    return (live && seq >= live.from && seq <= live.to) || seq <= this.#main.cursor || this.#ahead.of(seq) !== undefined
  }

  /** An item may be settled: moves the cursor. */
  settle(): void {
    this.#main.settle()
    this.#live?.settle()
    this.#merge()
    if (this.#closing && this.#live?.outstanding === 0) this.#goLive()
  }

  /** Nothing is in flight any more: starts after the cursor again, in one lane, and skips ranges delivered ahead of it. */
  rewind(): void {
    if (this.#growing) this.#ahead.add(this.#growing)
    this.#noLive()
    this.#main.rewind()
    this.#alarms.rewind(this.#main.cursor)
  }

  /** Writes changed ranges ahead of `cursor` to the log. True if anything was written. */
  save(cursor: number): boolean {
    this.#ahead.passed(cursor)
    return this.#ahead.save(this.#growing, this.#parts.log.committedSeq)
  }

  #nextOf(lane: Lane, mayGo: (record: FactRecord) => boolean, take: TakeRecord): Item | null {
    const record = this.#head(lane)
    return record && mayGo(record) ? take(record, lane) : null
  }

  /** The lane's next record that is neither delivered ahead nor held. */
  #head(lane: Lane): FactRecord | null {
    const { log, clock, holdMs } = this.#parts
    if (lane.heldUntil > clock.mono() || (this.#closing && lane === this.#live)) return null
    for (;;) {
      const record = lane.head()
      if (lane === this.#main && (record?.seq ?? lane.front) >= this.#liveFrom) {
        this.#merge()
        return null
      }
      if (!record) return null
      const range = this.#ahead.of(record.seq)
      const alarm = range ? undefined : this.#alarms.reached(record.seq)
      if (range) lane.skip(range.to)
      else if (alarm?.done) lane.pass(record)
      else if (alarm) lane.take(alarm)
      else {
        const hold = this.#hold(record)
        if (hold <= 0) return record
        lane.heldUntil = clock.mono() + Math.min(hold, 1000)
        // its correction waits for the disk, and live data does not (R3)
        if (!this.#live && log.degraded && holdMs(log.quality) <= 0) this.#goLive()
        return null
      }
    }
  }

  /** Only clock records of the same run correct a record: one of an earlier run has its correction, or gets none. */
  #hold({ boot, quality }: FactRecord): number {
    return boot === this.#parts.log.boot ? this.#parts.holdMs(quality) : 0
  }

  readonly #isTaken = (seq: number): boolean => {
    const live = this.#live
    if (this.#ahead.of(seq)) return true
    return live && seq >= this.#liveFrom ? seq < live.front : seq < this.#main.front
  }

  /** Starts a live lane at the newest record; records that an older live lane did not reach belong to the backlog. */
  #goLive(): void {
    const { log } = this.#parts
    if (this.#growing) this.#ahead.add(this.#growing)
    this.#closing = false
    this.#liveFrom = log.lastSeq + 1
    this.#live = new Lane(log, log.lastSeq)
  }

  /** The range that the live lane has passed. */
  get #growing(): Range | null {
    return this.#live && { from: this.#liveFrom, to: this.#live.cursor }
  }

  /** The backlog is done: the live lane becomes the main one. */
  #merge(): void {
    const live = this.#live
    if (!live || this.#main.front < this.#liveFrom || this.#main.outstanding > 0) return
    this.#main = live
    this.#noLive()
  }

  #noLive(): void {
    this.#live = null
    this.#closing = false
    this.#liveFrom = Number.POSITIVE_INFINITY
  }
}
