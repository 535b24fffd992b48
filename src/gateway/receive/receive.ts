// Receives packets of other nodes: packets from every listening medium are decoded, logged, acknowledged after the commit,
// and answered. Control packets are passed to the handshake manager; a reply that assigns an id waits until the allocation is
// on flash (decision 0018). ReceiveSession answers requests of secure sessions.
//
// Errors (none stops the gateway): bytes that are no packet are counted `malformed`. A packet whose template is missing is
// answered NEED_FULL and not acknowledged, so it is sent again as FULL (X9). A duplicate is one record (decision 0018). A packet from a
// device without the delivery exchange is logged and not acknowledged. A packet without a time is stamped and answered with
// the time (X11). A packet from an address that receiver.allow does not name is dropped unread. A packet too large for the
// log is counted `too_large` and acknowledged, or it would be retransmitted for ever.
//
// A medium that acknowledges automatically (MQTT) is notified by origin.settle: after the commit, immediately for packets
// that can never be used, false for packets to be sent again. template-recovery.ts keeps what such packets need after a
// crash, since acknowledged packets are not sent again as FULL.
import type { GatewayCores } from '../../cores'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { PacketOrigin } from '../../links/contracts'
import type { FlashLog } from '../../log'
import type { Fact, LinkMetadata } from '../../pipeline/fact'
import { isFull } from '../../pipeline/receive'
import type { Receiver as PacketReceiver } from '../../pipeline/receiver'
import type { WirePickers } from '../../pipeline/wireunit'
import { buildNack, buildTimeResponse, DELIVERY_FRAME } from '../../protocol/control'
import { type DeliveryPeer, DeliveryReceiver } from '../../protocol/delivery'
import type { DuplicateFilter } from '../../protocol/duplicates'
import type { HandshakeManager } from '../../protocol/handshake/manager'
import { nackReason } from '../../protocol/nack'
import type { NodeClock } from '../../protocol/time'
import { isData } from '../../wire/commands'
import { qualityOf } from '../intake/intake'
import { Addresses } from './addresses'
import { contentHash } from './content-hash'
import { EarlyCommit } from './early-commit'
import { Epochs } from './epochs'
import type { NewDevices } from './new-devices'
import { type ReceiveSession, sourceAid, tidAt } from './receiver-session'
import { KnownFrames, keeping, templatesMoved } from './template-recovery'
import { TimeReplies } from './time-replies'

export interface ReceiveOptions {
  log: FlashLog
  receiver: PacketReceiver
  duplicates: DuplicateFilter
  pickers: WirePickers
  protocol: HandshakeManager
  time: NodeClock
  logger: Logger
  ackCommitMs: number
  cores?: GatewayCores | undefined
  /** secure sessions; without them, secure frames are malformed and plaintext is accepted */
  session?: ReceiveSession
  /** which addresses may send here (receiver.allow) */
  allowed?: (address: string) => boolean
  /** which new devices are accepted */
  newDevices?: NewDevices
  onFact: (fact: Fact, link: LinkMetadata) => void
  /** a device sent a packet that contains no fact (X33) */
  onAlive?: (aid: number, address: string) => void
  /** every accepted packet; its bytes are only valid during the call */
  onPacket?: (packet: Uint8Array, origin: PacketOrigin) => void
}

/** An acknowledgement that waits until its record is on flash. */
interface PendingAck {
  /** null: the medium itself acknowledges */
  peer: DeliveryPeer | null
  origin: PacketOrigin
  seq: number
  /** log record to commit first */
  record: number
}

export class Receive {
  readonly counters = {
    packets: 0,
    facts: 0,
    duplicates: 0,
    malformed: 0,
    refused: 0,
    late_dropped: 0,
    /** facts of templates from before an unclean stop, with only the values of their packet (X33) */
    template_rebuilt: 0,
    /** facts larger than any record of this log */
    too_large: 0,
    control: 0,
    /** AIDs that sent from a new address */
    moved: 0,
    /** times that two runs of one AID alternated: two devices with one id */
    epochs_alternate: 0,
    /** dropped by receiver.allow */
    not_allowed: 0,
    /** facts too far in the future; they do not update the newest state (X36) */
    future: 0,
  }
  readonly addresses = new Addresses()
  readonly #epochs = new Epochs()
  readonly delivery: DeliveryReceiver
  readonly frames = new KnownFrames()
  readonly #options: ReceiveOptions
  readonly #waiting: PendingAck[] = []
  readonly #timeReplies = new TimeReplies()
  readonly #early: EarlyCommit

