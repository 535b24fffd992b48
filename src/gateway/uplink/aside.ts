// Facts too large for the uplink that carries, while another of the list could carry them: the cursor passes them, and they go
// when a larger one carries. Kept as ranges of the log, one for each size: "in here, what needs more than so many bytes is not
// there yet". So a month on a small uplink costs four counters. The ranges are kept with the log.
//
// What fails: what the log deletes meanwhile is lost like any fact that waits too long. A range may name facts that went
// another way since; they go twice, and the upstream knows them.
import type { FlashLog, LogRecord } from '../../log'
import { Lane } from './lane'

interface Waiting {
  from: number
  to: number
  /** bytes the uplink carries that could not take them */
  limit: number
  /** facts, as they were counted */
  count: number
}

const KEYS = ['from', 'to', 'limit', 'count'] as const
/** sizes told apart; the two next to each other become one */
const MOST = 4
/** records looked at in one turn */
const LOOKS = 256
const PAUSE_MS = 5

export class Aside<Payload> {
  readonly #name: string
  readonly #log: FlashLog
  /** smallest limit first */
  #list: Waiting[] = []
  #reading: Waiting | null = null
  #shipped = 0
  #ended = false
  /** the way through the range whose facts fit now */
  lane: Lane<Payload> | null = null

  constructor(name: string, log: FlashLog) {
    this.#name = name
    this.#log = log
    for (let k = 0; k < MOST; k++) {
      const [from = 0, to = 0, limit = 0, count = 0] = KEYS.map(key => log.counter(this.#key(k, key)))
      if (count > 0 && to >= from) this.#list.push({ from, to, limit, count })
    }
  }

  /** How many wait for an uplink that carries more than `limit` bytes; 0: all. */
  count(limit = 0): number {
    return this.#list.reduce((sum, one) => (one.limit < limit ? sum : sum + one.count), 0) - this.#settled(limit)
  }

  /** The record needs more than `limit` bytes. */
  note(seq: number, limit: number): void {
    const known = this.#list.find(one => one.limit === limit)
    if (known) {
      if (seq < known.from || seq > known.to) known.count++
      known.from = Math.min(known.from, seq)
      known.to = Math.max(known.to, seq)
      return
    }
    this.#list.push({ from: seq, to: seq, limit, count: 1 })
    this.#list.sort((a, b) => a.limit - b.limit)
    if (this.#list.length <= MOST) return
    // the largest two: the one that is being read is smaller than the uplink that reads it
    const [a, b] = this.#list.splice(-2) as [Waiting, Waiting]
    const [from, to] = [Math.min(a.from, b.from), Math.max(a.to, b.to)]
    this.#list.push({ from, to, limit: a.limit, count: a.count + b.count })
  }

  /** The next one that fits into `limit` bytes; null when there is none now. */
  head(limit: number, sizeOf: (record: LogRecord) => number, now: number): LogRecord | null {
    if (!this.lane) {
      const fits = this.#list.find(one => one.limit < limit)
      if (!fits) return null
      this.#reading = fits
      this.#shipped = 0
      this.#ended = false
      this.lane = new Lane(this.#log, fits.from - 1)
    }
    const { lane } = this
    if (this.#ended || lane.heldUntil > now) return null
    const { to, limit: before } = this.#reading!
    for (let looks = 0; looks < LOOKS; looks++) {
      const record = lane.peek()
      if (!record || record.seq > to) {
        this.#ended = true
        this.settle()
        return null
      }
      if (record.fact && sizeOf(record) > before) return record
      lane.taken()
      lane.ledger.pass(record.seq)
    }
    lane.heldUntil = now + PAUSE_MS
    return null
  }

  /** One of the lane is on its way. */
  shipped(): void {
    this.#shipped++
  }

  /** Something the lane waits for may be done. */
  settle(): void {
    const { lane } = this
    if (!lane) return
    lane.ledger.settle()
    if (!this.#ended || lane.ledger.outstanding > 0) return
    this.#list = this.#list.filter(one => one !== this.#reading)
    this.#close()
  }

  /** Nothing is on its way any more. */
  rewind(): void {
    const { lane } = this
    const reading = this.#reading
    if (!lane || !reading) return
    reading.count = Math.max(1, reading.count - this.#settled())
    reading.from = Math.max(reading.from, lane.ledger.cursor + 1)
    if (reading.from > reading.to) this.#list = this.#list.filter(one => one !== reading)
    this.#close()
  }

  /** Writes what changed; true when anything was written. */
  save(): boolean {
    let written = false
    for (let k = 0; k < MOST; k++)
      for (const key of KEYS) {
        const one = this.#list[k]
        const moved = one && one === this.#reading && key === 'from' ? this.lane!.ledger.cursor + 1 : one?.[key]
        const value = moved ?? 0
        if ((this.#log.counter(this.#key(k, key)) ?? 0) === value) continue
        this.#log.appendCounter(this.#key(k, key), value)
        written = true
      }
    return written
  }

  #close(): void {
    this.lane = null
    this.#reading = null
    this.#shipped = 0
  }

  /** Of the range that is being read. */
  #settled(limit = 0): number {
    if (!this.lane || !this.#reading || this.#reading.limit < limit) return 0
    return Math.min(this.#reading.count, this.#shipped - this.lane.ledger.outstanding)
  }

  #key(k: number, key: (typeof KEYS)[number]): string {
    return `${this.#name}:aside${k}:${key}`
  }
}
