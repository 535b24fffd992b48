// The delivery exchange over a byte stream (X29), for example TCP. The end that opened the stream first writes a probe of 8
// bytes, the other end first its PONG of 10 bytes; after that every packet in both directions is `len u16` + packet. A stream
// that begins differently carries one plain packet up to its end, as the reference sends it. Pure: the owner passes in
// received bytes, writes what wrap() returns, and reports the end.
//
// Errors: a stream that is out of step (an empty packet, or one over the limit) or that sends more plain bytes than a packet
// may have throws BAD_PACKET, and so does every later call: the owner closes the connection. A packet truncated by the end is
// counted in `cut` and dropped. At most one packet is kept in memory.
import { OsError } from '../../lib/errors'
import { isProbe, isProbeReply, PROBE_REPLY_SIZE, PROBE_SIZE } from './frame'

/** `opening`: the first bytes are incomplete */
type StreamMode = 'opening' | 'framed' | 'plain' | 'broken'

interface DeliveryStreamOptions {
  /** `client` opened the connection and probes, `server` accepted it */
  role: 'client' | 'server'
  /** largest accepted packet, in bytes */
  maxPacket?: number
  /** a received packet, PING and PONG included; the bytes are only valid during the call */
  onPacket: (packet: Uint8Array) => void
}

const MAX_PACKET = 0xffff
const FIRST_SIZE = 512
const KEPT_SIZE = 4096

export class DeliveryStream {
  /** bytes of a packet truncated by the end of the stream */
  cut = 0
  readonly #maxPacket: number
  readonly #onPacket: (packet: Uint8Array) => void
  readonly #isFirst: (bytes: Uint8Array) => boolean
  readonly #firstSize: number
  /** the first packet that this end writes without a length */
  readonly #isOwnFirst: (bytes: Uint8Array) => boolean
  #mode: StreamMode = 'opening'
  #wrote = false
  #buffer = new Uint8Array(FIRST_SIZE)
  #have = 0

  constructor({ role, maxPacket = MAX_PACKET, onPacket }: DeliveryStreamOptions) {
    const server = role === 'server'
    this.#isFirst = server ? isProbe : isProbeReply
    this.#isOwnFirst = server ? isProbeReply : isProbe
    this.#firstSize = server ? PROBE_SIZE : PROBE_REPLY_SIZE
    this.#maxPacket = Math.min(maxPacket, MAX_PACKET)
    this.#onPacket = onPacket
  }

  get mode(): StreamMode {
    return this.#mode
  }

  /** received bytes of an incomplete packet */
  get held(): number {
    return this.#have
  }

  /** the first of them */
  get first(): number | undefined {
    return this.#have > 0 ? this.#buffer[0] : undefined
  }

  /** memory used by this stream, in bytes */
  get memory(): number {
    return this.#buffer.length
  }

  /**
   * The bytes to write for one packet: unchanged for the first probe or PONG and on a plain stream, else with the length
   * prepended. Throws PACKET_TOO_LARGE beyond 65535 bytes and for an empty packet.
   */
  wrap(packet: Uint8Array): Uint8Array {
    if (packet.length === 0 || packet.length > MAX_PACKET)
      throw new OsError('PACKET_TOO_LARGE', `packet of ${packet.length} bytes, a stream carries 1 to ${MAX_PACKET}`)
    const first = !this.#wrote && this.#isOwnFirst(packet)
    this.#wrote = true
    if (first || this.#mode === 'plain') return packet
    const framed = new Uint8Array(2 + packet.length)
    framed[0] = packet.length >>> 8
    framed[1] = packet.length
    framed.set(packet, 2)
    return framed
  }

  /** Passes received bytes in and complete packets on to the owner. Throws BAD_PACKET, and the errors of onPacket. */
  push(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#mode === 'opening') at = this.#opening(chunk, at)
      else if (this.#mode === 'framed') at = this.#framed(chunk, at)
      else if (this.#mode === 'plain') at = this.#keep(chunk, at, this.#maxPacket + 1)
      else throw new OsError('BAD_PACKET', 'the stream has lost its frame boundaries')
      if (this.#mode === 'plain' && this.#have > this.#maxPacket) this.#break('one plain packet', this.#have)
    }
  }

  /** The stream ended, or its owner no longer waits for the first bytes: the received bytes are the plain packet. */
  end(): void {
    const bytes = this.#buffer.subarray(0, this.#have)
    this.#have = 0
    if (this.#mode === 'opening') this.#mode = 'plain'
    if (bytes.length === 0) return
    if (this.#mode === 'plain') this.#onPacket(bytes)
    else this.cut += bytes.length
  }

  /** Until the first packet is complete, or can no longer be one. */
  #opening(chunk: Uint8Array, from: number): number {
    const at = this.#keep(chunk, from, this.#firstSize)
    const bytes = this.#buffer.subarray(0, this.#have)
    if (this.#isFirst(bytes)) {
      this.#mode = 'framed'
      this.#have = 0
      this.#onPacket(bytes)
    } else if (this.#have === this.#firstSize) this.#mode = 'plain'
    return at
  }

  #framed(chunk: Uint8Array, from: number): number {
    let at = from
    if (this.#have === 0 && chunk.length - at >= 2) {
      const end = at + 2 + this.#length(chunk, at)
      if (end <= chunk.length) {
        this.#onPacket(chunk.subarray(at + 2, end))
        return end
      }
    }
    if (this.#have < 2) at = this.#keep(chunk, at, 2)
    if (this.#have < 2) return at
    const whole = 2 + this.#length(this.#buffer, 0)
    at = this.#keep(chunk, at, whole)
    if (this.#have === whole) {
      const packet = this.#buffer.subarray(2, whole)
      this.#have = 0
      // large packets are rare: release the large buffer
      if (this.#buffer.length > KEPT_SIZE) this.#buffer = new Uint8Array(FIRST_SIZE)
      this.#onPacket(packet)
    }
    return at
  }

  #length(bytes: Uint8Array, at: number): number {
    const length = (bytes[at]! << 8) | bytes[at + 1]!
    if (length === 0 || length > this.#maxPacket) this.#break('a packet', length)
    return length
  }

  #break(what: string, bytes: number): never {
    this.#mode = 'broken'
    this.#have = 0
    throw new OsError('BAD_PACKET', `${what} of ${bytes} bytes, the stream carries 1 to ${this.#maxPacket}`)
  }

  /** Copies into the buffer until it contains `upTo` bytes; returns the new position in the chunk. */
  #keep(chunk: Uint8Array, at: number, upTo: number): number {
    const end = Math.min(chunk.length, at + upTo - this.#have)
    const need = this.#have + end - at
    if (need > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(need, Math.min(this.#buffer.length * 2, this.#maxPacket + 3)))
      larger.set(this.#buffer.subarray(0, this.#have))
      this.#buffer = larger
    }
    this.#buffer.set(chunk.subarray(at, end), this.#have)
    this.#have = need
    return end
  }
}
