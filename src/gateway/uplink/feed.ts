// What goes next upstream, and how far the upstream has everything: a cursor in the log, shared by all uplinks, and the lanes
// before it. Nothing here packs or sends. Alarms go first. After an outage with a large backlog two lanes run side by side:
// the backlog, and what was logged since, so that neither starves the other (R8); so it is when more is logged than the uplink
// carries, and where even the live lane falls behind it begins anew at the newest. The cursor is the low-water mark: what
// arrived ahead of it is remembered, over a restart too. After a lost link the records after the cursor go again. What is too
// large for who carries is kept aside (aside.ts).
//
// What fails: a log that cannot commit. A record goes as soon as it is appended (D24), so live data flows while the disk
// refuses (R3), and the upstream keeps what this gateway cannot. The cursor that is kept moves over committed records only.
import type { Clock } from '../../lib/clock'
import type { FlashLog, LogRecord, TimeQuality } from '../../log'
import type { Fact } from '../../pipeline/fact'
import { Alarms } from './alarms'
import { Aside } from './aside'
import { Lane } from './lane'
import type { Shipment } from './ledger'
import { AheadRanges, type Range } from './ranges'

export interface FeedParts {
  log: FlashLog
  clock: Clock
  /** ms a record of bad time quality is held back for */
  holdMs: (quality: TimeQuality) => number
  /** puts the time of a record right that was stamped before a sync (D18) */
  correct?: (record: LogRecord) => void
  /** something too large for who carries was set aside */
  onAside?: () => void
}

export type FactRecord = LogRecord & { readonly fact: Fact }

/** Who takes records. */
export interface Taker {
  /** bytes it carries */
  readonly limit: number
  /** takes only what was too large for the one that carries */
  readonly beside: boolean
  /** refuses a record that must wait by itself, with all behind it in its lane */
  mayGo(record: FactRecord): boolean
  /** bytes of the record as FULL */
  sizeOf(record: FactRecord): number
}

const CURSOR_EVERY_MS = 1000
/** how often a backlog is looked at */
const LOOK_EVERY_MS = 1000
/** facts from which on a backlog has live data go beside it */
const LARGE_BACKLOG = 1000
/** of so many packets beside a backlog one is of the backlog, the others live */
const TURNS = 4

export class Feed<Payload> {
  readonly #name: string
  readonly #parts: FeedParts
  /** everything, or the backlog while there is a live lane */
  #main: Lane<Payload>
  #live: Lane<Payload> | null = null
  /** the live lane's first seq; the main lane ends there */
  #liveFrom = Number.POSITIVE_INFINITY
  /** the live lane takes nothing more, to begin anew when what it has on its way is there */
  #closing = false
  #lookedAt = Number.NEGATIVE_INFINITY
  readonly #aside: Aside<Payload>
  readonly #alarms: Alarms<Payload>
  readonly #ahead: AheadRanges
  /** the lane of the record offered last; null: an alarm before its turn */
  #offered: Lane<Payload> | null = null
  #shipped = new WeakSet<Shipment<Payload>>()
  #turn = 0
  #savedCursor: number
  #savedAt = Number.NEGATIVE_INFINITY

  /** `name` is that of the cursor in the log */
  constructor(name: string, parts: FeedParts) {
    this.#name = name
    this.#parts = parts
    const { log } = parts
    const saved = log.cursor(name) ?? 0
    this.#savedCursor = saved
    this.#main = new Lane(log, saved)
    this.#alarms = new Alarms(log, saved)
    this.#ahead = new AheadRanges(name, log, saved)
    this.#aside = new Aside(name, log)
  }

  /** Everything up to this record is on flash here and at the upstream. */
  get cursor(): number {
    return Math.min(this.#reached, this.#parts.log.committedSeq)
  }

  /** The upstream has everything up to this record, on flash here or not. */
  get #reached(): number {
    return this.#main.ledger.cursor
  }

  /** Facts the upstream does not have yet, those kept aside too; inside the log's segments an upper bound. */
  get backlog(): number {
    return this.#behind + this.#aside.count()
  }

  /** Facts too large for the uplinks that carried since; in `backlog` too. */
  get aside(): number {
    return this.#aside.count()
  }

  /** Of the backlog what an uplink of that size can carry; `beside`: of what was set aside. */
  waiting(limit: number, beside = false): number {
    return (beside ? this.aside : this.backlog) - this.#aside.count(limit)
  }

