// The data frame: CMD u8 | route_count u8 | route_count × AID u32 | TID u8 | TS u48 | BODY | CRC8 u8 | CRC16 u16.
// Senders write one route, 16 + body bytes in total (X25). Reading never throws: an invalid frame is a named problem.

import { xorRange } from './cipher'
import { baseCommand, secureCommand } from './commands'
import { crc8, crc16 } from './crc'

/** bytes before the body of a frame with one route */
export const HEADER_SIZE = 13
/** a frame with one route and an empty body */
export const FRAME_OVERHEAD = 16
export const U32 = 4294967296

/** Writes the header of a frame with one route and returns the start of its body. `tsMs` is truncated to 48 bits. */
export function writeHeader(out: Uint8Array, at: number, cmd: number, aid: number, tid: number, tsMs: number): number {
  return writeHeaderWords(out, at, cmd, aid | 0, tid, tsHigh(tsMs), tsMs | 0)
}

/** The same with the time in two words and all numbers as 32-bit integers, so that a call allocates nothing. */
export function writeHeaderWords(
  out: Uint8Array,
  at: number,
  cmd: number,
  aid: number,
  tid: number,
  high: number,
  low: number,
): number {
  out[at] = cmd
  out[at + 1] = 1
  out[at + 2] = aid >>> 24
  out[at + 3] = aid >>> 16
  out[at + 4] = aid >>> 8
  out[at + 5] = aid
  out[at + 6] = tid
  out[at + 7] = high >> 8
  out[at + 8] = high
  out[at + 9] = low >>> 24
  out[at + 10] = low >>> 16
  out[at + 11] = low >>> 8
  out[at + 12] = low
  return at + HEADER_SIZE
}

/** the upper 16 of 48 bits; the lower 32 are `tsMs | 0` */
export const tsHigh = (tsMs: number): number => (tsMs / U32) & 0xffff

/**
 * Completes a frame that starts at `start` with the plaintext body `out[body, end)`: CRC-8, encryption (with a key; the
 * command byte must be the secure one already), CRC-16. Returns the end of the frame.
 */
export function sealFrame(out: Uint8Array, start: number, body: number, end: number, key?: Uint8Array | null): number {
  const plain = crc8(out, body, end)
  if (key) xorRange(out, body, end, key, plain)
  out[end] = plain
  const crc = crc16(out, start, end + 1)
  out[end + 1] = crc >> 8
  out[end + 2] = crc
  return end + 3
}

export interface FrameHeader {
  cmd: number
  /** every AID of the route, source last; null when there is exactly one */
  routes: number[] | null
  /** last entry of the route, 0 if there is none */
  sourceAid: number
  tid: number
  /** the TS field, unchanged */
  ts: number
  /** the body is `packet[body, end)` */
  body: number
  end: number
  crc8: number
  crc16Ok: boolean
}

/** Parses the header of a frame, or returns `short` (under 5 bytes) or `incomplete` (shorter than its own header). */
export function readHeader(packet: Uint8Array): FrameHeader | 'short' | 'incomplete' {
  if (packet.length < 5) return 'short'
  const count = packet[1]!
  if (packet.length < 2 + 4 * count + 10) return 'incomplete'
  const tid = 2 + 4 * count
  const end = packet.length - 3
  return {
    cmd: packet[0]!,
    routes: count === 1 ? null : Array.from({ length: count }, (_, k) => readU32(packet, 2 + 4 * k)),
    sourceAid: count === 0 ? 0 : readU32(packet, tid - 4),
    tid: packet[tid]!,
    ts: ((packet[tid + 1]! << 8) | packet[tid + 2]!) * U32 + readU32(packet, tid + 3),
    body: tid + 7,
    end,
    crc8: packet[end]!,
    crc16Ok: crc16(packet, 0, end + 1) === ((packet[end + 1]! << 8) | packet[end + 2]!),
  }
}

/**
 * A copy of a data frame with another key (`null`: plaintext): body, command byte and CRC-16 change, everything else
 * stays. Null if the frame is broken, or if the CRC-8 shows that `from` is not the key of its body.
 */
export function rekeyFrame(packet: Uint8Array, from: Uint8Array | null, to: Uint8Array | null): Uint8Array | null {
  const header = readHeader(packet)
  if (typeof header === 'string' || !header.crc16Ok) return null
  const { cmd, body, end } = header
  const out = Uint8Array.from(packet)
  if (from) xorRange(out, body, end, from, header.crc8)
  if (crc8(out, body, end) !== header.crc8) return null
  out[0] = to ? secureCommand(baseCommand(cmd)) : baseCommand(cmd)
  sealFrame(out, 0, body, end, to)
  return out
}

export const readU32 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0

const B64 = Uint8Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_', c => c.charCodeAt(0))

/** Writes the 8 characters of a text's time token, base64url of the 48-bit number in two words (see tsHigh). */
export function writeTimeToken(out: Uint8Array, at: number, high: number, low: number): number {
  let first = ((high & 0xffff) << 8) | (low >>> 24)
  let second = low & 0xffffff
  for (let i = 3; i >= 0; i--) {
    out[at + i] = B64[first & 63]!
    out[at + 4 + i] = B64[second & 63]!
    first >>>= 6
    second >>>= 6
  }
  return at + 8
}
