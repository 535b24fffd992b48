// The cursor for every byte layout of the project: big-endian, over a buffer of the caller, so that a codec reads like
// the table in its specification. Reading or writing past the end throws BAD_PACKET and leaves the cursor unchanged.
import { WireError } from './error'

export class ByteReader {
  constructor(
    readonly bytes: Uint8Array,
    public at = 0,
    readonly end = bytes.length,
  ) {}

  get left(): number {
    return this.end - this.at
  }

  #take(count: number): number {
    const at = this.at
    if (count < 0 || at + count > this.end)
      throw new WireError('BAD_PACKET', `packet ends at byte ${this.end}, ${at + count} needed`)
    this.at = at + count
    return at
  }

  u8(): number {
    return this.bytes[this.#take(1)]!
  }
  u16(): number {
    const at = this.#take(2)
    return (this.bytes[at]! << 8) | this.bytes[at + 1]!
  }
  u32(): number {
    const at = this.#take(4)
    const b = this.bytes
    return ((b[at]! << 24) | (b[at + 1]! << 16) | (b[at + 2]! << 8) | b[at + 3]!) >>> 0
  }
  u48(): number {
    const high = this.u16()
    return high * 4294967296 + this.u32()
  }
  /** exact up to 2^53; larger values lose their low bits */
  u64(): number {
    const high = this.u32()
    return high * 4294967296 + this.u32()
  }
  /** a view of the caller's buffer, not a copy */
  view(count: number): Uint8Array {
    const at = this.#take(count)
    return this.bytes.subarray(at, at + count)
  }
}

export class ByteWriter {
  constructor(
    readonly bytes: Uint8Array,
    public at = 0,
    readonly end = bytes.length,
  ) {}

  #room(count: number): number {
    const at = this.at
    if (at + count > this.end)
      throw new WireError('BAD_PACKET', `buffer of ${this.end} bytes is full, ${at + count} needed`)
    this.at = at + count
    return at
  }

  u8(value: number): this {
    this.bytes[this.#room(1)] = value
    return this
  }
  u16(value: number): this {
    const at = this.#room(2)
    this.bytes[at] = value >>> 8
    this.bytes[at + 1] = value
    return this
  }
  u32(value: number): this {
    const at = this.#room(4)
    this.bytes[at] = value >>> 24
    this.bytes[at + 1] = value >>> 16
    this.bytes[at + 2] = value >>> 8
    this.bytes[at + 3] = value
    return this
  }
  u64(value: number): this {
    return this.u32(Math.floor(value / 4294967296)).u32(value % 4294967296)
  }
  put(bytes: Uint8Array): this {
    this.bytes.set(bytes, this.#room(bytes.length))
    return this
  }
  /** the bytes written since `from`, as a view */
  done(from = 0): Uint8Array {
    return this.bytes.subarray(from, this.at)
  }
}
