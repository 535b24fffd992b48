// The receiver of the delivery exchange (X29): passes each packet of a peer's epoch to its owner once, and reports to the
// peer what is committed. Pure: the owner passes frames in, commits, and sends the answers.
//
// Errors: bytes that are not a complete frame are counted `malformed` and change nothing. A receiver that restarted, or
// evicted the least recently used peer, does not know the epoch and starts at the frame's base, so packets may reach the
// owner again, whose duplicate filter drops them. A packet that the owner refuses is not acknowledged and is retransmitted.
// An answer only names packets that the owner has committed.
import { controlSeq } from '../control'
import { BITMAP_BITS, buildAnswer, buildProbeReply, isProbe, parseFrame } from './frame'

/** The sequence of a peer: one per sender address and epoch. Owners pass it back and only read its two names. */
export interface DeliveryPeer {
  readonly address: string
  readonly epoch: number
}

interface DeliveryReceiverOptions {
  /** sent to the peers: how long an answer may wait for the commit */
  ackCommitMs?: number
  /** maximum of peers; the least recently used is evicted */
  maxPeers?: number
  /** checks the packets of a frame, each after its length from `at` on, together: 1 for each whose checksums are right; null: it does not */
  sums?: ((raw: Uint8Array, at: number, n: number) => Uint8Array | null) | undefined
  /** maximum of epochs per address: on a bus without addresses all senders have the same one */
  maxEpochs?: number
}

interface ReceiverCounters {
  frames: number
  /** packets passed to the owner */
  packets: number
  /** packets that were already known */
  repeated: number
  refused: number
  malformed: number
  /** packets further ahead than any sender's window */
  beyond: number
  peers_forgotten: number
}

/** Called for each packet of a frame. `packet` is a view into the frame; `plain`: the result of `sums`. */
type DeliverPacket = (packet: Uint8Array, seq: number, peer: DeliveryPeer, plain?: boolean) => void

/** a sender has at most 1024 packets between base and its newest */
const WINDOW = 1024
/** initial size of a peer's states: nodes that send one packet at a time need no more, and there are thousands of them */
const FIRST_RING = 64
const UNKNOWN = 0
const PENDING = 1
const COMMITTED = 2

class Peer implements DeliveryPeer {
  /** everything up to here is committed, or no longer wanted by the sender */
  cum: number
  /** states of cum+1 … cum+length; later ones are unknown */
  #ring = new Uint8Array(FIRST_RING)

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

  state(seq: number): number {
    return seq - this.cum > this.#ring.length ? UNKNOWN : this.#ring[seq & (this.#ring.length - 1)]!
  }

  /** Only for a seq in the window. */
  mark(seq: number, state: number): void {
    if (seq - this.cum > this.#ring.length) this.#grow(seq)
    this.#ring[seq & (this.#ring.length - 1)] = state
  }

  #grow(seq: number): void {
    const ring = this.#ring
    let size = ring.length
    while (seq - this.cum > size) size *= 2
    this.#ring = new Uint8Array(size)
    for (let at = this.cum + 1; at <= this.cum + ring.length; at++)
      this.#ring[at & (size - 1)] = ring[at & (ring.length - 1)]!
  }

  /** Moves cum to at least `floor`, and further over committed packets after it. */
  advance(cumulative: number): void {
    if (cumulative - this.cum >= this.#ring.length) {
      // all states in the ring are before the floor, and those up to it are unknown
      this.#ring.fill(UNKNOWN)
      this.cum = cumulative
      return
    }
    while (this.cum < cumulative || this.state(this.cum + 1) === COMMITTED) {
      this.cum++
      this.#ring[this.cum & (this.#ring.length - 1)] = UNKNOWN
    }
  }

