// What goes next over one uplink, and how far the upstream has everything: a reader behind a cursor in the log. Nothing
// here packs or sends. After a lost link the records after the cursor are read again.
//
// What fails: a log that cannot commit. Only committed records are read, so that the upstream never holds a fact this gateway
// could lose; while the disk refuses, live data still flows (R3): what is in RAM is read too, and the upstream keeps what
// this gateway cannot.
import type { Clock } from '../../lib/clock'
import type { FlashLog, LogRecord, Reader, TimeQuality } from '../../log'
import type { Fact } from '../../pipeline/fact'
import { Ledger, type Shipment } from './ledger'

export interface FeedParts {
  log: FlashLog
  clock: Clock
  /** ms a record of bad time quality is held back for */
  holdMs: (quality: TimeQuality) => number
  /** puts the time of a record right that was stamped before a sync (D18) */
  correct?: (record: LogRecord) => void
}

export type FactRecord = LogRecord & { readonly fact: Fact }

const CURSOR_EVERY_MS = 1000

export class Feed<Payload> {
  readonly #name: string
  readonly #parts: FeedParts
  readonly #ledger: Ledger<Payload>
  #reader: Reader
  #next: LogRecord | null = null
  /** the one whose time was put right */
  #corrected: LogRecord | null = null
  /** the reader goes beyond what is committed, since the disk refuses */
  #readsRam = false
  #heldUntil = 0
  #savedCursor: number
  #savedAt = Number.NEGATIVE_INFINITY

  constructor(uplink: string, parts: FeedParts) {
    this.#name = `uplink:${uplink}`
    this.#parts = parts
    const saved = parts.log.cursor(this.#name) ?? 0
    this.#savedCursor = saved
    this.#ledger = new Ledger(saved)
    this.#reader = parts.log.reader(saved + 1, { kinds: ['fact'] })
  }

  get cursor(): number {
    return this.#ledger.cursor
  }

  /** facts the upstream does not have yet */
  get backlog(): number {
    return this.#parts.log.factsAfter(this.#ledger.cursor)
  }

  /** When a held record may go, in the clock's mono time; Infinity: none is held. */
  get heldUntil(): number {
    return this.#heldUntil > this.#parts.clock.mono() ? this.#heldUntil : Number.POSITIVE_INFINITY
  }

  /** The record that goes next; stays the same until it is shipped or passed. Null when there is none now. */
  peek(): FactRecord | null {
    const { clock, holdMs, correct } = this.#parts
    if (this.#heldUntil > clock.mono()) return null
    this.#chooseReader()
    this.#next ??= this.#reader.next()
    const record = this.#next
    if (!record?.fact) return null
    const hold = holdMs(record.quality)
    if (hold <= 0) {
      if (this.#corrected !== record) correct?.(record)
      this.#corrected = record
      return record as FactRecord
    }
    this.#heldUntil = clock.mono() + Math.min(hold, 1000)
    return null
  }

  /** The record goes out. */
  ship(record: FactRecord, payload: Payload): Shipment<Payload> {
    this.#next = null
    return this.#ledger.ship(record.seq, payload)
  }

  /** The record cannot go out; the cursor may pass it. */
  pass(record: FactRecord): void {
    this.#next = null
    this.#ledger.pass(record.seq)
  }

  /** The upstream has it, or nobody wants it any more. */
  done(shipment: Shipment<Payload>): void {
    this.#ledger.done(shipment)
    this.saveCursor(false)
  }

  /** Nothing is on its way any more: starts behind the cursor again. */
  rewind(): void {
    this.#ledger.rewind()
    this.#read(this.#ledger.cursor + 1)
  }

  /** Keeps the cursor in the log, at most once a second unless it must be `now`. */
  saveCursor(now: boolean): void {
    const { log, clock } = this.#parts
    const { cursor } = this.#ledger
    if (cursor === this.#savedCursor) return
    if (!now && clock.mono() - this.#savedAt < CURSOR_EVERY_MS) return
    this.#savedAt = clock.mono()
    this.#savedCursor = cursor
    log.appendCursor(this.#name, cursor)
  }

  #chooseReader(): void {
    const { degraded } = this.#parts.log
    if (this.#readsRam === degraded) return
    this.#readsRam = degraded
    this.#read(this.#next?.seq ?? this.#reader.position)
  }

  #read(from: number): void {
    this.#reader = this.#parts.log.reader(from, { kinds: ['fact'], committedOnly: !this.#readsRam })
    this.#next = null
  }
}
