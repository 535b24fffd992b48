// How fast an uplink sends: packets and bytes a second (token buckets, a second's worth at most saved up), what the medium's
// own budget lets go (duty cycle), and how long the first record of a batch waits for others. Alarms wait only for
// the last part of the medium's budget; they are counted all the same, so that the budget holds over time. Pure; nothing fails.
import type { Medium } from '../../links/contracts'

export interface PaceSettings {
  /** 0: no bound */
  ratePacketsS: number
  rateBytesS: number
  /** how long a record waits for others to fill a batch, ms */
  batchWindowMs: number
  /** so many need not wait */
  batchItems: number
}

class Bucket {
  #tokens: number
  #at = Number.NEGATIVE_INFINITY

  constructor(readonly rate: number) {
    this.#tokens = rate
  }

  /** When something may go, in mono ms; not after `now`: now. */
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
  /** the batch that gathers goes then */
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

  /** When the budgets let the next packet of ordinary data go, in mono ms. */
  readyAt(now: number): number {
    const { airtime, maxPacket } = this.#medium
    const paced = Math.max(this.#packets.readyAt(now), this.#bytes.readyAt(now))
    return airtime ? Math.max(paced, now + airtime.waitMs(maxPacket, false)) : paced
  }

  /** The medium's own budget lets alarms go, at least. */
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

  /** When the batch goes whose records wait now, in mono ms; Infinity while there is none, -Infinity where none is waited for. */
  batchAt(now: number, waiting: () => number): number {
    if (this.#windowMs === 0) return Number.NEGATIVE_INFINITY
    const count = waiting()
    if (count === 0) this.#batchAt = Number.POSITIVE_INFINITY
    else if (count >= this.#items) this.#batchAt = now
    else this.#batchAt = Math.min(this.#batchAt, now + this.#windowMs)
    return this.#batchAt
  }

  /** A batch went: the next one gathers anew. */
  batchDone(): void {
    this.#batchAt = Number.POSITIVE_INFINITY
  }
}
