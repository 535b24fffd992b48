// Limits the packets in flight on a medium. There are three kinds: the delivery exchange (X29) numbers and retransmits
// packets, in its own window (src/protocol/delivery); a medium that acknowledges (MQTT QoS 1) takes several at once and
// reports for each whether the peer has it; all others are best effort: a packet counts as delivered when the medium accepts
// it.
//
// Errors: the medium refuses a packet. The exchange retransmits it by timer; a direct window stops, waits for the packets in
// flight, and calls `refused`: its owner starts again after the cursor. For a second it takes no packets.
import type { Clock } from '../../lib/clock'
import type { Medium } from '../../links/contracts'
import { mediumInfo } from '../../links/registry'
import type { DeliveryMode, DeliverySenderOptions } from '../../protocol/delivery'
import type { Item } from './lane'

export type Delivery = 'exchange' | 'medium' | 'best_effort'

/** How a medium delivers; before its first opening the exchange is assumed. */
export function deliveryOf(bestEffort: boolean, { acknowledges }: Medium, mode: DeliveryMode): Delivery {
  if (bestEffort) return 'best_effort'
  return acknowledges ? 'medium' : mode === 'best_effort' ? 'best_effort' : 'exchange'
}

/** few if the channel or bus is shared and slow */
export const packetsInFlight = ({ medium }: Medium): number => mediumInfo(medium)?.in_flight ?? 1024

/** size of an answer in the exchange, for estimates */
export const ANSWER_BYTES = 24
/** packets in flight when the exchange begins: as many as one answer can name */
const START_PACKETS = 32

type OfMedium = 'maxPacket' | 'maxPackets' | 'startPackets' | 'batchItems' | 'batchBytes' | 'minRtoMs' | 'backsOff'

export function exchangeOver(
  medium: Medium,
  { batchItems, batchBytes }: { batchItems?: number; batchBytes?: number },
): Pick<DeliverySenderOptions<unknown>, OfMedium> {
  const { airtime, maxPacket } = medium
  return {
    maxPacket,
    maxPackets: packetsInFlight(medium),
    startPackets: START_PACKETS,
    ...(batchItems !== undefined && { batchItems }),
    ...(batchBytes !== undefined && { batchBytes }),
    // the longest frame and its answer, each after a wait for a free channel
    ...(airtime && { minRtoMs: 2 * (airtime.of(maxPacket) + answerMs(medium)), backsOff: true }),
  }
}

/** How long an answer may take because the channel is slow; 0 on fast media. */
export const answerMs = ({ airtime }: Medium): number => (airtime ? 2 * airtime.of(ANSWER_BYTES) : 0)

interface DirectOptions {
  delivery: 'medium' | 'best_effort'
  medium: Medium
  clock: Clock
  acked: (item: Item) => void
  /** nothing is in flight any more, and some packets were not delivered */
  refused: () => void
  /** packets and bytes per sendBatch() */
  batchItems: number
  batchBytes: number
  maxPackets?: number
  maxBytes?: number
}

interface Taken {
  readonly bytes: Uint8Array
  readonly item: Item
}

const FULL_HOLD_MS = 1000

/** Packets without an envelope; an item is sent with its packet and returned when that is acknowledged. */
export class DirectWindow {
  readonly #options: Required<DirectOptions>
  #pending: Taken[] = []
  #inFlight = 0
  #bytes = 0
  #batches = 0
  #failed = false
  #pausedUntil = Number.NEGATIVE_INFINITY
  /** counts the openings: answers to an older one are ignored */
  #opening = 0

  constructor(options: DirectOptions) {
    this.#options = { maxPackets: 1024, maxBytes: 262_144, ...options }
  }

  /** packets taken and not acknowledged */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether a packet of that many bytes can be taken now; `others`: so many are taken before it, and their bytes are in `bytes`. */
  room(bytes: number, others = 0): boolean {
    const { delivery, medium, maxPackets, maxBytes, batchItems, clock } = this.#options
    if (this.#failed || clock.mono() < this.#pausedUntil) return false
    const most = delivery === 'medium' ? maxPackets : medium.sendBatch ? batchItems : 1
    const inFlight = this.#inFlight + others
    return inFlight < most && (inFlight === 0 || this.#bytes + bytes <= maxBytes)
  }

  take(bytes: Uint8Array, item: Item): void {
    this.#pending.push({ bytes, item })
    this.#inFlight++
    this.#bytes += bytes.length
  }

  /** Sends one batch of the taken packets; resolves its size, 0: nothing to send. */
  async send(): Promise<number> {
    const batch = this.#batch()
    if (batch.length === 0) return 0
    const sent = this.#sendBatch(batch)
    if (this.#options.delivery === 'best_effort') await sent
    return batch.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  /** When to call send() or room() again without any other event. */
  due(now: number): number {
    if (this.#failed) return Number.POSITIVE_INFINITY
    return this.#pending.length > 0 ? now : now < this.#pausedUntil ? this.#pausedUntil : Number.POSITIVE_INFINITY
  }

  /** The link is lost: forgets everything. */
  drop(): void {
    this.#opening++
    this.#pending = []
    this.#inFlight = this.#bytes = this.#batches = 0
    this.#failed = false
  }

  #batch(): Taken[] {
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

  async #sendBatch(batch: Taken[]): Promise<void> {
    const { medium } = this.#options
    const opening = this.#opening
    this.#batches++
    const packets = batch.map(({ bytes }) => bytes)
    const whole = batch.length === 1 || !medium.sendBatch
    // if the medium throws, it has not taken the packet
    const good = await (whole ? medium.send(packets[0]!).then(Number) : medium.sendBatch!(packets)).catch(() => 0)
    if (opening !== this.#opening) return
    this.#batches--
    for (const [k, { bytes, item }] of batch.entries()) {
      this.#inFlight--
      this.#bytes -= bytes.length
      if (k < good) this.#options.acked(item)
    }
    if (good < batch.length) this.#failed = true
    if (this.#failed && this.#batches === 0) this.#refuse()
  }

  #refuse(): void {
    const { clock, refused } = this.#options
    this.drop()
    this.#pausedUntil = clock.mono() + FULL_HOLD_MS
    refused()
  }
}