  constructor(options: ReceiveOptions) {
    this.#options = options
    this.#early = new EarlyCommit(options.log)
    this.delivery = new DeliveryReceiver({ ackCommitMs: options.ackCommitMs, sums: options.cores?.sums })
  }

  get session(): ReceiveSession | undefined {
    return this.#options.session
  }

  /** For status: the counts of dropped packets by reason. */
  report(): Record<string, number> {
    const { receiver, duplicates } = this.#options
    const { late, unitAmbiguous, forgotten } = receiver.counters
    const { spill } = receiver
    const { repeated, beyond, peers_forgotten } = this.delivery.counters
    return {
      ...this.counters,
      late,
      unit_ambiguous: unitAmbiguous,
      templates_forgotten: forgotten,
      repeated,
      beyond,
      peers_forgotten,
      peers: this.delivery.peers,
      duplicate_bytes: duplicates.bytes,
      sources: receiver.sources,
      sources_spilled: spill?.size ?? 0,
      template_bytes: receiver.weight + (spill?.memory ?? 0),
      spill_bytes: spill?.disk ?? 0,
      spill_bytes_written: spill?.counters.bytes_written ?? 0,
      spill_errors: spill?.counters.errors ?? 0,
      strangers_refused: this.#options.newDevices?.refused ?? 0,
      stray_answers: this.#options.protocol.strayAnswers,
      ...this.#options.session?.report(),
    }
  }

  /** Packets that are lost: neither logged nor to be sent again. */
  get dropped(): number {
    const { malformed, late_dropped, too_large, not_allowed } = this.counters
    return malformed + late_dropped + too_large + not_allowed
  }

  /** A packet from a listening medium; the bytes are only valid during the call. */
  packet(packet: Uint8Array, origin: PacketOrigin): void {
    this.counters.packets++
    if (this.#options.allowed && !this.#options.allowed(origin.address)) {
      this.counters.not_allowed++
      origin.settle?.(true)
      return
    }
    const cmd = packet[0]
    // for a delivery frame, observers get the packets inside
    if (cmd !== undefined && cmd !== DELIVERY_FRAME) this.#options.onPacket?.(packet, origin)
    if (cmd === undefined) {
      this.counters.malformed++
      origin.settle?.(true)
    } else if (cmd === DELIVERY_FRAME) {
      this.#frame(packet, origin)
    } else if (isData(cmd)) {
      this.#data(packet, origin, null, 0)
    } else this.#control(packet, origin)
  }

