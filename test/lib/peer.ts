// A peer of the protocol, written only from the description of the wire format (docs/protocol.md): it shares no code with
// src/, so that an agreement proves the protocol and not a habit of one program.

const DIGITS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'

/** Bitwise, most significant bit first. */
function checksum(bytes: Uint8Array, width: 8 | 16, polynomial: number, start: number): number {
  let register = start
  for (const byte of bytes)
    for (let bit = 7; bit >= 0; bit--) {
      const out = ((register >> (width - 1)) ^ (byte >> bit)) & 1
      register = ((register << 1) & (width === 8 ? 0xff : 0xffff)) ^ (out ? polynomial : 0)
    }
  return register
}

/** cmd, routes, TID, TS, body, checksums; the last of `routes` is the source. */
export function peerFrame(
  cmd: number,
  routes: readonly number[],
  tid: number,
  ts: number,
  body: string | Uint8Array,
  cipher: (plain: Buffer, crc8: number) => Buffer = plain => plain,
): Buffer {
  const plain = Buffer.from(body as string)
  const crc8 = checksum(plain, 8, 0x07, 0)
  const time = Buffer.alloc(6)
  time.writeUIntBE(ts, 0, 6)
  const parts: Uint8Array[] = [Buffer.of(cmd, routes.length)]
  for (const aid of routes) parts.push(Buffer.of(aid >>> 24, (aid >>> 16) & 255, (aid >>> 8) & 255, aid & 255))
  parts.push(Buffer.of(tid), time, cipher(plain, crc8), Buffer.of(crc8))
  const head = Buffer.concat(parts)
  const crc16 = checksum(head, 16, 0x1021, 0xffff)
  return Buffer.concat([head, Buffer.of(crc16 >> 8, crc16 & 255)])
}

export interface PeerFrame {
  cmd: number
  aid: number
  tid: number
  ts: number
  body: Buffer
}

/** A frame with one route; throws if a checksum or length is wrong. */
export function peerOpen(frame: Uint8Array): PeerFrame {
  const bytes = Buffer.from(frame)
  if (bytes.length < 16 || bytes[1] !== 1) throw new Error('no frame with one route')
  const body = bytes.subarray(13, bytes.length - 3)
  if (checksum(bytes.subarray(0, -2), 16, 0x1021, 0xffff) !== bytes.readUInt16BE(bytes.length - 2))
    throw new Error('CRC-16')
  if (checksum(body, 8, 0x07, 0) !== bytes[bytes.length - 3]) throw new Error('CRC-8')
  return { cmd: bytes[0]!, aid: bytes.readUInt32BE(2), tid: bytes[6]!, ts: bytes.readUIntBE(7, 6), body }
}

/** Text to fixed point, as a peer with 64 or fewer bits parses it. */
export function peerNumber(text: string, bits = 64): bigint {
  const minus = text.startsWith('-')
  let n = 0n
  for (const digit of minus ? text.slice(1) : text) {
    const value = DIGITS.indexOf(digit)
    if (value < 0) throw new Error(`no digit: ${digit}`)
    n = n * 62n + BigInt(value)
  }
  return BigInt.asIntN(bits, minus ? -n : n)
}

