// A self-signed certificate of this gateway (web_user.tls: self_signed): EC P-256, for the names of the gateway, one
// file in the data directory, made at the first start and then kept, so that a browser continues to trust it.
//
// Its validity does not depend on the clock, because a gateway may start in 1970. An invalid file is replaced; a pair
// that cannot be stored is used until the stop; both log a warning. Written by hand, reasons in docs/dependencies.md.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { atomicWrite } from '../lib/atomic'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'

const SEQUENCE = 0x30
const SET = 0x31
const INTEGER = 0x02
const BITS = 0x03
const OCTETS = 0x04
const OID = 0x06
const UTF8 = 0x0c
const UTC_TIME = 0x17
const BOOLEAN = 0x01

/** RFC 5280 §4.1.2.5: the last time that a two-digit year can express */
const FROM = '250101000000Z'
const TO = '491231235959Z'

function der(tag: number, ...parts: readonly (Uint8Array | string)[]): Buffer {
  const body = Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part) : part)))
  const size = body.length
  const head = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), body])
}

const oid = (...bytes: readonly number[]): Buffer => der(OID, Uint8Array.from(bytes))
const ECDSA_SHA256 = der(SEQUENCE, oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
const extension = (last: number, value: Uint8Array, critical = false): Buffer =>
  der(SEQUENCE, oid(0x55, 0x1d, last), ...(critical ? [der(BOOLEAN, Uint8Array.of(0xff))] : []), der(OCTETS, value))

/** The 4 or 16 bytes of an address. */
function addressBytes(address: string): Uint8Array {
  if (isIP(address) === 4) return Uint8Array.from(address.split('.').map(Number))
  const [head = '', tail = ''] = address.split('::')
  const words = (text: string): number[] =>
    text
      .split(':')
      .filter(Boolean)
      .map(word => Number.parseInt(word, 16))
  const [a, b] = [words(head), words(tail)]
  const all = [...a, ...new Array<number>(8 - a.length - b.length).fill(0), ...b]
  return Uint8Array.from(all.flatMap(word => [word >> 8, word & 0xff]))
}

const alternative = (name: string): Buffer => (isIP(name) ? der(0x87, addressBytes(name)) : der(0x82, name))

export interface Pair {
  /** PEM */
  readonly cert: string
  readonly key: string
}

/** A new pair for names and addresses. */
export function selfSigned(names: readonly string[]): Pair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const serial = randomBytes(16)
  serial[0] = (serial[0]! & 0x7f) | 0x40 // positive, with a constant length
  const subject = der(SEQUENCE, der(SET, der(SEQUENCE, oid(0x55, 0x04, 0x03), der(UTF8, names[0] ?? 'os-node'))))
  const extensions = der(
    SEQUENCE,
    extension(0x13, der(SEQUENCE), true), // basicConstraints: no authority
    extension(0x0f, der(BITS, Uint8Array.of(7, 0x80)), true), // keyUsage: digitalSignature
    extension(0x25, der(SEQUENCE, oid(0x2b, 6, 1, 5, 5, 7, 3, 1))), // extKeyUsage: serverAuth
    extension(0x11, der(SEQUENCE, ...names.map(alternative))), // subjectAltName
  )
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, Uint8Array.of(2))),
    der(INTEGER, serial),
    ECDSA_SHA256,
    subject,
    der(SEQUENCE, der(UTC_TIME, FROM), der(UTC_TIME, TO)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = sign('sha256', body, { key: privateKey, dsaEncoding: 'der' })
  const whole = der(SEQUENCE, body, ECDSA_SHA256, der(BITS, Uint8Array.of(0), signature))
  return {
    cert: new X509Certificate(whole).toString(),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

/**
 * The pair stored in `path`; a new one if there is none, it lacks a name or the file is damaged. A pair that cannot be
 * stored is used until the stop. Never throws; `warn` gets the problems of the file.
 */
export function keptPair(path: string, names: readonly string[], files: Files, warn: (text: string) => void): Pair {
  try {
    const kept = files.exists(path) ? pairIn(files.read(path).toString('utf8'), names) : undefined
    if (kept) return kept
  } catch (error) {
    warn(`${path} cannot be read (${asOsError(error).message}): a new certificate is made, and browsers warn again`)
  }
  const made = selfSigned(names)
  try {
    atomicWrite(path, made.cert + made.key, files)
  } catch (error) {
    warn(`${path} cannot be written (${asOsError(error).message}): its certificate is used until the stop; remove it`)
  }
  return made
}

/** The pair in a text, if it is for all of these names. Throws if there is none. */
function pairIn(text: string, names: readonly string[]): Pair | undefined {
  const key = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n?/.exec(text)?.[0] ?? ''
  const cert = new X509Certificate(text)
  const fits = cert.checkPrivateKey(createPrivateKey(key))
  if (!fits || !names.every(name => (isIP(name) ? cert.checkIP(name) : cert.checkHost(name)))) return undefined
  return { cert: cert.toString(), key }
}
