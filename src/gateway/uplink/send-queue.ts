// Selects the next record to send, and tracks what the upstream has: a cursor in the log, shared by all uplinks, and the
// lanes after it. This module does not pack or send: next() returns an item, settle() takes it back, and between the two the
// queue only knows it as outstanding. Alarms are sent first. After an outage with a large backlog two lanes alternate, the
// backlog and the records logged since, so that neither starves the other (R8); the same if more is logged than the uplink
// carries. A live lane that falls behind starts again at the newest record. The cursor is the low-water mark: ranges
// delivered ahead of it are remembered, and facts that it has passed and that must still be sent, even over a restart. After
// a lost link the records after the cursor are sent again.
//
// Errors: a log that cannot commit. A record is sent as soon as it is appended (D24), so live data flows while the disk
// refuses (R3), and the upstream stores what this gateway cannot. The stored cursor only moves over committed records.
import type { Clock } from '../../lib/clock'
import type { FlashLog, LogRecord, TimeQuality } from '../../log'
import { KEY_REQUEST_TID } from '../../pipeline/sender'
import type { RefusedFrame } from '../../protocol/nack'
import { AheadRanges, type Range } from './ahead-ranges'
import { Alarms } from './alarms'
import { type FactRecord, type Item, Lane } from './lane'
import { Oversized } from './oversized'
import { RefusedSearch } from './refused'

export interface SendQueueParts {
  log: FlashLog
  clock: Clock
  /** ms for which a record of bad time quality is held back */
  holdMs: (quality: TimeQuality) => number
  /** corrects the time of a record that was stamped before a sync (D18) */
  correct?: (record: LogRecord) => void
  /** the AID under which own facts are sent; default: the one in the log */
  ownAid?: () => number
  /** an oversized fact waits for another uplink */
  onOversized?: () => void
}

/** What an uplink may send now. */
export interface Want {
  /** its maximum packet size */
  limit: number
  /** everything else has to wait */
  alarmsOnly: boolean
  /** it is the secondary uplink: send only facts that are too large for the active one */
  oversizedOnly: boolean
  /** False: the record must wait, and all after it in its lane. */
  readonly mayGo: (record: FactRecord) => boolean
  /** size of the record as FULL */
  readonly sizeOf: (record: FactRecord) => number
}

const CURSOR_EVERY_MS = 1000
/** how often the size of the backlog is checked */
const LOOK_EVERY_MS = 1000
/** a backlog of at least this many facts gets a separate live lane */
const LARGE_BACKLOG = 1000
/** during a backlog, one packet of this many is from the backlog, the others are live */
const TURNS = 4
/** refused records that are passed in one call because they wait for a key */
const LOOKS = 64

export class SendQueue {
  readonly #name: string
  readonly #parts: SendQueueParts
  /** everything, or the backlog while there is a live lane */
  #main: Lane
  #live: Lane | null = null
  /** the live lane's first seq; the main lane ends there */
  #liveFrom = Number.POSITIVE_INFINITY
  /** the live lane takes no more records, and restarts when all its items are settled */
  #closing = false
  #lookedAt = Number.NEGATIVE_INFINITY
  readonly #oversized: Oversized
  readonly #alarms: Alarms
  readonly #ahead: AheadRanges
  readonly #refused: Oversized
  readonly #search: RefusedSearch
  /** the commit of what was refused, and the one after it */
  #keeping: Promise<void> | null = null
  #keepNext: Promise<void> | null = null
  #round = 0
  #turn = 0
  #savedCursor: number
  #savedAt = Number.NEGATIVE_INFINITY

  /** `name` is the name of the cursor in the log */
  constructor(name: string, parts: SendQueueParts) {
    this.#name = name
    this.#parts = parts
    const { log } = parts
    const saved = log.cursor(name) ?? 0
    this.#savedCursor = saved
    this.#main = new Lane(log, saved)
    this.#alarms = new Alarms(log, saved)
    this.#ahead = new AheadRanges(name, log, saved)
    this.#oversized = new Oversized(name, log)
    this.#refused = new Oversized(name, log, 'refused')
    this.#search = new RefusedSearch({ log, sentAs: record => this.#sentAs(record) })
  }

