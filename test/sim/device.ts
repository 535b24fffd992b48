// What is known of the readings of one gateway: those of its source, those in its log and in that of the upstream, and what may be lost.

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
  /** of them what the upstream is not known to have */
  readonly ahead = new Map<number, Logged>()
  /** in the upstream's log */
  readonly upstream = new Map<number, Logged>()
  readonly upCommitted = new Set<number>()
  /** lost by the bounds of the gateway's log, which names them */
  readonly dropped = new Set<number>()
  lastTime = 0
  /** counters that the upstream, or a broker, acknowledged, and when */
  readonly settled = new Map<number, number>()
  /** the upstream had committed them and has an older card now */
  readonly gone = new Set<number>()
  goneAt = Number.NEGATIVE_INFINITY
  /** what is acknowledged from then on is not lost by that card */
  blindUntil = Number.NEGATIVE_INFINITY
  /** a broker acknowledged packets under keys that only the card before had */
  brokered = false

  /** The upstream had it, or a broker had it for it, said so, and can not have it any more: nobody sends it again. */
  lost(n: number): boolean {
    const settled = this.settled.get(n)
    return settled !== undefined && settled < this.blindUntil && (this.brokered || this.gone.has(n))
  }
}

/** What was true of a machine when its card was copied: the readings of each device, and those committed. */
export type Memory = ReadonlyMap<
  Device,
  { readonly list: ReadonlyMap<number, Logged>; readonly committed: ReadonlySet<number> }
>

/** an answer that an upstream sent before it had another card comes within this time: delays, and processes that are frozen */
export const LATE_ANSWER_MS = 90_000
