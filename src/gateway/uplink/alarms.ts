// Alarms go before everything else. A reader of its own looks for them ahead of the lanes, a bounded number of records at a
// time; an alarm that was sent is remembered until the lane reaches it. Beyond the bound alarms wait for their turn.
import type { FlashLog, LogRecord, Reader } from '../../log'
import type { Fact } from '../../pipeline/fact'
import type { Item } from './lane'

/** Whether a fact is an alarm: its device's state or a reading's status is one of these, in upper or lower case. */
export function alarmCheck(statuses: readonly string[]): (fact: Fact) => boolean {
  const known = new Set(statuses.map(status => status.toUpperCase()))
  if (known.size === 0) return () => false
  return ({ state, sensors }) =>
    known.has(state.toUpperCase()) || sensors.some(({ status }) => known.has(status.toUpperCase()))
}

/** records looked at in one turn */
const MOST = 2000
const MAX_AHEAD = 4096

export class Alarms {
  /** sent before their turn, by seq */
  readonly #ahead = new Map<number, Item>()
  readonly #log: FlashLog
  #reader: Reader
  #next: LogRecord | null = null

  constructor(log: FlashLog, cursor: number) {
    this.#log = log
    this.#reader = this.#at(cursor + 1)
  }

  /** The next alarm that no lane has taken; `front`: nothing before it needs to be looked at. */
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

  /** The head goes out before its turn. */
  take(item: Item): void {
    this.#ahead.set(item.seq, item)
    this.#next = null
  }

  /** A lane reached that seq: the alarm sent before its turn is the lane's from now on. */
  reached(seq: number): Item | undefined {
    const item = this.#ahead.get(seq)
    this.#ahead.delete(seq)
    return item
  }

  /** Alarms on their way go again; delivered ones are remembered. */
  rewind(cursor: number): void {
    for (const [seq, { done }] of this.#ahead) if (!done || seq <= cursor) this.#ahead.delete(seq)
    this.#reader = this.#at(cursor + 1)
    this.#next = null
  }

  #at(from: number): Reader {
    return this.#log.reader(from, { alarms: true, most: MOST, committedOnly: false })
  }
}
