// Alarms go before everything else. A reader of its own looks for them ahead of the lanes, a bounded number of records at a
// time; what it found and sent is remembered until the lane whose turn it would have been comes by. Beyond the bound alarms
// wait for their turn like anything else.
import type { FlashLog, LogRecord, Reader } from '../../log'
import type { Fact } from '../../pipeline/fact'
import type { Shipment } from './ledger'

/** Whether a fact is one: its device's state or a reading's status is one of these, in any case of letters. */
export function alarmCheck(statuses: readonly string[]): (fact: Fact) => boolean {
  const known = new Set(statuses.map(status => status.toUpperCase()))
  if (known.size === 0) return () => false
  return ({ state, sensors }) =>
    known.has(state.toUpperCase()) || sensors.some(({ status }) => known.has(status.toUpperCase()))
}

/** records looked at in one turn */
const MOST = 2000
const MAX_AHEAD = 4096

export class Alarms<Payload> {
  /** sent before their turn, by seq */
  readonly ahead = new Map<number, Shipment<Payload>>()
  readonly #log: FlashLog
  #reader: Reader
  #next: LogRecord | null = null

  constructor(log: FlashLog, cursor: number) {
    this.#log = log
    this.#reader = this.#at(cursor + 1)
  }

  /** The next alarm that is nobody's yet; `front`: nothing before it needs to be looked at. */
  peek(front: number, isTaken: (seq: number) => boolean): LogRecord | null {
    if (this.ahead.size >= MAX_AHEAD) return null
    if ((this.#next?.seq ?? this.#reader.position) < front) {
      this.#reader = this.#at(front)
      this.#next = null
    }
    for (;;) {
      this.#next ??= this.#reader.next()
      const next = this.#next
      if (!next || (next.alarm && !this.ahead.has(next.seq) && !isTaken(next.seq))) return next
      this.#next = null
    }
  }

  taken(): void {
    this.#next = null
  }

  /** What is on its way is forgotten; what arrived is remembered. */
  rewind(cursor: number): void {
    for (const [seq, { done }] of this.ahead) if (!done || seq <= cursor) this.ahead.delete(seq)
    this.#reader = this.#at(cursor + 1)
    this.#next = null
  }

  #at(from: number): Reader {
    return this.#log.reader(from, { alarms: true, most: MOST, committedOnly: false })
  }
}