  get #behind(): number {
    const { log } = this.#parts
    const all = log.factsAfter(this.#reached)
    const ranges = [...this.#ahead.list, ...(this.#growing ? [this.#growing] : [])]
    if (ranges.length === 0) return all
    const there = ranges.reduce((sum, { from, to }) => sum + log.factsAfter(from - 1) - log.factsAfter(to), 0)
    return Math.max(Math.min(1, all), all - there)
  }

  /** When a held record may go, in the clock's mono time; Infinity: none is held. */
  get heldUntil(): number {
    const now = this.#parts.clock.mono()
    const held = this.#allLanes.map(({ heldUntil }) => heldUntil).filter(until => until > now)
    return Math.min(Number.POSITIVE_INFINITY, ...held)
  }

  /** With a large backlog, what is logged from now on goes beside it. Called when who carries is ready, and looked at by itself. */
  begin(): void {
    const { log } = this.#parts
    if (this.#live || log.degraded || log.factsAfter(this.#reached) <= LARGE_BACKLOG) return
    this.#goLive()
  }

  /**
   * The record that goes next, to be shipped, passed or set aside before the next call; null when there is none now.
   * `alarmsOnly`: the rest has to wait.
   */
  peek(alarmsOnly: boolean, by: Taker): FactRecord | null {
    this.#offered = null
    if (by.beside) return alarmsOnly ? null : this.#peekAside(by)
    this.#look()
    const alarm = this.#alarms.peek(this.#main.front, seq => this.#isTaken(seq))
    if (alarm && this.#holdMs(alarm) <= 0 && by.mayGo(alarm as FactRecord)) return this.right(alarm)
    if (alarmsOnly) return null
    const last = this.#turn % TURNS !== TURNS / 2
    const aside = last ? null : this.#peekAside(by)
    if (aside) return aside
    for (const lane of this.#lanes) {
      const record = this.#head(lane)
      if (!record || !by.mayGo(record)) continue
      this.#offered = lane
      return this.right(record)
    }
    return last ? this.#peekAside(by) : null
  }

  /** With its time put right: once for each record that was read, and what is offered is shipped or passed before the next call. */
  right(record: LogRecord): FactRecord {
    this.#parts.correct?.(record)
    return record as FactRecord
  }

  /** The record offered last goes out. */
  ship({ seq }: FactRecord, payload: Payload): Shipment<Payload> {
    const lane = this.#offered
    const shipment: Shipment<Payload> = lane ? lane.ledger.ship(seq, payload) : { seq, payload, done: false }
    if (lane) lane.taken()
    if (lane && lane === this.#aside.lane) this.#aside.shipped()
    if (!lane) {
      this.#alarms.ahead.set(seq, shipment)
      this.#alarms.taken()
    }
    this.#turn++
    this.#shipped.add(shipment)
    return shipment
  }

  /** The record offered last cannot go out; the cursor may pass it. */
  pass(record: FactRecord): void {
    const lane = this.#offered
    if (lane) {
      lane.taken()
      lane.ledger.pass(record.seq)
    } else {
      // an alarm that cannot be packed: its lane finds it done
      this.#alarms.ahead.set(record.seq, { seq: record.seq, payload: undefined as Payload, done: true })
      this.#alarms.taken()
    }
  }

  /** The record offered last needs more than `limit` bytes; an uplink that carries more gets it later. */
  setAside(record: FactRecord, limit: number): void {
    this.pass(record)
    this.noteAside(record.seq, limit)
  }

  /** One that is on its way, or was, needs more than `limit` bytes to go again. */
  noteAside(seq: number, limit: number): void {
    this.#aside.note(seq, limit)
    this.#parts.onAside?.()
  }

  /** The upstream has it, or nobody wants it any more. */
  done(shipment: Shipment<Payload>): void {
    shipment.done = true
    for (const lane of this.#lanes) lane.ledger.settle()
    const reading = this.#aside.lane
    this.#aside.settle()
    // the next range may be another uplink's
    if (reading && !this.#aside.lane && this.aside > 0) this.#parts.onAside?.()
    this.#merge()
    if (this.#closing && this.#live?.ledger.outstanding === 0) this.#goLive()
    this.saveCursor(false)
  }

  /** False: it goes again by another way, and the cursor does not wait for this one. */
  wants(shipment: Shipment<Payload>): boolean {
    return this.#shipped.has(shipment)
  }

  /** Nothing is on its way any more: starts behind the cursor again, in one lane, and passes what arrived ahead. */
  rewind(): void {
    if (this.#growing) this.#ahead.add(this.#growing)
    this.#aside.rewind()
    this.#live = null
    this.#closing = false
    this.#liveFrom = Number.POSITIVE_INFINITY
    this.#shipped = new WeakSet()
    this.#main.rewind()
    this.#alarms.rewind(this.#reached)
  }

  /** What was set aside and is on its way goes again. */
  rewindAside(): void {
    this.#aside.rewind()
  }

  /** Keeps the cursor in the log, at most once a second unless it must be `now`. */
  saveCursor(now: boolean): void {
    const { log, clock } = this.#parts
    if (!now && clock.mono() - this.#savedAt < CURSOR_EVERY_MS) return
    const { cursor } = this
    this.#ahead.passed(cursor)
    const written = [this.#ahead.save(this.#growing, log.committedSeq), this.#aside.save()].includes(true)
    if (!written && cursor === this.#savedCursor) return
    this.#savedAt = clock.mono()
    this.#savedCursor = cursor
    log.appendCursor(this.#name, cursor)
  }

  /** In the order of this turn. */
  get #lanes(): Lane<Payload>[] {
    if (!this.#live || this.#closing) return this.#live ? [this.#main, this.#live] : [this.#main]
    return this.#turn % TURNS === 0 ? [this.#main, this.#live] : [this.#live, this.#main]
  }

  get #allLanes(): Lane<Payload>[] {
    return [...this.#lanes, ...(this.#aside.lane ? [this.#aside.lane] : [])]
  }

  /** Now and then: more is logged than goes out. */
  #look(): void {
    const { log, clock } = this.#parts
    const now = clock.mono()
    if (now - this.#lookedAt < LOOK_EVERY_MS) return
    this.#lookedAt = now
    const live = this.#live
    if (!live) this.begin()
    else if (log.factsAfter(live.ledger.cursor) > LARGE_BACKLOG) {
      this.#closing = true
      if (live.ledger.outstanding === 0) this.#goLive()
    }
  }

  /** A live lane from the newest record on; what an older one did not come to is the backlog's. */
  #goLive(): void {
    const { log } = this.#parts
    if (this.#growing) this.#ahead.add(this.#growing)
    this.#closing = false
    this.#liveFrom = log.lastSeq + 1
    this.#live = new Lane(log, log.lastSeq)
  }

  #peekAside(by: Taker): FactRecord | null {
    const record = this.#aside.head(by.limit, one => by.sizeOf(one as FactRecord), this.#parts.clock.mono())
    if (!record || !by.mayGo(record as FactRecord)) return null
    this.#offered = this.#aside.lane
    return this.right(record)
  }

  /** What the live lane has behind it. */
  get #growing(): Range | null {
    return this.#live && { from: this.#liveFrom, to: this.#live.ledger.cursor }
  }

  #isTaken(seq: number): boolean {
    const live = this.#live
    if (this.#ahead.of(seq)) return true
    return live && seq >= this.#liveFrom ? seq < live.front : seq < this.#main.front
  }

  /** The lane's next record that is neither there already nor held. */
  #head(lane: Lane<Payload>): FactRecord | null {
    const { clock } = this.#parts
    if (lane.heldUntil > clock.mono() || (this.#closing && lane === this.#live)) return null
    for (;;) {
      const record = lane.peek()
      if (lane === this.#main && (record?.seq ?? lane.front) >= this.#liveFrom) {
        this.#merge()
        return null
      }
      if (!record) return null
      const range = this.#ahead.of(record.seq)
      const alarm = this.#alarms.ahead.get(record.seq)
      if (range) lane.skip(range.to)
      else if (alarm) {
        this.#alarms.ahead.delete(record.seq)
        lane.taken()
        if (alarm.done) lane.ledger.pass(record.seq)
        else lane.ledger.adopt(alarm)
      } else {
        const hold = this.#holdMs(record)
        if (hold <= 0) return record as FactRecord
        lane.heldUntil = clock.mono() + Math.min(hold, 1000)
        return null
      }
    }
  }

  #holdMs({ quality }: LogRecord): number {
    return this.#parts.holdMs(quality)
  }

  /** The backlog is over: what came beside it is everything from now on. */
  #merge(): void {
    const live = this.#live
    if (!live || this.#main.front < this.#liveFrom || this.#main.ledger.outstanding > 0) return
    this.#main = live
    this.#live = null
    this.#closing = false
    this.#liveFrom = Number.POSITIVE_INFINITY
  }
}