export function peerText(n: bigint): string {
  if (n === 0n) return '0'
  let text = ''
  for (let rest = n < 0n ? -n : n; rest > 0n; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text
  return n < 0n ? `-${text}` : text
}

/** Appendix A: each class by symbol and name, its units counted in hexadecimal. */
const TABLE = `0 amountofsubstance: mol eq osm count
1 electriccurrent: a bi gau
2 electromagnetism: v ohm f
3 energypower: w j cal hp
4 frequency: hz rpm deg/s rad/s
5 informatics: bit by bd
6 length: m in ft nmi au ang
7 luminousintensity: cd cp hk
8 mass: g lb oz t u
9 pressure: pa bar psi mm[hg]
A temperature: k cel degf degre
B time: s min h d wk ann
C humidity: %`

const NAMES = new Map<string, string>()
for (const row of TABLE.split('\n')) {
  const [head, units] = row.split(': ') as [string, string]
  const [symbol, name] = head.split(' ') as [string, string]
  NAMES.set(symbol, name)
  units.split(' ').forEach((unit, k) => {
    NAMES.set(`${symbol}0${k.toString(16).toUpperCase()}`, unit)
  })
}
// pa and atm share a token, and peers decode it as the later of the two
NAMES.set('900', 'atm')

export interface PeerSensor {
  id: string
  state: string
  /** as on the wire */
  token: string
  /** converted with the reverse table, part by part */
  unit: string
  scaled: bigint
}

export interface PeerFact {
  id: string
  state: string
  ms: number
  sensors: PeerSensor[]
}

const STATES: Record<string, string> = { '1': 'ONLINE', '0': 'OFFLINE', K: 'OK', Z: 'UNKNOWN', E: 'ERROR' }
const stateOf = (token: string): string => STATES[token] ?? token.toUpperCase()

/** §4: a unit text back to a name; only exact parts, since we never send parts with coefficients. */
export const peerUnit = (token: string): string =>
  token
    .split('/')
    .map(part => NAMES.get(part) ?? part)
    .join('/')

/** §4: the text of a FULL, with its `<aid>;`. */
export function peerDecode(text: string): PeerFact {
  const at = text.indexOf('@')
  const segments = (at < 0 ? text : text.slice(0, at)).split('|').filter(part => part !== '')
  const [id, state, token] = segments.shift()!.split('.') as [string, string, string]
  const sensors: PeerSensor[] = []
  for (const segment of segments) {
    const gt = segment.indexOf('>')
    const colon = segment.lastIndexOf(':')
    if (gt < 0 || colon < gt) continue
    const meta = segment.slice(gt + 1, colon)
    const dot = meta.indexOf('.')
    const unit = meta.slice(dot + 1)
    sensors.push({
      id: segment.slice(0, gt),
      state: stateOf(meta.slice(0, dot)),
      token: unit,
      unit: peerUnit(unit),
      scaled: peerNumber(segment.slice(colon + 1)),
    })
  }
  const ms = Buffer.from(token, 'base64url').readUIntBE(0, 6)
  return { id: id.slice(id.indexOf(';') + 1), state: stateOf(state), ms, sensors }
}

/** A peer that keeps templates (§5): decodes FULL, DIFF and HEART of one AID to facts. Throws if it cannot decode a frame. */
export class PeerReceiver {
  readonly #templates = new Map<number, { parts: string[]; slots: string[] }>()

  receive(frame: Uint8Array): PeerFact {
    const { cmd, tid, ts, body } = peerOpen(frame)
    if (cmd === 0x3f) {
      const text = body.toString('utf8')
      this.#templates.set(tid, cutSlots(text))
      return peerDecode(text)
    }
    const template = this.#templates.get(tid)
    if (!template || template.slots.length === 0) throw new Error(`no template ${tid}`)
    if (cmd === 0xaa) {
      const maskBytes = Math.ceil(template.slots.length / 8)
      const mask = BigInt(`0x${body.toString('hex', 0, maskBytes)}`)
      let at = maskBytes
      template.slots.forEach((_, slot) => {
        if (((mask >> BigInt(slot)) & 1n) === 0n) return
        const length = body[at]!
        template.slots[slot] = body.toString('utf8', at + 1, at + 1 + length)
        at += 1 + length
      })
      if (at !== body.length) throw new Error('bytes left over')
    } else if (cmd !== 0x7f) throw new Error(`command ${cmd}`)
    let text = template.parts[0]!
    template.slots.forEach((slot, k) => {
      text += slot + template.parts[k + 1]!
    })
    return { ...peerDecode(text), ms: ts }
  }
}

/** The slots of a text (`state.unit` and value of each sensor), and the text around them. */
function cutSlots(text: string): { parts: string[]; slots: string[] } {
  const parts = ['']
  const slots: string[] = []
  for (const segment of text.split('|')) {
    const gt = segment.indexOf('>')
    const colon = segment.lastIndexOf(':')
    if (gt >= 0 && colon > gt) {
      slots.push(segment.slice(gt + 1, colon), segment.slice(colon + 1))
      parts[parts.length - 1] += segment.slice(0, gt + 1)
      parts.push(':', '|')
    } else parts[parts.length - 1] += `${segment}|`
  }
  return { parts, slots }
}

export interface SmallFact {
  id: string
  token: string
  /** × 10 000, in 32 bits */
  scaled: bigint
}

/**
 * A minimal peer: it only supports FULL, one route, a body of 64 bytes, the first sensor, ids and units of 8 characters and
 * 32-bit values. Null for everything else.
 */
export function smallPeer(frame: Uint8Array): SmallFact | null {
  const { cmd, body } = peerOpen(frame)
  if (cmd !== 0x3f || body.length > 64) return null
  const text = body.toString('latin1')
  const rest = text.slice(text.indexOf('|') + 1)
  const found = /^([^>]{1,8})>[^.]*\.([^:]{1,8}):(-?[0-9a-zA-Z]{1,13})(?:\||$)/.exec(rest)
  return found && { id: found[1]!, token: found[2]!, scaled: peerNumber(found[3]!, 32) }
}
