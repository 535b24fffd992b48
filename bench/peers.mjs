// The codec peers on the same readings: JSON, cbor-x and msgpackr with their record structures, so they may leave out the
// keys as our templates do. One message holds device, state, time and the sensors.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
/** readings in a packet */
export const SIZES = [1, 4, 16]
export const PEERS = ['json', 'cbor-x', 'msgpackr']

export async function peers(rows, t0) {
  const { Encoder } = require('cbor-x')
  const { Packr } = require('msgpackr')
  const facts = rows.map((row, k) => ({
    id: 'bench',
    s: 'ONLINE',
    t: t0 + k,
    sensors: row.map(([id, status, value, unit]) => ({ id, status, value, unit })),
  }))
  const cbor = new Encoder({ structures: [] })
  const pack = new Packr({ structures: [] })
  return [
    { name: 'json', encode: k => Buffer.from(JSON.stringify(facts[k])), decode: bytes => JSON.parse(bytes.toString()) },
    { name: 'cbor-x', encode: k => cbor.encode(facts[k]), decode: bytes => cbor.decode(bytes) },
    { name: 'msgpackr', encode: k => pack.pack(facts[k]), decode: bytes => pack.unpack(bytes) },
  ]
}
