// The bytes of an IPv4 link over a serial line: SLIP framing (RFC 1055), IPv4 (RFC 791), UDP (RFC 768), ICMP echo (RFC
// 792). Pure functions over caller-owned buffers.
//
// Errors: a frame with a wrong escape, or longer than the link's MTU, is dropped; so is a datagram with a wrong length
// or checksum, a fragment, or one that is neither UDP nor an echo request. Each is counted by its reason; nothing
// throws.

const END = 0xc0
const ESC = 0xdb
const ESC_END = 0xdc
const ESC_ESC = 0xdd

const IP_HEADER = 20
const UDP_HEADER = 8
const ICMP_HEADER = 8
/** size of a datagram's headers */
export const HEADERS = IP_HEADER + UDP_HEADER
const PROTOCOL_ICMP = 1
const PROTOCOL_UDP = 17
const DONT_FRAGMENT = 0x4000
/** more fragments, or an offset */
const FRAGMENT = 0x3fff
const TTL = 64
const BROADCAST = 0xffffffff

/** Largest frame for a datagram of `size` bytes. */
export const slipSize = (size: number): number => 2 * size + 2

/** Writes a datagram as one frame; a leading END terminates noise before it. Returns the bytes written. */
export function encodeSlip(datagram: Uint8Array, out: Uint8Array): number {
  let at = 0
  out[at++] = END
  for (let k = 0; k < datagram.length; k++) {
    const byte = datagram[k]!
    if (byte === END || byte === ESC) {
      out[at++] = ESC
      out[at++] = byte === END ? ESC_END : ESC_ESC
    } else out[at++] = byte
  }
  out[at++] = END
  return at
}

/** Assembles complete frames from received bytes; `frame` is valid only during the call. */
export class SlipDecoder {
  readonly #buffer: Uint8Array
  readonly #onFrame: (frame: Uint8Array) => void
  #used = 0
  #escaped = false
  #broken = false
  /** frames dropped: a wrong escape, too long, or a damaged byte */
  broken = 0

  constructor(mtu: number, onFrame: (frame: Uint8Array) => void) {
    this.#buffer = new Uint8Array(mtu)
    this.#onFrame = onFrame
  }

  /** The line was reopened: drops an incomplete frame. */
  reset(): void {
    this.#used = 0
    this.#escaped = false
    this.#broken = false
  }

  /** Reports a damaged byte: all bytes up to the next END belong to the same frame. */
  damaged(): void {
    this.#broken = true
  }

  push(chunk: Uint8Array): void {
    for (let k = 0; k < chunk.length; k++) {
      const byte = chunk[k]!
      if (byte === END) this.#end()
      else if (this.#escaped) {
        this.#escaped = false
        if (byte === ESC_END) this.#put(END)
        else if (byte === ESC_ESC) this.#put(ESC)
        else this.#broken = true
      } else if (byte === ESC) this.#escaped = true
      else this.#put(byte)
    }
  }

  #put(byte: number): void {
    if (this.#used < this.#buffer.length) this.#buffer[this.#used++] = byte
    else this.#broken = true
  }

  #end(): void {
    const used = this.#used
    const broken = this.#broken || this.#escaped
    this.reset()
    if (broken) this.broken++
    else if (used > 0) this.#onFrame(this.#buffer.subarray(0, used))
  }
}

/** One's complement sum of 16-bit words (RFC 1071), not yet inverted. */
function sum16(bytes: Uint8Array, from: number, to: number, start = 0): number {
  let sum = start
  for (let k = from; k + 1 < to; k += 2) sum += (bytes[k]! << 8) | bytes[k + 1]!
  if ((to - from) % 2 === 1) sum += bytes[to - 1]! << 8
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return sum
}

const u16 = (bytes: Uint8Array, at: number): number => (bytes[at]! << 8) | bytes[at + 1]!
const u32 = (bytes: Uint8Array, at: number): number => (u16(bytes, at) * 0x10000 + u16(bytes, at + 2)) >>> 0
const put16 = (bytes: Uint8Array, at: number, value: number): void => {
  bytes[at] = value >>> 8
  bytes[at + 1] = value
}

/** The part of the header that UDP's checksum covers: protocol, addresses and length. */
const pseudoSum = (bytes: Uint8Array, length: number): number => sum16(bytes, 12, 20, PROTOCOL_UDP + length)

/** The number of a dotted IPv4 address, or null if it is invalid. */
export function parseIp(text: string): number | null {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)?.slice(1).map(Number)
  if (!parts || parts.some(part => part > 255)) return null
  return parts.reduce((sum, part) => sum * 256 + part, 0)
}

