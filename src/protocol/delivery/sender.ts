// The sender of the delivery exchange (X29): probes a newly opened link, numbers data packets, packs them into frames,
// processes answers and retransmits what is not acknowledged. Pure: the owner passes in the time and received bytes, and
// sends what poll() returns.
//
// Errors: if the peer never answers the probe, the state stays 'probing' (the link is down for its owner, the probe is
// repeated after 2 s doubling to 60 s). If it answers with a bare PONG, the state is 'best_effort' (nothing is acknowledged
// until the link is reopened). If it stops answering frames, the state is 'silent', and the owner closes the link. In each
// case reset() returns the unacknowledged packets in order, and only packets named by the peer count as delivered.
// Hot path (over 100 k packets/s): typed rings and one reused frame buffer, no allocation per packet.
import { OsError } from '../../lib/errors'
import { ByteWriter } from '../../wire/cursor'
import { addToFrame, BITMAP_BITS, ENVELOPE, finishFrame, fitsFrame, parseAnswer, startFrame } from './frame'
import { Prober } from './probe'
import { PacketQueue } from './queue'
import { RetransmitTimeout } from './rto'
import type { DeliveryCounters, DeliveryMode, DeliverySenderOptions } from './sender-options'

const RENEW_AT = 0xfff0_0000

const FREE = 0
const QUEUED = 1
const SENT = 2
const ACKED = 3

export class DeliverySender<Token> {
  readonly counters: DeliveryCounters = { acked: 0, resent: 0, abandoned: 0, stray: 0 }
  readonly #options: Required<Omit<DeliverySenderOptions<Token>, 'minRtoMs' | 'backsOff'>>
  readonly #frame: ByteWriter
  readonly #mask: number
  readonly #state: Uint8Array
  readonly #sentAt: Float64Array
  /** bytes counted for `maxBytes`: the larger of the packet and its retransmission */
  readonly #weight: Uint32Array
  /** counts up to 255 */
  readonly #resends: Uint8ClampedArray
  readonly #size: Uint32Array
  readonly #tokens: (Token | undefined)[]
  readonly #queue = new PacketQueue()
  readonly #prober: Prober
  readonly #rto: RetransmitTimeout
  #mode: DeliveryMode = 'probing'
  #epoch: number
  /** lowest seq still wanted; every lower seq is acknowledged or abandoned */
  #base = 1
  /** next seq to assign */
  #next = 1
  /** next seq to be sent for the first time */
  #unsent = 1
  #bytes = 0
  #inFlight = 0
  /** current window size in packets */
  #window: number
  /** many packets report one loss: halve the window at most once until then */
  #calmUntil = Number.NEGATIVE_INFINITY
  /** seqs of the frame that poll() returned last */
  #frameFrom = 0
  #frameEnd = 0
  /** bytes already requested that did not fit the previous frame */
  #waiting: { seq: number; packet: Uint8Array } | null = null

