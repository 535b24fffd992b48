// Oversized facts: too large for the active uplink, while another of the list could carry them. The cursor passes them, and
// the first larger uplink that works takes them, as secondary beside the active one or when it becomes active itself. They are
// kept as ranges of the log, one for each size: "in here, what needs more than so many bytes is not delivered". So a month on
// a small uplink costs four counters. The ranges are kept with the log.
//
// What fails: what the log deletes meanwhile is lost like any fact that waits too long. A range may include facts that were
// delivered another way since; they go twice, and the upstream discards duplicates.
import type { FlashLog } from '../../log'
import { type FactRecord, type Item, Lane } from './lane'

interface Waiting {
  from: number
  to: number
  /** bytes carried by the uplink that could not take them */
  limit: number
  /** facts, roughly; at least one while the range is not done */
  count: number
}

const KEYS = ['from', 'to', 'limit', 'count'] as const
/** ranges of different sizes; of more the largest two are merged */
const MOST = 4
/** records looked at in one turn */
const LOOKS = 256
const HOLD_MS = 5

export class Oversized {
  readonly #name: string
  readonly #log: FlashLog
  /** smallest limit first */
  #list: Waiting[] = []
  #reading: Waiting | null = null
  /** items taken from the range that is being read */
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
    // behind what the lane has read it needs a range of its own
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
    // the largest two: the one that is being read is smaller than the uplink that reads it
    const [a, b] = this.#list.splice(-2) as [Waiting, Waiting]
    const [from, to] = [Math.min(a.from, b.from), Math.max(a.to, b.to)]
    this.#list.push({ from, to, limit: a.limit, count: a.count + b.count })
  }

  /** The next one that fits into `limit` bytes; null when there is none now. */
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

  /** The head goes out. */
  take(item: Item): void {
    this.#lane!.take(item)
    this.#taken++
  }

  /** An item may be done; true when a range is, and the next one may begin. */
  settle(): boolean {
    const lane = this.#lane
    if (!lane) return false
    lane.settle()
    if (!this.#ended || lane.outstanding > 0) return false
    this.#list = this.#list.filter(one => one !== this.#reading)
    this.#close()
    return true
  }

  /** What is on its way goes again. */
  rewind(): void {
    const lane = this.#lane
    const reading = this.#reading
    if (!lane || !reading) return
    reading.count = Math.max(1, reading.count - this.#settled())
    reading.from = Math.max(reading.from, lane.cursor + 1)
    if (reading.from > reading.to) this.#list = this.#list.filter(one => one !== reading)
    this.#close()
  }

  /** Writes what changed; true when anything was written. */
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

  /** Of the range that is being read. */
  #settled(limit = 0): number {
    if (!this.#lane || !this.#reading || this.#reading.limit < limit) return 0
    return Math.min(this.#reading.count - 1, this.#taken - this.#lane.outstanding)
  }

  /** `aside` is the name in logs already written. */
  #key(k: number, key: (typeof KEYS)[number]): string {
    return `${this.#name}:aside${k}:${key}`
  }
}
