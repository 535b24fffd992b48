// The retransmission timeout (RTO) of the delivery exchange (X29): computed from the measured round trips, the commit time
// that the peer announced, and a backoff for slow peers. Pure; cannot fail.

const MIN_RETRANSMIT_MS = 2000
/** limits the backoff for a peer with slow commits, so that its end is detected within 80 s */
const MAX_BACKOFF_MS = 16_000

interface RtoOptions {
  /** minimum RTO, for a slow medium that needs more than 2 s */
  minRtoMs?: number | undefined
  /** the RTO doubles with each retransmission without an answer */
  backsOff?: boolean | undefined
}

export class RetransmitTimeout {
  /** transmissions of the oldest packet since the last answer */
  quietRounds = 0
  /** smoothed round trip in ms, including the peer's commit time; 0 before the first answer */
  roundTripMs = 0
  readonly #leastMs: number
  readonly #backsOff: boolean
  #commitMs = 0
  /** factor: doubles while the peer answers a retransmission without acknowledging it */
  #backoff = 1
  /** the oldest packet was retransmitted since the last answer */
  #used = false

  constructor({ minRtoMs = MIN_RETRANSMIT_MS, backsOff = false }: RtoOptions) {
    this.#leastMs = Math.max(MIN_RETRANSMIT_MS, minRtoMs)
    this.#backsOff = backsOff
  }

  /** The link was closed or is being reopened. The announced commit time stays valid until the peer announces another. */
  reset(): void {
    this.quietRounds = this.roundTripMs = 0
    this.#backoff = 1
    this.#used = false
  }

  /** The peer answered the probe. */
  begin(roundTripMs: number, commitMs: number): void {
    this.roundTripMs = roundTripMs
    this.#commitMs = commitMs
  }

  ms(): number {
    const quiet = this.#backsOff ? 2 ** this.quietRounds : 1
    const rtoMs = Math.max(this.#leastMs, 4 * this.roundTripMs + this.#commitMs) * quiet
    return Math.max(rtoMs, Math.min(MAX_BACKOFF_MS, rtoMs * this.#backoff))
  }

  /** The oldest packet is retransmitted. */
  asks(): void {
    this.#used = true
  }

  /**
   * An answer arrived. `roundTripMs`: its measurement, Infinity for none; `named`: it acknowledged something new.
   *
   * If the answer does not name a retransmitted packet, the peer has it and its disk is slow. A slow commit cannot be
   * measured with retransmitted packets, so the RTO doubles while nothing new is named. A lost packet gets no answer at all,
   * and does not lengthen the RTO.
   */
  answered(roundTripMs: number, named: boolean): void {
    this.quietRounds = 0
    if (roundTripMs < Number.POSITIVE_INFINITY) {
      const before = this.roundTripMs
      this.roundTripMs = before === 0 ? roundTripMs : before + (roundTripMs - before) / 8
      this.#backoff = 1
    } else if (named)
      // progress: the peer is fast again, or only its answers were late
      this.#backoff = Math.max(1, this.#backoff / 2)
    else if (this.#used && this.ms() < MAX_BACKOFF_MS) this.#backoff *= 2
    this.#used = false
  }
}
