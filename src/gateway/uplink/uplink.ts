// One road upstream (D6): while it carries, takes records from the feed the uplinks share, packs each for its own templates
// and session, hands it to its carrier, and tells the feed what the upstream has. Link, probing and session stay alive
// while another one carries; what is too large for that one it may take all the same. After a restart, a lost link or a
// handover the records after the cursor go again.
//
// What fails: a link that is down leaves the cursor where it is; a peer that stops answering takes the link down, and the
// supervisor opens it again; a send that never returns ends with the link; a record that waits for a session key stays
// where it is.
import { asOsError, OsError } from '../../lib/errors'
import { systemTimers, type Timers } from '../../lib/timers'
import type { LinkState, PacketOrigin } from '../../links/contracts'
import { DeliverySender } from '../../protocol/delivery'
import type { RefusedFrame } from '../../protocol/nack'
import { SecureClient } from '../../protocol/secure/client'
import type { UplinkReport } from '../status'
import { type Carrier, type Delivery, DirectCarrier, deliveryOf, ExchangeCarrier, packetsInFlight } from './carriers'
import { Encoders, type PackSettings } from './encoders'
import { ANSWER_BYTES, answerMs, exchangeOver } from './exchange'
import { Idle } from './idle'
import type { Item } from './lane'
import { Pace } from './pace'
import { Packer } from './packer'
import type { UplinkParts, UplinkSettings } from './parts'
import { Probing } from './probed'
import { uplinkReport } from './report'
import { SendQueue, type Want } from './send-queue'
import { UplinkSession } from './session'
import { SentWatchers } from './watchers'

export type { UplinkParts, UplinkSettings }

/** packets handed to the medium before the event loop gets its turn */
const BURST = 32

export class Uplink {
  readonly name: string
  readonly #settings: UplinkSettings
  readonly #parts: UplinkParts
  /** null is an opener: acknowledged it means nothing, and it does not go again, for newer ones follow */
  readonly #delivery: DeliverySender<Item | null>
  readonly #client: SecureClient
  readonly #encoders: Encoders
  readonly #session: UplinkSession
  readonly #packer: Packer
  readonly #timers: Timers
  readonly #queue: SendQueue
  readonly #want: Want
  readonly #exchange: ExchangeCarrier<Item>
  readonly #pace: Pace
  readonly probing: Probing
  /** tells how a record went out, once, when it does */
  readonly watchers: SentWatchers
  #carrier: Carrier<Item>
  #diffBase: PackSettings['diffBase'] = 'sticky'
  #carrying: boolean
  #usable = false
  /** it took what was set aside since the link was opened */
  #helped = false
  /** counts openings: a send that hangs in an older one ends there */
  #opening = 0
  #pumping = false
  #more = false
  #cancelTimer: (() => void) | undefined
  /** what was due by then had its turn, mono ms */
  #ranAt = Number.NEGATIVE_INFINITY
  readonly #idle: Idle
  readonly #direct = { medium: 0, best_effort: 0 }
  #stray = 0

