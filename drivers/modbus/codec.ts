// The Modbus wire format ("MODBUS Application Protocol V1.1b3", "MODBUS over Serial Line V1.02", "MODBUS Messaging on
// TCP/IP V1.0b"): read requests, their answers, and the two framings. Pure functions over caller-owned buffers. An
// answer that does not match its request gives a verdict; nothing throws.

import { OsError } from '../../src/lib/errors'

/** the function code that reads each table */
const FUNCTIONS = { coil: 1, discrete: 2, holding: 3, input: 4 } as const
export type Table = keyof typeof FUNCTIONS

/** limits of one request (V1.1b3, 6.1 to 6.4) */
export const MAX_BITS = 2000
export const MAX_REGISTERS = 125

const REQUEST_BYTES = 5
/** function, count and 250 bytes of registers or bits */
export const MAX_ANSWER_BYTES = 252

const EXCEPTIONS: Readonly<Record<number, string>> = {
  1: 'illegal function',
  2: 'illegal data address',
  3: 'illegal data value',
  4: 'slave device failure',
  5: 'acknowledge, still working',
  6: 'slave device busy',
  8: 'memory parity error',
  10: 'gateway path unavailable',
  11: 'gateway target does not answer',
}

/** `illegal data address (exception 2)` */
export const exceptionText = (code: number): string => `${EXCEPTIONS[code] ?? 'refused'} (exception ${code})`

/** The request that reads `count` coils or registers from `address` on. Throws INTERNAL for values that no request allows. */
export function readRequest(table: Table, address: number, count: number): Uint8Array {
  const most = FUNCTIONS[table] <= 2 ? MAX_BITS : MAX_REGISTERS
  if (!(address >= 0 && count >= 1 && count <= most && address + count <= 0x10000))
    throw new OsError('INTERNAL', `${count} from ${table} ${address} on are no Modbus request`)
  return Uint8Array.of(FUNCTIONS[table], address >> 8, address & 0xff, count >> 8, count & 0xff)
}

/** Number of data bytes in the answer to a request. */
export function answerData(request: Uint8Array): number {
  const count = (request[3]! << 8) | request[4]!
  return request[0]! <= 2 ? (count + 7) >> 3 : count * 2
}

type FrameVerdict = 'data' | 'exception' | 'wrong'

/** How `answer` (function code first) matches `request`: data from byte 2 on, an exception with its code in byte 1, or wrong. */
export function judge(request: Uint8Array, answer: Uint8Array): FrameVerdict {
  const data = answerData(request)
  if (answer.length === 2 && answer[0] === (request[0]! | 0x80)) return 'exception'
  return answer.length === data + 2 && answer[0] === request[0] && answer[1] === data ? 'data' : 'wrong'
}

const CRC = new Uint16Array(256)
for (let i = 0; i < 256; i++) {
  let c = i
  for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xa001 : c >>> 1
  CRC[i] = c
}

/** CRC-16 of the serial line over `bytes[start, end)`: reflected 0x8005, init 0xFFFF; sent low byte first. */
export function crcRtu(bytes: Uint8Array, start = 0, end = bytes.length): number {
  let crc = 0xffff
  for (let i = start; i < end; i++) crc = (crc >>> 8) ^ CRC[(crc ^ bytes[i]!) & 0xff]!
  return crc
}

/** A frame of the serial line: slave, function and data, CRC. */
export function frameRtu(unit: number, pdu: Uint8Array): Uint8Array {
  const frame = new Uint8Array(pdu.length + 3)
  frame[0] = unit
  frame.set(pdu, 1)
  const crc = crcRtu(frame, 0, pdu.length + 1)
  frame[pdu.length + 1] = crc & 0xff
  frame[pdu.length + 2] = crc >> 8
  return frame
}

/**
 * Finds the answer to `request` of `unit` in `bytes[0, length)`: {start, end} of the PDU. 'damaged': found only with a
 * wrong CRC; undefined: it may still arrive. Noise before it, an echo of the request and other frames are ignored. Runs
 * once per chunk; bytes is at most a few frames long.
 */
export function findRtu(
  bytes: Uint8Array,
  length: number,
  unit: number,
  request: Uint8Array,
): { start: number; end: number } | 'damaged' | undefined {
  const data = answerData(request)
  let damaged = false
  for (let at = 0; at + 5 <= length; at++) {
    if (bytes[at] !== unit) continue
    const fn = bytes[at + 1]!
    const size = fn === (request[0]! | 0x80) ? 2 : fn === request[0] && bytes[at + 2] === data ? data + 2 : undefined
    if (size === undefined || at + size + 3 > length) continue
    const crc = bytes[at + size + 1]! | (bytes[at + size + 2]! << 8)
    if (crcRtu(bytes, at, at + size + 1) === crc) return { start: at + 1, end: at + 1 + size }
    damaged ||= at === 0 && !isEcho(bytes, unit, request)
  }
  return damaged ? 'damaged' : undefined
}

/** Whether a chunk begins with an echo of the request, even if the request's address looks like the length of an answer. */
function isEcho(bytes: Uint8Array, unit: number, request: Uint8Array): boolean {
  if (bytes[0] !== unit) return false
  for (let k = 0; k < REQUEST_BYTES; k++) if (bytes[k + 1] !== request[k]) return false
  return true
}

export const MBAP_BYTES = 7

/** A frame of TCP: transaction, protocol 0, length, unit, function and data. */
export function frameTcp(transaction: number, unit: number, pdu: Uint8Array): Uint8Array {
  const frame = new Uint8Array(MBAP_BYTES + pdu.length)
  const length = pdu.length + 1
  frame.set([transaction >> 8, transaction & 0xff, 0, 0, length >> 8, length & 0xff, unit])
  frame.set(pdu, MBAP_BYTES)
  return frame
}

interface TcpFrame {
  readonly transaction: number
  readonly unit: number
  /** bytes of the complete frame; the PDU begins at MBAP_BYTES */
  readonly size: number
}

/** The frame at the start of `bytes[0, length)`; undefined while it is incomplete; 'broken' if it is not Modbus. */
export function nextTcp(bytes: Uint8Array, length: number): TcpFrame | 'broken' | undefined {
  if (length >= 4 && (bytes[2] !== 0 || bytes[3] !== 0)) return 'broken'
  if (length < MBAP_BYTES) return undefined
  const follows = (bytes[4]! << 8) | bytes[5]!
  if (follows < 3 || follows > MAX_ANSWER_BYTES + 2) return 'broken'
  if (length < 6 + follows) return undefined
  return { transaction: (bytes[0]! << 8) | bytes[1]!, unit: bytes[6]!, size: 6 + follows }
}
