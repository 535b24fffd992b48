// How packets travel over one medium. Three ways, one shape: the delivery exchange (X29) numbers and repeats them; a medium
// that acknowledges (MQTT QoS 1 and 2) carries several at once and says for each whether the peer has it; everything else
// is best effort: what the medium took counts as delivered.
//
// What fails: a packet the medium refuses. The exchange repeats it by timer; the others stop, wait for what is still under
// way, and tell `refused`: their owner starts again behind the cursor. Nothing is taken for a second then.
import type { Clock } from '../../lib/clock'
import type { Medium } from '../../links/contracts'
import { mediumInfo } from '../../links/registry'
import type { DeliveryMode, DeliverySender } from '../../protocol/delivery'

export type Delivery = 'exchange' | 'medium' | 'best_effort'

/** How a medium delivers; what is not known before its first opening counts as the exchange. */
export function deliveryOf(bestEffort: boolean, { acknowledges }: Medium, mode: DeliveryMode): Delivery {
  if (bestEffort) return 'best_effort'
  return acknowledges ? 'medium' : mode === 'best_effort' ? 'best_effort' : 'exchange'
}

/** few where the air or a bus is shared and slow */
export const packetsInFlight = ({ medium }: Medium): number => mediumInfo(medium)?.in_flight ?? 1024

/** `Token` goes with a packet and comes back when it is acknowledged; null: nobody waits for it. */
export interface Carrier<Token> {
  readonly delivery: Delivery
  /** packets taken and not acknowledged */
  readonly inFlight: number
  /** Whether a packet of that many bytes can be taken now. */
  room(bytes: number): boolean
  /** Takes one packet; `weight` is what it may come to when it goes again. Only while there is room. */
  take(packet: Uint8Array, token: Token | null, weight: number): void
  /** Sends one frame or batch of what was taken; resolves its bytes, 0: there was nothing to send. */
  send(now: number): Promise<number>
  /** When send() or room() is to be asked again without any other event. */
  due(now: number): number
  /** The link is lost: forgets everything. */
  drop(): void
}

export class ExchangeCarrier<Token> implements Carrier<Token> {
  readonly delivery = 'exchange'
  readonly #sender: DeliverySender<Token | null>
  readonly #medium: Medium
  readonly #refused: () => void
  readonly #clock: Clock

  /** `refused`: the medium did not take a frame; it is repeated by timer. */
  constructor(sender: DeliverySender<Token | null>, medium: Medium, clock: Clock, refused: () => void) {
    this.#clock = clock
    this.#sender = sender
    this.#medium = medium
    this.#refused = refused
  }

  get inFlight(): number {
    return this.#sender.inFlight
  }

  room(bytes: number): boolean {
    return this.#sender.canSubmit(bytes)
  }

  take(packet: Uint8Array, token: Token | null, weight: number): void {
    this.#sender.submit(packet, token, weight)
  }

  async send(now: number): Promise<number> {
    const frame = this.#sender.poll(now)
    if (!frame) return 0
    const { length } = frame
    const taken = await this.#medium.send(frame)
    // where sending takes its time, the wait for the answer begins after that
    if (this.#medium.airtime) this.#sender.left(this.#clock.mono())
    if (!taken) this.#refused()
    return length
  }

  due(now: number): number {
    return this.#sender.nextDeadline(now)
  }

  drop(): void {
    this.#sender.reset()
  }
}

export interface DirectOptions<Token> {
  medium: Medium
  clock: Clock
  acked: (token: Token) => void
  /** nothing is under way any more, and not everything arrived */
  refused: () => void
  /** packets and bytes handed to one sendBatch() */
  batchItems: number
  batchBytes: number
  maxPackets?: number
  maxBytes?: number
}

interface Taken<Token> {
  readonly bytes: Uint8Array
  readonly token: Token | null
}

const PAUSE_MS = 1000

/** Packets as they are, without an envelope; with `medium` several batches are under way at once. */
export class DirectCarrier<Token> implements Carrier<Token> {
  readonly #options: Required<DirectOptions<Token>>
  #pending: Taken<Token>[] = []
  #inFlight = 0
  #bytes = 0
  #underWay = 0
  #failed = false
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** counts the openings: what an older one still answers is not heard */
  #opening = 0

  constructor(
    readonly delivery: 'medium' | 'best_effort',
    options: DirectOptions<Token>,
  ) {
    this.#options = { maxPackets: 1024, maxBytes: 262_144, ...options }
  }

  get inFlight(): number {
    return this.#inFlight
  }

  room(bytes: number): boolean {
    const { medium, maxPackets, maxBytes, batchItems, clock } = this.#options
    if (this.#failed || clock.mono() < this.#pausedUntil) return false
    const most = this.delivery === 'medium' ? maxPackets : medium.sendBatch ? batchItems : 1
    return this.#inFlight < most && (this.#inFlight === 0 || this.#bytes + bytes <= maxBytes)
  }

  take(bytes: Uint8Array, token: Token | null): void {
    this.#pending.push({ bytes, token })
    this.#inFlight++
    this.#bytes += bytes.length
  }

  async send(): Promise<number> {
    const batch = this.#batch()
    if (batch.length === 0) return 0
    const sent = this.#sendBatch(batch)
    if (this.delivery === 'best_effort') await sent
    return batch.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  due(now: number): number {
    if (this.#failed) return Number.POSITIVE_INFINITY
    return this.#pending.length > 0 ? now : now < this.#pausedUntil ? this.#pausedUntil : Number.POSITIVE_INFINITY
  }

  drop(): void {
    this.#opening++
    this.#pending = []
    this.#inFlight = this.#bytes = this.#underWay = 0
    this.#failed = false
  }

  #batch(): Taken<Token>[] {
    const { medium, batchItems, batchBytes } = this.#options
    if (this.#failed) return []
    let n = 0
    const most = medium.sendBatch ? batchItems : 1
    for (let bytes = 0; n < this.#pending.length && n < most; n++) {
      bytes += this.#pending[n]!.bytes.length
      if (n > 0 && bytes > batchBytes) break
    }
    return this.#pending.splice(0, n)
  }

  async #sendBatch(batch: Taken<Token>[]): Promise<void> {
    const { medium } = this.#options
    const opening = this.#opening
    this.#underWay++
    const packets = batch.map(({ bytes }) => bytes)
    const whole = batch.length === 1 || !medium.sendBatch
    // a medium that throws has not taken it
    const good = await (whole ? medium.send(packets[0]!).then(Number) : medium.sendBatch!(packets)).catch(() => 0)
    if (opening !== this.#opening) return
    this.#underWay--
    for (const [k, { bytes, token }] of batch.entries()) {
      this.#inFlight--
      this.#bytes -= bytes.length
      if (k < good && token !== null) this.#options.acked(token)
    }
    if (good < batch.length) this.#failed = true
    if (this.#failed && this.#underWay === 0) this.#refuse()
  }

  #refuse(): void {
    const { clock, refused } = this.#options
    this.drop()
    this.#pausedUntil = clock.mono() + PAUSE_MS
    refused()
  }
}
