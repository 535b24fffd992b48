// Packets waiting to be sent for the first time, end to end in one buffer that is reused: it grows to
// at most four times what is kept in it, and starts at its beginning again when it runs empty. The owner knows the sizes and bounds
// what is kept.

const FIRST_SIZE = 4096

export class PacketQueue {
  #buffer = new Uint8Array(FIRST_SIZE)
  #head = 0
  #tail = 0

  /** Copies `packet` behind the last one. */
  push(packet: Uint8Array): void {
    if (this.#tail + packet.length > this.#buffer.length) this.#makeRoom(packet.length)
    this.#buffer.set(packet, this.#tail)
    this.#tail += packet.length
  }

  /** The first `size` bytes; valid until the next push. */
  shift(size: number): Uint8Array {
    const packet = this.#buffer.subarray(this.#head, this.#head + size)
    this.#head += size
    if (this.#head === this.#tail) this.#head = this.#tail = 0
    return packet
  }

  clear(): void {
    this.#head = this.#tail = 0
  }

  /** Moves to the front when at least half of the buffer is used up, else doubles: both cost O(1) per byte over time. */
  #makeRoom(more: number): void {
    const used = this.#tail - this.#head
    const need = (used + more) * 2
    const target = need <= this.#buffer.length ? this.#buffer : new Uint8Array(Math.max(need, this.#buffer.length * 2))
    target.set(this.#buffer.subarray(this.#head, this.#tail))
    this.#buffer = target
    this.#head = 0
    this.#tail = used
  }
}
