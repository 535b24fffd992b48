// Header, checksums and cipher of one data frame, checked in the order of the reference. A frame that cannot be opened
// is an error with the metadata known so far, never an exception (X26: every field is present, null if it could not be
// read).
import { xorPayload } from '../wire/cipher'
import { baseCommand, COMMAND, isSecure } from '../wire/commands'
import { crc8, crc16 } from '../wire/crc'
import { FRAME_OVERHEAD, type FrameHeader, HEADER_SIZE, readHeader } from '../wire/frame'
import type { Fact } from './fact'
import { SECONDS } from './firmware'
import { padTid } from './registry'

export interface PacketMeta {
  cmd: number | null
  base_cmd: number | null
  secure: boolean
  source_aid: number | null
  crc16_ok: boolean
  crc8_ok: boolean | null
  /** milliseconds */
  timestamp_raw: number | null
  tid: string | null
  template_learned: boolean
  server_stamped: boolean
  /** older than the newest frame of its template (decision 0016) */
  late?: boolean
  /** further in the future than receiver.max_future_s (X36) */
  future?: true
  /** values of a template from before an unclean stop: values that are not in the frame are missing (X33) */
  template_rebuilt?: true
  /** received before (decision 0018); only if the caller looks that up, which Node does for the protocol */
  duplicate?: boolean
  /** AIDs of the route if there are several, source last (X15) */
  routes?: readonly number[]
}

const emptyMeta = (): PacketMeta => ({
  cmd: null,
  base_cmd: null,
  secure: false,
  source_aid: null,
  crc16_ok: false,
  crc8_ok: null,
  timestamp_raw: null,
  tid: null,
  template_learned: false,
  server_stamped: false,
})

/** Whether `bytes[start, end)` is complete plaintext data with one route and valid checksums. */
export function plainFrame(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < FRAME_OVERHEAD || bytes[start + 1] !== 1) return false
  const cmd = bytes[start]!
  if (!isDiff(cmd) && !isFull(cmd) && !isHeart(cmd)) return false
  return (
    crc16(bytes, start, end - 2) === ((bytes[end - 2]! << 8) | bytes[end - 1]!) &&
    crc8(bytes, start + HEADER_SIZE, end - 3) === bytes[end - 3]
  )
}

/** The metadata of a plainFrame that gave `fact` and had a time. */
export function plainMeta(packet: Uint8Array, { aid, tRaw }: Fact): PacketMeta {
  const cmd = packet[0]!
  return {
    cmd,
    base_cmd: cmd,
    secure: false,
    source_aid: aid,
    crc16_ok: true,
    crc8_ok: true,
    timestamp_raw: tRaw,
    tid: padTid(packet[6]!),
    template_learned: isFull(cmd),
    server_stamped: false,
  }
}

/** Time of a frame in ms: zero is replaced by our time (X11), values below 1e11 are seconds. */
export function frameTime(ts: number, nowMs: number): number {
  return ts === 0 ? nowMs : ts < SECONDS && ts > 0 ? ts * 1000 : ts
}

export type OpenedFrame =
  | {
      ok: true
      header: FrameHeader
      meta: PacketMeta
      bytes: Uint8Array
      from: number
      to: number
      /** the key that decrypted the body */
      key: Uint8Array | null
      /** a DIFF that several keys fit, decrypted with each: only its template shows which is right */
      candidates?: readonly Deciphered[]
    }
  | {
      ok: false
      error: string
      code: 'BAD_PACKET' | 'NO_KEY' | 'BAD_KEY' | 'NEED_FULL'
      meta: PacketMeta
      header: FrameHeader | null
    }

/** Possible session keys of a source, the best first; or the only one. */
export type InboundKeys = (aid: number) => Uint8Array | readonly Uint8Array[] | null

/** Header, checksums and cipher. The body is `bytes[from, to)`, of the packet itself or of a decrypted copy. */
export function openFrame(packet: Uint8Array, nowMs: number, inboundKeys: InboundKeys | null): OpenedFrame {
  const meta = emptyMeta()
  const header = readHeader(packet)
  if (header === 'short') return { ok: false, error: 'Packet too short', code: 'BAD_PACKET', meta, header: null }
  if (header === 'incomplete')
    return { ok: false, error: 'Incomplete Binary Header', code: 'BAD_PACKET', meta, header: null }
  meta.cmd = header.cmd
  meta.base_cmd = baseCommand(header.cmd)
  meta.secure = isSecure(header.cmd)
  meta.source_aid = header.sourceAid
  meta.crc16_ok = header.crc16Ok
  if (header.routes?.length) meta.routes = header.routes
  if (!header.crc16Ok) return { ok: false, error: 'CRC16 mismatch', code: 'BAD_PACKET', meta, header }
  meta.timestamp_raw = header.ts === 0 ? nowMs : header.ts
  meta.server_stamped = header.ts === 0
  meta.tid = padTid(header.tid)
  meta.crc8_ok = false
  if (!meta.secure) {
    if (crc8(packet, header.body, header.end) !== header.crc8)
      return { ok: false, error: 'CRC8 mismatch', code: 'BAD_PACKET', meta, header }
    meta.crc8_ok = true
    return { ok: true, header, meta, bytes: packet, from: header.body, to: header.end, key: null }
  }
  const inbound = inboundKeys?.(header.sourceAid) ?? null
  const keys = inbound instanceof Uint8Array ? [inbound] : (inbound ?? [])
  if (keys.length === 0)
    return { ok: false, error: `Missing secure key for aid=${header.sourceAid}`, code: 'NO_KEY', meta, header }
  const fitting = decipher(packet, header, keys)
  const several = fitting.length > 1
  const full = isFull(meta.base_cmd)
  const body = several && full ? withOwnAid(fitting, header.sourceAid) : fitting[0]
  if (!body) return { ok: false, error: 'CRC8 mismatch', code: 'BAD_KEY', meta, header }
  meta.crc8_ok = true
  const candidates = several && !full && { candidates: fitting }
  return { ok: true, header, meta, bytes: body.bytes, from: 0, to: body.bytes.length, key: body.key, ...candidates }
}

export interface Deciphered {
  readonly bytes: Uint8Array
  readonly key: Uint8Array
}

/** The body decrypted with every key that matches its CRC-8. */
function decipher(packet: Uint8Array, header: FrameHeader, keys: readonly Uint8Array[]): Deciphered[] {
  const fitting: Deciphered[] = []
  const body = packet.subarray(header.body, header.end)
  for (const key of keys) {
    const bytes = xorPayload(body, key, header.crc8)
    if (crc8(bytes) === header.crc8) fitting.push({ bytes, key })
    if (body.length === 0) break
  }
  return fitting
}

/** A wrong key matches once in 256 frames; the text of a FULL begins with its AID. */
function withOwnAid(fitting: readonly Deciphered[], aid: number): Deciphered | undefined {
  const begin = Buffer.from(`${aid};`)
  return fitting.find(({ bytes }) => begin.equals(bytes.subarray(0, begin.length)))
}

/** The plaintext body as a view. */
export const bodyOf = ({ bytes, from, to }: { bytes: Uint8Array; from: number; to: number }): Uint8Array =>
  bytes.subarray(from, to)

export const isFull = (base: number): boolean => base === COMMAND.DATA_FULL
export const isDiff = (base: number): boolean => base === COMMAND.DATA_DIFF
export const isHeart = (base: number): boolean => base === COMMAND.DATA_HEART
