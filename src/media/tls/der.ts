// The certificate fields that node:crypto does not provide: extensions with their critical flags, the path length limit
// and the signature algorithm. Parses DER (X.690) strictly forward and within bounds; data without the structure of a
// certificate (RFC 5280 §4.1) throws BAD_PACKET, and the caller then trusts nothing.
import { OsError } from '../../lib/errors'

interface CertificateFields {
  /** dotted object id, for example '1.2.840.10045.4.3.2' */
  readonly signature: string
  readonly extensions: readonly { readonly oid: string; readonly critical: boolean }[]
  /** limit of authorities below this one, null: no limit */
  readonly pathLength: number | null
}

interface Item {
  readonly tag: number
  readonly body: Uint8Array
  /** total size with the header */
  readonly size: number
}

const SEQUENCE = 0x30
const BOOLEAN = 0x01
const INTEGER = 0x02
const OID = 0x06
const OCTETS = 0x04
/** [3] EXPLICIT: the extensions of a certificate */
const EXTENSIONS = 0xa3
const BASIC_CONSTRAINTS = '2.5.29.19'

export function certificateFields(der: Uint8Array): CertificateFields {
  const [tbs, algorithm] = items(one(der, SEQUENCE).body)
  const signature = oidText(one(need(algorithm, SEQUENCE).body, OID).body)
  const wrapped = items(need(tbs, SEQUENCE).body).find(item => item.tag === EXTENSIONS)
  const list = wrapped ? items(one(wrapped.body, SEQUENCE).body) : []
  let pathLength: number | null = null
  const extensions = list.map(extension => {
    const parts = items(need(extension, SEQUENCE).body)
    const oid = oidText(need(parts[0], OID).body)
    const critical = parts[1]?.tag === BOOLEAN && parts[1].body[0] !== 0
    const value = need(parts.at(-1), OCTETS).body
    if (oid === BASIC_CONSTRAINTS) {
      const length = items(one(value, SEQUENCE).body).find(item => item.tag === INTEGER)
      if (length) pathLength = length.body.reduce((sum, byte) => sum * 256 + byte, 0)
    }
    return { oid, critical }
  })
  return { signature, extensions, pathLength }
}

function items(bytes: Uint8Array): Item[] {
  const found: Item[] = []
  for (let at = 0; at < bytes.length; at += found.at(-1)!.size) found.push(item(bytes, at))
  return found
}

function item(bytes: Uint8Array, at: number): Item {
  const tag = bytes[at]!
  let length = bytes[at + 1] ?? bad()
  let head = 2
  if (length >= 0x80) {
    const count = length & 0x7f
    if (count === 0 || count > 4) bad()
    length = 0
    for (let k = 0; k < count; k++) length = length * 256 + (bytes[at + head + k] ?? bad())
    head += count
  }
  const end = at + head + length
  if (end > bytes.length) bad()
  return { tag, body: bytes.subarray(at + head, end), size: head + length }
}

const one = (bytes: Uint8Array, tag: number): Item => need(bytes.length > 0 ? item(bytes, 0) : undefined, tag)

const need = (found: Item | undefined, tag: number): Item => (found?.tag === tag ? found : bad())

function oidText(body: Uint8Array): string {
  const arcs: number[] = []
  let value = 0
  for (const byte of body) {
    value = value * 128 + (byte & 0x7f)
    if (byte >= 0x80) continue
    if (arcs.length === 0) {
      const first = Math.min(2, Math.floor(value / 40))
      arcs.push(first, value - first * 40)
    } else arcs.push(value)
    value = 0
  }
  return arcs.join('.')
}

function bad(): never {
  throw new OsError('BAD_PACKET', 'the certificate has no valid X.509 structure')
}