export const ipText = (ip: number): string => [ip >>> 24, (ip >>> 16) & 255, (ip >>> 8) & 255, ip & 255].join('.')

export interface Endpoint {
  readonly ip: number
  readonly port: number
}

function ipHeader(out: Uint8Array, size: number, id: number, protocol: number, from: number, to: number): void {
  out[0] = 0x45
  out[1] = 0
  put16(out, 2, size)
  put16(out, 4, id & 0xffff)
  put16(out, 6, DONT_FRAGMENT)
  out[8] = TTL
  out[9] = protocol
  put16(out, 10, 0)
  put16(out, 12, from >>> 16)
  put16(out, 14, from & 0xffff)
  put16(out, 16, to >>> 16)
  put16(out, 18, to & 0xffff)
  put16(out, 10, ~sum16(out, 0, IP_HEADER) & 0xffff)
}

/** Writes one UDP datagram with its headers and checksums. Returns its size; `out` has room for payload + HEADERS. */
export function encodeUdp(payload: Uint8Array, from: Endpoint, to: Endpoint, id: number, out: Uint8Array): number {
  const length = UDP_HEADER + payload.length
  ipHeader(out, IP_HEADER + length, id, PROTOCOL_UDP, from.ip, to.ip)
  put16(out, 20, from.port)
  put16(out, 22, to.port)
  put16(out, 24, length)
  put16(out, 26, 0)
  out.set(payload, HEADERS)
  const sum = ~sum16(out, IP_HEADER, IP_HEADER + length, pseudoSum(out, length)) & 0xffff
  // a checksum field of zero would mean no checksum
  put16(out, 26, sum === 0 ? 0xffff : sum)
  return IP_HEADER + length
}

/** Why a frame was refused. */
export type FrameRefusal = 'bad_header' | 'bad_checksum' | 'fragments' | 'other_protocol' | 'other_address'

export interface ReceivedDatagram {
  kind: 'udp' | 'echo'
  from: Endpoint
  /** UDP: the destination port */
  port: number
  /** UDP: the payload; echo: the ICMP message. A view of the frame. */
  payload: Uint8Array
}

/** Parses one frame addressed to `own`. */
export function decode(frame: Uint8Array, own: number): ReceivedDatagram | FrameRefusal {
  if (frame.length < IP_HEADER || frame[0]! >> 4 !== 4) return 'bad_header'
  const header = (frame[0]! & 0x0f) * 4
  const size = u16(frame, 2)
  if (header < IP_HEADER || size < header || size > frame.length) return 'bad_header'
  if (sum16(frame, 0, header) !== 0xffff) return 'bad_checksum'
  if ((u16(frame, 6) & FRAGMENT) !== 0) return 'fragments'
  const to = u32(frame, 16)
  if (to !== own && to !== BROADCAST) return 'other_address'
  const body = frame.subarray(header, size)
  const ip = u32(frame, 12)
  if (frame[9] === PROTOCOL_ICMP) return decodeEcho(body, ip)
  if (frame[9] !== PROTOCOL_UDP) return 'other_protocol'
  if (body.length < UDP_HEADER) return 'bad_header'
  const length = u16(body, 4)
  if (length < UDP_HEADER || length > body.length) return 'bad_header'
  if (u16(body, 6) !== 0 && sum16(body, 0, length, pseudoSum(frame, length)) !== 0xffff) return 'bad_checksum'
  return {
    kind: 'udp',
    from: { ip, port: u16(body, 0) },
    port: u16(body, 2),
    payload: body.subarray(UDP_HEADER, length),
  }
}

function decodeEcho(message: Uint8Array, ip: number): ReceivedDatagram | FrameRefusal {
  if (message.length < ICMP_HEADER || message[0] !== 8 || message[1] !== 0) return 'other_protocol'
  if (sum16(message, 0, message.length) !== 0xffff) return 'bad_checksum'
  return { kind: 'echo', from: { ip, port: 0 }, port: 0, payload: message }
}

/** The answer to an echo request. Returns its size; `out` has room for the request and an IP header. */
export function encodeEchoReply(message: Uint8Array, from: number, to: number, id: number, out: Uint8Array): number {
  const size = IP_HEADER + message.length
  ipHeader(out, size, id, PROTOCOL_ICMP, from, to)
  out.set(message, IP_HEADER)
  out[IP_HEADER] = 0
  put16(out, IP_HEADER + 2, 0)
  put16(out, IP_HEADER + 2, ~sum16(out, IP_HEADER, size) & 0xffff)
  return size
}
