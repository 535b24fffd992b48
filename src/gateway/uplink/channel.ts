// One medium of one uplink: whether its peer answers (probe), its secure session, the send rate (pace), and the packets in
// flight (window). It does not know the content of packets.
//
// Errors: a peer that does not answer a probe is LINK_DOWN. If the peer stops answering, or a packet is refused that later
// packets build on, the link ends (`lost`), and the supervisor opens it again. A packet that the medium refuses is returned
// (`refused`).
import type { Clock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import { OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Timers } from '../../lib/timers'
import type { Medium, PacketOrigin } from '../../links/contracts'
import type { EncodedFrame } from '../../pipeline/sender'
import { DeliverySender } from '../../protocol/delivery'
import type { RefusedFrame } from '../../protocol/nack'
import type { SecureClient } from '../../protocol/secure/client'
import type { UplinkReport } from '../status'
import type { Encoders, PackSettings } from './encoders'
import type { Item } from './lane'
import { Pace, type PaceSettings } from './pace'
import { Probing } from './probed-medium'
import { UplinkSession } from './session'
import {
  ANSWER_BYTES,
  answerMs,
  type Delivery,
  DirectWindow,
  deliveryOf,
  exchangeOver,
  packetsInFlight,
} from './window'

export interface ChannelSettings extends Partial<PaceSettings> {
  /** default: `last` if packets arrive in order and the peer itself acknowledges them (TCP), else `sticky` */
  diffBase?: PackSettings['diffBase']
  delivery: 'auto' | 'best_effort'
  /** packets and bytes per frame or batch */
  batchItems?: number
  batchBytes?: number
}

export interface ChannelParts {
  medium: Medium
  clock: Clock
  logger: Logger
  timers: Timers
  encoders: Encoders
  client: SecureClient
  /** counter of request numbers, one per process (X29) */
  nextSeq: () => number
  randomEpoch: () => number
  /** unix ms, for key requests */
  now: () => number
  /** the link works, but with a problem; empty: the problem is over */
  degraded: (reason: string) => void
  /** the link must be reopened */
  lost: (reason: string) => void
  /** a control packet for neither the exchange nor the session; false if it answers no open request */
  onControl: (packet: Uint8Array, origin: PacketOrigin) => boolean
}

/** Events for the uplink. */
interface ChannelEvents {
  /** more packets may be sent than before */
  changed(): void
  /** the peer answered the probe of an open link */
  answered(): void
  /** the packet of an item was taken into the exchange */
  taken(item: Item): void
  /** an item was delivered; best effort: it was sent */
  delivered(item: Item, delivery: Delivery): void
  /** the packet to retransmit for an item that timed out; null: no retransmit */
  again(item: Item): Uint8Array | null
  /** the upstream could not use a frame, and no exchange repeats it; resolves when that is on flash */
  frameRefused(frame: RefusedFrame): Promise<unknown>
  /** the medium refused a packet: nothing is in flight any more, and some packets were not delivered */
  handedBack(): void
}

/** packets passed to the medium before it yields to the event loop, and per batch */
export const BURST = 32

export class Channel {
  readonly pace: Pace
  readonly session: UplinkSession
  readonly #settings: ChannelSettings
  readonly #parts: ChannelParts
  readonly #events: ChannelEvents
  /** null is a key request: it belongs to no record and is not retransmitted, since newer ones follow */
  readonly #sender: DeliverySender<Item | null>
  readonly #probing: Probing
  /** null: packets are sent in the delivery exchange */
  #window: DirectWindow | null = null
  #diffBase: PackSettings['diffBase'] = 'sticky'
  #drained = (): void => undefined
  /** taken, and not in the window yet: the first of them has no bytes yet */
  readonly #staged: EncodedFrame[] = []
  readonly #stagedItems: Item[] = []
  /** most bytes of them together */
  #stagedBytes = 0
  /** packets outside the exchange: acknowledged by a medium such as a broker, or only sent */
  readonly #direct = { medium: 0, best_effort: 0 }
  /** control packets that answer no open request */
  #stray = 0
  /** of the packet being received */
  #kept: Promise<unknown> | undefined

  constructor(settings: ChannelSettings, parts: ChannelParts, events: ChannelEvents) {
    this.#settings = settings
    this.#parts = parts
    this.#events = events
    const { medium, clock, timers, nextSeq, randomEpoch } = parts
    const { ratePacketsS = 0, rateBytesS = 0, batchWindowMs = 0, batchItems = BURST } = settings
    this.pace = new Pace({ ratePacketsS, rateBytesS, batchWindowMs, batchItems }, medium)
    this.session = new UplinkSession({
      ...parts,
      mono: () => clock.mono(),
      send: packet => this.#sendKeyRequest(packet),
      refused: frame => this.#frameRefused(frame),
    })
    this.#sender = new DeliverySender<Item | null>({
      ...exchangeOver(medium, settings),
      nextSeq,
      randomEpoch,
      onAcked: item => item && this.#delivered(item, 'exchange'),
      onResend: item => item && events.again(item),
    })
    this.#probing = new Probing(this.#sender, packet => medium.send(packet), clock, timers, answerMs(medium))
    medium.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get medium(): string {
    return this.#parts.medium.medium
  }

  /** largest data packet in bytes */
  get maxPacket(): number {
    const { medium } = this.#parts
    const bare = this.#settings.delivery === 'best_effort' || medium.acknowledges
    return bare ? Math.min(medium.maxPacket, 0xffff) : this.#sender.maxPacket
  }

  get delivery(): Delivery {
    return deliveryOf(this.#settings.delivery === 'best_effort', this.#parts.medium, this.#sender.mode)
  }

  get inFlight(): number {
    return (this.#window ?? this.#sender).inFlight
  }

  /** True if packets are sent in the delivery exchange. */
  get exchanges(): boolean {
    return this.#window === null
  }

  /** True if the peer stopped answering. */
  get silent(): boolean {
    return this.exchanges && this.#sender.mode === 'silent'
  }

  /** Checks whether the peer supports the delivery exchange (X29). Throws LINK_DOWN if it does not answer. */
  async probe(): Promise<void> {
    this.#drop()
    this.#sender.reset()
    const { acknowledges, airtime } = this.#parts.medium
    if (airtime && airtime.waitMs(ANSWER_BYTES, true) > 0) throw new OsError('LINK_DOWN', 'duty cycle used up')
    if (!acknowledges) await this.#probing.ask()
  }

  cancelProbe(): void {
    this.#probing.cancel()
  }

  /** The link is open, and the peer has answered or need not answer. */
  opened(): void {
    const { medium, encoders } = this.#parts
    const kind = this.delivery
    const exchange = kind === 'exchange'
    this.#window = exchange ? null : this.#directWindow(kind)
    // a broker acknowledges, but may still drop packets for an absent receiver: a packet that builds on one would decode
    // wrong
    const ordered = exchange && medium.medium.toUpperCase() === 'TCP'
    this.#diffBase = this.#settings.diffBase ?? (ordered ? 'last' : 'sticky')
    // an acknowledgement of the medium only proves arrival at the broker, not a template at the upstream
    encoders.opened(exchange, this.#diffBase)
    this.session.opened(exchange)
  }

  /** The link is down: nothing is in flight any more. */
  closed(): void {
    this.#drop()
    this.#window?.drop()
    this.#sender.reset()
    this.#drained()
  }

  /** Settles when nothing is in flight any more, at the latest after `limitMs`. */
  drained(limitMs: number): Promise<void> {
    if (this.inFlight === 0) return Promise.resolve()
    const drained = new Promise<void>(resolve => (this.#drained = resolve))
    return within(this.#parts.timers, limitMs, drained, () => undefined)
  }

  /** Stops all waiting. */
  stop(): void {
    this.#drained()
  }

  /** Whether the window has room for a packet. */
  get room(): boolean {
    if (this.#staged.length > 0) {
      if (this.#roomFor(this.#stagedBytes + this.maxPacket, this.#staged.length)) return true
      this.finish()
    }
    return this.#roomFor(this.maxPacket)
  }

  #roomFor(bytes: number, staged?: number): boolean {
    return this.#window ? this.#window.room(bytes, staged) : this.#sender.canSubmit(bytes, staged)
  }

  /** Takes one packet while there is room; a staged one, and all after it, wait for finish(). */
  take(packet: EncodedFrame, item: Item): void {
    this.pace.packets(1)
    if (packet.size > 0 && this.#staged.length === 0 && this.#put(packet, item)) return
    this.#staged.push(packet)
    this.#stagedItems.push(item)
    this.#stagedBytes += packet.maxSize
  }

  /** Completes the staged packets: all that were taken are in the window now, in order. One whose place a key request took waits for the next. */
  finish(): void {
    if (this.#staged.length === 0) return
    this.#parts.encoders.finish()
    while (this.#staged.length > 0 && this.#put(this.#staged[0]!, this.#stagedItems[0]!)) {
      this.#stagedBytes -= this.#staged.shift()!.maxSize
      this.#stagedItems.shift()
    }
  }

  #drop(): void {
    this.#staged.length = this.#stagedItems.length = this.#stagedBytes = 0
  }

  /** False: the window has no room, and nothing has changed. */
  #put({ bytes, maxSize }: EncodedFrame, item: Item): boolean {
    if (this.#window) this.#window.take(bytes, item)
    else {
      // a retransmit may have the maximum size
      if (!this.#sender.submit(bytes, item, maxSize)) return false
      this.#events.taken(item)
    }
    return true
  }

  /** Sends one frame or batch of the taken packets; resolves its size, 0: nothing to send. */
  async send(now: number): Promise<number> {
    const { resent } = this.#sender.counters
    const bytes = await (this.#window ? this.#window.send() : this.#sendFrame(now))
    this.pace.bytes(bytes)
    this.pace.packets(this.#sender.counters.resent - resent)
    return bytes
  }

  /** When the window has something to send or room again, in mono ms. */
  due(now: number): number {
    return this.#window ? this.#window.due(now) : this.#sender.nextDeadline(now)
  }

  report(): Omit<UplinkReport, 'carrying' | 'cursor' | 'backlog' | 'refused'> {
    const { acked, resent, abandoned, stray } = this.#sender.counters
    const { ignoredReady: ready, ignoredAck: channel_ack, ignoredBadKey: bad_key } = this.#parts.client.counters
    const kind = this.delivery
    return {
      acked: acked + this.#direct.medium,
      sent: this.#direct.best_effort,
      resent,
      delivery: kind === 'exchange' ? this.#sender.mode : kind === 'medium' ? 'acked' : 'best_effort',
      in_flight: this.inFlight,
      round_trip_ms: Math.round(this.#sender.roundTripMs),
      abandoned,
      stray_answers: stray + this.#stray,
      ignored: { ready, channel_ack, bad_key },
      ...this.session.report(),
    }
  }

  async #sendFrame(now: number): Promise<number> {
    const { medium, clock } = this.#parts
    const frame = this.#sender.poll(now)
    if (!frame) return 0
    const { length } = frame
    const taken = await medium.send(frame)
    // on a slow medium the answer timeout starts after sending
    if (medium.airtime) this.#sender.sentAt(clock.mono())
    // a refused frame is retransmitted, but later frames that build on it must not arrive first
    if (!taken) this.#lostIfBuiltOn('a frame')
    return length
  }

  #directWindow(delivery: 'medium' | 'best_effort'): DirectWindow {
    const { medium, clock } = this.#parts
    const { batchItems = BURST, batchBytes = 0xffff } = this.#settings
    return new DirectWindow({
      ...{ delivery, medium, clock, batchItems, batchBytes },
      maxPackets: packetsInFlight(medium),
      acked: item => {
        this.#direct[delivery]++
        this.#delivered(item, delivery)
      },
      refused: () => {
        this.#events.handedBack()
        if (delivery === 'medium') this.#lostIfBuiltOn('a packet')
        this.#drained()
      },
    })
  }

  #delivered(item: Item, delivery: Delivery): void {
    this.#events.delivered(item, delivery)
    if (this.inFlight === 0) this.#drained()
  }

  #lostIfBuiltOn(what: string): void {
    if (this.#diffBase === 'last') this.#parts.lost(`the medium refused ${what}`)
  }

  /** Sends a key request in the exchange, as data frames are (X29). */
  #sendKeyRequest(packet: Uint8Array): Promise<boolean> {
    this.finish()
    if (packet.length > this.maxPacket)
      throw new OsError(
        'PACKET_TOO_LARGE',
        `a key request of ${packet.length} bytes; the link carries at most ${this.maxPacket}`,
      )
    if (!this.exchanges) return this.#parts.medium.send(packet)
    return Promise.resolve(this.#sender.submit(packet, null))
  }

  /** The exchange retransmits a frame the upstream could not use; elsewhere its record must be sent again. */
  #frameRefused(frame: RefusedFrame): void {
    // a broker may send refusals before its link counts as open
    const exchange = this.exchanges && this.#settings.delivery !== 'best_effort' && !this.#parts.medium.acknowledges
    if (exchange) this.#sender.slower(this.#parts.clock.mono())
    else this.#kept = this.#events.frameRefused(frame)
  }

  #received(packet: Uint8Array, origin: PacketOrigin): void {
    const before = this.#sender.mode
    if (this.#settings.delivery !== 'best_effort' && this.#sender.onAnswer(packet, this.#parts.clock.mono())) {
      if (before !== 'probing' || this.#sender.mode === 'probing') this.#events.changed()
      else {
        this.#probing.answered()
        this.#events.answered()
      }
      return
    }
    this.#kept = undefined
    if (this.session.received(packet, origin.address)) this.#events.changed()
    else if (!this.#parts.onControl(packet, origin)) this.#stray++
    if (this.#kept) origin.acknowledgeAfter?.(this.#kept)
  }
}
