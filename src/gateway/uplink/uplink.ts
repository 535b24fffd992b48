// One road upstream (D6): takes the log's facts in order (feed), packs each for this uplink's templates and session, sends
// it over its medium with the delivery exchange (X29), and moves the cursor when the upstream has committed. Nothing else
// decides what is sent: after a restart, a lost link or a lost packet the records after the cursor go again.
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
import type { FlashLog, LogRecord, TimeQuality } from '../../log'
import type { WireUnits } from '../../pipeline/core'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import { DeliverySender } from '../../protocol/delivery'
import { SecureClient } from '../../protocol/secure/client'
import { isSecure } from '../../wire/commands'
import type { Identity } from '../identity'
import type { UplinkReport } from '../status'
import { Feed } from './feed'
import type { Shipment } from './ledger'
import { Packer, type PackSettings } from './packer'
import { Probing } from './probed'
import { UplinkSession } from './session'
import { SentWatchers } from './watchers'

export interface UplinkSettings extends PackSettings {
  delivery: 'auto' | 'best_effort'
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
  /** puts the time of a record right that was stamped before a sync (D18) */
  correct?: (record: LogRecord) => void
  /** this uplink's half of its secure sessions; by default one that is not kept */
  secure?: SecureClient
  timers?: Timers
  /** unix ms, for openers; by default the clock's */
  now?: () => number
  /** the link works, but not as it should; empty: it does again */
  degraded?: (reason: string) => void
}

interface Payload {
  fact: Fact
  /** went out in plaintext */
  plain: boolean
  /** null once it was sent again: which of the two is answered cannot be told */
  packet: EncodedFrame | null
}
type Sent = Shipment<Payload>

