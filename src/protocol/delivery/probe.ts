// The probe of the delivery exchange (X29): sent when a link is opened, again 2 s later, then after delays that double up to
// 5 s (decision 0045). Pure. A PONG counts if it has the number of a probe sent since the opening, however late it arrives; any other
// packet is ignored (null).
import { COMMAND } from '../../wire/commands'
import { controlSeq } from '../control'
import { buildProbe, probeReplyCommitMs } from './frame'

const FIRST_INTERVAL_MS = 2000
const MAX_INTERVAL_MS = 5000
/** number of recent probes whose late PONG still counts */
const OPEN_PROBES = 8

interface ProbeAnswer {
  /** how long the peer may delay an answer for its commit; null: a bare PONG, it does not support the exchange */
  readonly commitMs: number | null
  readonly roundTripMs: number
}

export class Prober {
  readonly #nextSeq: () => number
  #open: { seq: number; at: number }[] = []
  #due = Number.NEGATIVE_INFINITY
  #interval = FIRST_INTERVAL_MS
  #lastInterval = FIRST_INTERVAL_MS

  /** `nextSeq` is the counter shared by all requests, never 0. */
  constructor(nextSeq: () => number) {
    this.#nextSeq = nextSeq
  }

  /** The link is being reopened. */
  reset(): void {
    this.#open = []
    this.#due = Number.NEGATIVE_INFINITY
    this.#interval = FIRST_INTERVAL_MS
  }

  /** When the next probe is due. */
  due(now: number): number {
    return Math.max(now, this.#due)
  }

  /** The probe to send now, or null. */
  poll(now: number): Uint8Array | null {
    if (now < this.#due) return null
    this.#due = now + this.#interval
    this.#lastInterval = this.#interval
    this.#interval = Math.min(MAX_INTERVAL_MS, this.#interval * 2)
    const seq = this.#nextSeq()
    this.#open.push({ seq, at: now })
    if (this.#open.length > OPEN_PROBES) this.#open.shift()
    return buildProbe(seq)
  }

  /** The last probe was delayed and sent only now: restarts its timer. */
  sentAt(now: number): void {
    const last = this.#open.at(-1)
    if (!last) return
    last.at = now
    this.#due = now + this.#lastInterval
  }

  /** The answer in a PONG to an open probe; null for every other packet. */
  answered(raw: Uint8Array, now: number): ProbeAnswer | null {
    if (raw[0] !== COMMAND.PONG || raw.length < 3) return null
    const probe = this.#open.find(open => open.seq === controlSeq(raw))
    return probe ? { commitMs: probeReplyCommitMs(raw), roundTripMs: now - probe.at } : null
  }
}
