// The send rate of an uplink: packets and bytes a second (token buckets, at most one second saved up), the medium's own
// budget (duty cycle), and how long the first record of a batch waits for others. Alarms only wait for the last share of the
// medium's budget; they are counted too, so that the budget holds over time. Pure; cannot fail.
import type { Medium } from '../../links/contracts'

export interface PaceSettings {
  /** 0: no limit */
  ratePacketsS: number
  rateBytesS: number
  /** how long a record waits for others to fill a batch, ms */
  batchWindowMs: number
  /** this many records are sent without waiting */
  batchItems: number
}

class Bucket {
  #tokens: number
  #at = Number.NEGATIVE_INFINITY

  constructor(readonly rate: number) {
    this.#tokens = rate
  }

  /** When the next packet may be sent, in mono ms; not after `now`: now. */
  readyAt(now: number): number {
    if (this.rate === 0) return now
    this.#fill(now)
    return this.#tokens > 0 ? now : now + Math.max(1, Math.ceil((-this.#tokens * 1000) / this.rate))
  }

  spend(count: number): void {
    this.#tokens -= count
  }

  #fill(now: number): void {
    if (this.#at !== Number.NEGATIVE_INFINITY)
      this.#tokens = Math.min(Math.max(1, this.rate), this.#tokens + ((now - this.#at) * this.rate) / 1000)
    this.#at = now
  }
}

export class Pace {
  readonly #packets: Bucket
  readonly #bytes: Bucket
  readonly #windowMs: number
  readonly #items: number
  readonly #medium: Pick<Medium, 'airtime' | 'maxPacket'>
  /** when the current batch is sent */
  #batchAt = Number.POSITIVE_INFINITY

  constructor(
    { ratePacketsS, rateBytesS, batchWindowMs, batchItems }: PaceSettings,
    medium: Pick<Medium, 'airtime' | 'maxPacket'>,
  ) {
    this.#medium = medium
    this.#items = batchItems
    this.#packets = new Bucket(ratePacketsS)
    this.#bytes = new Bucket(rateBytesS)
    this.#windowMs = batchWindowMs
  }

  /** When the budgets allow the next packet of ordinary data, in mono ms. */
  readyAt(now: number): number {
    const { airtime, maxPacket } = this.#medium
    const paced = Math.max(this.#packets.readyAt(now), this.#bytes.readyAt(now))
    return airtime ? Math.max(paced, now + airtime.waitMs(maxPacket, false)) : paced
  }

  /** True if the medium's own budget allows at least alarms. */
  get urgentMay(): boolean {
    const { airtime, maxPacket } = this.#medium
    return !airtime || airtime.waitMs(maxPacket, true) <= 0
  }

  packets(count: number): void {
    this.#packets.spend(count)
  }

  bytes(count: number): void {
    this.#bytes.spend(count)
  }

  /** When the batch of the waiting records is sent, in mono ms; Infinity: no batch, -Infinity: batches do not wait. */
  batchAt(now: number, waiting: () => number): number {
    if (this.#windowMs === 0) return Number.NEGATIVE_INFINITY
    const count = waiting()
    if (count === 0) this.#batchAt = Number.POSITIVE_INFINITY
    else if (count >= this.#items) this.#batchAt = now
    else this.#batchAt = Math.min(this.#batchAt, now + this.#windowMs)
    return this.#batchAt
  }

  /** A batch was sent: the next one starts. */
  batchDone(): void {
    this.#batchAt = Number.POSITIVE_INFINITY
  }
}
