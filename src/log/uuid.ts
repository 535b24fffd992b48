// The packet's uuid (decision 0012): the same content of the same device at the same time gives the same uuid on every machine, so that
// a duplicate packet is one row in every database. The definition never changes:
//   SHA-256 of "os-node packet 1" and then device id, t_raw (f64), state, u32 sensor count, per sensor id, status, unit,
//   u8 1 + value (f64) or u8 0, u32 extras count, per extra (sorted by key) key and text;
//   texts as u32 byte length + UTF-8, numbers big-endian, −0 as 0;
//   first 16 bytes, with version 8 and the RFC 9562 variant set.
// AID, medium and addresses are not included: they may change on the way.
import { hash } from 'node:crypto'
import type { Fact } from '../pipeline/fact'

const DOMAIN = Buffer.from('os-node packet 1')
let scratch = Buffer.alloc(4096)
let view = new DataView(scratch.buffer)
let at = 0

/** The 16 bytes of the uuid of `fact`. */
export function packetUuid(fact: Fact): Uint8Array {
  at = DOMAIN.copy(scratch, 0)
  text(fact.id)
  number(fact.tRaw)
  text(fact.state)
  count(fact.sensors.length)
  for (const sensor of fact.sensors) {
    text(sensor.id)
    text(sensor.status)
    text(sensor.unit)
    need(1)
    scratch[at++] = sensor.value === null ? 0 : 1
    if (sensor.value !== null) number(sensor.value)
  }
  const extras = fact.extras ? Object.entries(fact.extras).sort(([a], [b]) => (a < b ? -1 : 1)) : []
  count(extras.length)
  for (const [key, value] of extras) {
    text(key)
    text(value)
  }
  const digest = hash('sha256', scratch.subarray(0, at), 'buffer')
  digest[6] = (digest[6]! & 0x0f) | 0x80
  digest[8] = (digest[8]! & 0x3f) | 0x80
  return digest.subarray(0, 16)
}

const HEX = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, '0'))

/** 16 bytes → `xxxxxxxx-xxxx-8xxx-xxxx-xxxxxxxxxxxx`. */
export function uuidText(bytes: Uint8Array): string {
  let out = ''
  for (let k = 0; k < 16; k++) out += (k === 4 || k === 6 || k === 8 || k === 10 ? '-' : '') + HEX[bytes[k]!]!
  return out
}

/** The 16 bytes of a uuid text in any case, or undefined if it is invalid. */
export function uuidBytes(uuid: string): Uint8Array | undefined {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(uuid)
    ? Buffer.from(uuid.replaceAll('-', ''), 'hex')
    : undefined
}

function need(bytes: number): void {
  if (at + bytes <= scratch.length) return
  const larger = Buffer.alloc(Math.max(scratch.length * 2, at + bytes))
  scratch.copy(larger, 0, 0, at)
  scratch = larger
  view = new DataView(scratch.buffer)
}

function count(value: number): void {
  need(4)
  view.setUint32(at, value)
  at += 4
}

function number(value: number): void {
  need(8)
  view.setFloat64(at, value === 0 ? 0 : value)
  at += 8
}

function text(value: string): void {
  need(4 + value.length * 3)
  let length = 0
  // a loop is faster than write() for short ASCII texts such as ids, states and units
  for (; length < value.length; length++) {
    const code = value.charCodeAt(length)
    if (code > 127) {
      length = scratch.write(value, at + 4, 'utf8')
      break
    }
    scratch[at + 4 + length] = code
  }
  view.setUint32(at, length)
  at += 4 + length
}