  /** Everything up to this record is on flash here and at the upstream. */
  get cursor(): number {
    return Math.min(this.#main.cursor, this.#parts.log.committedSeq)
  }

  /** Facts the upstream does not have yet, oversized and refused ones included; inside the log's segments an upper bound. */
  get backlog(): number {
    return this.#behind + this.#oversized.count() + this.#refused.count()
  }

  /** Facts too large for the uplinks that were active since; included in `backlog`. */
  get oversized(): number {
    return this.#oversized.count()
  }

  /**
   * The part of the backlog that an uplink of that size can carry; `oversizedOnly`: only facts too large for the active one.
   */
  waiting(limit: number, oversizedOnly = false): number {
    return (oversizedOnly ? this.oversized : this.backlog) - this.#oversized.count(limit)
  }

  /** When a held record may be sent, or more of the log is searched, in the clock's mono time; Infinity: none is held. */
  get heldUntil(): number {
    const now = this.#parts.clock.mono()
    let until = this.#search.nextAt
    for (const lane of [this.#main, this.#live, this.#oversized, this.#refused])
      if (lane && lane.heldUntil > now) until = Math.min(until, lane.heldUntil)
    return until
  }

  /** If the backlog is large, later records get a separate lane. Called when the active uplink is ready. */
  begin(): void {
    const { log } = this.#parts
    if (this.#live || log.degraded || log.factsAfter(this.#main.cursor) <= LARGE_BACKLOG) return
    this.#goLive()
  }

  /** The next item to send: to be settled, or forgotten by a rewind. Null if there is none now. */
  next(want: Want): Item | null {
    const { alarmsOnly, oversizedOnly } = want
    if (oversizedOnly) return alarmsOnly ? null : this.#nextPassed(want)
    this.#search.step(this.#parts.clock.mono(), this.#found)
    this.#look()
    const alarm = this.#alarms.head(this.#main.front, this.#isTaken) as FactRecord | null
    if (alarm && this.#hold(alarm) <= 0 && want.mayGo(alarm)) return this.#take(alarm, this.#alarms)
    if (alarmsOnly) return null
    const last = this.#turn % TURNS !== TURNS / 2
    return (last ? null : this.#nextPassed(want)) ?? this.#nextOfLanes(want) ?? (last ? this.#nextPassed(want) : null)
  }

  /**
   * The upstream refused that frame, and no exchange repeats it: its record is sent again. `seq` 0: it is searched for;
   * below 0: that was noted before. Resolves when it is on flash, was not found, or cannot be stored.
   */
  async refused(frame: RefusedFrame, seq: number): Promise<void> {
    if (frame.tid === KEY_REQUEST_TID) return
    if (seq > 0) this.#refused.note(seq)
    else if (seq === 0) await this.#search.want(frame, this.#parts.clock.mono())
    await this.#kept()
  }

  /**
   * The upstream has the item, or it is never sent: the cursor may pass it. `oversized`: it needs more than so many bytes,
   * and a larger uplink gets it.
   */
  settle(item: Item, oversized?: number): void {
    item.done = true
    if (oversized !== undefined) this.#oversized.note(item.seq, oversized)
    this.#main.settle()
    this.#live?.settle()
    // the next range may be for another uplink
    this.#refused.settle()
    const rangeDone = this.#oversized.settle()
    if (oversized !== undefined || (rangeDone && this.oversized > 0)) this.#parts.onOversized?.()
    this.#merge()
    if (this.#closing && this.#live?.outstanding === 0) this.#goLive()
    this.saveCursor(false)
  }

  /** False: it is sent again as a new item, and the cursor does not wait for this one. */
  wants({ round }: Item): boolean {
    return round === this.#round
  }

  /** Nothing is in flight any more: starts after the cursor again, in one lane, and skips ranges delivered ahead of it. */
  rewind(): void {
    if (this.#growing) this.#ahead.add(this.#growing)
    this.#oversized.rewind()
    this.#refused.rewind()
    this.#noLive()
    this.#round++
    this.#main.rewind()
    this.#alarms.rewind(this.#main.cursor)
  }

  /** Oversized facts in flight are sent again. */
  rewindOversized(): void {
    this.#oversized.rewind()
  }

  /** Stores the cursor in the log, at most once a second unless `now` is set. */
  saveCursor(now: boolean): void {
    const { log, clock } = this.#parts
    if (!now && clock.mono() - this.#savedAt < CURSOR_EVERY_MS) return
    const { cursor } = this
    this.#ahead.passed(cursor)
    const written = [
      this.#ahead.save(this.#growing, log.committedSeq),
      this.#oversized.save(),
      this.#refused.save(),
    ].includes(true)
    if (!written && cursor === this.#savedCursor) return
    this.#savedAt = clock.mono()
    this.#savedCursor = cursor
    log.appendCursor(this.#name, cursor)
  }

  get #behind(): number {
    const { log } = this.#parts
    const all = log.factsAfter(this.#main.cursor)
    const ranges = [...this.#ahead.list, ...(this.#growing ? [this.#growing] : [])]
    if (ranges.length === 0) return all
    const there = ranges.reduce((sum, { from, to }) => sum + log.factsAfter(from - 1) - log.factsAfter(to), 0)
    return Math.max(Math.min(1, all), all - there)
  }

  #nextOfLanes(want: Want): Item | null {
    const live = this.#live
    const main = this.#main
    if (!live) return this.#nextOf(main, want)
    return this.#turn % TURNS === 0
      ? (this.#nextOf(main, want) ?? this.#nextOf(live, want))
      : (this.#nextOf(live, want) ?? this.#nextOf(main, want))
  }

  #nextOf(lane: Lane, want: Want): Item | null {
    const record = this.#head(lane)
    return record && want.mayGo(record) ? this.#take(record, lane) : null
  }

  /** A fact that the cursor has passed. */
  #nextPassed(want: Want): Item | null {
    const now = this.#parts.clock.mono()
    const { limit, sizeOf, oversizedOnly, mayGo } = want
    const record = this.#oversized.head(limit, sizeOf, now)
    if (record && mayGo(record)) return this.#take(record, this.#oversized)
    for (let looks = 0; looks < LOOKS && !oversizedOnly; looks++) {
      const refused = this.#refused.head(limit, sizeOf, now)
      if (!refused) return null
      if (mayGo(refused)) return this.#take(refused, this.#refused)
      this.#refused.postpone(refused)
    }
    return null
  }

  #take(record: FactRecord, from: { take(item: Item): void }): Item {
    const item = this.#item(record)
    from.take(item)
    this.#turn++
    return item
  }

  /** Called once per read record: its time is corrected in place. */
  #item(record: FactRecord): Item {
    this.#parts.correct?.(record)
    const { seq, fact, medium } = record
    const local = medium === 'local'
    return { seq, fact, local, round: this.#round, done: false, again: false, plain: false, packet: null }
  }

  #sentAs(record: FactRecord): { aid: number; tRaw: number } {
    const { correct, ownAid } = this.#parts
    correct?.(record)
    const { aid, tRaw } = record.fact
    return { aid: (record.medium === 'local' && ownAid?.()) || aid, tRaw }
  }

  /** Stores what was refused; refusals that arrive during a commit share the next one. */
  #kept(): Promise<void> {
    if (!this.#keeping) return this.#keep()
    this.#keepNext ??= this.#keeping.then(() => this.#keep())
    return this.#keepNext
  }

  #keep(): Promise<void> {
    const { log } = this.#parts
    this.#keepNext = null
    this.saveCursor(true)
    // a log that cannot commit shows it in the status
    this.#keeping = log
      .committed(log.lastSeq)
      .catch(() => undefined)
      .then(() => {
        if (!this.#keepNext) this.#keeping = null
      })
    return this.#keeping
  }

  /** A later record is sent anyway. */
  readonly #found = (seq: number, previous?: number): void => {
    const live = this.#growing
    const isLive = live !== null && seq >= live.from && seq <= live.to
    if (isLive || seq <= this.#main.cursor || this.#ahead.of(seq)) this.#refused.note(seq, 0, previous)
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

  /** Checks once a second: is more logged than sent? */
  #look(): void {
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
