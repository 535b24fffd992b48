// Detects damage at rest (R29): reads the sealed segments of an open log, a block at a time and at most `bytesS` a second.
// Unchecked segments come first, then each is checked again after a day; if none is due it sleeps for an hour. Blocks in the
// page cache are not read from the card: a fault there is found once the memory was needed for something else.
//
// Errors: a segment that cannot be read is reported until it can be. Damage is handled as for a reader: ledger, status, and
// one WARN line.
import type { Clock } from '../lib/clock'
import type { Files } from '../lib/files'
import type { Timers } from '../lib/timers'
import { checkRecord, recordSeq } from './decode'
import { MAX_RECORD, RECORD_OVERHEAD, recordLength } from './format'
import type { LogCheck } from './log-options'
import { decodeHeader } from './segment'
import type { Segment, Segments } from './segments'

const BLOCK = 128 * 1024
const AGAIN_MS = 86_400_000
const SLEEP_MS = 3_600_000

interface CheckOptions {
  readonly files: Files
  readonly clock: Clock
  readonly timers: Timers
  /** maximum read rate; 0: no checks */
  readonly bytesS: number
  readonly segments: Segments
  /** Records the damage and repairs the file; false if it cannot be read. */
  damaged(segment: Segment): boolean
}

interface CheckPosition {
  readonly segment: Segment
  readonly generation: number
  at: number
  /** lower bound for the seq of the next record */
  seq: number
}

export class BackgroundCheck {
  readonly #o: CheckOptions
  readonly #checked = new WeakMap<Segment, number>()
  readonly #unreadable = new Set<Segment>()
  #place: CheckPosition | undefined
  #cancel: (() => void) | undefined
  #segments = 0
  #damaged = 0
  #bytes = 0
  #last: number | null = null

  constructor(options: CheckOptions) {
    this.#o = options
  }

  /** undefined: no checks. */
  get status(): LogCheck | undefined {
    if (this.#o.bytesS <= 0) return undefined
    const unreadable = this.#o.segments.list.filter(segment => this.#unreadable.has(segment)).map(({ name }) => name)
    return { segments: this.#segments, bytes: this.#bytes, damaged: this.#damaged, unreadable, last: this.#last }
  }

  start(): void {
    if (this.#o.bytesS > 0) this.#plan(BLOCK)
  }

  stop(): void {
    this.#cancel?.()
  }

  /** Plans the next block when the read rate allows it after these bytes. */
  #plan(bytes: number): void {
    const ms = bytes > 0 ? Math.min(SLEEP_MS, Math.ceil((1000 * bytes) / this.#o.bytesS)) : SLEEP_MS
    this.#cancel = this.#o.timers.after(ms, () => this.#plan(this.#step()))
  }

  /** Checks one block; returns the bytes read, 0 if nothing is due. */
  #step(): number {
    const { segments } = this.#o
    let place = this.#place
    if (!place || place.segment.generation !== place.generation || !segments.list.includes(place.segment)) {
      const segment = this.#due()
      if (!segment) return 0
      place = { segment, generation: segment.generation, at: 0, seq: segment.base }
    }
    this.#place = place
    const before = this.#bytes
    const state = this.#look(place)
    if (state !== 'on') this.#done(place.segment, state)
    return Math.max(1, this.#bytes - before)
  }

  /** The sealed segment checked longest ago, unless that was today. */
  #due(): Segment | undefined {
    const { segments, clock } = this.#o
    const when = (segment: Segment): number => this.#checked.get(segment) ?? Number.NEGATIVE_INFINITY
    const sealed = segments.list.filter(segment => segment !== segments.active)
    const [first, ...others] = sealed
    const oldest = others.reduce((least, one) => (when(one) < when(least!) ? one : least), first)
    return oldest && when(oldest) <= clock.mono() - AGAIN_MS ? oldest : undefined
  }

  /** Whether the block at the place is intact, and whether it was the last. */
  #look(place: CheckPosition): 'on' | 'sound' | 'damaged' {
    const { segment } = place
    let block: Buffer
    try {
      block = this.#read(segment, place.at, BLOCK)
      const next = place.at > 0 && block.length >= RECORD_OVERHEAD ? recordLength(block, 0) : 0
      if (next > block.length && next <= MAX_RECORD) block = this.#read(segment, place.at, next)
    } catch {
      return 'damaged' // damaged() determines the reason
    }
    let at = 0
    if (place.at === 0) {
      const head = decodeHeader(block)
      at = head?.header.base === segment.base ? head.length : 0
    }
    for (let length = checkRecord(block, at); length > 0; length = checkRecord(block, at)) {
      const seq = recordSeq(block, at)
      if (seq < place.seq || seq > segment.last) return 'damaged'
      place.seq = seq + 1
      at += length
    }
    place.at += at
    if (place.at >= segment.size) return 'sound'
    return at > 0 && block.length >= RECORD_OVERHEAD ? 'on' : 'damaged'
  }

  #read({ path, size }: Segment, at: number, length: number): Buffer {
    const block = this.#o.files.readAt(path, at, Math.min(length, size - at))
    this.#bytes += block.length
    return block
  }

  #done(segment: Segment, state: 'sound' | 'damaged'): void {
    const { clock } = this.#o
    this.#place = undefined
    this.#checked.set(segment, clock.mono())
    this.#segments++
    this.#last = clock.wall()
    this.#unreadable.delete(segment)
    if (state === 'sound') return
    if (this.#o.damaged(segment)) this.#damaged++
    else this.#unreadable.add(segment)
  }
}
