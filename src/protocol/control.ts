// The control packets of PROTOCOL §7: builders and parsers, and the counter of request numbers. All integers are
// big-endian. A packet that is too short reads as seq 0, as at the peers; nothing here throws but a pool request whose
// count does not fit its two bytes. Replies with seq 0 answer no request (X29).
import { OsError } from '../lib/errors'
import { readU16, readU32, readU64, writeU16, writeU32, writeU64 } from './bytes'
import { pythonJson } from './pythonjson'

/** Command bytes of the specification ("Command byte constants"), and the delivery frame of X29. */
export const CONTROL = {
  ID_REQUEST: 0x01,
  ID_ASSIGN: 0x02,
  ID_POOL_REQ: 0x03,
  ID_POOL_RES: 0x04,
  ACK: 0x05,
  NACK: 0x06,
  PING: 0x09,
  PONG: 0x0a,
  TIME_REQUEST: 0x0b,
  TIME_RESPONSE: 0x0c,
  SECURE_DICT_READY: 0x0d,
  SECURE_CHANNEL_ACK: 0x0e,
  DELIVERY: 0x10,
} as const

const DATA_COMMANDS = new Set([0x3f, 0x40, 0xaa, 0xab, 0x7f, 0x80])
export const isDataCommand = (cmd: number): boolean => DATA_COMMANDS.has(cmd)

/** `0x0B` as the peers print a command byte. */
export const commandText = (cmd: number): string => `0x${cmd.toString(16).toUpperCase().padStart(2, '0')}`

/** Numbers requests from 1 to 65535 and round again; 0 is never used (X29). One counter per manager. */
export class SequenceCounter {
  #last: number
  constructor(last = 0) {
    this.#last = last
  }
  next(): number {
    this.#last = this.#last >= 0xffff ? 1 : this.#last + 1
    return this.#last
  }
}

const encoder = new TextEncoder()

function packet(cmd: number, seq: number, size: number): Uint8Array {
  const bytes = new Uint8Array(3 + size)
  bytes[0] = cmd
  writeU16(bytes, 1, seq)
  return bytes
}

function withTail(cmd: number, seq: number, gap: number, tail: Uint8Array): Uint8Array {
  const bytes = packet(cmd, seq, gap + tail.length)
  bytes.set(tail, 3 + gap)
  return bytes
}

export const buildIdRequest = (seq: number, meta: Record<string, unknown> | null = null): Uint8Array =>
  withTail(CONTROL.ID_REQUEST, seq, 0, encoder.encode(pythonJson(meta ?? {})))

/** `serverTime` in UNIX seconds; null leaves the eight bytes out. */
export function buildIdAssign(seq: number, assignedId: number, serverTime: number | null = null): Uint8Array {
  const bytes = packet(CONTROL.ID_ASSIGN, seq, serverTime === null ? 4 : 12)
  writeU32(bytes, 3, assignedId)
  if (serverTime !== null) writeU64(bytes, 7, serverTime)
  return bytes
}

/** Throws BAD_REQUEST when count is not 0…65535. */
export function buildIdPoolRequest(seq: number, count = 10, meta: Record<string, unknown> | null = null): Uint8Array {
  if (!Number.isInteger(count) || count < 0 || count > 0xffff)
    throw new OsError('BAD_REQUEST', `an ID pool request asks for 0 to 65535 ids, not ${count}`)
  const bytes = withTail(CONTROL.ID_POOL_REQ, seq, 2, encoder.encode(pythonJson(meta ?? {})))
  writeU16(bytes, 3, count)
  return bytes
}

export function buildIdPoolResponse(seq: number, pool: readonly number[]): Uint8Array {
  const bytes = packet(CONTROL.ID_POOL_RES, seq, 2 + 4 * pool.length)
  writeU16(bytes, 3, pool.length)
  pool.forEach((id, k) => {
    writeU32(bytes, 5 + 4 * k, id)
  })
  return bytes
}

export const buildAck = (seq: number): Uint8Array => packet(CONTROL.ACK, seq, 0)
export const buildNack = (seq: number, reason: string): Uint8Array =>
  withTail(CONTROL.NACK, seq, 0, encoder.encode(reason))
export const buildPing = (seq: number): Uint8Array => packet(CONTROL.PING, seq, 0)
export const buildPong = (seq: number): Uint8Array => packet(CONTROL.PONG, seq, 0)
export const buildTimeRequest = (seq: number): Uint8Array => packet(CONTROL.TIME_REQUEST, seq, 0)

/** `serverTime` in UNIX seconds. */
export function buildTimeResponse(seq: number, serverTime: number): Uint8Array {
  const bytes = packet(CONTROL.TIME_RESPONSE, seq, 8)
  writeU64(bytes, 3, serverTime)
  return bytes
}

/** `[0D][aid][ts]`, no seq; ts in milliseconds names the plaintext packet the key is derived from. */
export function buildSecureDictReady(assignedId: number, timestampRaw: number): Uint8Array {
  const bytes = new Uint8Array(13)
  bytes[0] = CONTROL.SECURE_DICT_READY
  writeU32(bytes, 1, assignedId)
  writeU64(bytes, 5, timestampRaw)
  return bytes
}

/** `[0E][aid]`, no seq. */
export function buildSecureChannelAck(assignedId: number): Uint8Array {
  const bytes = new Uint8Array(5)
  bytes[0] = CONTROL.SECURE_CHANNEL_ACK
  writeU32(bytes, 1, assignedId)
  return bytes
}

/** seq of a control packet; 0 when it is too short to hold one. */
export const controlSeq = (raw: Uint8Array): number => (raw.length >= 3 ? readU16(raw, 1) : 0)

export interface IdAssign {
  readonly seq: number
  /** 0 when the packet is too short */
  readonly assignedId: number
  /** UNIX seconds; null when absent or 0 */
  readonly serverTime: number | null
}

export function parseIdAssign(raw: Uint8Array): IdAssign {
  const time = raw.length >= 15 ? readU64(raw, 7) : 0
  return {
    seq: controlSeq(raw),
    assignedId: raw.length >= 7 ? readU32(raw, 3) : 0,
    serverTime: time > 0 ? time : null,
  }
}

/** The ids of an ID_POOL_RES; of a cut packet, those that are whole. */
export function parseIdPool(raw: Uint8Array): number[] {
  const count = raw.length >= 5 ? readU16(raw, 3) : 0
  const ids: number[] = []
  for (let k = 0, at = 5; k < count && at + 4 <= raw.length; k++, at += 4) ids.push(readU32(raw, at))
  return ids
}

/** Count asked for in an ID_POOL_REQ; 1 when absent. */
export const parsePoolCount = (raw: Uint8Array): number => (raw.length >= 5 ? readU16(raw, 3) : 1)

/** UNIX seconds of a TIME_RESPONSE; 0 when too short. */
export const parseServerTime = (raw: Uint8Array): number => (raw.length >= 11 ? readU64(raw, 3) : 0)

/** Reason of a NACK; bytes that are not UTF-8 are replaced. */
export const parseNackReason = (raw: Uint8Array): string => new TextDecoder().decode(raw.subarray(3))

export const parseSecureDictReady = (raw: Uint8Array): { assignedId: number; timestampRaw: number | null } => ({
  assignedId: raw.length >= 5 ? readU32(raw, 1) : 0,
  timestampRaw: raw.length >= 13 ? readU64(raw, 5) : null,
})

export const parseSecureChannelAck = (raw: Uint8Array): number => (raw.length >= 5 ? readU32(raw, 1) : 0)
