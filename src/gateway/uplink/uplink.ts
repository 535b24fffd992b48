// One road upstream (D6): follows the log with a cursor, packs each fact for this uplink's templates, sends it over its
// medium with the delivery exchange (X29), and moves the cursor when the upstream has committed. Nothing else decides what
// is sent: after a restart, a lost link or a lost packet the records after the cursor go again.
//
// What fails: a link that is down leaves the cursor where it is; a peer that stops answering takes the link down, and the
// supervisor opens it again; a fact that cannot be packed (too large, no unit fits) is counted in `refused`, told in the
// log, and passed, since it would block the road for ever. Only committed records are read, so the upstream never holds a
// fact that this gateway could lose.

import type { Clock } from '../../lib/clock'
import { asOsError, OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { LinkState, Medium, PacketOrigin } from '../../links/contracts'
import { mediumInfo } from '../../links/registry'
import type { FlashLog, LogRecord, Reader, TimeQuality } from '../../log'
import type { WireUnits } from '../../pipeline/core'
import type { Fact } from '../../pipeline/fact'
import type { EncodedFrame } from '../../pipeline/sender'
import { parseNackReason } from '../../protocol/control'
import { DeliverySender } from '../../protocol/delivery'
import { parseRefusedFrame } from '../../protocol/nack'
import { COMMAND } from '../../wire/commands'
import type { Identity } from '../identity'
import type { UplinkReport } from '../status'
import { Ledger, type Shipment } from './ledger'
import { Packer, type PackSettings } from './packer'
import { Probing } from './probed'
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
  /** a control packet of the upstream that is not part of the exchange */
  onControl: (packet: Uint8Array, origin: PacketOrigin) => void
  /** the exchange is settled, packets may go */
  onReady: () => void
  /** ms a record of bad time quality is held back for */
  holdMs: (quality: TimeQuality) => number
}

interface Payload {
  fact: Fact
  /** null once it was sent again: which of the two is answered cannot be told */
  packet: EncodedFrame | null
}
type Sent = Shipment<Payload>

/** packets handed to the medium before the event loop gets its turn */
const BURST = 32
const CURSOR_EVERY_MS = 1000

export class Uplink {
  readonly name: string
  readonly #settings: UplinkSettings
  readonly #parts: UplinkParts
  readonly #delivery: DeliverySender<Sent>
  readonly #packer: Packer
  readonly #ledger: Ledger<Payload>
  readonly probing: Probing
  /** tells how a record went out, once, when it does */
  readonly watchers = new SentWatchers()
  #reader: Reader
  #next: LogRecord | null = null
  /** the reader goes beyond what is committed, since the disk refuses */
  #readsRam = false
  #usable = false
  #ready = false
  #pumping = false
  #more = false
  #timer: NodeJS.Timeout | undefined
  #heldUntil = 0
  #savedCursor: number
  #savedAt = Number.NEGATIVE_INFINITY
  #sentPlain = 0
  #refused = 0

