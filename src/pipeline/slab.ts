// Memory for packets (D12). PacketSlab serves transmit: a packet is a view of a chunk that is never written again, and a
// chunk goes with its last packet. PacketPool serves the gateway's own path: blocks are leased and given back, so that
// steady state allocates nothing; writing to a block after its release is the owner's mistake and is not detected.

const CHUNK = 32 * 1024

export class PacketSlab {
  /** the chunk to write into after reserve() */
  chunk: Buffer = Buffer.alloc(0)
  #at = 0

  /** Makes room for `size` bytes and returns where they start in `chunk`. */
  reserve(size: number): number {
    if (this.#at + size > this.chunk.length) {
      this.chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK, size))
      this.#at = 0
    }
    return this.#at
  }

  /** The packet written at `start`, up to `end`; later packets follow it. */
  take(start: number, end: number): Buffer {
    this.#at = end
    return this.chunk.subarray(start, end)
  }
}

/** A block on loan: `bytes[0, length)` is the packet until release(). */
class PacketLease {
  length = 0
  leased = false
  constructor(
    readonly bytes: Buffer,
    readonly pool: PacketPool,
  ) {}

  /** Gives the block back; a second call does nothing. */
  release(): void {
    if (!this.leased) return
    this.leased = false
    this.pool.giveBack(this)
  }
}

export class PacketPool {
  readonly #free: PacketLease[] = []
  /** blocks made so far, leased or free */
  blocks = 0

  constructor(readonly blockSize = 2048) {}

  /** A free block, or a new one; larger packets than the block get one of their own, which is not kept. */
  lease(size = this.blockSize): PacketLease {
    let lease = size <= this.blockSize ? this.#free.pop() : undefined
    if (!lease) {
      lease = new PacketLease(Buffer.allocUnsafeSlow(Math.max(size, this.blockSize)), this)
      if (size <= this.blockSize) this.blocks++
    }
    lease.length = 0
    lease.leased = true
    return lease
  }

  giveBack(lease: PacketLease): void {
    if (lease.bytes.length === this.blockSize) this.#free.push(lease)
  }
}
