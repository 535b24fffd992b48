// Memory for packets (decision 0064): a packet is a view of a chunk that is never written again; a chunk is freed with its last
// packet.

const CHUNK = 32 * 1024
/** the class behind Buffer: creating a view by its constructor takes 18 ns, by subarray() 45 */
const View = (Buffer as unknown as Record<symbol, new (memory: ArrayBuffer, start: number, length: number) => Buffer>)[
  Symbol.species
]!

export class PacketSlab {
  /** the chunk to write into after reserve() */
  chunk: Buffer = Buffer.alloc(0)
  #at = 0

  /** Reserves `size` bytes and returns their start in `chunk`. */
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
    return new View(this.chunk.buffer as ArrayBuffer, start, end - start)
  }
}
