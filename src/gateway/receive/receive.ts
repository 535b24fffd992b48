// What other nodes send: packets from every listening medium are decoded, logged, acknowledged after the commit, and
// answered. Control packets go to the handshake manager; a reply that hands out an id waits until the allocation is on
// flash (D16).
//
// What fails: bytes that are no packet are counted `malformed`; a packet whose template is missing is answered NEED_FULL
// and not acknowledged, so it comes again as FULL (X9); the same packet twice is one record (D16); a packet from a device
// without delivery exchange is logged and not answered. Nothing received can stop the gateway.
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { PacketOrigin } from '../../links/contracts'
import type { FlashLog } from '../../log'
import type { Fact, LinkMetadata } from '../../pipeline/fact'
import type { PacketMeta } from '../../pipeline/receive'
import type { Receiver as PacketReceiver } from '../../pipeline/receiver'
import { buildNack, DELIVERY_FRAME } from '../../protocol/control'
import { type DeliveryPeer, DeliveryReceiver } from '../../protocol/delivery'
import type { DuplicateFilter } from '../../protocol/duplicates'
import type { HandshakeManager } from '../../protocol/handshake'
import { refusedFrameText } from '../../protocol/nack'
import type { NodeClock } from '../../protocol/time'
import { isData } from '../../wire/commands'
import { qualityOf } from '../intake/intake'
import { contentHash } from './content'

export interface ReceiveOptions {
  log: FlashLog
  receiver: PacketReceiver
  duplicates: DuplicateFilter
  protocol: HandshakeManager
  time: NodeClock
  logger: Logger
  ackCommitMs: number
  onFact: (fact: Fact, link: LinkMetadata) => void
}

/** An acknowledgement that waits for its record to be on flash. */
interface Waiting {
  peer: DeliveryPeer
  origin: PacketOrigin
  seq: number
  /** log record that must be committed first */
  record: number
}

export class Receive {
  readonly counters = { packets: 0, facts: 0, duplicates: 0, malformed: 0, refused: 0, late_dropped: 0, control: 0 }
  readonly delivery: DeliveryReceiver
  readonly #options: ReceiveOptions
  readonly #waiting: Waiting[] = []

  constructor(options: ReceiveOptions) {
    this.#options = options
    this.delivery = new DeliveryReceiver({ ackCommitMs: options.ackCommitMs })
  }

  /** A packet from a listening medium; the bytes are only valid during the call. */
  packet(packet: Uint8Array, origin: PacketOrigin): void {
    this.counters.packets++
    const cmd = packet[0]
    if (cmd === undefined) {
      this.counters.malformed++
    } else if (cmd === DELIVERY_FRAME) {
      this.#frame(packet, origin)
    } else if (isData(cmd)) {
      this.#data(packet, origin, null, 0)
    } else this.#control(packet, origin)
  }