  bitmap(): number {
    let bits = 0
    for (let bit = 0; bit < BITMAP_BITS; bit++) if (this.state(this.cum + 2 + bit) === COMMITTED) bits |= 1 << bit
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
  readonly #sums: DeliveryReceiverOptions['sums']
  readonly #peers = new Map<string, Map<number, Peer>>()
  /** the least recently used first */
  readonly #byUse = new Set<Peer>()
  /** the last entry of `#byUse` */
  #newest: Peer | undefined

  constructor({ ackCommitMs = 100, maxPeers = 32_768, maxEpochs = 64, sums }: DeliveryReceiverOptions = {}) {
    this.#sums = sums
    this.#ackCommitMs = ackCommitMs
    this.#maxPeers = Math.max(1, maxPeers)
    this.#maxEpochs = Math.max(1, maxEpochs)
  }

  /** number of peers now */
  get peers(): number {
    return this.#byUse.size
  }

  /** The PONG to a probe, with this receiver's commit time; null for any other packet. */
  probeReply(raw: Uint8Array): Uint8Array | null {
    return isProbe(raw) ? buildProbeReply(controlSeq(raw), this.#ackCommitMs) : null
  }

  /**
   * Parses a received delivery frame and passes its new packets to `deliver`, in order of seq. Returns the answer to send
   * immediately if the frame contains nothing new, else null: then committed() returns the answer.
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
    const good = this.#sums?.(raw, frame.packets.at, frame.n)
    let fresh = 0
    for (let k = 0; k < frame.n; k++) {
      const seq = frame.firstSeq + k
      const packet = frame.packets.view(frame.packets.u16())
      if (!peer.inWindow(seq)) {
        if (seq <= peer.cum) this.counters.repeated++
        else this.counters.beyond++
      } else if (peer.state(seq) !== UNKNOWN) this.counters.repeated++
      else {
        // marked before deliver(), whose owner may commit or refuse it immediately
        peer.mark(seq, PENDING)
        fresh++
        this.counters.packets++
        deliver(packet, seq, peer, good ? good[k] === 1 : undefined)
      }
    }
    return fresh === 0 ? this.answer(peer) : null
  }

  /** The packets are on flash: marks them and returns the answer for the peer. */
  committed(peer: DeliveryPeer, seqs: Iterable<number>): Uint8Array {
    const known = peer as Peer
    for (const seq of seqs) if (known.inWindow(seq)) known.mark(seq, COMMITTED)
    known.advance(known.cum)
    return this.answer(peer)
  }

  /** The packet could not be used (missing template, wrong key): it is not acknowledged, so that it is retransmitted. */
  refuse(peer: DeliveryPeer, seq: number): void {
    const known = peer as Peer
    if (!known.inWindow(seq) || known.state(seq) !== PENDING) return
    known.mark(seq, UNKNOWN)
    this.counters.refused++
  }

  /** The answer with everything committed now. */
  answer(peer: DeliveryPeer): Uint8Array {
    const known = peer as Peer
    return buildAnswer(known.epoch, known.cum, known.bitmap())
  }

  /** Forgets a peer, for example after its connection closed. */
  forget(address: string): void {
    for (const peer of this.#peers.get(address)?.values() ?? []) this.#byUse.delete(peer)
    this.#peers.delete(address)
  }

  /** No LruMap: a peer is in two orders, of its address and of all peers. */
  #peer(address: string, epoch: number, base: number): Peer {
    let epochs = this.#peers.get(address)
    let peer = epochs?.get(epoch)
    if (peer && peer === this.#newest) return peer
    if (peer) this.#byUse.delete(peer)
    else {
      if (epochs && epochs.size >= this.#maxEpochs) this.#drop(epochs.values().next().value!)
      else if (this.#byUse.size >= this.#maxPeers) this.#drop(this.#byUse.values().next().value!)
      epochs = this.#peers.get(address) ?? new Map<number, Peer>()
      this.#peers.set(address, epochs)
      peer = new Peer(address, epoch, base)
    }
    // moved to the end, as in #byUse
    epochs!.delete(epoch)
    epochs!.set(epoch, peer)
    this.#byUse.add(peer)
    this.#newest = peer
    return peer
  }

  #drop(peer: Peer): void {
    const epochs = this.#peers.get(peer.address)
    epochs?.delete(peer.epoch)
    if (epochs?.size === 0) this.#peers.delete(peer.address)
    this.#byUse.delete(peer)
    this.counters.peers_forgotten++
  }
}
