// Packets waiting for their first sending, back to back in one reused buffer. The buffer grows to at most four times its
// content, and is used from its start again when it is empty. The owner knows the sizes and limits the content.

const FIRST_SIZE = 4096

export class PacketQueue {
  #buffer = new Uint8Array(FIRST_SIZE)
  #head = 0
  #tail = 0

  /** Appends a copy of `packet`. */
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

  /**
   * Moves the content to the front if at least half of the buffer is used up, else doubles it: both cost O(1) per byte over
   * time.
   */
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