  constructor(settings: UplinkSettings, parts: UplinkParts) {
    this.name = settings.name
    this.#settings = settings
    this.#parts = parts
    const saved = parts.log.cursor(`uplink:${settings.name}`) ?? 0
    this.#savedCursor = saved
    this.#ledger = new Ledger(saved)
    this.#packer = new Packer(settings, { ...parts, changed: () => this.pump() })
    this.#reader = parts.log.reader(saved + 1, { kinds: ['fact'] })
    this.#delivery = new DeliverySender<Sent>({
      maxPacket: parts.medium.maxPacket,
      maxPackets: mediumInfo(parts.medium.medium)?.in_flight ?? 1024,
      nextSeq: parts.nextSeq,
      randomEpoch: parts.randomEpoch,
      onAcked: shipment => this.#acked(shipment),
      onResend: shipment => this.#resend(shipment),
    })
    this.probing = new Probing(this.#delivery, packet => parts.medium.send(packet), parts.clock)
    parts.medium.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get medium(): string {
    return this.#parts.medium.medium
  }

  /** True while the upstream answers and does not have everything yet. */
  get draining(): boolean {
    return this.#usable && this.#ready && this.#parts.log.factsAfter(this.#ledger.cursor) > 0
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
      clearTimeout(this.#timer)
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
    const { log } = this.#parts
    const { acked, resent } = this.#delivery.counters
    const best = this.#settings.delivery === 'best_effort' || this.#delivery.mode === 'best_effort'
    return {
      cursor: this.#ledger.cursor,
      backlog: log.factsAfter(this.#ledger.cursor),
      acked: best ? this.#sentPlain : acked,
      resent,
      refused: this.#refused,
      delivery: best ? 'best_effort' : this.#delivery.mode,
      in_flight: this.#delivery.inFlight,
      round_trip_ms: Math.round(this.#delivery.roundTripMs),
    }
  }

  /** Keeps the cursor where it is now; called before the log is closed. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#usable = false
    this.#packer.keep()
    this.#saveCursor(true)
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
    this.#packer.keyFrames()
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
    this.#ledger.done(shipment)
    this.#saveCursor(false)
    return true
  }

  /** The next record that goes out, packed; null when there is none now. */
  #take(): { shipment: Sent; packet: EncodedFrame } | null {
    const { clock, identity, logger, holdMs } = this.#parts
    if (this.#heldUntil > clock.mono()) return null
    this.#chooseReader()
    for (;;) {
      this.#next ??= this.#reader.next()
      const record = this.#next
      if (!record?.fact) return null
      const own = record.medium === 'local'
      if (own && !identity.assigned) return null
      const hold = holdMs(record.quality)
      if (hold > 0) {
        this.#heldUntil = clock.mono() + Math.min(hold, 1000)
        return null
      }
      const fact = own ? { ...record.fact, aid: identity.assignedId } : record.fact
      // relayed facts go as FULL only, so an old meaning of their TID does no harm
      if (own && !this.#packer.ready(fact.aid)) return null
      this.#next = null
      try {
        const packet = this.#packer.pack(fact, !own)
        if (packet.size > this.maxPacket)
          throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes, the link carries ${this.maxPacket}`)
        this.#packer.sent(fact, packet)
        const shipment = this.#ledger.ship(record.seq, { fact, packet })
        return { shipment, packet }
      } catch (error) {
        this.#refused++
        this.#ledger.pass(record.seq)
        logger.error(`record ${record.seq} of ${fact.id} cannot be sent: ${asOsError(error).message}`)
      }
    }
  }

  #acked(shipment: Sent): void {
    const { fact, packet } = shipment.payload
    if (packet) this.#packer.acknowledged(fact.aid, packet)
    this.#ledger.done(shipment)
    this.#saveCursor(false)
    this.#more = true
  }

  /** A packet goes again: as FULL with its own time; whether the first or this one is answered cannot be told (D6). */
  #resend(shipment: Sent): Uint8Array | null {
    const { fact } = shipment.payload
    shipment.payload.packet = null
    try {
      const packet = this.#packer.pack(fact, true)
      if (packet.size > this.maxPacket) throw new OsError('PACKET_TOO_LARGE', `${packet.size} bytes`)
      this.#packer.sent(fact, packet)
      return packet.bytes
    } catch (error) {
      this.#refused++
      this.#parts.logger.error(`record ${shipment.seq} of ${fact.id} cannot be sent again: ${asOsError(error).message}`)
      this.#ledger.done(shipment)
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
    if (packet[0] === COMMAND.HANDSHAKE_NACK) {
      const refused = parseRefusedFrame(parseNackReason(packet))
      if (refused?.reason === 'NEED_FULL') {
        this.#packer.needFull(refused)
        return
      }
    }
    this.#parts.onControl(packet, origin)
  }

  #rewind(): void {
    this.#ledger.rewind()
    this.#reader = this.#parts.log.reader(this.#ledger.cursor + 1, { kinds: ['fact'], committedOnly: !this.#readsRam })
    this.#next = null
    this.#packer.keyFrames()
  }

  /**
   * Committed records only, as long as the disk takes them. While it does not, live data still flows (R3): what is in RAM is
   * sent too, and the upstream keeps what this gateway cannot.
   */
  #chooseReader(): void {
    const { log } = this.#parts
    if (this.#readsRam === log.degraded) return
    this.#readsRam = log.degraded
    const from = this.#next?.seq ?? this.#reader.position
    this.#reader = log.reader(from, { kinds: ['fact'], committedOnly: !this.#readsRam })
    this.#next = null
  }

  #saveCursor(now: boolean): void {
    const { log, clock } = this.#parts
    const { cursor } = this.#ledger
    if (cursor === this.#savedCursor) return
    if (!now && clock.mono() - this.#savedAt < CURSOR_EVERY_MS) return
    this.#savedAt = clock.mono()
    this.#savedCursor = cursor
    log.appendCursor(`uplink:${this.name}`, cursor)
  }

  #arm(): void {
    clearTimeout(this.#timer)
    if (!this.#usable) return
    const now = this.#parts.clock.mono()
    const due = Math.min(
      this.#settings.delivery === 'best_effort' ? Number.POSITIVE_INFINITY : this.#delivery.nextDeadline(now),
      this.#heldUntil > now ? this.#heldUntil : Number.POSITIVE_INFINITY,
      now + (this.#parts.log.degraded ? 1000 : 5000),
    )
    this.#timer = setTimeout(
      () => {
        this.#saveCursor(false)
        this.pump()
      },
      Math.max(5, due - now),
    )
  }
}