/** packets handed to the medium before the event loop gets its turn */
const BURST = 32

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
  readonly probing: Probing
  /** tells how a record went out, once, when it does */
  readonly watchers = new SentWatchers()
  #usable = false
  #ready = false
  #pumping = false
  #more = false
  #cancelTimer: (() => void) | undefined
  #sentPlain = 0
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
    this.#feed = new Feed(settings.name, parts)
    this.#packer = new Packer(settings, { ...parts, client, changed: () => this.pump() })
    this.#session = new UplinkSession({
      client,
      packer: this.#packer,
      logger: parts.logger,
      send: packet => this.#sendOpener(packet),
      mono: () => clock.mono(),
      now: parts.now ?? (() => clock.wall()),
      degraded: parts.degraded ?? (() => undefined),
    })
    this.#delivery = new DeliverySender<Sent | null>({
      maxPacket: parts.medium.maxPacket,
      maxPackets: mediumInfo(parts.medium.medium)?.in_flight ?? 1024,
      nextSeq: parts.nextSeq,
      randomEpoch: parts.randomEpoch,
      onAcked: shipment => shipment && this.#acked(shipment),
      onResend: shipment => shipment && this.#resend(shipment),
    })
    this.probing = new Probing(this.#delivery, packet => medium.send(packet), clock, this.#timers)
    parts.medium.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get medium(): string {
    return this.#parts.medium.medium
  }

  /** True while the upstream answers and does not have everything yet. */
  get draining(): boolean {
    return this.#usable && this.#ready && this.#feed.backlog > 0
  }

  /** largest data packet in bytes this uplink carries */
  get maxPacket(): number {
    return this.#settings.delivery === 'best_effort' ? this.#parts.medium.maxPacket : this.#delivery.maxPacket
  }

  /** The supervisor's state of the medium changed. */
  link(state: LinkState): void {
    const usable = state.state === 'up' || state.state === 'degraded'
    if (usable === this.#usable) return
    this.#usable = usable
    this.#ready = false
    if (usable) this.#settled()
    else {
      this.#cancelTimer?.()
      this.#delivery.reset()
      this.#rewind()
    }
  }

  /** Asks the peer whether it knows the delivery exchange (X29). Throws LINK_DOWN when it does not answer. */
  probe(): Promise<void> {
    this.#delivery.reset()
    this.#rewind()
    return this.probing.ask()
  }

  /** Something may have changed: a commit, an assigned id, a sync. */
  pump(): void {
    if (!this.#usable) return
    if (this.#pumping) {
      this.#more = true
      return
    }
    this.#pumping = true
    this.#run()
      .catch(error => this.#parts.logger.error(`sending stopped: ${asOsError(error).message}`))
      .finally(() => {
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
    const best = this.#settings.delivery === 'best_effort' || this.#delivery.mode === 'best_effort'
    return {
      cursor: this.#feed.cursor,
      backlog: this.#feed.backlog,
      acked: best ? this.#sentPlain : acked,
      resent,
      refused: this.#refused,
      delivery: best ? 'best_effort' : this.#delivery.mode,
      in_flight: this.#delivery.inFlight,
      round_trip_ms: Math.round(this.#delivery.roundTripMs),
      abandoned,
      stray_answers: stray + this.#stray,
      ignored: { ready, channel_ack, bad_key },
      ...this.#session.report(),
    }
  }

  /** Keeps the cursor where it is now; called before the log is closed. */
  stop(): void {
    this.#cancelTimer?.()
    this.#usable = false
    this.#packer.keep()
    this.#session.save(true)
    this.#feed.saveCursor(true)
  }

  async #run(): Promise<void> {
    for (let burst = 0; this.#usable; ) {
      if (this.#ready) {
        if (this.#bestEffort()) {
          if (!(await this.#sendPlain())) return
        } else this.#fill()
      }
      if (this.#settings.delivery === 'best_effort') {
        if (++burst % BURST === 0) await new Promise(setImmediate)
        continue
      }
      const now = this.#parts.clock.mono()
      const frame = this.#delivery.poll(now)
      if (!frame) {
        this.#watchPeer()
        if (!this.#ready || !this.#bestEffort()) return
      } else await this.#parts.medium.send(frame)
      if (++burst % BURST === 0) await new Promise(setImmediate)
    }
  }

  #bestEffort(): boolean {
    return this.#settings.delivery === 'best_effort' || this.#delivery.mode === 'best_effort'
  }

  /** The exchange is settled: identity and time are asked for, and records may go. */
  #settled(): void {
    this.#ready = true
    this.#packer.opened(!this.#bestEffort())
    this.#session.opened(!this.#bestEffort())
    this.#parts.onReady()
    this.pump()
  }

  #watchPeer(): void {
    if (this.#delivery.mode === 'silent') this.#parts.lost('the upstream stopped acknowledging')
  }

  /** Takes records while the window has room. */
  #fill(): void {
    while (this.#delivery.canSubmit(this.#delivery.maxPacket)) {
      const next = this.#take()
      if (!next) return
      const { shipment, packet } = next
      if (this.#delivery.submit(packet.bytes, shipment)) this.watchers.tell(shipment.seq, packet.bytes)
    }
  }

  /** Sends one record where nothing is acknowledged; false when there is none or the medium refused it. */
  async #sendPlain(): Promise<boolean> {
    const next = this.#take()
    if (!next) return false
    const { shipment, packet } = next
    if (!(await this.#parts.medium.send(packet.bytes))) {
      this.#rewind()
      return false
    }
    this.#sentPlain++
    this.watchers.tell(shipment.seq, packet.bytes)
    this.#feed.done(shipment)
    return true
  }

  /** Data frames travel in the exchange, so an opener does (X29). */
  #sendOpener(packet: Uint8Array): Promise<boolean> {
    if (packet.length > this.maxPacket)
      throw new OsError('PACKET_TOO_LARGE', `an opener of ${packet.length} bytes, the link carries ${this.maxPacket}`)
    return this.#bestEffort() ? this.#parts.medium.send(packet) : Promise.resolve(this.#delivery.submit(packet, null))
  }

  /** The next record that goes out, packed; null when there is none now. */
  #take(): { shipment: Sent; packet: EncodedFrame } | null {
    const { identity, logger } = this.#parts
    for (;;) {
      const record = this.#feed.peek()
      if (!record) return null
      const own = record.medium === 'local'
      if (own && !identity.assigned) return null
      const fact = own ? { ...record.fact, aid: identity.assignedId } : record.fact
      // relayed facts go as FULL only, so an old meaning of their TID does no harm, unless their AID is ours too
      if ((own || fact.aid === identity.assignedId) && !this.#packer.ready(fact.aid)) return null
      try {
        if (!this.#session.mayGo(fact)) return null
        const packet = this.#packer.pack(fact, !own, this.maxPacket)
        this.#packer.sent(fact, packet)
        const plain = !isSecure(packet.cmd)
        if (plain) this.#session.sentPlain(fact.aid)
        return { shipment: this.#feed.ship(record, { fact, plain, packet }), packet }
      } catch (error) {
        this.#refused++
        this.#feed.pass(record)
        logger.error(`record ${record.seq} of ${fact.id} cannot be sent: ${asOsError(error).message}`)
      }
    }
  }

  #acked(shipment: Sent): void {
    const { fact, plain, packet } = shipment.payload
    if (plain) this.#session.ackedPlain(fact.aid)
    if (packet) this.#packer.acknowledged(fact.aid, packet)
    this.#feed.done(shipment)
    this.#more = true
  }

  /** A packet goes again: as FULL with its own time; whether the first or this one is answered cannot be told (D6). */
  #resend(shipment: Sent): Uint8Array | null {
    const { fact } = shipment.payload
    shipment.payload.packet = null
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
      if (before === 'probing' && this.#delivery.mode !== 'probing') this.probing.answered()
      else this.pump()
      return
    }
    if (this.#session.received(packet, origin.address)) this.pump()
    else if (!this.#parts.onControl(packet, origin)) this.#stray++
  }

  #rewind(): void {
    this.#feed.rewind()
    this.#packer.keyFrames()
  }

  #arm(): void {
    this.#cancelTimer?.()
    if (!this.#usable) return
    const now = this.#parts.clock.mono()
    const due = Math.min(
      this.#settings.delivery === 'best_effort' ? Number.POSITIVE_INFINITY : this.#delivery.nextDeadline(now),
      this.#feed.heldUntil,
      this.#session.wakeAt,
      now + (this.#parts.log.degraded ? 1000 : 5000),
    )
    // here and not in the timer: while there is something to send it is always put off
    this.#feed.saveCursor(false)
    this.#session.save(false)
    this.#cancelTimer = this.#timers.after(Math.max(5, due - now), () => this.pump())
  }
}
