// The exact layouts of control packets (docs/protocol.md section 2, decision 0029). On a serial line a control packet has no
// checksum, so it is accepted only if its length and content match its layout to the last byte. Nothing here throws.
import { controlSeq } from '../../protocol/control'
import { isProbe, isProbeReply, PROBE_REPLY_SIZE, PROBE_SIZE } from '../../protocol/delivery'
import { isPoll, isTurnEnd, POLL_SIZE, TURN_END_SIZE } from '../../protocol/polling-turns'
import { COMMAND } from '../../wire/commands'

/** Sizes of a control packet; one with a text may be as long as the line allows. */
interface Layout {
  readonly sizes: readonly number[]
  /** offset of JSON or reason; a control character in it ends the packet */
  readonly text?: number
  /** an answer: accepted only for an open request (with the packet's seq) */
  readonly answer?: boolean
}

const LAYOUTS = new Map<number, Layout>([
  [COMMAND.ID_REQUEST, { sizes: [], text: 3 }],
  [COMMAND.ID_ASSIGN, { sizes: [7, 15], answer: true }],
  [COMMAND.ID_POOL_REQ, { sizes: [], text: 5 }],
  [COMMAND.ID_POOL_RES, { sizes: [], answer: true }],
  [COMMAND.HANDSHAKE_ACK, { sizes: [3], answer: true }],
  [COMMAND.HANDSHAKE_NACK, { sizes: [], text: 3 }],
  [COMMAND.PING, { sizes: [3, PROBE_SIZE, POLL_SIZE] }],
  [COMMAND.PONG, { sizes: [3, PROBE_REPLY_SIZE, TURN_END_SIZE], answer: true }],
  [COMMAND.TIME_REQUEST, { sizes: [3] }],
  [COMMAND.TIME_RESPONSE, { sizes: [11], answer: true }],
  [COMMAND.SECURE_DICT_READY, { sizes: [13] }],
  [COMMAND.SECURE_CHANNEL_ACK, { sizes: [5] }],
])

export const layoutOf = (cmd: number): Layout | undefined => LAYOUTS.get(cmd)

/** most ids of one ID_POOL_RES */
const MAX_POOL = 256

/** Largest size of such a packet, `maxPacket` for texts. */
export const largest = (cmd: number, { sizes, text }: Layout, maxPacket: number): number =>
  text !== undefined ? maxPacket : cmd === COMMAND.ID_POOL_RES ? 5 + 4 * MAX_POOL : Math.max(...sizes)

const utf8 = new TextDecoder('utf-8', { fatal: true })

function textOf(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes)
  } catch {
    return null // not text, so not this packet
  }
}

function isJsonObject(bytes: Uint8Array): boolean {
  const text = textOf(bytes)
  if (text === null || !text.startsWith('{') || !text.endsWith('}')) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false // looks like JSON but is not
  }
}

const zeros = (bytes: Uint8Array, from: number, count: number): boolean => {
  for (let k = from; k < from + count; k++) if (bytes[k] !== 0) return false
  return true
}

/** True when the bytes are exactly such a packet. A time or timestamp of 48 bits or more is invalid. */
export function fitsLayout(packet: Uint8Array, isOpen: (answer: number, seq: number) => boolean): boolean {
  const cmd = packet[0]!
  const layout = layoutOf(cmd)
  if (!layout || packet.length < 3) return false
  if (layout.answer && !isOpen(cmd, controlSeq(packet))) return false
  if (layout.sizes.length > 0 && !layout.sizes.includes(packet.length)) return false
  switch (cmd) {
    case COMMAND.ID_REQUEST:
      return isJsonObject(packet.subarray(3))
    case COMMAND.ID_POOL_REQ:
      return isJsonObject(packet.subarray(5))
    case COMMAND.HANDSHAKE_NACK:
      // a NACK to a request has its seq; with seq 0 it refers to a frame or a command (X7, X9)
      if (controlSeq(packet) !== 0 && !isOpen(cmd, controlSeq(packet))) return false
      return packet.length > 3 && packet.subarray(3).every(byte => byte >= 0x20) && textOf(packet.subarray(3)) !== null
    case COMMAND.ID_POOL_RES:
      return packet.length >= 5 && packet.length === 5 + 4 * ((packet[3]! << 8) | packet[4]!)
    case COMMAND.ID_ASSIGN:
      return packet.length === 7 || zeros(packet, 7, 2)
    case COMMAND.TIME_RESPONSE:
      return zeros(packet, 3, 2)
    case COMMAND.SECURE_DICT_READY:
      return zeros(packet, 5, 2)
    case COMMAND.PING:
      return packet.length === 3 || (packet.length === PROBE_SIZE && isProbe(packet)) || isPoll(packet)
    case COMMAND.PONG:
      return packet.length === 3 || (packet.length === PROBE_REPLY_SIZE && isProbeReply(packet)) || isTurnEnd(packet)
    default:
      return true
  }
}