  #frame(frame: Uint8Array, origin: PacketOrigin): void {
    const malformed = this.delivery.counters.malformed
    const answer = this.delivery.onFrame(frame, origin.address, (packet, seq, peer, plain) => {
      this.#options.onPacket?.(packet, origin)
      this.#data(packet, origin, peer, seq, plain)
    })
    this.counters.malformed += this.delivery.counters.malformed - malformed
    if (answer) void origin.reply(answer)
    // the exchange requests missing packets again
    origin.settle?.(true)
  }

  #data(packet: Uint8Array, origin: PacketOrigin, peer: DeliveryPeer | null, seq: number, plain?: boolean): void {
    const { log, receiver, duplicates, time, onFact, logger, session } = this.#options
    if (this.#options.newDevices?.admits(sourceAid(packet)) === false) {
      this.#refuse(peer, origin, seq)
      return
    }
    if (session) {
      const verdict = session.judge(packet, origin, !peer)
      if (verdict === 'key_request') this.#acknowledge(peer, origin, seq)
      // not acknowledged, so that it is retransmitted when it may be encrypted
      if (verdict === 'refused') this.#refuse(peer, origin, seq)
      if (verdict !== 'data') return
    }
    // the templates of a peer's run are separate, even if another device has its AID
    const received = receiver.receive(packet, peer?.epoch, seq, plain)
    // a broker sends it again, and the state it was built on is gone
    if (received.needFull && origin.settle && this.frames.has(packet, received.meta)) {
      this.counters.duplicates++
      this.#acknowledge(peer, origin, seq)
      return
    }
    if (received.kind === 'error') {
      if (session && (received.code === 'NO_KEY' || received.code === 'BAD_KEY')) {
        this.counters.refused++
        session.undecryptable(packet, origin, !peer)
        this.#refuse(peer, origin, seq)
        return
      }
      if (received.needFull) {
        this.counters.refused++
        if (received.code === 'LATE_DROPPED') this.counters.late_dropped++
        if (received.meta.template_rebuilt) {
          this.#heard(received.meta.source_aid!, origin)
          this.#options.onAlive?.(received.meta.source_aid!, origin.address)
        }
        this.#needFull(packet, origin)
        this.#refuse(peer, origin, seq)
        return
      }
      // a complete frame around bytes that are no packet: a retransmit would not help
      this.counters.malformed++
      logger.warn(`packet from ${origin.address} dropped: ${received.message}`)
      this.#acknowledge(peer, origin, seq)
      return
    }
    session?.decoded(packet, received, origin)
    const { fact, meta } = received
    // the sender does not repeat a bare packet after the medium has acknowledged it
    const acknowledges = !peer && origin.settle
    this.#heard(fact.aid, origin)
    if (received.needFull) {
      this.counters.template_rebuilt++
      this.#needFull(packet, origin)
    }
    if (peer && this.#epochs.alternate(fact.aid, peer.epoch, time.mono())) {
      this.counters.epochs_alternate++
      logger.warn(
        `two devices send as id ${fact.aid} (${fact.id}, one of them from ${origin.address}): a copied SD card or Config.json. ` +
          'Give one of them an identity of its own: device_id "" and assigned_id 4294967295 in its Config.json',
      )
    }
    if (meta.server_stamped && !meta.secure) this.#tellTime(fact.aid, origin)
    const hash = contentHash(fact, this.#options.pickers)
    if (duplicates.seen(fact.aid, fact.tRaw, hash)) {
      this.counters.duplicates++
      if (acknowledges && received.advanced) templatesMoved(log, packet, meta)
      // after a commit of the earlier record: if that is lost, a retransmit counts as new (below)
      this.#acknowledge(peer, origin, seq)
      return
    }
    const link: LinkMetadata = { medium: origin.medium, address: origin.address }
    if (origin.rssi !== undefined) link.rssi = origin.rssi
    if (origin.snr !== undefined) link.snr = origin.snr
    if (meta.routes) link.route = meta.routes
    if (meta.future) link.future = true
    if (received.needFull) link.template_rebuilt = true
    // a late FULL that is new: the sender builds on it, and not on the newer state known here
    if (!peer && meta.late && isFull(meta.base_cmd!)) receiver.invalidate(fact.aid, packet[tidAt(packet)]!)
    let record: number
    try {
      // a time of the sender is logged unchanged; only times stamped here are corrected by our sync
      const quality = meta.server_stamped ? qualityOf(time) : 'unknown'
      record = log.appendFact(fact, keeping(link, packet, received, { acknowledges, peer, receiver }), quality)
    } catch (error) {
      // not logged: a retransmit must count as new
      duplicates.forget(fact.aid, fact.tRaw, hash)
      const { code, message } = asOsError(error)
      logger.warn(`packet from ${origin.address} not accepted: ${message}`)
      if (code === 'PACKET_TOO_LARGE') {
        // it cannot become smaller: without an answer it would be retransmitted for ever and block later packets
        this.counters.too_large++
        if (acknowledges && received.advanced) templatesMoved(log, packet, meta)
        this.#acknowledge(peer, origin, seq)
        return
      }
      this.counters.refused++
      this.#refuse(peer, origin, seq, true)
      return
    }
    this.counters.facts++
    if (meta.future) this.counters.future++
    onFact(fact, link)
    if (!peer && !origin.settle) {
      // nothing waits for it; a record is only lost before its commit while the disk refuses
      if (log.degraded) log.committed(record).catch(() => duplicates.forget(fact.aid, fact.tRaw, hash))
      return
    }
    const frame = peer ? null : packet.slice()
    if (frame) this.frames.note(frame, fact)
    const lost = (): void => {
      duplicates.forget(fact.aid, fact.tRaw, hash)
      if (frame) this.frames.forget(frame, fact)
    }
    this.#acknowledge(peer, origin, seq, lost, record)
  }

  /** A packet of a device arrived; the first one is an event. */
  #heard(aid: number, { address }: PacketOrigin): void {
    if (!this.addresses.heard(aid, address)) return
    this.counters.moved++
    this.#options.logger.warn(`id ${aid} now also sends from ${address}`)
  }

  /** Requests a FULL; the request contains the TS field as received. */
  #needFull(packet: Uint8Array, origin: PacketOrigin): void {
    const reason = nackReason('NEED_FULL', packet)
    if (reason) void origin.reply(buildNack(0, reason))
  }

  /** Answers after everything in the log, or `record`, is committed; answers to one peer are combined. */
  #acknowledge(
    peer: DeliveryPeer | null,
    origin: PacketOrigin,
    seq: number,
    lost?: () => void,
    record = this.#options.log.lastSeq,
  ): void {
    if (!peer && !origin.settle) return
    this.#waiting.push({ record, peer, origin, seq })
    if (!peer) this.#early.waits()
    this.#await(record, lost)
  }

  /**
   * Refuses a packet: the exchange retransmits it; on a medium that acknowledges it is only requested again if that may help.
   */
  #refuse(peer: DeliveryPeer | null, origin: PacketOrigin, seq: number, mayHelp = false): void {
    if (peer) this.delivery.refuse(peer, seq)
    else origin.settle?.(!mayHelp)
  }

  /** Answers waiting packets when `record` is on flash; if it was lost, calls `lost` and all must be sent again. */
  #await(record: number, lost: () => void = () => undefined): void {
    const { log, logger } = this.#options
    log.committed(record).then(
      () => this.#answer(log.committedSeq),
      error => {
        logger.warn(`not acknowledged, the log could not commit: ${asOsError(error).message}`)
        lost()
        // the exchange forgets them, so that a retransmit counts as new
        for (const { peer, origin, seq } of this.#waiting.splice(0)) {
          if (!peer) this.#early.settled()
          this.#refuse(peer, origin, seq, true)
        }
      },
    )
  }

  #answer(committed: number): void {
    const ready = new Map<DeliveryPeer, { origin: PacketOrigin; seqs: number[] }>()
    let k = 0
    for (; k < this.#waiting.length && this.#waiting[k]!.record <= committed; k++) {
      const { peer, origin, seq } = this.#waiting[k]!
      if (!peer) {
        this.#early.settled()
        origin.settle?.(true)
        continue
      }
      const group = ready.get(peer)
      if (group) {
        group.seqs.push(seq)
        group.origin = origin
      } else ready.set(peer, { origin, seqs: [seq] })
    }
    this.#waiting.splice(0, k)
    for (const [peer, { origin, seqs }] of ready) void origin.reply(this.delivery.committed(peer, seqs))
  }

  /** The answer to a packet without a time (X11). */
  #tellTime(aid: number, origin: PacketOrigin): void {
    const { time } = this.#options
    if (this.#timeReplies.due(aid, time.mono())) void origin.reply(buildTimeResponse(0, Math.floor(time.now() / 1000)))
  }

  #control(packet: Uint8Array, origin: PacketOrigin): void {
    this.counters.control++
    // the peer repeats its request if no answer arrives, so nothing is retransmitted here
    const settle = (): void => origin.settle?.(true)
    const probe = this.delivery.probeReply(packet)
    if (probe) {
      void origin.reply(probe)
      settle()
      return
    }
    const { response, durable, later, type } = this.#options.protocol.classifyAndDispatch(packet, origin.address)
    if (type === 'UNKNOWN' || type === 'ERROR') this.counters.malformed++
    const answer = later ?? (response && Promise.resolve(durable).then(() => response))
    if (!answer) {
      settle()
      return
    }
    answer
      .then(
        bytes => void origin.reply(bytes),
        error => this.#options.logger.error(`${origin.address} was not answered: ${asOsError(error).message}`),
      )
      .finally(settle)
  }
}
