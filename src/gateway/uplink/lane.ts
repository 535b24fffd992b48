// One pass through the log in order: a reader, the items in flight, and the cursor. The cursor is the last sequence number
// before which nothing is outstanding; it moves only when the oldest outstanding item is settled. The queue has one lane for
// everything; during a backlog a second one for live data; and one each for oversized and for refused facts.
import type { FlashLog, LogRecord, Reader } from '../../log'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'

export type FactRecord = LogRecord & { readonly fact: Fact }

/** A record in flight: from SendQueue.next() to SendQueue.settle(). */
export interface Item {
  readonly seq: number
  /** measured here, not relayed */
  readonly local: boolean
  /** SendQueue.rewind() begins a new round: items of older rounds are sent again as new items */
  readonly round: number
  fact: Fact
  done: boolean
  /** the upstream refused it */
  again: boolean
  /** sent in plaintext */
  plain: boolean
  /** null before it is packed, and after a retransmit: an answer does not say which of the two arrived */
  packet: EncodedFrame | null
}

export class Lane {
  readonly #log: FlashLog
  #reader: Reader
  #next: FactRecord | null = null
  #open: Item[] = []
  #head = 0
  /** last record read from the log, sent or not */
  #read: number
  #cursor: number
  /** mono ms until which its next record is held back */
  heldUntil = Number.NEGATIVE_INFINITY

  /** Begins after `cursor`. */
  constructor(log: FlashLog, cursor: number) {
    this.#log = log
    this.#read = this.#cursor = cursor
    this.#reader = this.#at(cursor + 1)
  }

  get cursor(): number {
    return this.#cursor
  }

  get outstanding(): number {
    return this.#open.length - this.#head
  }

  /** lower bound for the seq of the next record */
  get front(): number {
    return this.#next?.seq ?? this.#reader.position
  }

  /** The next record, until take() or pass(); null if there is none now. */
  head(): FactRecord | null {
    this.#next ??= this.#reader.next() as FactRecord | null
    return this.#next
  }

  /** The head is being sent, or was sent as an alarm: the cursor waits for it. */
  take(item: Item): void {
    this.#next = null
    this.#read = item.seq
    this.#open.push(item)
  }

  /** The head needs no sending: the cursor may pass it. */
  pass({ seq }: LogRecord): void {
    this.#next = null
    this.#read = seq
    this.settle()
  }

  /** Nothing up to that seq needs sending. */
  skip(seq: number): void {
    this.#next = null
    this.#read = seq
    this.#reader = this.#at(seq + 1)
    this.settle()
  }

  /** An item may be settled: moves the cursor. */
  settle(): void {
    while (this.#head < this.#open.length && this.#open[this.#head]!.done) this.#head++
    if (this.#head === this.#open.length) {
      if (this.#head > 0) this.#open = []
      this.#head = 0
      this.#cursor = this.#read
    } else {
      this.#cursor = this.#open[this.#head]!.seq - 1
      if (this.#head > 1024) {
        this.#open = this.#open.slice(this.#head)
        this.#head = 0
      }
    }
  }

  /** Forgets the items in flight; begins after the cursor again. */
  rewind(): void {
    this.#open = []
    this.#head = 0
    this.#read = this.#cursor
    this.#reader = this.#at(this.#cursor + 1)
    this.#next = null
    this.heldUntil = Number.NEGATIVE_INFINITY
  }

  #at(from: number): Reader {
    return this.#log.reader(from, { kinds: ['fact'], committedOnly: false })
  }
}
