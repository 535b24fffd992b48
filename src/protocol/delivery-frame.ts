// Bytes of the delivery exchange (PROTOCOL X29): the probe, the frame that carries data packets, and the answer. Pure
// functions over caller-owned buffers; a parser answers false or null for bytes that are not exactly of its form.
//
//   probe    09 seq:2 | 4F 53 4E 01 flags:1
//   reply    0A seq:2 | 4F 53 4E 01 flags:1 commit_ms:2
//   frame    10 epoch:4 base:4 first_seq:4 n:1 | n × (len:2 packet) | crc16
//   answer   05 00 00 epoch:4 cum:4 bitmap:4 | crc16
import { readU16, readU32, writeU16, writeU32 } from './bytes'
import { CONTROL } from './control'
import { crc16 } from './crc16'

export const FRAME_HEAD = 14
/** bytes around n packets: 16 + 2n */
export const FRAME_OVERHEAD = 16
/** what one packet loses to the envelope: the largest packet on a probed link is the medium's less this */
export const ENVELOPE = 18
export const ANSWER_SIZE = 17
export const PROBE_SIZE = 8
export const PROBE_REPLY_SIZE = 10
/** packets after cum + 1 that an answer can name */
export const BITMAP_BITS = 32

const MAGIC = [0x4f, 0x53, 0x4e, 0x01] as const

const hasMagic = (raw: Uint8Array): boolean => MAGIC.every((byte, k) => raw[3 + k] === byte)

const crcHolds = (raw: Uint8Array): boolean => crc16(raw, 0, raw.length - 2) === readU16(raw, raw.length - 2)

export function buildProbe(seq: number): Uint8Array {
  return Uint8Array.of(CONTROL.PING, seq >>> 8, seq, ...MAGIC, 0)
}

export const isProbe = (raw: Uint8Array): boolean =>
  raw[0] === CONTROL.PING && raw.length >= PROBE_SIZE && hasMagic(raw)

/** `commitMs`: how long the receiver may hold an answer back to commit first; at most 65535 fits. */
export function buildProbeReply(seq: number, commitMs: number): Uint8Array {
  const bytes = Uint8Array.of(CONTROL.PONG, seq >>> 8, seq, ...MAGIC, 0, 0, 0)
  writeU16(bytes, 8, Math.min(0xffff, Math.max(0, Math.round(commitMs))))
  return bytes
}

/** commit_ms of a PONG from a peer that knows the exchange, null for a bare PONG. */
export const probeReplyCommitMs = (raw: Uint8Array): number | null =>
  raw.length >= PROBE_REPLY_SIZE && hasMagic(raw) ? readU16(raw, 8) : null

export function buildAnswer(epoch: number, cum: number, bitmap: number): Uint8Array {
  const bytes = new Uint8Array(ANSWER_SIZE)
  bytes[0] = CONTROL.ACK
  writeU32(bytes, 3, epoch)
  writeU32(bytes, 7, cum)
  writeU32(bytes, 11, bitmap)
  writeU16(bytes, 15, crc16(bytes, 0, 15))
  return bytes
}

/** True for an answer of the exchange whose CRC holds; its fields are then at 3 (epoch), 7 (cum) and 11 (bitmap). */
export const isAnswer = (raw: Uint8Array): boolean =>
  raw.length === ANSWER_SIZE && raw[0] === CONTROL.ACK && raw[1] === 0 && raw[2] === 0 && crcHolds(raw)

/** Starts a frame in `buffer`; `n` is filled in by finishFrame. Returns the offset of the first packet. */
export function startFrame(buffer: Uint8Array, epoch: number, base: number, firstSeq: number): number {
  buffer[0] = CONTROL.DELIVERY
  writeU32(buffer, 1, epoch)
  writeU32(buffer, 5, base)
  writeU32(buffer, 9, firstSeq)
  return FRAME_HEAD
}

/** Puts one packet at `at`; returns the offset behind it. */
export function addToFrame(buffer: Uint8Array, at: number, packet: Uint8Array): number {
  writeU16(buffer, at, packet.length)
  buffer.set(packet, at + 2)
  return at + 2 + packet.length
}

/** Writes n and the CRC; returns the frame, a view into `buffer`. */
export function finishFrame(buffer: Uint8Array, end: number, n: number): Uint8Array {
  buffer[13] = n
  writeU16(buffer, end, crc16(buffer, 0, end))
  return buffer.subarray(0, end + 2)
}

/** True when `raw` is a whole delivery frame: CRC, lengths that fill it exactly, no empty packet, base and seq from 1. */
export function isFrame(raw: Uint8Array): boolean {
  if (raw.length < FRAME_OVERHEAD || raw[0] !== CONTROL.DELIVERY || !crcHolds(raw)) return false
  const end = raw.length - 2
  const n = raw[13]!
  let at = FRAME_HEAD
  for (let k = 0; k < n; k++) {
    if (at + 2 > end) return false
    const length = readU16(raw, at)
    if (length === 0) return false
    at += 2 + length
  }
  const first = readU32(raw, 9)
  return at === end && readU32(raw, 5) >= 1 && first >= 1 && first + n <= 0x1_0000_0000
}
