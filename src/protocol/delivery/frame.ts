// The bytes of the delivery exchange (X29): the probe, the frame that carries data packets, and the answer. Pure functions
// over caller-owned buffers; a parser returns false or null for bytes that do not have exactly its format.
//
//   probe    09 seq:2 | 4F 53 4E 01 flags:1
//   reply    0A seq:2 | 4F 53 4E 01 flags:1 commit_ms:2
//   frame    10 epoch:4 base:4 first_seq:4 n:1 | n × (len:2 packet) | crc16
//   answer   05 00 00 epoch:4 cum:4 bitmap:4 | crc16
import { COMMAND } from '../../wire/commands'
import { crc16 } from '../../wire/crc'
import { ByteReader, ByteWriter } from '../../wire/cursor'
import { DELIVERY_FRAME } from '../control'

const FRAME_HEAD = 14
/** bytes around n packets: 16 + 2n */
const FRAME_OVERHEAD = 16
/** overhead for one packet: the largest packet on a probed link is the medium's maximum minus this */
export const ENVELOPE = 18
export const ANSWER_SIZE = 17
export const PROBE_SIZE = 8
export const PROBE_REPLY_SIZE = 10
/** packets after cum + 1 that an answer can name */
export const BITMAP_BITS = 32

const MAGIC = Uint8Array.of(0x4f, 0x53, 0x4e, 0x01)

const hasMagic = (raw: Uint8Array): boolean => MAGIC.every((byte, k) => raw[3 + k] === byte)

const crcHolds = (raw: Uint8Array): boolean => {
  const crc = crc16(raw, 0, raw.length - 2)
  return raw[raw.length - 2] === crc >>> 8 && raw[raw.length - 1] === (crc & 0xff)
}

export const buildProbe = (seq: number): Uint8Array =>
  new ByteWriter(new Uint8Array(PROBE_SIZE)).u8(COMMAND.PING).u16(seq).put(MAGIC).u8(0).done()

export const isProbe = (raw: Uint8Array): boolean =>
  raw[0] === COMMAND.PING && raw.length >= PROBE_SIZE && hasMagic(raw)

/** `commitMs`: how long the receiver may delay an answer to commit first; at most 65535. */
export function buildProbeReply(seq: number, commitMs: number): Uint8Array {
  const ms = Math.min(0xffff, Math.max(0, Math.round(commitMs)))
  return new ByteWriter(new Uint8Array(PROBE_REPLY_SIZE)).u8(COMMAND.PONG).u16(seq).put(MAGIC).u8(0).u16(ms).done()
}

/** True for the PONG of a peer that supports the exchange. */
export const isProbeReply = (raw: Uint8Array): boolean =>
  raw[0] === COMMAND.PONG && raw.length >= PROBE_REPLY_SIZE && hasMagic(raw)

/** commit_ms in a PONG of a peer that supports the exchange, null for a bare PONG. */
export const probeReplyCommitMs = (raw: Uint8Array): number | null =>
  raw.length >= PROBE_REPLY_SIZE && hasMagic(raw) ? new ByteReader(raw, 8).u16() : null

export function buildAnswer(epoch: number, cum: number, bitmap: number): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(ANSWER_SIZE)).u8(COMMAND.HANDSHAKE_ACK).u16(0)
  writer.u32(epoch).u32(cum).u32(bitmap)
  return writer.u16(crc16(writer.bytes, 0, writer.at)).done()
}

export interface DeliveryAnswer {
  readonly epoch: number
  readonly cum: number
  /** bit i: cum + 2 + i is committed */
  readonly bitmap: number
}

/** An answer of the exchange, or null if it is none or its CRC is wrong. */
export function parseAnswer(raw: Uint8Array): DeliveryAnswer | null {
  if (raw.length !== ANSWER_SIZE || raw[0] !== COMMAND.HANDSHAKE_ACK || raw[1] !== 0 || raw[2] !== 0 || !crcHolds(raw))
    return null
  const reader = new ByteReader(raw, 3)
  return { epoch: reader.u32(), cum: reader.u32(), bitmap: reader.u32() }
}

/** Starts a frame at the beginning of the writer's buffer; finishFrame writes n. */
export function startFrame(writer: ByteWriter, epoch: number, base: number, firstSeq: number): void {
  writer.at = 0
  writer.u8(DELIVERY_FRAME).u32(epoch).u32(base).u32(firstSeq).u8(0)
}

/** Whether a packet of that many bytes still fits the frame. */
export const fitsFrame = (writer: ByteWriter, bytes: number): boolean => writer.at + 2 + bytes + 2 <= writer.end

export function addToFrame(writer: ByteWriter, packet: Uint8Array): void {
  writer.u16(packet.length).put(packet)
}

/** Writes n and the CRC; returns the frame, a view into the writer's buffer. */
export function finishFrame(writer: ByteWriter, n: number): Uint8Array {
  writer.bytes[FRAME_HEAD - 1] = n
  return writer.u16(crc16(writer.bytes, 0, writer.at)).done()
}

export interface FrameHead {
  readonly epoch: number
  readonly base: number
  readonly firstSeq: number
  readonly n: number
  /** positioned at the length of the first packet */
  readonly packets: ByteReader
}

/**
 * A complete delivery frame, or null. Checks the CRC, that the packets fill it exactly, that none is empty, and that base and
 * seq are from 1 to 2^32 − 1.
 */
export function parseFrame(raw: Uint8Array): FrameHead | null {
  if (raw.length < FRAME_OVERHEAD || raw[0] !== DELIVERY_FRAME || !crcHolds(raw)) return null
  const reader = new ByteReader(raw, 1, raw.length - 2)
  const head = { epoch: reader.u32(), base: reader.u32(), firstSeq: reader.u32(), n: reader.u8(), packets: reader }
  if (head.base < 1 || head.firstSeq < 1 || head.firstSeq + head.n > 0x1_0000_0000) return null
  for (let k = 0; k < head.n; k++) {
    if (reader.left < 2) return null
    const length = reader.u16()
    if (length === 0 || length > reader.left) return null
    reader.at += length
  }
  if (reader.left !== 0) return null
  reader.at = FRAME_HEAD
  return head
}
