// Framing for lines with os-node at both ends (decision 0029, `framing: "cobs"`): the packet and its CRC-16, byte-stuffed (COBS)
// so that they contain no zero, with a zero at both ends. Transparent; it adds one byte in 254, and a lost byte costs
// one packet. Errors: a frame with wrong stuffing or CRC, or one that is too long, is dropped.
import { crc16 } from '../../wire/crc'
import type { Deframer, DeframerCounters } from './deframer'

const CRC_SIZE = 2
const LONGEST_RUN = 254

/** Largest frame for a packet of `size` bytes. */
const cobsSize = (size: number): number => size + CRC_SIZE + Math.floor((size + CRC_SIZE) / LONGEST_RUN) + 3

/** One packet with its frame, in a new buffer. */
export function frameCobs(packet: Uint8Array): Uint8Array {
  const out = new Uint8Array(cobsSize(packet.length))
  const crc = crc16(packet)
  let code = 1
  let at = 2
  const put = (byte: number): void => {
    if (byte !== 0) out[at++] = byte
    if (byte === 0 || at - code > LONGEST_RUN) {
      out[code] = at - code
      code = at++
    }
  }
  for (const byte of packet) put(byte)
  put(crc >> 8)
  put(crc & 0xff)
  out[code] = at - code
  out[at++] = 0
  return out.subarray(0, at)
}

export class CobsDeframer implements Deframer {
  readonly counters: DeframerCounters = { packets: 0, bytes: 0, taken: 0, crowded: 0, steps: 0 }
  readonly #onPacket: (packet: Uint8Array) => void
  readonly #buffer: Uint8Array
  #used = 0
  /** bytes until the next code byte, and whether it encodes a zero */
  #run = 0
  #zero = false
  #size = 0
  #bad = false

  constructor({ maxPacket, onPacket }: { maxPacket: number; onPacket: (packet: Uint8Array) => void }) {
    this.#buffer = new Uint8Array(maxPacket + CRC_SIZE)
    this.#onPacket = onPacket
  }

  /** A frame ends with its zero, never with silence. */
  readonly waiting = false
  idle(): void {}

  /** All bytes up to the next zero belong to the same frame. */
  damaged(): void {
    this.#bad = true
  }

  reset(): void {
    this.#used = this.#run = this.#size = 0
    this.#zero = this.#bad = false
  }

  push(chunk: Uint8Array): void {
    this.counters.bytes += chunk.length
    this.counters.steps += chunk.length
    for (let k = 0; k < chunk.length; k++) this.#byte(chunk[k]!)
  }

  #byte(byte: number): void {
    if (byte === 0) {
      this.#end()
      this.reset()
      return
    }
    this.#size++
    if (this.#bad) return
    if (this.#run > 0) {
      this.#run--
      this.#put(byte)
      return
    }
    if (this.#zero) this.#put(0)
    this.#run = byte - 1
    this.#zero = byte <= LONGEST_RUN
  }

  #put(byte: number): void {
    if (this.#used < this.#buffer.length) this.#buffer[this.#used++] = byte
    else this.#bad = true
  }

  #end(): void {
    const size = this.#used - CRC_SIZE
    if (this.#bad || this.#run > 0 || size < 1 || crc16(this.#buffer, 0, this.#used) !== 0) return
    this.counters.packets++
    this.counters.taken += this.#size + 1
    this.#onPacket(this.#buffer.subarray(0, size))
  }
}
