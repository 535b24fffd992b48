// Receiving half of the delivery exchange (PROTOCOL X29): hands each packet of a peer's epoch to its owner once, and tells
// the peer what is committed. Pure: the owner passes frames in, commits, and sends the answers.
//
// What fails: bytes that are not a whole frame are counted `malformed` and change nothing. A receiver that restarted, or
// dropped the least recently used peer, knows nothing of an epoch and takes the frame's base as its start, so packets may
// reach the owner again, whose duplicate filter drops them. A packet the owner refuses stays unanswered and comes again.
// Nothing is named in an answer before the owner said it is committed.
import { controlSeq } from '../control'
import { BITMAP_BITS, buildAnswer, buildProbeReply, isProbe, parseFrame } from './frame'

/** A peer's numbering: one per sender address and epoch. Owners pass it back and read nothing but the two names. */
export interface DeliveryPeer {
  readonly address: string
  readonly epoch: number
}

export interface DeliveryReceiverOptions {
  /** told to the peers: how long an answer may wait for the commit */
  ackCommitMs?: number
  /** numberings remembered; the least recently used goes first */
  maxPeers?: number
  /** epochs remembered per address: on a bus without addresses every sender has the same one */
  maxEpochs?: number
}

export interface ReceiverCounters {
  frames: number
  /** packets handed to the owner */
  packets: number
  /** packets that were known already */
  repeated: number
  refused: number
  malformed: number
  /** packets further ahead than any sender's window */
  beyond: number
  peers_forgotten: number
}

/** What the owner gets of a frame. `packet` is a view into the frame. */
export type DeliverPacket = (packet: Uint8Array, seq: number, peer: DeliveryPeer) => void

/** a sender has at most 1024 packets between base and its newest */
const WINDOW = 1024
const MASK = WINDOW - 1
const UNKNOWN = 0
const PENDING = 1
const COMMITTED = 2

class Peer implements DeliveryPeer {
  /** everything up to here is committed, or no longer wanted by the sender */
  cum: number
  /** state of cum+1 … cum+WINDOW */
  readonly ring = new Uint8Array(WINDOW)
  used = 0

  constructor(
    readonly address: string,
    readonly epoch: number,
    base: number,
  ) {
    this.cum = base - 1
  }

  inWindow(seq: number): boolean {
    return seq > this.cum && seq <= this.cum + WINDOW
  }

  /** Moves cum to at least `floor`, and on over what is committed behind it. */
  advance(floor: number): void {
    if (floor - this.cum >= WINDOW) {
      this.ring.fill(UNKNOWN)
      this.cum = floor
      return
    }
    while (this.cum < floor || this.ring[(this.cum + 1) & MASK] === COMMITTED) {
      this.cum++
      this.ring[this.cum & MASK] = UNKNOWN
    }
  }

  bitmap(): number {
    let bits = 0
    for (let bit = 0; bit < BITMAP_BITS; bit++)
      if (this.ring[(this.cum + 2 + bit) & MASK] === COMMITTED) bits |= 1 << bit
    return bits >>> 0
  }
}

export class DeliveryReceiver {
  readonly counters: ReceiverCounters = {
    frames: 0,
    packets: 0,
    repeated: 0,
    refused: 0,
    malformed: 0,
    beyond: 0,
    peers_forgotten: 0,
  }
  readonly #ackCommitMs: number
  readonly #maxPeers: number
  readonly #maxEpochs: number
  readonly #peers = new Map<string, Map<number, Peer>>()
  #count = 0
  #tick = 0

  constructor({ ackCommitMs = 100, maxPeers = 1024, maxEpochs = 64 }: DeliveryReceiverOptions = {}) {
    this.#ackCommitMs = ackCommitMs
    this.#maxPeers = Math.max(1, maxPeers)
    this.#maxEpochs = Math.max(1, maxEpochs)
  }

