// The control packets (docs/protocol.md section 2): builders, parsers, and the counter of request numbers. All integers are
// big-endian. A packet that is too short is parsed as seq 0, as peers do. Only a pool request throws, if its count does not
// fit two bytes. Replies with seq 0 answer no request (X29).
import { OsError } from '../lib/errors'
import { COMMAND } from '../wire/commands'
import { ByteReader, ByteWriter } from '../wire/cursor'
import { pythonJson } from './pythonjson'

/** Command byte of the delivery frame (X29). */
export const DELIVERY_FRAME = 0x10

/** `0x0B` as the peers print a command byte. */
export const commandText = (cmd: number): string => `0x${cmd.toString(16).toUpperCase().padStart(2, '0')}`

/** Numbers requests from 1 to 65535, then starts again at 1; 0 is never used (X29). One counter per manager. */
export class SequenceCounter {
  #last: number
  constructor(last = 0) {
    this.#last = last
  }
  /** Begins at a random number: with several requesters on one channel, an answer must not match another's request. */
  static anywhere(random = Math.random): SequenceCounter {
    return new SequenceCounter(Math.floor(random() * 0x10000))
  }
  next(): number {
    this.#last = this.#last >= 0xffff ? 1 : this.#last + 1
    return this.#last
  }
}

const encoder = new TextEncoder()

/** `[cmd][seq]` and space for `size` more bytes. */
const packet = (cmd: number, seq: number, size = 0): ByteWriter =>
  new ByteWriter(new Uint8Array(3 + size)).u8(cmd).u16(seq)

export function buildIdRequest(seq: number, meta: Record<string, unknown> | null = null): Uint8Array {
  const json = encoder.encode(pythonJson(meta ?? {}))
  return packet(COMMAND.ID_REQUEST, seq, json.length).put(json).done()
}

/** `serverTime` in UNIX seconds; null omits the eight bytes. */
export function buildIdAssign(seq: number, assignedId: number, serverTime: number | null = null): Uint8Array {
  const writer = packet(COMMAND.ID_ASSIGN, seq, serverTime === null ? 4 : 12).u32(assignedId)
  return serverTime === null ? writer.done() : writer.u64(serverTime).done()
}

/** Throws BAD_REQUEST if count is not 0…65535. */
export function buildIdPoolRequest(seq: number, count = 10, meta: Record<string, unknown> | null = null): Uint8Array {
  if (!Number.isInteger(count) || count < 0 || count > 0xffff)
    throw new OsError('BAD_REQUEST', `an ID pool request is for 0 to 65535 ids, not ${count}`)
  const json = encoder.encode(pythonJson(meta ?? {}))
  return packet(COMMAND.ID_POOL_REQ, seq, 2 + json.length)
    .u16(count)
    .put(json)
    .done()
}

export function buildIdPoolResponse(seq: number, pool: readonly number[]): Uint8Array {
  const writer = packet(COMMAND.ID_POOL_RES, seq, 2 + 4 * pool.length).u16(pool.length)
  for (const id of pool) writer.u32(id)
  return writer.done()
}

export const buildAck = (seq: number): Uint8Array => packet(COMMAND.HANDSHAKE_ACK, seq).done()

export function buildNack(seq: number, reason: string): Uint8Array {
  const text = encoder.encode(reason)
  return packet(COMMAND.HANDSHAKE_NACK, seq, text.length).put(text).done()
}

export const buildPing = (seq: number): Uint8Array => packet(COMMAND.PING, seq).done()
export const buildPong = (seq: number): Uint8Array => packet(COMMAND.PONG, seq).done()
export const buildTimeRequest = (seq: number): Uint8Array => packet(COMMAND.TIME_REQUEST, seq).done()

/** `serverTime` in UNIX seconds. */
export const buildTimeResponse = (seq: number, serverTime: number): Uint8Array =>
  packet(COMMAND.TIME_RESPONSE, seq, 8).u64(serverTime).done()

/** `[0D][aid][ts]`, without seq; ts in milliseconds identifies the plaintext packet from which the key is derived. */
export const buildSecureDictReady = (assignedId: number, timestampRaw: number): Uint8Array =>
  new ByteWriter(new Uint8Array(13)).u8(COMMAND.SECURE_DICT_READY).u32(assignedId).u64(timestampRaw).done()

/** `[0E][aid]`, without seq. */
export const buildSecureChannelAck = (assignedId: number): Uint8Array =>
  new ByteWriter(new Uint8Array(5)).u8(COMMAND.SECURE_CHANNEL_ACK).u32(assignedId).done()

/** The integers of a packet at fixed offsets; 0 if the packet is too short. */
const u16At = (raw: Uint8Array, at: number): number => (raw.length >= at + 2 ? new ByteReader(raw, at).u16() : 0)
const u32At = (raw: Uint8Array, at: number): number => (raw.length >= at + 4 ? new ByteReader(raw, at).u32() : 0)
const u64At = (raw: Uint8Array, at: number): number => (raw.length >= at + 8 ? new ByteReader(raw, at).u64() : 0)

/** seq of a control packet; 0 if the packet is too short. */
export const controlSeq = (raw: Uint8Array): number => u16At(raw, 1)

export interface IdAssign {
  readonly seq: number
  /** 0 if the packet is too short */
  readonly assignedId: number
  /** UNIX seconds; null when absent or 0 */
  readonly serverTime: number | null
}

export const parseIdAssign = (raw: Uint8Array): IdAssign => ({
  seq: controlSeq(raw),
  assignedId: u32At(raw, 3),
  serverTime: u64At(raw, 7) || null,
})

/** The ids of an ID_POOL_RES; of a truncated packet only the complete ones. */
export function parseIdPool(raw: Uint8Array): number[] {
  const ids: number[] = []
  for (let k = 0, at = 5; k < u16At(raw, 3) && at + 4 <= raw.length; k++, at += 4) ids.push(u32At(raw, at))
  return ids
}

/** Count requested in an ID_POOL_REQ; 1 when absent. */
export const parsePoolCount = (raw: Uint8Array): number => (raw.length >= 5 ? u16At(raw, 3) : 1)

/** UNIX seconds of a TIME_RESPONSE; 0 if it is too short. */
export const parseServerTime = (raw: Uint8Array): number => u64At(raw, 3)

/** Reason of a NACK; bytes that are not UTF-8 are replaced. */
export const parseNackReason = (raw: Uint8Array): string => new TextDecoder().decode(raw.subarray(3))

export const parseSecureDictReady = (raw: Uint8Array): { assignedId: number; timestampRaw: number | null } => ({
  assignedId: u32At(raw, 1),
  timestampRaw: raw.length >= 13 ? u64At(raw, 5) : null,
})

export const parseSecureChannelAck = (raw: Uint8Array): number => u32At(raw, 1)
