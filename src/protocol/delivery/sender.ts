// Sending half of the delivery exchange (X29): probes a freshly opened link, numbers data packets, packs them
// into frames, takes the answers and sends again what stays unanswered. Pure: the owner hands in the time, passes received
// bytes in, and sends what poll() returns.
//
// What fails: a peer that never answers the probe keeps the state 'probing' (the link is down for its owner, the probe is
// repeated after 2 s doubling to 60 s); a peer that answers with a bare PONG is 'best_effort' (nothing is acknowledged until
// the link is opened again); a peer that stops answering frames becomes 'silent', and the owner closes the link. In each case
// reset() hands back what is not acknowledged, in order, and nothing counts as delivered that the peer did not name.
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
  /** what each counts in `maxBytes`: the larger of what it is and what it may be when it goes again */
  readonly #weight: Uint32Array
  /** counts to 255 and stays there */
  readonly #resends: Uint8ClampedArray
  readonly #size: Uint32Array
  readonly #tokens: (Token | undefined)[]
  readonly #queue = new PacketQueue()
  readonly #prober: Prober
  readonly #rto: RetransmitTimeout
  #mode: DeliveryMode = 'probing'
  #epoch: number
  /** lowest seq still wanted; every seq below is acknowledged or given up */
  #base = 1
  /** next seq to give out */
  #next = 1
  /** next seq to be sent for the first time */
  #unsent = 1
  #bytes = 0
  #inFlight = 0
  /** packets that may be in flight now */
  #window: number
  /** many packets report one loss: until then they count as one */
  #calmUntil = Number.NEGATIVE_INFINITY
  /** seqs of the frame that poll() gave last */
  #frameFrom = 0
  #frameEnd = 0
  /** bytes already requested that did not fit the frame before */
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
  /** packets submitted and not yet acknowledged */
  get inFlight(): number {
    return this.#inFlight
  }
  /** probes sent since the link was opened; above 1 without an answer the link counts as down */
  get probes(): number {
    return this.#prober.count
  }
  /** largest packet submit() takes */
  get maxPacket(): number {
    return this.#frame.end - ENVELOPE
  }
  /** smoothed round trip in milliseconds, the peer's commit time included; 0 before the first answer */
  get roundTripMs(): number {
    return this.#rto.roundTripMs
  }

  /** True when submit() would take a packet of that many bytes. */
  canSubmit(bytes = 0): boolean {
    if (this.#mode !== 'acked') return false
    const { maxPackets, maxBytes } = this.#options
    if (this.#next >= this.#options.renewAt && !this.#renewEpoch()) return false
    if (this.#inFlight >= this.#window || this.#next - this.#base >= maxPackets) return false
    return this.#inFlight === 0 || this.#bytes + bytes <= maxBytes
  }

  /** The road, or the peer behind it, does not keep up: fewer packets in flight. Losses seen here do so by themselves. */
  slower(now: number): void {
    if (now < this.#calmUntil) return
    this.#calmUntil = now + this.#rto.ms()
    this.#window = Math.max(this.#options.startPackets, this.#window >>> 1)
  }

  /**
   * Takes one data packet; its bytes are copied. `weight`: bytes it may come to when it goes again, so that the bound on the
   * bytes in flight holds then too. False when the link is not acknowledged or the window is full: nothing has happened then.
   * Throws PACKET_TOO_LARGE when it can never fit.
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
   * A frame the medium refused counts as lost and is repeated by timer.
   */
  poll(now: number): Uint8Array | null {
    if (this.#mode === 'probing') return this.#prober.poll(now)
    if (this.#mode !== 'acked') return null
    return this.#resendFrame(now) ?? this.#newFrame(now)
  }

  /**
   * What poll() gave last has left only now: the wait for its answer begins here. Called by a sender over a medium that
   * takes its time.
   */
  left(now: number): void {
    if (this.#mode === 'probing') this.#prober.left(now)
    for (let seq = Math.max(this.#base, this.#frameFrom); seq < this.#frameEnd; seq++)
      if (this.#state[seq & this.#mask] === SENT) this.#sentAt[seq & this.#mask] = now
  }

  /** When poll() will have something, in the time passed to it; Infinity: not before the next call of another method. */
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
   * Takes a received packet. True when it belonged to the exchange: a PONG to an open probe, or an answer. The caller checks
   * that it came from the peer's address.
   */
  onAnswer(raw: Uint8Array, now: number): boolean {
    if (this.#mode === 'probing' && this.#onPong(raw, now)) return true
    const answer = parseAnswer(raw)
    if (!answer) return false
    const { cum, bitmap } = answer
    // an answer may only name what was sent; anything else is of another life or forged
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
    // With a packet sent twice in it, an answer gives no round trip: neither of that packet, since it is unknown which sending
    // was answered, nor of those named late because they were waiting for it. Measuring them would let the pause run away.
    this.#rto.answered(afterResend ? Number.POSITIVE_INFINITY : roundTrip, this.counters.acked > before)
    this.#window = Math.min(this.#options.maxPackets, this.#window + this.counters.acked - before)
    this.#advance()
    return true
  }

  /**
   * The link was closed or is opened again: probes anew and hands back the tokens not acknowledged, in order of submission. With
   * `renew` the epoch changes and seq starts at 1; without, the packets handed back are given up under their old numbers.
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

  /** End of the range an answer can name: beyond it the peer may hold a packet without being able to say so. */
  #horizon(): number {
    return Math.min(this.#unsent, this.#base + 1 + BITMAP_BITS)
  }

  /** A frame of one run of due packets; the packets between two frames keep their order. */
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

  /** Whether a packet still goes into the frame that was begun. */
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
