// Sends alarms first. A separate reader searches for them ahead of the lanes, a limited number of records at a time; an alarm
// that was sent is remembered until the lane reaches it. Beyond the limit alarms are sent in order.
import type { FlashLog, LogRecord, Reader } from '../../log'
import type { Fact } from '../../pipeline/fact'
import type { Item } from './lane'

/** Whether a fact is an alarm: its device state or a reading's status is in the list, ignoring case. */
export function alarmCheck(statuses: readonly string[]): (fact: Fact) => boolean {
  const known = new Set(statuses.map(status => status.toUpperCase()))
  if (known.size === 0) return () => false
  return ({ state, sensors }) =>
    known.has(state.toUpperCase()) || sensors.some(({ status }) => known.has(status.toUpperCase()))
}

/** records checked per turn */
const MOST = 2000
const MAX_AHEAD = 4096

export class Alarms {
  /** alarms sent early, by seq */
  readonly #ahead = new Map<number, Item>()
  readonly #log: FlashLog
  #reader: Reader
  #next: LogRecord | null = null

  constructor(log: FlashLog, cursor: number) {
    this.#log = log
    this.#reader = this.#at(cursor + 1)
  }

  /** The next alarm that no lane has taken; `front`: records before it need no check. */
  head(front: number, isTaken: (seq: number) => boolean): LogRecord | null {
    if (this.#ahead.size >= MAX_AHEAD) return null
    if ((this.#next?.seq ?? this.#reader.position) < front) {
      this.#reader = this.#at(front)
      this.#next = null
    }
    for (;;) {
      this.#next ??= this.#reader.next()
      const next = this.#next
      if (!next || (next.alarm && !this.#ahead.has(next.seq) && !isTaken(next.seq))) return next
      this.#next = null
    }
  }

  /** The head is sent early. */
  take(item: Item): void {
    this.#ahead.set(item.seq, item)
    this.#next = null
  }

  /** A lane reached that seq: takes over the alarm that was sent early. */
  reached(seq: number): Item | undefined {
    const item = this.#ahead.get(seq)
    this.#ahead.delete(seq)
    return item
  }

  /** Alarms in flight are sent again; delivered ones are remembered. */
  rewind(cursor: number): void {
    for (const [seq, { done }] of this.#ahead) if (!done || seq <= cursor) this.#ahead.delete(seq)
    this.#reader = this.#at(cursor + 1)
    this.#next = null
  }

  #at(from: number): Reader {
    return this.#log.reader(from, { alarms: true, most: MOST, committedOnly: false })
  }
}