  constructor(settings: UplinkSettings, parts: UplinkParts) {
    this.name = settings.name
    this.#settings = settings
    this.#parts = parts
    const { clock, medium, secure: client = new SecureClient({ clock }) } = parts
    this.#client = client
    this.#timers = parts.timers ?? systemTimers
    this.#idle = new Idle(this.#timers)
    this.#queue = parts.queue ?? new SendQueue(`uplink:${settings.name}`, parts)
    this.#carrying = !parts.queue
    this.watchers = parts.watchers ?? new SentWatchers()
    const { ratePacketsS = 0, rateBytesS = 0, batchWindowMs = 0, batchItems = BURST, diffBase = 'sticky' } = settings
    this.#pace = new Pace({ ratePacketsS, rateBytesS, batchWindowMs, batchItems }, medium)
    const { airtime } = medium
    this.#encoders = new Encoders({ ...settings, diffBase }, { ...parts, airtime, client, changed: () => this.pump() })
    this.#session = new UplinkSession({
      client,
      encoders: this.#encoders,
      logger: parts.logger,
      send: packet => this.#sendOpener(packet),
      mono: () => clock.mono(),
      now: parts.now ?? (() => clock.wall()),
      degraded: parts.degraded ?? (() => undefined),
      refused: frame => this.#frameUnused(frame),
    })
    this.#packer = new Packer({
      ...{ encoders: this.#encoders, session: this.#session, identity: parts.identity, logger: parts.logger },
      largest: parts.largest ?? (() => this.maxPacket),
    })
    const { mayGo, sizeOf } = this.#packer
    this.#want = { limit: 0, alarmsOnly: false, oversizedOnly: false, mayGo, sizeOf }
    this.#delivery = new DeliverySender<Item | null>({
      ...exchangeOver(medium, settings),
      nextSeq: parts.nextSeq,
      randomEpoch: parts.randomEpoch,
      onAcked: item => item && this.#acked(item),
      onResend: item => item && this.#again(item),
    })
    this.#exchange = new ExchangeCarrier<Item>(this.#delivery, medium, clock, () => this.#frameRefused())
    this.#carrier = this.#exchange
    this.probing = new Probing(this.#delivery, packet => medium.send(packet), clock, this.#timers, answerMs(medium))
    medium.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get medium(): string {
    return this.#parts.medium.medium
  }

  /** True while the link is open and the peer answers. */
  get usable(): boolean {
    return this.#usable
  }

  get carrying(): boolean {
    return this.#carrying
  }

  /** True while the upstream answers and does not have everything yet. */
  get draining(): boolean {
    return this.#takes && this.#usable && this.#waiting > 0
  }

  /** largest data packet in bytes this uplink carries */
  get maxPacket(): number {
    const { medium } = this.#parts
    const bare = this.#settings.delivery === 'best_effort' || medium.acknowledges
    return bare ? Math.min(medium.maxPacket, 0xffff) : this.#delivery.maxPacket
  }

  /** What packets of an AID go out under; null: in plain form. */
  key(aid: number): Uint8Array | null {
    return this.#client.outboundKey(aid)
  }

  /** Takes records from now on; nobody else does. The first packet of every template is a key frame. */
  carry(): void {
    if (this.#carrying) return
    this.#carrying = true
    this.#encoders.keyFrames()
    if (this.#usable) this.#queue.begin()
    this.pump()
  }

  /** Takes no more records. Settles when nothing is on its way any more, at the latest after `limitMs`. */
  async release(limitMs: number): Promise<void> {
    if (!this.#carrying) return
    this.#carrying = false
    if (!this.#usable || this.#carrier.inFlight === 0) return
    await this.#idle.wait(limitMs)
  }

  /** The supervisor's state of the medium changed. */
  link(state: LinkState): void {
    const usable = state.state === 'up' || state.state === 'degraded'
    if (usable === this.#usable) return
    this.#usable = usable
    this.#opening++
    this.#pumping = false
    if (usable) this.#settled()
    else {
      this.#cancelTimer?.()
      this.#carrier.drop()
      this.#delivery.reset()
      this.#rewind()
      this.#idle.settle()
    }
    this.#parts.onUsable?.()
  }

  /** Asks the peer whether it knows the delivery exchange (X29). Throws LINK_DOWN when it does not answer. */
  async probe(): Promise<void> {
    this.#delivery.reset()
    this.#rewind()
    const { acknowledges, airtime } = this.#parts.medium
    if (airtime && airtime.waitMs(ANSWER_BYTES, true) > 0) throw new OsError('LINK_DOWN', 'duty cycle used up')
    if (!acknowledges) await this.probing.ask()
  }

  /** Something may have changed: a commit, an assigned id, a sync. */
  pump(): void {
    if (!this.#usable) return
    if (this.#pumping) {
      this.#more = true
      return
    }
    this.#pumping = true
    const opening = this.#opening
    this.#run(opening)
      .catch(error => this.#parts.logger.error(`sending stopped: ${asOsError(error).message}`))
      .finally(() => {
        if (opening !== this.#opening) return
        this.#pumping = false
        if (this.#more) {
          this.#more = false
          setImmediate(() => this.pump())
        } else this.#arm()
      })
  }

  status(): UplinkReport {
    return uplinkReport({
      ...{ carrying: this.#carrying, kind: this.#kind, inFlight: this.#carrier.inFlight },
      ...{ queue: this.#queue, delivery: this.#delivery, client: this.#client, packer: this.#packer },
      ...{ session: this.#session, direct: this.#direct, stray: this.#stray },
    })
  }

  /** Keeps the cursor where it is now; called before the log is closed, or when this uplink is taken away. */
  stop(): void {
    this.#cancelTimer?.()
    this.#usable = false
    this.#opening++
    this.#idle.settle()
    this.#encoders.keep()
    this.#session.save(true)
    this.#queue.saveCursor(true)
  }

  /** It carries, or takes what is too large for the one that does. */
  get #takes(): boolean {
    return this.#carrying || (this.#parts.helps?.() ?? false)
  }

  get #waiting(): number {
    return this.#queue.waiting(this.maxPacket, !this.#carrying)
  }

  get #kind(): Delivery {
    return deliveryOf(this.#settings.delivery === 'best_effort', this.#parts.medium, this.#delivery.mode)
  }

  async #run(opening: number): Promise<void> {
    const { clock } = this.#parts
    for (let burst = 0; this.#usable && opening === this.#opening; ) {
      const now = clock.mono()
      this.#ranAt = now
      const took = this.#fill(now)
      // over budget only what was taken all the same goes: alarms
      const sent = took || this.#pace.readyAt(now) <= now ? await this.#send(now) : 0
      if (opening !== this.#opening) return
      if (sent === 0 && !took) break
      if (++burst % BURST === 0) await new Promise(setImmediate)
    }
    if (this.#carrier === this.#exchange && this.#delivery.mode === 'silent')
      this.#parts.lost('the upstream stopped acknowledging')
  }

  async #send(now: number): Promise<number> {
    const { resent } = this.#delivery.counters
    const bytes = await this.#carrier.send(now)
    this.#pace.bytes(bytes)
    this.#pace.packets(this.#delivery.counters.resent - resent)
    return bytes
  }

  /** The peer answered, or need not: identity and time are asked for, and records may go. */
  #settled(): void {
    const { medium, onReady } = this.#parts
    const kind = this.#kind
    const exchange = kind === 'exchange'
    this.#carrier = exchange ? this.#exchange : this.#directCarrier(kind)
    // a broker acknowledges, and may yet drop for a receiver that is away: what is built on that packet would decode wrong
    const ordered = exchange && medium.medium.toUpperCase() === 'TCP'
    this.#diffBase = this.#settings.diffBase ?? (ordered ? 'last' : 'sticky')
    // what a medium acknowledges has reached its broker, and no template of the upstream yet
    this.#encoders.opened(exchange, this.#diffBase)
    this.#session.opened(exchange)
    if (this.#carrying) this.#queue.begin()
    onReady()
    this.pump()
  }

  #directCarrier(delivery: 'medium' | 'best_effort'): DirectCarrier<Item> {
    const { medium, clock } = this.#parts
    const { batchItems = BURST, batchBytes = 0xffff } = this.#settings
    return new DirectCarrier<Item>(delivery, {
      ...{ medium, clock, batchItems, batchBytes },
      maxPackets: packetsInFlight(medium),
      // a broker has it, or nobody knows: it says nothing of the upstream's templates and keys
      acked: item => {
        this.#direct[delivery]++
        this.watchers.tell(item.seq, item.packet!.bytes, this.medium, delivery)
        this.#arrived(item)
        if (delivery === 'medium') this.pump()
      },
      refused: () => this.#packetRefused(),
    })
  }

  /** A frame of the exchange is repeated; but what was built on it must not arrive without it. */
  #frameRefused(): void {
    if (this.#diffBase === 'last') this.#parts.lost('the medium refused a frame')
  }

  #packetRefused(): void {
    this.#rewind()
    if (this.#diffBase === 'last' && this.#carrier.delivery === 'medium')
      this.#parts.lost('the medium refused a packet')
    this.#idle.settle()
  }

  /** Takes records while the window has room and the budget lets them; true when it took any. What was refused goes whoever carries. */
  #fill(now: number): boolean {
    const may = this.#takes && this.#pace.urgentMay
    let took = false
    // a batch is packed whole before it is sent
    while (this.#carrier.room(this.maxPacket)) {
      const over = this.#pace.readyAt(now) > now || this.#batchAt(now) > now
      const again = over ? null : this.#nextRefused()
      const item = again ?? (may ? this.#next(over) : null)
      if (!item) break
      took = true
      const { bytes, maxSize } = item.packet!
      this.#pace.packets(1)
      this.#carrier.take(bytes, again ? null : item, maxSize)
      if (again) continue
      this.#helped ||= !this.#carrying
      if (this.#carrier === this.#exchange) this.watchers.tell(item.seq, bytes, this.medium, 'exchange')
    }
    if (took) this.#pace.batchDone()
    return took
  }

  /** The next item that goes out, packed; those that cannot be packed are settled. */
  #next(alarmsOnly: boolean): Item | null {
    const limit = this.maxPacket
    const want = this.#want
    want.limit = limit
    want.alarmsOnly = alarmsOnly
    want.oversizedOnly = !this.#carrying
    for (let item = this.#queue.next(want); item; item = this.#queue.next(want)) {
      const packet = this.#packer.pack(item, limit)
      if (typeof packet !== 'string') return item
      this.#queue.settle(item, packet === 'oversized' ? limit : undefined)
    }
    return null
  }

  /** The next record whose frame the upstream refused, packed anew. */
  #nextRefused(): Item | null {
    const limit = this.maxPacket
    for (let seq = this.#packer.nextRefused(); seq > 0; seq = this.#packer.nextRefused()) {
      const item = this.#queue.recall(seq)
      if (!item) continue
      const packet = this.#packer.packAgain(item, limit, true)
      if (typeof packet === 'string') this.#queue.settle(item, packet === 'oversized' ? limit : undefined)
      else {
        item.packet = packet
        return item
      }
    }
    return null
  }

  /** The packet of an item that was not answered; null: it need not go again, or cannot. */
  #again(item: Item): Uint8Array | null {
    if (!this.#queue.wants(item)) return null
    if (!this.#packer.unanswered(item)) {
      // not as it was sent and not in plaintext: the link starts anew, from the cursor, when the exchange is done with this
      setImmediate(() => this.#parts.lost('what is on its way must wait for a session key'))
      return null
    }
    const limit = this.maxPacket
    const packet = this.#packer.packAgain(item, limit, false)
    if (typeof packet !== 'string') return packet.bytes
    this.#queue.settle(item, packet === 'oversized' ? limit : undefined)
    return null
  }

  #batchAt(now: number): number {
    return this.#pace.batchAt(now, () => this.#waiting)
  }

  /** Data frames travel in the exchange, so an opener does (X29). */
  #sendOpener(packet: Uint8Array): Promise<boolean> {
    if (packet.length > this.maxPacket)
      throw new OsError('PACKET_TOO_LARGE', `an opener of ${packet.length} bytes, the link carries ${this.maxPacket}`)
    if (this.#carrier !== this.#exchange) return this.#parts.medium.send(packet)
    return Promise.resolve(this.#delivery.submit(packet, null))
  }

  #acked(item: Item): void {
    this.#packer.acked(item)
    this.watchers.acknowledged(item.seq)
    this.#arrived(item)
  }

  /** The upstream could not use a frame. The exchange repeats it; elsewhere this is the only word about it. */
  #frameUnused(refused: RefusedFrame): void {
    if (this.#carrier === this.#exchange) this.#delivery.slower(this.#parts.clock.mono())
    else this.#packer.refused(refused)
  }

  #arrived(item: Item): void {
    this.#queue.settle(item)
    this.#more = true
    if (this.#carrier.inFlight === 0) this.#idle.settle()
  }

  #received(packet: Uint8Array, origin: PacketOrigin): void {
    const now = this.#parts.clock.mono()
    const before = this.#delivery.mode
    if (this.#settings.delivery !== 'best_effort' && this.#delivery.onAnswer(packet, now)) {
      if (before !== 'probing' || this.#delivery.mode === 'probing') this.pump()
      else {
        this.probing.answered()
        if (this.#usable) this.#settled()
      }
      return
    }
    if (this.#session.received(packet, origin.address)) this.pump()
    else if (!this.#parts.onControl(packet, origin)) this.#stray++
  }

  #rewind(): void {
    if (this.#carrying) this.#queue.rewind()
    else if (this.#helped) this.#queue.rewindOversized()
    this.#helped = false
    this.#encoders.keyFrames()
  }

  #arm(): void {
    this.#cancelTimer?.()
    if (!this.#usable) return
    const now = this.#parts.clock.mono()
    const paced = this.#pace.readyAt(now)
    const batch = this.#batchAt(now)
    const waits = this.#takes ? [this.#queue.heldUntil, this.#session.wakeAt, batch] : []
    if (this.#takes && paced > now && this.#waiting > 0) waits.push(paced)
    const ahead = [Math.max(paced, this.#carrier.due(now)), ...waits].filter(due => due > this.#ranAt)
    const due = Math.min(...ahead, now + (this.#parts.log.degraded ? 1000 : 5000))
    // here and not in the timer: while there is something to send it is always put off
    this.#queue.saveCursor(false)
    this.#session.save(false)
    this.#cancelTimer = this.#timers.after(Math.max(5, due - now), () => this.pump())
  }
}
