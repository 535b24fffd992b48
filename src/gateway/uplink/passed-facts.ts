// Facts that the cursor has passed and that must still be sent, as ranges that are stored in the log.
// - Oversized: too large for the active uplink, but not for another of the list. The first usable larger uplink sends them, as
//   the secondary uplink or when it becomes active. One range per size: "facts in this range that need more than so many bytes
//   are not delivered". So a month on a small uplink costs four counters.
// - Refused: a broker acknowledged them, and the upstream then refused them. The active uplink sends them again, at longer and
//   longer intervals. One range per run of such facts, while there are few; one that waits for a key keeps no other waiting.
//
// Errors: facts that the log deletes meanwhile are lost, like any fact that waits too long. A range may include facts that
// were delivered another way since; they are sent twice, and the upstream discards duplicates.
import type { FlashLog } from '../../log'
import { type FactRecord, type Item, Lane } from './lane'
import { StoredRanges } from './stored-ranges'

interface PassedRange {
  from: number
  to: number
  /** maximum packet size of the uplink that could not send them */
  limit: number
  /** approximate number of facts; at least one while the range is not done */
  count: number
}

const KEYS = ['from', 'to', 'limit', 'count'] as const
/** beyond this two ranges are merged: the largest two, or the nearest two refused ones */
const MOST = { oversized: 4, refused: 8 }
/** names of the counters in the log; existing logs have `aside` */
const COUNTER_NAMES = { oversized: 'aside', refused: 'refused' }
/** records checked per turn */
const LOOKS = 256
const HOLD_MS = 5
/** a refused fact is sent again at once, one that was refused again 1 s, 2 s … later */
const DELAY_MS = 1000
const LONGEST_DELAY_MS = 60_000
/** so long after the last delay the next refusal counts as the first */
const CALM_MS = 120_000

export class PassedFacts {
  readonly #log: FlashLog
  readonly #stored: StoredRanges<keyof PassedRange>
  readonly #kind: keyof typeof MOST
  /** smallest limit first; of refused facts in the order of the log */
  #list: PassedRange[]
  #reading: PassedRange | null = null
  /** items taken from the range being read */
  #taken = 0
  #ended = false
  /** reads the range whose facts fit now */
  #lane: Lane | null = null
  /** no range is opened before, mono ms */
  #openAt = Number.NEGATIVE_INFINITY
  #delayMs = 0
  /** newest refused fact that was sent again */
  #sentTo = 0
  /** one of these was refused again, or waits for a key */
  #repeated = false

  constructor(name: string, log: FlashLog, kind: keyof typeof MOST) {
    this.#log = log
    this.#kind = kind
    this.#stored = new StoredRanges(log, `${name}:${COUNTER_NAMES[kind]}`, KEYS, MOST[kind])
    this.#list = this.#stored.read().filter(({ from, to, count }) => count > 0 && to >= from)
  }

  /** How many wait for an uplink that carries more than `limit` bytes; 0: all. */
  count(limit = 0): number {
    let sum = 0
    for (const one of this.#list) if (one.limit >= limit) sum += one.count
    return sum - this.#settled(limit)
  }

  get heldUntil(): number {
    return this.#lane?.heldUntil ?? (this.#list.length > 0 ? this.#openAt : Number.NEGATIVE_INFINITY)
  }

  /** The record needs more than `limit` bytes; 0: it was refused. `previous`: the fact before it. */
  note(seq: number, limit = 0, previous?: number): void {
    if (limit === 0 && seq <= this.#sentTo) this.#repeated = true
    // a record that the lane has already passed needs a new range
    const open = this.#lane && !this.#ended && seq >= this.#lane.front ? this.#reading : null
    const may = (one: PassedRange): boolean => one.limit === limit && (one !== this.#reading || one === open)
    const known = limit > 0 ? this.#list.find(may) : this.#continued(seq, previous, may)
    if (known) {
      if (seq < known.from || seq > known.to) known.count++
      known.from = Math.min(known.from, seq)
      known.to = Math.max(known.to, seq)
      return
    }
    this.#list.push({ from: seq, to: seq, limit, count: 1 })
    this.#list.sort((a, b) => a.limit - b.limit || a.from - b.from)
    if (this.#list.length <= MOST[this.#kind]) return
    const at = limit > 0 ? this.#list.length - 2 : this.#nearest()
    const [a, b] = this.#list.slice(at, at + 2) as [PassedRange, PassedRange]
    const [from, to] = [Math.min(a.from, b.from), Math.max(a.to, b.to)]
    this.#list.splice(at, 2, { from, to, limit: a.limit, count: a.count + b.count })
  }

  /** The next record that fits into `limit` bytes; null if there is none now. */
  head(limit: number, sizeOf: (record: FactRecord) => number, now: number): FactRecord | null {
    if (!this.#lane) {
      if (this.#repeated) this.#delay(now)
      const fits = this.#openAt > now ? undefined : this.#list.find(one => one.limit < limit)
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
      if (before === 0 || sizeOf(record) > before) return record
      lane.pass(record)
    }
    lane.heldUntil = now + HOLD_MS
    return null
  }

  /** The head is being sent. */
  take(item: Item): void {
    this.#lane!.take(item)
    item.again = this.#kind === 'refused'
    if (item.again) this.#sentTo = Math.max(this.#sentTo, item.seq)
    this.#taken++
  }

  /** The head waits for a key: those after it go first. */
  postpone(record: FactRecord): void {
    this.#lane!.pass(record)
    this.#repeated = true
    this.note(record.seq)
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
    const reading = this.#reading
    return this.#stored.write(this.#list.map(one => (one === reading ? { ...one, from: this.#lane!.cursor + 1 } : one)))
  }

  /** The range that has the fact, or ends right before it: facts that were delivered stay out. */
  #continued(seq: number, previous: number | undefined, may: (one: PassedRange) => boolean): PassedRange | undefined {
    const last = this.#list.findLast(({ from }) => from <= seq)
    if (!last || !may(last)) return undefined
    const { to } = last
    if (seq <= to + 1) return last
    if (previous !== undefined) return previous <= to ? last : undefined
    const next = this.#log.reader(to + 1, { kinds: ['fact'], committedOnly: false }).next()
    return next?.seq === seq ? last : undefined
  }

  /** The first of the two nearest ranges, except the one being read. */
  #nearest(): number {
    let [at, least] = [0, Number.POSITIVE_INFINITY]
    for (let k = 0; k + 1 < this.#list.length; k++) {
      const [a, b] = this.#list.slice(k, k + 2) as [PassedRange, PassedRange]
      if (a === this.#reading || b === this.#reading || b.from - a.to >= least) continue
      at = k
      least = b.from - a.to
    }
    return at
  }

  #delay(now: number): void {
    this.#repeated = false
    if (now - this.#openAt > CALM_MS) this.#delayMs = 0
    this.#delayMs = Math.min(LONGEST_DELAY_MS, this.#delayMs * 2 || DELAY_MS)
    this.#openAt = now + this.#delayMs
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
}
