// Selects the next record to send, and tracks what the upstream has: a cursor in the log, shared by all uplinks, and the
// lanes after it. This module does not pack or send: next() returns an item, settle() takes it back, and between the two the
// queue only knows it as outstanding. The cursor is the low-water mark: facts that it has passed and that must still be sent
// are remembered, even over a restart. After a lost link the records after the cursor are sent again.
//
// Errors: a log that cannot commit. A record is sent as soon as it is appended (decision 0008), so live data flows while the disk
// refuses (R3), and the upstream stores what this gateway cannot. The stored cursor only moves over committed records.
import type { LogRecord } from '../../log'
import { KEY_REQUEST_TID } from '../../pipeline/sender'
import type { RefusedFrame } from '../../protocol/nack'
import type { FactRecord, Item } from './lane'
import { Lanes, type LanesParts, type TakeRecord } from './lanes'
import { PassedFacts } from './passed-facts'
import { RefusedSearch } from './refused-search'

export interface SendQueueParts extends LanesParts {
  /** corrects the time of a record that was stamped before a sync (decision 0044) */
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
/** during a backlog, one packet of this many is from the backlog, the others are live */
const TURNS = 4
/** refused records that are passed in one call because they wait for a key */
const LOOKS = 64

export class SendQueue {
  readonly #name: string
  readonly #parts: SendQueueParts
  readonly #lanes: Lanes
  readonly #oversized: PassedFacts
  readonly #refused: PassedFacts
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
    this.#lanes = new Lanes(name, parts, saved)
    this.#oversized = new PassedFacts(name, log, 'oversized')
    this.#refused = new PassedFacts(name, log, 'refused')
    this.#search = new RefusedSearch({ log, sentAs: record => this.#sentAs(record) })
  }

  /** Everything up to this record is on flash here and at the upstream. */
  get cursor(): number {
    return Math.min(this.#lanes.cursor, this.#parts.log.committedSeq)
  }

  /** Facts the upstream does not have yet, oversized and refused ones included; inside the log's segments an upper bound. */
  get backlog(): number {
    return this.#lanes.behind + this.#oversized.count() + this.#refused.count()
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
    let until = Math.min(this.#search.nextAt, this.#lanes.heldUntil(now))
    for (const { heldUntil } of [this.#oversized, this.#refused])
      if (heldUntil > now) until = Math.min(until, heldUntil)
    return until
  }

  /** If the backlog is large, later records get a separate lane. Called when the active uplink is ready. */
  begin(): void {
    this.#lanes.begin()
  }

  /** The next item to send: to be settled, or forgotten by a rewind. Null if there is none now. */
  next(want: Want): Item | null {
    const { alarmsOnly, oversizedOnly } = want
    if (oversizedOnly) return alarmsOnly ? null : this.#nextPassed(want)
    this.#search.step(this.#parts.clock.mono(), this.#found)
    this.#lanes.look()
    const alarm = this.#lanes.nextAlarm(want.mayGo, this.#take)
    if (alarm || alarmsOnly) return alarm
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
    this.#lanes.settle()
    // the next range may be for another uplink
    this.#refused.settle()
    const rangeDone = this.#oversized.settle()
    if (oversized !== undefined || (rangeDone && this.oversized > 0)) this.#parts.onOversized?.()
    this.saveCursor(false)
  }

  /** False: it is sent again as a new item, and the cursor does not wait for this one. */
  wants({ round }: Item): boolean {
    return round === this.#round
  }

  /** Nothing is in flight any more: starts after the cursor again, in one lane, and skips ranges delivered ahead of it. */
  rewind(): void {
    this.#oversized.rewind()
    this.#refused.rewind()
    this.#round++
    this.#lanes.rewind()
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
    const written = [this.#lanes.save(cursor), this.#oversized.save(), this.#refused.save()].includes(true)
    if (!written && cursor === this.#savedCursor) return
    this.#savedAt = clock.mono()
    this.#savedCursor = cursor
    log.appendCursor(this.#name, cursor)
  }

  #nextOfLanes({ mayGo }: Want): Item | null {
    return this.#lanes.next(this.#turn % TURNS === 0, mayGo, this.#take)
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

  readonly #take: TakeRecord = (record, from) => {
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
    if (this.#lanes.hasPassed(seq)) this.#refused.note(seq, 0, previous)
  }
}
