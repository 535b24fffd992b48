// One way through the log in order: a reader, and a ledger of what is on its way. A feed has one for everything, and while a
// backlog is sent a second one for what comes in meanwhile.
import type { FlashLog, LogRecord, Reader } from '../../log'
import { Ledger } from './ledger'

export class Lane<Payload> {
  readonly ledger: Ledger<Payload>
  readonly #log: FlashLog
  #reader: Reader
  #next: LogRecord | null = null
  /** mono ms until which its next record is held back */
  heldUntil = Number.NEGATIVE_INFINITY

  /** Begins behind `cursor`. */
  constructor(log: FlashLog, cursor: number) {
    this.#log = log
    this.ledger = new Ledger(cursor)
    this.#reader = this.#at(cursor + 1)
  }

  /** seq of the record that comes next, at least */
  get front(): number {
    return this.#next?.seq ?? this.#reader.position
  }

  /** The next record; stays the same until moved on. Null when there is none now. */
  peek(): LogRecord | null {
    this.#next ??= this.#reader.next()
    return this.#next
  }

  /** The peeked record has its place in the ledger, or needs none. */
  taken(): void {
    this.#next = null
  }

  /** Goes on behind that seq; what lies before needs nothing any more. */
  skip(seq: number): void {
    this.ledger.pass(seq)
    this.#reader = this.#at(seq + 1)
    this.#next = null
  }

  /** Nothing is on its way any more: begins behind the cursor again. */
  rewind(): void {
    this.ledger.rewind()
    this.#reader = this.#at(this.ledger.cursor + 1)
    this.#next = null
    this.heldUntil = Number.NEGATIVE_INFINITY
  }

  #at(from: number): Reader {
    return this.#log.reader(from, { kinds: ['fact'], committedOnly: false })
  }
}
