// Bytes of a packet → its fields for display: the meaning of each byte, and whether both checksums are valid. The
// gateway decodes values in the body. Nothing here throws: bytes that are no packet have a problem.
import { counted } from '../../../lib/counted'
import { commandName, isData, isSecure } from '../../../wire/commands'
import { crc8, crc16 } from '../../../wire/crc'

interface HexField {
  readonly name: string
  /** bytes [start, end) */
  readonly start: number
  readonly end: number
  readonly text: string
  /** an invalid checksum */
  readonly bad?: boolean
}

export interface PacketParts {
  readonly fields: readonly HexField[]
  readonly problem: string
}

/** Hex with blanks, colons and 0x → bytes; null if it is not hex. */
export function parseHex(text: string): Uint8Array | null {
  const hex = text.replace(/0x/gi, '').replace(/[\s:,-]/g, '')
  if (hex.length === 0 || hex.length % 2 !== 0 || !/^[0-9a-f]*$/i.test(hex)) return null
  return Uint8Array.from({ length: hex.length / 2 }, (_, k) => Number.parseInt(hex.slice(2 * k, 2 * k + 2), 16))
}

export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join(' ')

const number = (bytes: Uint8Array, start: number, end: number): number =>
  bytes.subarray(start, end).reduce((value, byte) => value * 256 + byte, 0)

const hex2 = (value: number, digits: number): string => `0x${value.toString(16).toUpperCase().padStart(digits, '0')}`

const readable = (bytes: Uint8Array): string => new TextDecoder().decode(bytes).replace(/\p{Cc}/gu, '·')

/** A frame's time below 1e11 is in seconds. */
function time(ts: number): string {
  if (ts === 0) return '0 (none)'
  return `${ts} (${new Date(ts < 1e11 ? ts * 1000 : ts).toISOString()})`
}

export function parts(bytes: Uint8Array): PacketParts {
  const cmd = bytes[0]
  if (cmd === undefined) return { fields: [], problem: 'empty' }
  const name = commandName(cmd)
  const first: HexField = { name: 'CMD', start: 0, end: 1, text: `${hex2(cmd, 2)} ${name ?? 'unknown command'}` }
  if (isData(cmd)) return dataParts(bytes, cmd, first)
  if (name === undefined) return { fields: [first, remainder(bytes, 1)], problem: 'not a command of this protocol' }
  const fields = [first]
  if (bytes.length >= 3) fields.push({ name: 'SEQ', start: 1, end: 3, text: String(number(bytes, 1, 3)) })
  if (bytes.length > 3) fields.push({ name: 'DATA', start: 3, end: bytes.length, text: readable(bytes.subarray(3)) })
  return { fields, problem: bytes.length < 3 ? 'too short for a control packet' : '' }
}

const remainder = (bytes: Uint8Array, start: number): HexField => ({
  name: 'REST',
  start,
  end: bytes.length,
  text: counted(bytes.length - start, 'byte'),
})

function dataParts(bytes: Uint8Array, cmd: number, first: HexField): PacketParts {
  const routes = bytes[1] ?? 0
  const tid = 2 + 4 * routes
  const end = bytes.length - 3
  if (end < tid + 7) return { fields: [first, remainder(bytes, 1)], problem: 'shorter than its own header' }
  const fields: HexField[] = [first]
  const add = (name: string, start: number, end: number, text: string, check: { bad?: boolean } = {}): void =>
    void fields.push({ name, start, end, text, ...check })
  add('ROUTES', 1, 2, String(routes))
  for (let at = 2; at < tid; at += 4) add(at + 4 === tid ? 'AID' : 'VIA', at, at + 4, String(number(bytes, at, at + 4)))
  add('TID', tid, tid + 1, `template ${bytes[tid]}`)
  add('TS', tid + 1, tid + 7, time(number(bytes, tid + 1, tid + 7)))
  const body = bytes.subarray(tid + 7, end)
  const secret = isSecure(cmd)
  const shown = secret ? `${counted(body.length, 'byte')}, encrypted` : readable(body)
  add('BODY', tid + 7, end, body.length === 0 ? 'empty' : shown)
  // the CRC-8 is that of the plaintext body, which is unknown for an encrypted frame
  const good8 = secret || crc8(body) === bytes[end]
  const received = number(bytes, end + 1, end + 3)
  const good16 = crc16(bytes, 0, end + 1) === received
  const word = (good: boolean): string => (good ? 'fits' : 'does not fit')
  const fits8 = secret ? '(of the plain body)' : word(good8)
  add('CRC8', end, end + 1, `${hex2(bytes[end]!, 2)} ${fits8}`, { bad: !good8 })
  add('CRC16', end + 1, end + 3, `${hex2(received, 4)} ${word(good16)}`, { bad: !good16 })
  const problem = !good16 ? 'The packet is damaged: CRC-16 does not match.' : !good8 ? 'The CRC-8 does not match.' : ''
  return { fields, problem }
}
