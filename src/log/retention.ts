// The limits of the log: the oldest segments are dropped by size or age, and the ledger lists them. A pin (the SQL view has
// not sealed them yet) protects segments from the age limit; the size limit takes precedence over the pin, with a warning, so
// that live data fits.
import { OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { onMedium, type Segment, type Segments } from './segments'
import type { LogState } from './state'

/** wall times before 2024 are from a board without a clock and give no age */
const TRUSTED_FROM_MS = 1_704_067_200_000

export interface RetentionOptions {
  maxBytes: number
  maxAgeMs: number
  whenFull: 'drop_oldest' | 'refuse'
  logger: Logger
}

export class Retention {
  /** lowest seq still needed, or undefined */
  pinned: () => number | undefined = () => undefined
  /** a segment is about to be removed */
  onDropping: (segment: Segment) => void = () => undefined
  /** reports a loss to be logged */
  onDropped: (segment: Segment) => void = () => undefined
  /** whether wall times are reliable now */
  timeTrusted = true
  /** space used by damaged/ on the medium */
  damagedBytes = 0
  readonly #o: RetentionOptions
  readonly #segments: Segments
  readonly #state: LogState

  constructor(options: RetentionOptions, segments: Segments, state: LogState) {
    this.#o = options
    this.#segments = segments
    this.#state = state
  }

  /** Drops the oldest segments until `bytes` more fit; throws DISK_FULL if that is impossible. */
  makeRoom(bytes: number, newSegment: boolean): void {
    const need = newSegment ? onMedium(bytes) : this.#segments.cost(bytes)
    while (this.#segments.taken + this.damagedBytes + need > this.#o.maxBytes) {
      const oldest = this.#segments.list[0]
      // the room may be needed to write a cursor: use the current cursors, even those not yet on flash
      if (!oldest || oldest === this.#segments.active || !this.#mayDrop(oldest, this.#state.cursors)) {
        throw new OsError('DISK_FULL', `the log is full: ${this.#o.maxBytes} bytes`)
      }
      const pin = this.pinned()
      if (pin !== undefined && oldest.last >= pin) {
        this.#o.logger.warn(`the log is full and drops segment ${oldest.name} although the SQL view has not stored it`)
      }
      this.#drop(oldest)
    }
  }

  /**
   * With when_full "refuse": whether a fact of about `bytes` is accepted, with `waiting` bytes already in RAM. Segments that may be dropped count
   * as room and are dropped when that is needed: while the disk refuses, RAM may be lost before it is.
   */
  admits(bytes: number, waiting: number, reserve: number): boolean {
    if (this.#o.whenFull === 'drop_oldest') return true
    const { list, active, taken } = this.#segments
    let over = taken + this.damagedBytes + onMedium(waiting + bytes) + onMedium(reserve) - this.#o.maxBytes
    for (let k = 0; over > 0; k++) {
      const oldest = list[k]
      if (!oldest || oldest === active || !this.#mayDrop(oldest)) return false
      over -= onMedium(oldest.size)
    }
    return true
  }

  /** Drops segments older than max_age_s. Segment times only count if clock and segment are reliable. */
  byAge(wallMs: number): void {
    if (this.#o.maxAgeMs <= 0 || !this.timeTrusted) return
    const list = this.#segments.list
    let newest = -1
    list.forEach((segment, k) => {
      if (segment.created >= TRUSTED_FROM_MS && segment.created <= wallMs - this.#o.maxAgeMs) newest = k
    })
    // a segment created before the limit ends the time of all earlier ones
    for (; newest > 0; newest--) {
      const oldest = list[0]!
      const pin = this.pinned()
      if (oldest === this.#segments.active || (pin !== undefined && oldest.last >= pin)) return
      this.#drop(oldest)
    }
  }

  /** Whether to end the active segment, so that it can be dropped by age one day. */
  tooOld(active: Segment, wallMs: number): boolean {
    return this.#o.maxAgeMs > 0 && active.facts > 0 && wallMs - active.created > this.#o.maxAgeMs / 8
  }

  #mayDrop(segment: Segment, passed = this.#state.kept): boolean {
    if (this.#o.whenFull === 'drop_oldest') return true
    const cursors = [...passed.values()]
    return cursors.length > 0 && cursors.every(seq => seq >= segment.lastFact)
  }

  #drop(segment: Segment): void {
    this.onDropping(segment)
    this.#segments.remove(segment)
    this.onDropped(segment)
  }
}
