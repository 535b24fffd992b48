// Parses the compressed text: `<id>.<state>.<ts>|` and its segments (docs/protocol.md section 1). The engine, the frame
// encoder and the receivers share this parser, so they agree on what a sensor is. Throws BAD_TEXT.
import { OsError } from '../lib/errors'

interface TextParts {
  id: string
  state: string
  /** the time token, unchanged */
  token: string
  /** segments unchanged, without empty ones; a message keeps its `@` */
  segments: string[]
}

export interface SensorSegment {
  id: string
  /** text between `>` and the last `:`, which is `state.unit` */
  meta: string
  value: string
}

/**
 * Splits `<id>.<state>.<ts>|…`, without a leading `<aid>;`. Further dots are ambiguous in the reference; ids here have
 * none (X16).
 */
export function splitText(text: string): TextParts {
  const segments = text.split('|').filter(part => part !== '')
  const head = (text.startsWith('|') ? '' : (segments.shift() ?? '')).split('.')
  if (head.length < 3)
    throw new OsError('BAD_TEXT', `text has no id.state.time head: ${JSON.stringify(text.slice(0, 60))}`)
  return { id: head[0]!, state: head[1]!, token: head[2]!, segments }
}

/** No control characters, and no bytes that were not UTF-8: noise of any length fails. */
export function isPlainText(text: string): boolean {
  for (let k = 0; k < text.length; k++) {
    const code = text.charCodeAt(k)
    if (code < 0x20 || code === 0x7f || code === 0xfffd) return false
  }
  return true
}

/** The text after the first `;`, or the unchanged text: the AID prefix belongs to the frame (X2). */
export function stripAid(text: string): string {
  const at = text.indexOf(';')
  return at < 0 ? text : text.slice(at + 1)
}

/** Placeholder of the time in a template's signature; the second one means that C firmware sent it (X1). */
const TIME = '{TS}'
const PLAIN_TIME = '{TS,plain}'

/** The start of a signature. `plain`: of C firmware. */
export const signatureHead = (id: string, state: string, plain: boolean): string =>
  `${id}.${state}.${plain ? PLAIN_TIME : TIME}|`

/** Whether a signature is of a template of C firmware. */
export const isPlainSignature = (signature: string): boolean => /^[^.|]*\.[^.|]*\.\{TS,plain\}\|/.test(signature)

/** The text of a template with a time token; missing slots are empty. */
export function templateText(signature: string, slots: readonly string[], token: string): string {
  const parts = signature.replace(isPlainSignature(signature) ? PLAIN_TIME : TIME, () => token).split('\x01')
  return parts.reduce((text, part, k) => text + (slots[k - 1] ?? '') + part)
}

/** The sensor of a segment, or null for geohash, url, message and anything else. */
export function sensorOf(segment: string): SensorSegment | null {
  const first = segment.charCodeAt(0)
  if (first === 38 || first === 35 || first === 64) return null
  const gt = segment.indexOf('>')
  if (gt < 0) return null
  const colon = segment.lastIndexOf(':')
  if (colon <= gt) return null
  return { id: segment.slice(0, gt), meta: segment.slice(gt + 1, colon), value: segment.slice(colon + 1) }
}

/** Six bytes of a time token. A longer token is truncated (`cut`), any other length throws. */
export function tokenBytes(token: string, cut = false): Buffer {
  const clean = token.replaceAll(/[^A-Za-z0-9_-]/g, '')
  const bytes = Buffer.from(clean, 'base64url')
  if (clean.length % 4 === 1 || bytes.length < 6 || (bytes.length > 6 && !cut))
    throw new OsError('BAD_TEXT', `bad time token ${JSON.stringify(token.slice(0, 40))}`)
  return bytes.subarray(0, 6)
}

/** Time token → milliseconds. */
export const tokenMs = (token: string): number => tokenBytes(token).readUIntBE(0, 6)

/** Milliseconds → time token; truncated to 48 bits. */
export function msToken(ms: number): string {
  const bytes = Buffer.allocUnsafe(6)
  bytes.writeUIntBE(ms % 2 ** 48, 0, 6)
  return bytes.toString('base64url')
}

export const toBase64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')
/** Lenient: characters outside the alphabet are skipped. */
export const fromBase64 = (text: string): string =>
  Buffer.from(text.replaceAll(/[^A-Za-z0-9_-]/g, ''), 'base64url').toString('utf8')
