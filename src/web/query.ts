// Query strings by schema. Any byte string gives either values that a handler can trust or BAD_REQUEST (400) with the
// key: malformed percent-encoding, bytes that are not UTF-8, NUL, a duplicate key, an invalid integer. limit and offset
// are clamped to their range (X27). Unknown keys are ignored, or refused if the route is strict; names with a leading
// `_` are always ignored. The result has no prototype, so `__proto__` is an ordinary name.
import { OsError } from '../lib/errors'
import { nearest } from '../lib/nearest'

export type QueryField =
  | { readonly type: 'integer'; readonly min: number; readonly max: number; readonly fallback?: number }
  | { readonly type: 'text'; readonly required?: true }
  | { readonly type: 'choice'; readonly values: readonly string[]; readonly fallback: string }
  | { readonly type: 'flag' }
export type QuerySchema = Readonly<Record<string, QueryField>>
export type QueryValues = Record<string, string | number | boolean | undefined>

/** limit of offset: no table of a gateway has more rows */
const MAX_OFFSET = 2 ** 31 - 1
const MAX_KEYS = 64

export const text: QueryField = { type: 'text' }
export const needed: QueryField = { type: 'text', required: true }
/** whole UNIX seconds; bounds beyond the safe integers are equivalent */
export const seconds: QueryField = { type: 'integer', min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }
export const offset: QueryField = { type: 'integer', min: 0, max: MAX_OFFSET, fallback: 0 }
export const limit = (fallback: number, max = 500): QueryField => ({ type: 'integer', min: 1, max, fallback })
/** `?x=1`, `?x=true`, or only `?x`; false when it is absent */
export const flag: QueryField = { type: 'flag' }
/** one of several words; another one is BAD_REQUEST */
export const choice = (values: readonly string[], fallback: string): QueryField => ({
  type: 'choice',
  values,
  fallback,
})

/** Percent-decodes one piece of a URL. `plus`: '+' means a space, as in query strings. Throws BAD_REQUEST. */
export function decodePart(raw: string, what: string, plus = false): string {
  let decoded: string
  try {
    decoded = decodeURIComponent(plus ? raw.replaceAll('+', ' ') : raw)
  } catch (cause) {
    throw new OsError('BAD_REQUEST', `malformed percent-encoding in ${what}`, { cause })
  }
  if (decoded.includes('\0')) throw new OsError('BAD_REQUEST', `NUL in ${what}`)
  return decoded
}

function integer(key: string, value: string, field: QueryField & { type: 'integer' }): number {
  if (!/^[+-]?\d+$/.test(value)) throw new OsError('BAD_REQUEST', `${key} must be an integer`, { details: { key } })
  // a very long number becomes Infinity and is clamped too
  return Math.min(field.max, Math.max(field.min, Number(value)))
}

function one(key: string, value: string | undefined, field: QueryField): string | number | boolean | undefined {
  switch (field.type) {
    case 'text':
      if (field.required && !value) throw new OsError('BAD_REQUEST', `${key} is required`, { details: { key } })
      return value || undefined
    case 'integer':
      return value === undefined ? field.fallback : integer(key, value, field)
    case 'flag': {
      if (value === undefined || /^(0|false|no|off)$/i.test(value)) return false
      if (/^(|1|true|yes|on)$/i.test(value)) return true
      throw new OsError('BAD_REQUEST', `${key} must be 1 or 0`, { details: { key } })
    }
    case 'choice': {
      const meant = (value || field.fallback).toLowerCase()
      if (field.values.includes(meant)) return meant
      throw new OsError('BAD_REQUEST', `${key} must be one of ${field.values.join(', ')}`, { details: { key } })
    }
  }
}

function unknown(key: string, known: readonly string[]): OsError {
  const shown = JSON.stringify(key.slice(0, 100))
  const meant = nearest(key.slice(0, 100), known)
  const those = known.length > 0 ? `known are ${known.join(', ')}` : 'this route has none'
  return new OsError('BAD_REQUEST', `unknown query parameter ${shown}; ${meant ? `did you mean ${meant}?` : those}`, {
    details: { key: key.slice(0, 100) },
  })
}

/** `search` is the part after '?', still encoded; null if there is none. An empty text filter counts as absent. */
export function parseQuery(search: string | null, schema: QuerySchema, strict = false): QueryValues {
  const texts: Record<string, string> = Object.create(null)
  const pieces = search ? search.split('&', MAX_KEYS + 1) : []
  if (pieces.length > MAX_KEYS) throw new OsError('BAD_REQUEST', `more than ${MAX_KEYS} query keys`)
  for (const piece of pieces) {
    const at = piece.indexOf('=')
    const key = decodePart(at < 0 ? piece : piece.slice(0, at), 'the query', true)
    const value = decodePart(at < 0 ? '' : piece.slice(at + 1), 'the query', true)
    if (!Object.hasOwn(schema, key)) {
      if (strict && key !== '' && !key.startsWith('_')) throw unknown(key, Object.keys(schema))
      continue
    }
    if (key in texts) throw new OsError('BAD_REQUEST', `${key} appears more than once`, { details: { key } })
    texts[key] = value
  }
  const values: QueryValues = Object.create(null)
  for (const [key, field] of Object.entries(schema)) {
    values[key] = one(key, texts[key], field)
  }
  return values
}
