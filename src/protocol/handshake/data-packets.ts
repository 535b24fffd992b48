// Answers a data packet: decodes it, notes its device as heard, and updates its sender's session. In strict mode every
// candidate key is tried (X7), a frame that no key decrypts is answered BAD_KEY, one with a missing template NEED_FULL (X9),
// and plaintext is refused if security is required (decision 0018, X8).
//
// Errors: a parser that throws gives an ERROR envelope. A packet with an error changes no state; the component does not
// answer it, and strict mode answers it only if its CRC-16 is correct, so noise is never answered.
import { asOsError } from '../../lib/errors'
import { COMMAND, isSecure } from '../../wire/commands'
import { crc8 } from '../../wire/crc'
import { readHeader } from '../../wire/frame'
import { buildNack, buildSecureChannelAck, buildSecureDictReady, buildTimeResponse } from '../control'
import { addressText, type DispatchResult, type IdSource } from '../ids/service'
import { frameName, refusedFrameText } from '../nack'
import type { SecureServer } from '../secure/server'
import type { SecureSessions } from '../secure/sessions'
import type { DeviceRole } from './roles'
import type { DataParser, DecodedData, StrictSecurity } from './types'

interface DataHandlerOptions {
  parser: DataParser | null
  allocator: Pick<IdSource, 'touch'> | null
  sessions: SecureSessions
  strict: StrictSecurity | null
  role: DeviceRole
  /** UNIX seconds */
  serverTime: () => number
}

export class DataHandler {
  readonly #options: DataHandlerOptions

  constructor(options: DataHandlerOptions) {
    this.#options = options
  }

  handle(raw: Uint8Array, cmd: number, addr: unknown): DispatchResult {
    const { parser, allocator, strict, role } = this.#options
    if (!parser) {
      const raw_hex = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('hex')
      return { type: 'DATA', cmd, result: { error: 'No parser attached', raw_hex }, response: null }
    }
    const server = strict?.server ?? null
    if (server?.requireSecure && !isSecure(cmd)) {
      const refused = this.#plaintext(server, raw, cmd, addr)
      if (refused) return refused
    }
    let result: DecodedData
    let key: Uint8Array | null = null
    try {
      if (server && isSecure(cmd)) ({ result, key } = open(parser, server, raw))
      else result = parser.decompress(raw)
    } catch (error) {
      return { type: 'ERROR', cmd, result: { error: asOsError(error).message }, response: null }
    }
    const meta = result.__packet_meta__ ?? {}
    // this role does not report the time of a packet
    if (role === 'rx_only') Object.assign(meta, { timestamp_raw: 0, server_stamped: false })
    const answer = (response: Uint8Array | null): DispatchResult => ({ type: 'DATA', cmd, result, response })
    if (result.error !== undefined || meta.crc16_ok !== true)
      return answer(strict ? this.#refuse(raw, result, addr) : null)
    const aid = meta.source_aid ?? 0
    allocator?.touch(aid, addressText(addr))
    if (!strict) return answer(this.#component(result, aid, addr))
    const header = readHeader(raw)
    if (!server || typeof header === 'string') return answer(this.#timeFor(result))
    if (key) return answer(server.onSecure(aid, key, addr, header.end > header.body))
    const response = server.onPlaintext(aid, header.ts, header.ts === 0, addr)
    // nor name it in the answer, as the reference; a sender that uses its first packet for the key, as the reference, still
    // understands it
    const unnamed = role === 'rx_only' && response?.[0] === COMMAND.SECURE_DICT_READY
    return answer(unnamed ? buildSecureDictReady(aid, 0) : response)
  }

  /**
   * With require_secure plaintext is not decoded, so it changes no template; its sender still gets a key. Null for a broken
   * frame, which decoding reports.
   */
  #plaintext(server: SecureServer, raw: Uint8Array, cmd: number, addr: unknown): DispatchResult | null {
    const header = readHeader(raw)
    if (typeof header === 'string' || !header.crc16Ok) return null
    const { sourceAid, ts, body, end } = header
    if (crc8(raw, body, end) !== header.crc8) return null
    const response = server.onPlaintext(sourceAid, ts, ts === 0, addr)
    server.refusesPlaintext(cmd === COMMAND.DATA_FULL && !raw.subarray(body, end).includes(SENSOR_MARK) ? 0 : 1)
    return { type: 'IGNORED', cmd, result: { reason: 'plaintext refused: require_secure' }, response }
  }

  /** As in the vectors: every packet that was understood updates the session. */
  #component({ __packet_meta__: meta = {} }: DecodedData, aid: number, addr: unknown): Uint8Array | null {
    const { sessions, serverTime } = this.#options
    if (meta.secure) {
      if (sessions.isConfirmed(aid)) return null
      sessions.markSecureChannel(aid, addr)
      return buildSecureChannelAck(aid)
    }
    if (sessions.hasSecureDict(aid)) return null
    if (meta.server_stamped) return buildTimeResponse(0, serverTime())
    sessions.establishRemotePlaintext(aid, meta.timestamp_raw ?? 0, addr)
    return buildSecureDictReady(aid, meta.timestamp_raw ?? 0)
  }

  /** Without a receiving session a sender without a time still gets it. */
  #timeFor({ __packet_meta__: meta = {} }: DecodedData): Uint8Array | null {
    return meta.server_stamped && !meta.secure ? buildTimeResponse(0, this.#options.serverTime()) : null
  }

  /** BAD_KEY or NEED_FULL for a complete frame that could not be decoded; null for a broken one. */
  #refuse(raw: Uint8Array, { __packet_meta__: meta = {} }: DecodedData, addr: unknown): Uint8Array | null {
    const header = readHeader(raw)
    if (typeof header === 'string' || !header.crc16Ok) return null
    const frame = frameName(raw, header)
    if (meta.crc8_ok === true) {
      const reads = isTemplateUser(meta.base_cmd)
      return reads ? buildNack(0, refusedFrameText({ ...frame, reason: 'NEED_FULL' })) : null
    }
    return isSecure(header.cmd) ? (this.#options.strict?.server?.refuse(frame, addr) ?? null) : null
  }
}

/** Tries the candidate keys; if all fail, returns the result that got furthest. */
function open(
  parser: DataParser,
  server: SecureServer,
  raw: Uint8Array,
): { result: DecodedData; key: Uint8Array | null } {
  const header = readHeader(raw)
  let failed: DecodedData | null = null
  for (const key of typeof header === 'string' ? [] : server.keys(header.sourceAid)) {
    const result = parser.decompress(raw, key)
    if (result.error === undefined) return { result, key }
    if (!failed || result.__packet_meta__?.crc8_ok === true) failed = result
  }
  return { result: failed ?? parser.decompress(raw), key: null }
}

/** DIFF and HEART need a template; if one fails with correct checksums, a FULL repairs it. */
const isTemplateUser = (base: number | null | undefined): boolean => base === 0xaa || base === 0x7f

/** first character of a sensor's status in a text */
const SENSOR_MARK = 0x3e