  #frame(frame: Uint8Array, origin: PacketOrigin): void {
    const malformed = this.delivery.counters.malformed
    const answer = this.delivery.onFrame(frame, origin.address, (packet, seq, peer) =>
      this.#data(packet, origin, peer, seq),
    )
    this.counters.malformed += this.delivery.counters.malformed - malformed
    if (answer) void origin.reply(answer)
  }

  #data(packet: Uint8Array, origin: PacketOrigin, peer: DeliveryPeer | null, seq: number): void {
    const { log, receiver, duplicates, time, onFact, logger } = this.#options
    const received = receiver.receive(packet)
    if (received.kind === 'error') {
      if (received.needFull) {
        this.counters.refused++
        if (received.code === 'LATE_DROPPED') this.counters.late_dropped++
        if (peer) this.delivery.refuse(peer, seq)
        this.#needFull(packet, received.meta, origin)
        return
      }
      // a whole frame around bytes that are no packet: it will not get better by being sent again
      this.counters.malformed++
      logger.warn(`packet from ${origin.address} dropped: ${received.message}`)
      if (peer) this.#acknowledge(peer, origin, seq)
      return
    }
    const { fact } = received
    const hash = contentHash(fact)
    if (duplicates.seen(fact.aid, fact.tRaw, hash)) {
      this.counters.duplicates++
      // the record it repeats may be one nobody waited for: with that lost, this packet must count as new
      if (peer) this.#acknowledge(peer, origin, seq, () => duplicates.forget(fact.aid, fact.tRaw, hash))
      return
    }
    const link: LinkMetadata = {
      medium: origin.medium,
      address: origin.address,
      ...(origin.rssi !== undefined && { rssi: origin.rssi }),
      ...(origin.snr !== undefined && { snr: origin.snr }),
    }
    let record: number
    try {
      record = log.appendFact(fact, link, qualityOf(time))
    } catch (error) {
      // not kept, so not known: when it comes again it counts as new
      this.counters.refused++
      duplicates.forget(fact.aid, fact.tRaw, hash)
      if (peer) this.delivery.refuse(peer, seq)
      logger.warn(`packet from ${origin.address} not taken: ${asOsError(error).message}`)
      return
    }
    this.counters.facts++
    onFact(fact, link)
    if (!peer) return
    this.#waiting.push({ record, peer, origin, seq })
    this.#await(record, () => duplicates.forget(fact.aid, fact.tRaw, hash))
  }

  /** Answers when everything in the log up to now is committed; answers to one peer are put together. */
  #acknowledge(peer: DeliveryPeer, origin: PacketOrigin, seq: number, lost?: () => void): void {
    const record = this.#options.log.lastSeq
    this.#waiting.push({ record, peer, origin, seq })
    this.#await(record, lost)
  }

  /** Answers what waits when `record` is on flash; when it was lost before, `lost` is told and everything is to come again. */
  #await(record: number, lost: () => void = () => undefined): void {
    const { log, logger } = this.#options
    log.committed(record).then(
      () => this.#answer(log.committedSeq),
      error => {
        logger.warn(`not acknowledged, the log could not commit: ${asOsError(error).message}`)
        lost()
        // forgotten by the exchange, so that the sender's next try counts as new
        for (const late of this.#waiting.splice(0)) this.delivery.refuse(late.peer, late.seq)
      },
    )
  }

  #answer(committed: number): void {
    const ready = new Map<DeliveryPeer, { origin: PacketOrigin; seqs: number[] }>()
    let k = 0
    for (; k < this.#waiting.length && this.#waiting[k]!.record <= committed; k++) {
      const { peer, origin, seq } = this.#waiting[k]!
      const group = ready.get(peer)
      if (group) {
        group.seqs.push(seq)
        group.origin = origin
      } else ready.set(peer, { origin, seqs: [seq] })
    }
    this.#waiting.splice(0, k)
    for (const [peer, { origin, seqs }] of ready) void origin.reply(this.delivery.committed(peer, seqs))
  }

  #needFull(packet: Uint8Array, meta: PacketMeta, origin: PacketOrigin): void {
    const crc16 = (packet[packet.length - 2]! << 8) | packet[packet.length - 1]!
    const text = refusedFrameText({
      reason: 'NEED_FULL',
      aid: meta.source_aid ?? 0,
      tid: Number(meta.tid),
      ts: meta.timestamp_raw ?? 0,
      crc16,
    })
    void origin.reply(buildNack(0, text))
  }

  #control(packet: Uint8Array, origin: PacketOrigin): void {
    this.counters.control++
    const probe = this.delivery.probeReply(packet)
    if (probe) {
      void origin.reply(probe)
      return
    }
    const { response, durable, type } = this.#options.protocol.classifyAndDispatch(packet, origin.address)
    if (type === 'UNKNOWN' || type === 'ERROR') this.counters.malformed++
    if (!response) return
    Promise.resolve(durable).then(
      () => origin.reply(response),
      error => this.#options.logger.error(`${origin.address} gets no answer: ${asOsError(error).message}`),
    )
  }
}