  constructor({
    maxPackets = 1024,
    startPackets = maxPackets,
    maxBytes = 262_144,
    batchItems = 255,
    batchBytes = 0xffff,
    silentAfter = 5,
    renewAt = RENEW_AT,
    minRtoMs,
    backsOff,
    ...options
  }: DeliverySenderOptions<Token>) {
    const least = Math.min(startPackets, maxPackets)
    this.#options = {
      maxPackets,
      startPackets: least,
      maxBytes,
      batchItems: Math.min(batchItems, 255),
      batchBytes,
      silentAfter,
      renewAt,
      ...options,
    }
    this.#window = least
    const ring = 2 ** Math.ceil(Math.log2(Math.max(2, maxPackets)))
    this.#mask = ring - 1
    this.#state = new Uint8Array(ring)
    this.#sentAt = new Float64Array(ring)
    this.#resends = new Uint8ClampedArray(ring)
    this.#size = new Uint32Array(ring)
    this.#weight = new Uint32Array(ring)
    this.#tokens = new Array<Token | undefined>(ring)
    this.#frame = new ByteWriter(new Uint8Array(Math.min(options.maxPacket, 0xffff)))
    this.#prober = new Prober(options.nextSeq)
    this.#rto = new RetransmitTimeout({ minRtoMs, backsOff })
    this.#epoch = options.randomEpoch() >>> 0
  }

  get mode(): DeliveryMode {
    return this.#mode
  }
  get epoch(): number {
    return this.#epoch
  }
  /** submitted packets not yet acknowledged */
  get inFlight(): number {
    return this.#inFlight
  }
  /** largest packet that submit() accepts */
  get maxPacket(): number {
    return this.#frame.end - ENVELOPE
  }
  /** smoothed round trip in milliseconds, including the peer's commit time; 0 before the first answer */
  get roundTripMs(): number {
    return this.#rto.roundTripMs
  }

  /** True if submit() would accept a packet of that many bytes; `others`: so many are submitted before it, and their bytes are in `bytes`. */
  canSubmit(bytes = 0, others = 0): boolean {
    if (this.#mode !== 'acked') return false
    const { maxPackets, maxBytes } = this.#options
    if (this.#next + others >= this.#options.renewAt && (others > 0 || !this.#renewEpoch())) return false
    const inFlight = this.#inFlight + others
    if (inFlight >= this.#window || this.#next + others - this.#base >= maxPackets) return false
    return inFlight === 0 || this.#bytes + bytes <= maxBytes
  }

  /** The path or the peer does not keep up: reduces the window. Losses detected here do this automatically. */
  slower(now: number): void {
    if (now < this.#calmUntil) return
    this.#calmUntil = now + this.#rto.ms()
    this.#window = Math.max(this.#options.startPackets, this.#window >>> 1)
  }

  /**
   * Takes a copy of one data packet. `weight`: its maximum size when retransmitted, so that the limit on bytes in flight also
   * holds then. False if the link is not acknowledged or the window is full; then nothing has changed. Throws
   * PACKET_TOO_LARGE if it can never fit.
   */
  submit(packet: Uint8Array, token: Token, weight = packet.length): boolean {
    if (packet.length > this.maxPacket || packet.length === 0)
      throw new OsError('PACKET_TOO_LARGE', `packet of ${packet.length} bytes, the link carries 1 to ${this.maxPacket}`)
    const counted = Math.max(weight, packet.length)
    if (!this.canSubmit(counted)) return false
    const slot = this.#next & this.#mask
    this.#queue.push(packet)
    this.#state[slot] = QUEUED
    this.#resends[slot] = 0
    this.#size[slot] = packet.length
    this.#weight[slot] = counted
    this.#tokens[slot] = token
    this.#next++
    this.#inFlight++
    this.#bytes += counted
    return true
  }

  /**
   * The next frame to send now, or null. Call until null, sending each before the next call: the bytes are valid until then.
   * A frame that the medium refused counts as lost and is retransmitted by timer.
   */
  poll(now: number): Uint8Array | null {
    if (this.#mode === 'probing') return this.#prober.poll(now)
    if (this.#mode !== 'acked') return null
    return this.#resendFrame(now) ?? this.#newFrame(now)
  }

  /** The last frame of poll() was sent only now: its answer timeout starts here. Called by a sender over a slow medium. */
  sentAt(now: number): void {
    if (this.#mode === 'probing') this.#prober.sentAt(now)
    for (let seq = Math.max(this.#base, this.#frameFrom); seq < this.#frameEnd; seq++)
      if (this.#state[seq & this.#mask] === SENT) this.#sentAt[seq & this.#mask] = now
  }

  /** When poll() will return something, in the time passed to it; Infinity: not before another method is called. */
  nextDeadline(now: number): number {
    if (this.#mode === 'probing') return this.#prober.due(now)
    if (this.#mode !== 'acked') return Number.POSITIVE_INFINITY
    if (this.#unsent < this.#next || this.#waiting) return now
    let oldest = Number.POSITIVE_INFINITY
    for (let seq = this.#base, end = this.#horizon(); seq < end; seq++) {
      const slot = seq & this.#mask
      if (this.#state[slot] === SENT && this.#sentAt[slot]! < oldest) oldest = this.#sentAt[slot]!
    }
    return oldest + this.#rto.ms()
  }

  /**
   * Processes a received packet. True if it belonged to the exchange: a PONG to an open probe, or an answer. The caller
   * checks that it came from the peer's address.
   */
  onAnswer(raw: Uint8Array, now: number): boolean {
    if (this.#mode === 'probing' && this.#onPong(raw, now)) return true
    const answer = parseAnswer(raw)
    if (!answer) return false
    const { cum, bitmap } = answer
    // an answer may only name sent packets; anything else is from an earlier run or forged
    const top = bitmap === 0 ? cum : cum + 33 - Math.clz32(bitmap)
    if (this.#mode !== 'acked' || answer.epoch !== this.#epoch || top >= this.#unsent) {
      this.counters.stray++
      return true
    }
    const before = this.counters.acked
    let roundTrip = Number.POSITIVE_INFINITY
    let afterResend = false
    const take = (seq: number): void => {
      const slot = seq & this.#mask
      if (this.#state[slot] !== SENT) return
      if (this.#resends[slot]! > 0) afterResend = true
      else roundTrip = Math.min(roundTrip, now - this.#sentAt[slot]!)
      this.#settle(slot)
      this.counters.acked++
      this.#options.onAcked(this.#takeToken(slot))
    }
    for (let seq = this.#base; seq <= cum; seq++) take(seq)
    for (let bit = 0; bit < BITMAP_BITS; bit++)
      if ((bitmap >>> bit) & 1 && cum + 2 + bit >= this.#base) take(cum + 2 + bit)
    // An answer that names a retransmitted packet gives no round trip: it is unknown which transmission was answered, and the
    // packets after it were only named late because they waited for it. Measuring them would let the RTO grow without limit.
    this.#rto.answered(afterResend ? Number.POSITIVE_INFINITY : roundTrip, this.counters.acked > before)
    this.#window = Math.min(this.#options.maxPackets, this.#window + this.counters.acked - before)
    this.#advance()
    return true
  }

  /**
   * The link was closed or is being reopened: probes again and returns the unacknowledged tokens in order of submission. With
   * `renew` the epoch changes and seq starts at 1; without it, the old numbers of the returned packets are abandoned.
   */
  reset({ renew = false }: { renew?: boolean } = {}): Token[] {
    const left: Token[] = []
    for (let seq = this.#base; seq < this.#next; seq++) {
      const slot = seq & this.#mask
      if (this.#state[slot] === QUEUED || this.#state[slot] === SENT) left.push(this.#takeToken(slot))
      this.#state[slot] = FREE
    }
    this.#base = this.#unsent = this.#next
    this.#inFlight = this.#bytes = 0
    this.#waiting = null
    this.#queue.clear()
    this.#mode = 'probing'
    this.#rto.reset()
    this.#frameFrom = this.#frameEnd = 0
    this.#window = this.#options.startPackets
    this.#calmUntil = Number.NEGATIVE_INFINITY
    this.#prober.reset()
    if (renew) this.#renewEpoch()
    return left
  }

  #onPong(raw: Uint8Array, now: number): boolean {
    const pong = this.#prober.answered(raw, now)
    if (!pong) return false
    this.#mode = pong.commitMs === null ? 'best_effort' : 'acked'
    this.#rto.begin(pong.roundTripMs, pong.commitMs ?? 0)
    return true
  }

  /** End of the range an answer can name: the peer may have a later packet without being able to report it. */
  #horizon(): number {
    return Math.min(this.#unsent, this.#base + 1 + BITMAP_BITS)
  }

  /** A frame of consecutive due packets; packets between two frames keep their order. */
  #resendFrame(now: number): Uint8Array | null {
    if (this.#waiting && this.#state[this.#waiting.seq & this.#mask] !== SENT) this.#waiting = null
    const due = now - this.#rto.ms()
    const end = this.#horizon()
    let n = 0
    for (let seq = this.#waiting?.seq ?? this.#base; seq < end && n < this.#options.batchItems; seq++) {
      const slot = seq & this.#mask
      if (this.#state[slot] !== SENT || (this.#sentAt[slot]! > due && this.#waiting?.seq !== seq)) {
        if (n > 0) break
        continue
      }
      if (seq === this.#base && this.#waiting?.seq !== seq && ++this.#rto.quietRounds > this.#options.silentAfter) {
        this.#mode = 'silent'
        return null
      }
      const packet = this.#waiting?.seq === seq ? this.#waiting.packet : this.#askAgain(seq, slot)
      this.#waiting = null
      if (!packet) {
        if (n > 0) break
        continue
      }
      if (n === 0) {
        startFrame(this.#frame, this.#epoch, this.#base, seq)
        this.#frameFrom = seq
      } else if (!this.#fits(packet.length)) {
        this.#waiting = { seq, packet: packet.slice() }
        break
      }
      addToFrame(this.#frame, packet)
      if (packet.length > this.#weight[slot]!) {
        this.#bytes += packet.length - this.#weight[slot]!
        this.#weight[slot] = packet.length
      }
      this.#sentAt[slot] = now
      this.#resends[slot]!++
      if (seq === this.#base) this.#rto.asks()
      this.counters.resent++
      n++
    }
    if (n === 0) return null
    this.#frameEnd = this.#frameFrom + n
    this.slower(now)
    return finishFrame(this.#frame, n)
  }

  /** Whether a packet still fits the current frame. */
  #fits(bytes: number): boolean {
    return fitsFrame(this.#frame, bytes) && this.#frame.at + bytes + 4 <= this.#options.batchBytes
  }

  #askAgain(seq: number, slot: number): Uint8Array | null {
    const packet = this.#options.onResend(this.#tokens[slot] as Token, this.#resends[slot]! + 1)
    if (packet && packet.length > 0 && packet.length <= this.maxPacket) return packet
    this.#settle(slot)
    this.#takeToken(slot)
    this.counters.abandoned++
    if (seq === this.#base) this.#advance()
    return null
  }

  #newFrame(now: number): Uint8Array | null {
    if (this.#unsent >= this.#next) return null
    startFrame(this.#frame, this.#epoch, this.#base, this.#unsent)
    this.#frameFrom = this.#unsent
    let n = 0
    while (this.#unsent < this.#next && n < this.#options.batchItems) {
      const size = this.#size[this.#unsent & this.#mask]!
      if (n > 0 && !this.#fits(size)) break
      const slot = this.#unsent & this.#mask
      addToFrame(this.#frame, this.#queue.shift(size))
      this.#state[slot] = SENT
      this.#sentAt[slot] = now
      this.#unsent++
      n++
    }
    this.#frameEnd = this.#unsent
    return finishFrame(this.#frame, n)
  }

  #settle(slot: number): void {
    this.#state[slot] = ACKED
    this.#inFlight--
    this.#bytes -= this.#weight[slot]!
  }

  #takeToken(slot: number): Token {
    const token = this.#tokens[slot] as Token
    this.#tokens[slot] = undefined
    return token
  }

  #advance(): void {
    while (this.#base < this.#next && this.#state[this.#base & this.#mask] === ACKED) {
      this.#state[this.#base & this.#mask] = FREE
      this.#base++
    }
  }

  /** A new epoch, numbered from 1; only possible while nothing is in flight. */
  #renewEpoch(): boolean {
    if (this.#inFlight > 0) return false
    const last = this.#epoch
    do this.#epoch = this.#options.randomEpoch() >>> 0
    while (this.#epoch === last)
    this.#base = this.#next = this.#unsent = 1
    return true
  }
}
