// Oversized facts: too large for the active uplink, but not for another of the list. The cursor passes them, and the first
// usable larger uplink sends them, as the secondary uplink or when it becomes active. They are stored as ranges of the log,
// one per size: "facts in this range that need more than so many bytes are not delivered". So a month on a small uplink costs
// four counters. The ranges are stored in the log.
//
// Errors: facts that the log deletes meanwhile are lost, like any fact that waits too long. A range may include facts that
// were delivered another way since; they are sent twice, and the upstream discards duplicates.
import type { FlashLog } from '../../log'
import { type FactRecord, type Item, Lane } from './lane'

interface Waiting {
  from: number
  to: number
  /** maximum packet size of the uplink that could not send them */
  limit: number
  /** approximate number of facts; at least one while the range is not done */
  count: number
}

const KEYS = ['from', 'to', 'limit', 'count'] as const
/** ranges of different sizes; beyond this the largest two are merged */
const MOST = 4
/** records checked per turn */
const LOOKS = 256
const HOLD_MS = 5

export class Oversized {
  readonly #name: string
  readonly #log: FlashLog
  /** smallest limit first */
  #list: Waiting[] = []
  #reading: Waiting | null = null
  /** items taken from the range being read */
  #taken = 0
  #ended = false
  /** reads the range whose facts fit now */
  #lane: Lane | null = null

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
    let sum = 0
    for (const one of this.#list) if (one.limit >= limit) sum += one.count
    return sum - this.#settled(limit)
  }

  get heldUntil(): number {
    return this.#lane?.heldUntil ?? Number.NEGATIVE_INFINITY
  }

  /** The record needs more than `limit` bytes. */
  note(seq: number, limit: number): void {
    // a record that the lane has already passed needs a new range
    const open = this.#lane && !this.#ended && seq >= this.#lane.front ? this.#reading : null
    const known = this.#list.find(one => one.limit === limit && (one !== this.#reading || one === open))
    if (known) {
      if (seq < known.from || seq > known.to) known.count++
      known.from = Math.min(known.from, seq)
      known.to = Math.max(known.to, seq)
      return
    }
    this.#list.push({ from: seq, to: seq, limit, count: 1 })
    this.#list.sort((a, b) => a.limit - b.limit)
    if (this.#list.length <= MOST) return
    // the largest two: the range being read is smaller than the uplink that reads it
    const [a, b] = this.#list.splice(-2) as [Waiting, Waiting]
    const [from, to] = [Math.min(a.from, b.from), Math.max(a.to, b.to)]
    this.#list.push({ from, to, limit: a.limit, count: a.count + b.count })
  }

  /** The next record that fits into `limit` bytes; null if there is none now. */
  head(limit: number, sizeOf: (record: FactRecord) => number, now: number): FactRecord | null {
    if (!this.#lane) {
      const fits = this.#list.find(one => one.limit < limit)
      if (!fits) return null
      this.#reading = fits
      this.#taken = 0
      this.#ended = false
      this.#lane = new Lane(this.#log, fits.from - 1)
    }
    const lane = this.#lane
    if (this.#ended || lane.heldUntil > now) return null
    const { to, limit: before } = this.#reading!
    if (before >= limit) return null
    for (let looks = 0; looks < LOOKS; looks++) {
      const record = lane.head()
      if (!record || record.seq > to) {
        this.#ended = true
        this.settle()
        return null
      }
      if (sizeOf(record) > before) return record
      lane.pass(record)
    }
    lane.heldUntil = now + HOLD_MS
    return null
  }

  /** The head is being sent. */
  take(item: Item): void {
    this.#lane!.take(item)
    this.#taken++
  }

  /** An item may be settled; true if a range is done, and the next one may begin. */
  settle(): boolean {
    const lane = this.#lane
    if (!lane) return false
    lane.settle()
    if (!this.#ended || lane.outstanding > 0) return false
    this.#list = this.#list.filter(one => one !== this.#reading)
    this.#close()
    return true
  }

  /** Items in flight are sent again. */
  rewind(): void {
    const lane = this.#lane
    const reading = this.#reading
    if (!lane || !reading) return
    reading.count = Math.max(1, reading.count - this.#settled())
    reading.from = Math.max(reading.from, lane.cursor + 1)
    if (reading.from > reading.to) this.#list = this.#list.filter(one => one !== reading)
    this.#close()
  }

  /** Writes changes; true if anything was written. */
  save(): boolean {
    let written = false
    for (let k = 0; k < MOST; k++)
      for (const key of KEYS) {
        const one = this.#list[k]
        const moved = one && one === this.#reading && key === 'from' ? this.#lane!.cursor + 1 : one?.[key]
        const value = moved ?? 0
        if ((this.#log.counter(this.#key(k, key)) ?? 0) === value) continue
        this.#log.appendCounter(this.#key(k, key), value)
        written = true
      }
    return written
  }

  #close(): void {
    this.#lane = null
    this.#reading = null
    this.#taken = 0
  }

  /** Of the range being read. */
  #settled(limit = 0): number {
    if (!this.#lane || !this.#reading || this.#reading.limit < limit) return 0
    return Math.min(this.#reading.count - 1, this.#taken - this.#lane.outstanding)
  }

  /** `aside` is the name in existing logs. */
  #key(k: number, key: (typeof KEYS)[number]): string {
    return `${this.#name}:aside${k}:${key}`
  }
}
