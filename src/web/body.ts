// Request bodies: one JSON object, bounded. Errors: too long (BODY_TOO_LARGE); not UTF-8, not JSON, or not an object
// (BAD_REQUEST, X18). An empty body is an empty object. If the client disconnects halfway, the result is a BAD_REQUEST
// that is never read.
import type { IncomingMessage } from 'node:http'
import * as v from 'valibot'
import { OsError } from '../lib/errors'
import { MAX_BODY_BYTES } from './guard'

export type Body = Readonly<Record<string, unknown>>

export async function readBody(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > MAX_BODY_BYTES) throw tooLarge()
      chunks.push(chunk)
    }
  } catch (cause) {
    throw cause instanceof OsError ? cause : new OsError('BAD_REQUEST', 'the body ended early', { cause })
  }
  if (size === 0) return {}
  return parse(Buffer.concat(chunks))
}

function parse(bytes: Buffer): Body {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new OsError('BAD_REQUEST', 'the body is not JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new OsError('BAD_REQUEST', 'the body must be a JSON object')
  }
  return value as Body
}

const tooLarge = (): OsError => new OsError('BODY_TOO_LARGE', `the body is larger than ${MAX_BODY_BYTES} bytes`)

/** The body according to its schema, defaults filled in. Throws BAD_REQUEST for the first wrong key. */
export function checkBody<T>(schema: v.GenericSchema<unknown, T>, body: Body): T {
  const checked = v.safeParse(schema, body, { abortEarly: true })
  if (checked.success) return checked.output
  const [issue] = checked.issues
  const key = v.getDotPath(issue) ?? ''
  throw new OsError('BAD_REQUEST', wrong(key, issue, schema), key ? { details: { key } } : {})
}

/** The schema's own message for a key, also if the key is missing. */
function ownText(schema: v.GenericSchema, key: string): string | undefined {
  const { entries = {} } = schema as { entries?: Record<string, { message?: unknown; pipe?: { message?: unknown }[] }> }
  const entry = Object.hasOwn(entries, key) ? entries[key] : undefined
  const text = entry?.message ?? entry?.pipe?.[0]?.message
  return typeof text === 'string' ? text : undefined
}

const NEEDED: Record<string, string> = {
  boolean: 'true or false',
  number: 'a number',
  array: 'a list',
  string: 'a text',
}

function wrong(key: string, issue: v.BaseIssue<unknown>, schema: v.GenericSchema): string {
  // messages of our own schemas name the fault already
  if (!/^Invalid |^$/.test(issue.message)) return issue.message
  if (issue.received === 'undefined') return ownText(schema, key) ?? `${key} is required`
  const { expected, type } = issue
  return `${key || 'the body'} must be ${NEEDED[type] ?? (expected ? expected.replaceAll('"', '') : 'something else')}`
}
