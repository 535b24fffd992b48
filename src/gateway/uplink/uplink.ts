// One road upstream (D6): while it carries, takes records from the feed the uplinks share, packs each for its own templates
// and session, hands it to its carrier, and tells the feed what the upstream has. Link, probing and session stay alive
// while another one carries. After a restart, a lost link or a handover the records after the cursor go again.
//
// What fails: a link that is down leaves the cursor where it is; a peer that stops answering takes the link down, and the
// supervisor opens it again; a fact that cannot be packed (too large, no unit fits) is counted in `refused`, told in the
// log, and passed, since it would block the road for ever; one that waits for a session key stays where it is.

import type { Clock } from '../../lib/clock'
import { asOsError, OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { LinkState, Medium, PacketOrigin } from '../../links/contracts'
import { mediumInfo } from '../../links/registry'
import { systemTimers, type Timers } from '../../links/timers'
import type { FlashLog, TimeQuality } from '../../log'
import type { WireUnits } from '../../pipeline/core'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import { DeliverySender } from '../../protocol/delivery'
import { SecureClient } from '../../protocol/secure/client'
import { isSecure } from '../../wire/commands'
import type { Identity } from '../identity'
import type { UplinkReport } from '../status'
import { type Carrier, DirectCarrier, ExchangeCarrier } from './carriers'
import { type FactRecord, Feed } from './feed'
import type { Shipment } from './ledger'
import { Pace, type PaceSettings } from './pace'
import { Packer, type PackSettings } from './packer'
import { Probing } from './probed'
import { UplinkSession } from './session'
import { SentWatchers } from './watchers'

export interface UplinkSettings extends Omit<PackSettings, 'diffBase'>, Partial<PaceSettings> {
  /** left out: `last` where packets arrive in order and are acknowledged (D6), else `sticky` */
  diffBase?: PackSettings['diffBase']
  delivery: 'auto' | 'best_effort'
  /** packets and bytes in one frame or batch */
  batchItems?: number
  batchBytes?: number
}

export interface UplinkParts {
  log: FlashLog
  medium: Medium
  clock: Clock
  logger: Logger
  identity: Identity
  units: WireUnits
  /** counter of request numbers, one per process (X29) */
  nextSeq: () => number
  randomEpoch: () => number
  /** the peer went silent: the link is down and tried again later */
  lost: (reason: string) => void
  /** a control packet of the upstream that is not part of the exchange; false when it answers no open request */
  onControl: (packet: Uint8Array, origin: PacketOrigin) => boolean
  /** the exchange is settled, packets may go */
  onReady: () => void
  /** ms a record of bad time quality is held back for */
  holdMs: (quality: TimeQuality) => number
  /** what goes next, shared with the other uplinks; by default one of its own, which it carries from the start */
  feed?: Feed<Payload>
  watchers?: SentWatchers
  /** `usable` changed */
  onUsable?: () => void
  /** this uplink's half of its secure sessions; by default one that is not kept */
  secure?: SecureClient
  timers?: Timers
  /** unix ms, for openers; by default the clock's */
  now?: () => number
  /** the link works, but not as it should; empty: it does again */
  degraded?: (reason: string) => void
}

/** What an uplink keeps with a record on its way. */
export interface Payload {
  fact: Fact
  /** went out in plaintext */
  plain: boolean
  /** null once it was sent again: which of the two is answered cannot be told */
  packet: EncodedFrame | null
}
type Sent = Shipment<Payload>

/** packets handed to the medium before the event loop gets its turn */
const BURST = 32
/** packets in flight when the exchange begins: as many as one answer can name */
const START_PACKETS = 32

export class Uplink {
  readonly name: string
  readonly #settings: UplinkSettings
  readonly #parts: UplinkParts
  /** null is an opener: acknowledged it means nothing, and it does not go again, for newer ones follow */
  readonly #delivery: DeliverySender<Sent | null>
  readonly #client: SecureClient
  readonly #packer: Packer
  readonly #session: UplinkSession
  readonly #timers: Timers
  readonly #feed: Feed<Payload>
  readonly #exchange: ExchangeCarrier<Sent>
  readonly #pace: Pace
  readonly probing: Probing
  /** tells how a record went out, once, when it does */
  readonly watchers: SentWatchers
  #carrier: Carrier<Sent>
  #diffBase: PackSettings['diffBase'] = 'sticky'
  #carrying: boolean
  #usable = false
  /** counts openings: a send that hangs in an older one ends there */
  #opening = 0
  #pumping = false
  #more = false
  #cancelTimer: (() => void) | undefined
  #idle: (() => void) | undefined
  #sentDirect = 0
  #refused = 0
  /** control packets that answer no open request */
  #stray = 0

  constructor(settings: UplinkSettings, parts: UplinkParts) {
    this.name = settings.name
    this.#settings = settings
    this.#parts = parts
    const { clock, medium, secure: client = new SecureClient({ clock }) } = parts
    this.#client = client
    this.#timers = parts.timers ?? systemTimers
    this.#feed = parts.feed ?? new Feed(`uplink:${settings.name}`, parts)
    this.#carrying = !parts.feed
    this.watchers = parts.watchers ?? new SentWatchers()
    const { ratePacketsS = 0, rateBytesS = 0, batchWindowMs = 0, diffBase = 'sticky' } = settings
    this.#pace = new Pace({ ratePacketsS, rateBytesS, batchWindowMs })
    this.#packer = new Packer({ ...settings, diffBase }, { ...parts, client, changed: () => this.pump() })
    this.#session = new UplinkSession({
      client,
      packer: this.#packer,
      logger: parts.logger,
      send: packet => this.#sendOpener(packet),
      mono: () => clock.mono(),
      now: parts.now ?? (() => clock.wall()),
      degraded: parts.degraded ?? (() => undefined),
      refused: () => this.#delivery.slower(clock.mono()),
    })
    const { batchItems, batchBytes } = settings
    this.#delivery = new DeliverySender<Sent | null>({
      maxPacket: medium.maxPacket,
      maxPackets: this.#window,
      startPackets: START_PACKETS,
      ...(batchItems !== undefined && { batchItems }),
      ...(batchBytes !== undefined && { batchBytes }),
      nextSeq: parts.nextSeq,
      randomEpoch: parts.randomEpoch,
      onAcked: shipment => shipment && this.#acked(shipment),
      onResend: shipment => shipment && this.#resend(shipment),
    })
    this.#exchange = new ExchangeCarrier<Sent>(this.#delivery, medium, () => this.#frameRefused())
    this.#carrier = this.#exchange
    this.probing = new Probing(this.#delivery, packet => medium.send(packet), clock, this.#timers)
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
    return this.#carrying && this.#usable && this.#feed.backlog > 0
  }

  /** largest data packet in bytes this uplink carries */
  get maxPacket(): number {
    const { medium } = this.#parts
    const bare = this.#settings.delivery === 'best_effort' || medium.acknowledges
    return bare ? medium.maxPacket : this.#delivery.maxPacket
  }

  /** Takes records from now on; nobody else does. The first packet of every template is a key frame. */
  carry(): void {
    if (this.#carrying) return
    this.#carrying = true
    this.#packer.keyFrames()
    if (this.#usable) this.#feed.begin()
    this.pump()
  }

  /** Takes no more records. Settles when nothing is on its way any more, at the latest after `limitMs`. */
  async release(limitMs: number): Promise<void> {
    if (!this.#carrying) return
    this.#carrying = false
    if (!this.#usable || this.#carrier.inFlight === 0) return
    await new Promise<void>(resolve => {
      const cancel = this.#timers.after(limitMs, () => this.#idle?.())
      this.#idle = () => {
        this.#idle = undefined
        cancel()
        resolve()
      }
    })
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
      this.#idle?.()
    }
    this.#parts.onUsable?.()
  }

  /** Asks the peer whether it knows the delivery exchange (X29). Throws LINK_DOWN when it does not answer. */
  async probe(): Promise<void> {
    this.#delivery.reset()
    this.#rewind()
    if (!this.#parts.medium.acknowledges) await this.probing.ask()
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
    const { acked, resent, abandoned, stray } = this.#delivery.counters
    const { ignoredReady: ready, ignoredAck: channel_ack, ignoredBadKey: bad_key } = this.#client.counters
    return {
      carrying: this.#carrying,
      cursor: this.#feed.cursor,
      backlog: this.#feed.backlog,
      acked: acked + this.#sentDirect,
      resent,
      refused: this.#refused,
      delivery: this.#deliveryNow,
      in_flight: this.#carrier.inFlight,
      round_trip_ms: Math.round(this.#delivery.roundTripMs),
      abandoned,
      stray_answers: stray + this.#stray,
      ignored: { ready, channel_ack, bad_key },
      ...this.#session.report(),
    }
  }

  /** Keeps the cursor where it is now; called before the log is closed, or when this uplink is taken away. */
  stop(): void {
    this.#cancelTimer?.()
    this.#usable = false
    this.#opening++
    this.#idle?.()
    this.#packer.keep()
    this.#session.save(true)
    this.#feed.saveCursor(true)
  }

  get #deliveryNow(): UplinkReport['delivery'] {
    if (this.#settings.delivery === 'best_effort') return 'best_effort'
    if (this.#parts.medium.acknowledges) return 'acked'
    return this.#delivery.mode
  }

  get #window(): number {
    return mediumInfo(this.#parts.medium.medium)?.in_flight ?? 1024
  }

  async #run(opening: number): Promise<void> {
    const { clock } = this.#parts
    for (let burst = 0; this.#usable && opening === this.#opening; ) {
      const now = clock.mono()
      const took = this.#carrying && this.#fill(now)
      // over budget only what was taken all the same goes: alarms
      const sent = took || this.#pace.readyAt(now) <= now ? await this.#send(now) : 0
      if (opening !== this.#opening) return
      if (sent === 0 && !took) return this.#watchPeer()
      if (++burst % BURST === 0) await new Promise(setImmediate)
    }
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
    const { delivery } = this.#settings
    const acked = delivery !== 'best_effort' && medium.acknowledges === true
    const exchange = delivery !== 'best_effort' && !acked && this.#delivery.mode !== 'best_effort'
    this.#carrier = exchange ? this.#exchange : this.#direct(acked ? 'medium' : 'best_effort')
    const ordered = acked || (exchange && medium.medium.toUpperCase() === 'TCP')
    this.#diffBase = this.#settings.diffBase ?? (ordered ? 'last' : 'sticky')
    // what a medium acknowledges has reached its broker, and no template of the upstream yet
    this.#packer.opened(exchange, this.#diffBase)
    this.#session.opened(exchange)
    if (this.#carrying) this.#feed.begin()
    onReady()
    this.pump()
  }

  #direct(delivery: 'medium' | 'best_effort'): DirectCarrier<Sent> {
    const { medium, clock } = this.#parts
    const { batchItems = BURST, batchBytes = 0xffff } = this.#settings
    return new DirectCarrier<Sent>(delivery, {
      medium,
      clock,
      batchItems,
      batchBytes,
      maxPackets: this.#window,
      // a broker has it, or nobody knows: it says nothing of the upstream's templates and keys
      acked: shipment => {
        this.#sentDirect++
        this.watchers.tell(shipment.seq, shipment.payload.packet!.bytes)
        this.#arrived(shipment)
        if (delivery === 'medium') this.pump()
      },
      refused: () => this.#packetRefused(),
    })
  }

  #watchPeer(): void {
    if (this.#carrier === this.#exchange && this.#delivery.mode === 'silent')
      this.#parts.lost('the upstream stopped acknowledging')
  }

  /** A frame of the exchange is repeated; but what was built on it must not arrive without it. */
  #frameRefused(): void {
    if (this.#diffBase === 'last') this.#parts.lost('the medium refused a frame')
  }

  #packetRefused(): void {
    if (this.#diffBase === 'last' && this.#carrier.delivery === 'medium')
      this.#parts.lost('the medium refused a packet')
    else this.#rewind()
    this.#idle?.()
  }

  /** Takes records while the window has room and the budget lets them; true when it took any. */
  #fill(now: number): boolean {
    let took = false
    // a batch is packed whole before it is sent
    while (this.#carrier.room(this.#room)) {
      const over = this.#pace.readyAt(now) > now || !this.#batchDue(now)
      const next = this.#take(over)
      if (!next) break
      took = true
      const { shipment, packet } = next
      this.#pace.packets(1)
      this.#carrier.take(packet.bytes, shipment, packet.maxSize)
      if (this.#carrier === this.#exchange) this.watchers.tell(shipment.seq, packet.bytes)
    }
    if (took) this.#pace.batchDone()
    return took
  }

  #batchDue(now: number): boolean {
    if (!this.#settings.batchWindowMs) return true
    return this.#pace.batchAt(now, this.#feed.backlog, this.#settings.batchItems ?? BURST) <= now
  }

  /** room asked of the carrier: what the next packet may take */
  get #room(): number {
    return Math.min(this.maxPacket, 0xffff)
  }

  /** Data frames travel in the exchange, so an opener does (X29). */
  #sendOpener(packet: Uint8Array): Promise<boolean> {
    if (packet.length > this.maxPacket)
      throw new OsError('PACKET_TOO_LARGE', `an opener of ${packet.length} bytes, the link carries ${this.maxPacket}`)
    if (this.#carrier !== this.#exchange) return this.#parts.medium.send(packet)
    return Promise.resolve(this.#delivery.submit(packet, null))
  }

  /** The next record that goes out, packed; null when there is none now. */
  #take(alarmsOnly: boolean): { shipment: Sent; packet: EncodedFrame } | null {
    for (;;) {
      const record = this.#feed.peek(alarmsOnly, fact => this.#mayGo(fact))
      if (!record) return null
      const fact = this.#named(record)
      try {
        const packet = this.#packer.pack(fact, record.medium !== 'local', this.maxPacket)
        this.#packer.sent(fact, packet)
        const plain = !isSecure(packet.cmd)
        if (plain) this.#session.sentPlain(fact.aid)
        return { shipment: this.#feed.ship(record, { fact, plain, packet }), packet }
      } catch (error) {
        this.#refuse(record, error)
      }
    }
  }

  #refuse(record: FactRecord, error: unknown): void {
    this.#refused++
    this.#feed.pass(record)
    this.#parts.logger.error(`record ${record.seq} of ${record.fact.id} cannot be sent: ${asOsError(error).message}`)
  }

  /** Whether a record may go now: its AID is known, its TIDs are safe, and it has its key. */
  #mayGo(record: FactRecord): boolean {
    const { identity } = this.#parts
    const own = record.medium === 'local'
    if (own && !identity.assigned) return false
    const fact = this.#named(record)
    // relayed facts go as FULL only, so an old meaning of their TID does no harm, unless their AID is ours too
    if ((own || fact.aid === identity.assignedId) && !this.#packer.ready(fact.aid)) return false
    return this.#session.mayGo(fact)
  }

  /** Own facts go under the id of now, whatever it was when they were logged. */
  #named({ medium, fact }: FactRecord): Fact {
    const { assignedId } = this.#parts.identity
    return medium !== 'local' || fact.aid === assignedId ? fact : { ...fact, aid: assignedId }
  }

  #acked(shipment: Sent): void {
    const { fact, plain, packet } = shipment.payload
    if (plain) this.#session.ackedPlain(fact.aid)
    if (packet) this.#packer.acknowledged(fact.aid, packet)
    this.#arrived(shipment)
  }

  #arrived(shipment: Sent): void {
    this.#feed.done(shipment)
    this.#more = true
    if (this.#idle && this.#carrier.inFlight === 0) this.#idle()
  }

  /** A packet goes again: as FULL with its own time; whether the first or this one is answered cannot be told (D6). */
  #resend(shipment: Sent): Uint8Array | null {
    // another uplink has it now
    if (!this.#feed.wants(shipment)) return null
    const { fact, packet: first } = shipment.payload
    shipment.payload.packet = null
    if (first) this.#packer.unanswered(fact.aid, first)
    if (!this.#packer.allowed(fact.aid)) {
      // not as it was sent and not in plaintext: the link starts anew, from the cursor, when the exchange is done with this
      setImmediate(() => this.#parts.lost('the key of the session is gone'))
      return null
    }
    try {
      const packet = this.#packer.packAgain(fact)
      if (packet.size > this.maxPacket) throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes`)
      this.#packer.sent(fact, packet)
      return packet.bytes
    } catch (error) {
      this.#refused++
      this.#parts.logger.error(`record ${shipment.seq} of ${fact.id} cannot be sent again: ${asOsError(error).message}`)
      this.#feed.done(shipment)
      return null
    }
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
    if (this.#carrying) this.#feed.rewind()
    this.#packer.keyFrames()
  }

  #arm(): void {
    this.#cancelTimer?.()
    if (!this.#usable) return
    const now = this.#parts.clock.mono()
    const paced = this.#pace.readyAt(now)
    const due = Math.min(
      Math.max(paced, this.#carrier.due(now)),
      ...(this.#carrying ? [this.#feed.heldUntil, this.#session.wakeAt, this.#batchWake(now)] : []),
      ...(this.#carrying && paced > now && this.#feed.backlog > 0 ? [paced] : []),
      now + (this.#parts.log.degraded ? 1000 : 5000),
    )
    // here and not in the timer: while there is something to send it is always put off
    this.#feed.saveCursor(false)
    this.#session.save(false)
    this.#cancelTimer = this.#timers.after(Math.max(5, due - now), () => this.pump())
  }

  #batchWake(now: number): number {
    return this.#settings.batchWindowMs ? this.#pace.batchAt(now, this.#feed.backlog, BURST) : Number.POSITIVE_INFINITY
  }
}
