// How long the sender of the delivery exchange waits before a packet goes again (X29): by the round trips it
// measured, what the peer said its commit may take, and how patient a slow peer has made it. Pure; nothing fails.

const MIN_RETRANSMIT_MS = 2000
/** a peer that holds packets and is slow to commit is probed ever less, yet so often that its end is seen within 80 s */
const MAX_BACKOFF_MS = 16_000

interface RtoOptions {
  /** least pause, where a slow medium needs more than 2 s */
  minRtoMs?: number | undefined
  /** the pause doubles with each sending that nothing answers */
  backsOff?: boolean | undefined
}

export class RetransmitTimeout {
  /** sending rounds of the oldest packet since the last answer */
  quietRounds = 0
  /** smoothed round trip in ms, the peer's commit time included; 0 before the first answer */
  roundTripMs = 0
  readonly #leastMs: number
  readonly #backsOff: boolean
  #commitMs = 0
  /** factor: doubles while the peer answers a packet sent again without naming it */
  #backoff = 1
  /** the oldest packet went again since the last answer */
  #used = false

  constructor({ minRtoMs = MIN_RETRANSMIT_MS, backsOff = false }: RtoOptions) {
    this.#leastMs = Math.max(MIN_RETRANSMIT_MS, minRtoMs)
    this.#backsOff = backsOff
  }

  /** The link was closed or is opened again. What the peer said of its commit counts until it says so anew. */
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

  /** The oldest packet goes again. */
  asks(): void {
    this.#used = true
  }

  /**
   * An answer came. `roundTripMs`: what it measured, Infinity for nothing; `named`: it acknowledged something new.
   *
   * A packet that went again and is not named: the peer has it and its disk is slow. What a slow commit takes cannot be
   * measured by packets sent twice, so the pause doubles while nothing new is named; a lost packet, which is followed by no
   * answer at all, does not lengthen it.
   */
  answered(roundTripMs: number, named: boolean): void {
    this.quietRounds = 0
    if (roundTripMs < Number.POSITIVE_INFINITY) {
      const before = this.roundTripMs
      this.roundTripMs = before === 0 ? roundTripMs : before + (roundTripMs - before) / 8
      this.#backoff = 1
    } else if (named)
      // it moves on: what made it slow is over, or was only late answers of a bad road
      this.#backoff = Math.max(1, this.#backoff / 2)
    else if (this.#used && this.ms() < MAX_BACKOFF_MS) this.#backoff *= 2
    this.#used = false
  }
}
