// What is known of the readings of one gateway: those of its source, those in its own log and in each log on the way to the upstream, and
// those that may be lost.
import { Times } from './times'

interface Reading {
  /** true UNIX ms */
  readonly at: number
  /** virtual ms */
  readonly measured: number
}

/** A reading as a log has it. */
export interface Logged {
  readonly seq: number
  readonly tRaw: number
  /** a committed record of the same reading that the log lost and named, until this one is committed */
  lost?: Logged | undefined
}

/** The readings of one gateway in one log: its own, that of a relay, or that of the upstream. */
export class Place {
  /** in the log, by the counter */
  readonly list = new Map<number, Logged>()
  /** the same by the number of the record */
  readonly numbers = new Map<number, number>()
  readonly committed = new Set<number>()
  /** those that the next place is not known to have */
  readonly ahead = new Map<number, Logged>()
  /** lost by the limits of this log, which names them */
  readonly dropped = new Set<number>()
  /** counters that the next place, or a broker, acknowledged, and when */
  readonly settled = new Map<number, number>()
  /** counters that a broker acknowledged and the next place then refused */
  readonly refused = new Set<number>()
  /** of these, those that only a later card than the one of now had noted: nothing sends them again */
  readonly forgotten = new Set<number>()
  /** this machine had committed them and has an older card now */
  readonly gone = new Set<number>()
  goneAt = Number.NEGATIVE_INFINITY
  /** acknowledgements from then on are not lost by that card */
  blindUntil = Number.NEGATIVE_INFINITY

  /** the place that this one sends to */
  next: Place | undefined

  constructor(
    /** the place that sends here */
    readonly before: Place | undefined,
    /** a broker is between the two */
    readonly byBroker: boolean,
  ) {
    if (before) before.next = this
  }

  /**
   * Nothing sends it again: the next place, or a broker, acknowledged it, and then the next place lost it with its card, or
   * this machine lost with its own that it was refused.
   */
  lost(n: number): boolean {
    if (this.forgotten.has(n)) return true
    const { next } = this
    const settled = this.settled.get(n)
    return next !== undefined && settled !== undefined && settled < next.blindUntil && next.gone.has(n)
  }
}

/** What is known of one gateway's readings. */
export class Device {
  next = 1
  readonly readings = new Map<number, Reading>()
  readonly times = new Times()
  /** the first under which it was received; 0: none yet */
  id = 0
  /** by the number of the machine */
  readonly places = new Map<number, Place>()
  readonly own: Place

  /** `way`: its own machine, the relays and the upstream; `byBroker`: whether that machine sends to a broker. */
  constructor(
    readonly name: string,
    way: readonly number[],
    byBroker: (machine: number) => boolean,
  ) {
    let before: Place | undefined
    for (const [k, machine] of way.entries()) {
      before = new Place(before, k > 0 && byBroker(way[k - 1]!))
      this.places.set(machine, before)
    }
    this.own = this.places.get(way[0]!)!
  }

  /** It was measured before its own machine got the card it has now. */
  isFromEarlierCard(n: number): boolean {
    return (this.readings.get(n)?.measured ?? Number.POSITIVE_INFINITY) < this.own.goneAt
  }

  get upstream(): Place {
    return this.places.get(0)!
  }
}

/** The state of a machine when its card was copied: the readings of each device, and the committed and refused ones. */
export type Memory = ReadonlyMap<
  Device,
  {
    readonly list: ReadonlyMap<number, Logged>
    readonly committed: ReadonlySet<number>
    readonly refused: ReadonlySet<number>
  }
>

/** an answer that a receiver sent before it got another card arrives within this time: delays, and frozen processes */
export const LATE_ANSWER_MS = 90_000
