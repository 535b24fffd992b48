// What is known of the readings of one gateway: those of its source, those in its log and in the log of the upstream, and those that may
// be lost.

export type Row = readonly [string, string, number, string]

interface Reading {
  readonly n: number
  /** true UNIX ms */
  readonly at: number
  /** virtual ms */
  readonly measured: number
  readonly rows: readonly Row[]
}

/** A reading as a log has it. */
export interface Logged {
  readonly seq: number
  readonly tRaw: number
}

/** What is known of one gateway's readings. */
export class Device {
  next = 1
  readonly readings = new Map<number, Reading>()
  /** in its own log, by the counter */
  readonly logged = new Map<number, Logged>()
  /** the same by the number of the record */
  readonly numbers = new Map<number, number>()
  readonly committed = new Set<number>()
  /** those that the upstream is not known to have */
  readonly ahead = new Map<number, Logged>()
  /** in the upstream's log */
  readonly upstream = new Map<number, Logged>()
  readonly upCommitted = new Set<number>()
  /** lost by the limits of the gateway's log, which names them */
  readonly dropped = new Set<number>()
  lastTime = 0
  /** counters that the upstream, or a broker, acknowledged, and when */
  readonly settled = new Map<number, number>()
  /** the upstream had committed them and has an older card now */
  readonly gone = new Set<number>()
  goneAt = Number.NEGATIVE_INFINITY
  /** acknowledgements from then on are not lost by that card */
  blindUntil = Number.NEGATIVE_INFINITY
  /** a broker acknowledged packets under keys that only the card before had */
  brokered = false

  /**
   * The upstream had it, or a broker had it for it, and acknowledged it, but can no longer have it: no gateway sends it
   * again.
   */
  lost(n: number): boolean {
    const settled = this.settled.get(n)
    return settled !== undefined && settled < this.blindUntil && (this.brokered || this.gone.has(n))
  }
}

/** The state of a machine when its card was copied: the readings of each device, and the committed ones. */
export type Memory = ReadonlyMap<
  Device,
  { readonly list: ReadonlyMap<number, Logged>; readonly committed: ReadonlySet<number> }
>

/** an answer that an upstream sent before it got another card arrives within this time: delays, and frozen processes */
export const LATE_ANSWER_MS = 90_000