  /** numberings remembered now */
  get peers(): number {
    return this.#count
  }

  /** The PONG to a probing PING, with this receiver's commit time; null for any other packet. */
  probeReply(raw: Uint8Array): Uint8Array | null {
    return isProbe(raw) ? buildProbeReply(controlSeq(raw), this.#ackCommitMs) : null
  }

  /**
   * Takes a received delivery frame and hands its new packets to `deliver`, in order of seq. Returns the answer to send at once,
   * when the frame held nothing new; null otherwise: then the answer follows from committed().
   */
  onFrame(raw: Uint8Array, address: string, deliver: DeliverPacket): Uint8Array | null {
    const frame = parseFrame(raw)
    if (!frame) {
      this.counters.malformed++
      return null
    }
    this.counters.frames++
    const peer = this.#peer(address, frame.epoch, frame.base)
    if (frame.base - 1 > peer.cum) peer.advance(frame.base - 1)
    let fresh = 0
    for (let k = 0; k < frame.n; k++) {
      const seq = frame.firstSeq + k
      const packet = frame.packets.view(frame.packets.u16())
      if (!peer.inWindow(seq)) {
        if (seq <= peer.cum) this.counters.repeated++
        else this.counters.beyond++
      } else if (peer.ring[seq & MASK] !== UNKNOWN) this.counters.repeated++
      else {
        // marked before the owner sees it, so that an owner that commits or refuses at once is not overruled
        peer.ring[seq & MASK] = PENDING
        fresh++
        this.counters.packets++
        deliver(packet, seq, peer)
      }
    }
    return fresh === 0 ? this.answer(peer) : null
  }

  /** The packets are on flash: marks them and returns the answer to send to the peer. */
  committed(peer: DeliveryPeer, seqs: Iterable<number>): Uint8Array {
    const known = peer as Peer
    for (const seq of seqs) if (known.inWindow(seq)) known.ring[seq & MASK] = COMMITTED
    known.advance(known.cum)
    return this.answer(peer)
  }

  /** The packet could not be used (its template is missing, its key wrong): it stays unanswered, so that it is sent again. */
  refuse(peer: DeliveryPeer, seq: number): void {
    const known = peer as Peer
    if (!known.inWindow(seq) || known.ring[seq & MASK] !== PENDING) return
    known.ring[seq & MASK] = UNKNOWN
    this.counters.refused++
  }

  /** What is committed now, as the peer wants to hear it. */
  answer(peer: DeliveryPeer): Uint8Array {
    const known = peer as Peer
    return buildAnswer(known.epoch, known.cum, known.bitmap())
  }

  /** Forgets a peer, for example when its connection closed. */
  forget(address: string): void {
    this.#count -= this.#peers.get(address)?.size ?? 0
    this.#peers.delete(address)
  }

  #peer(address: string, epoch: number, base: number): Peer {
    let epochs = this.#peers.get(address)
    let peer = epochs?.get(epoch)
    if (!peer) {
      if (epochs && epochs.size >= this.#maxEpochs) this.#dropOldest([epochs])
      else if (this.#count >= this.#maxPeers) this.#dropOldest(this.#peers.values())
      epochs = this.#peers.get(address) ?? new Map<number, Peer>()
      this.#peers.set(address, epochs)
      peer = new Peer(address, epoch, base)
      epochs.set(epoch, peer)
      this.#count++
    }
    peer.used = ++this.#tick
    return peer
  }

  #dropOldest(groups: Iterable<Map<number, Peer>>): void {
    let oldest: Peer | undefined
    for (const epochs of groups)
      for (const peer of epochs.values()) if (!oldest || peer.used < oldest.used) oldest = peer
    if (!oldest) return
    const epochs = this.#peers.get(oldest.address)
    epochs?.delete(oldest.epoch)
    if (epochs?.size === 0) this.#peers.delete(oldest.address)
    this.#count--
    this.counters.peers_forgotten++
  }
}
