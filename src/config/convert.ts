// Converts a value that arrives as text (config-set --value 5 --type int, {value_type} over HTTP). Without a type the
// schema's type of the key decides. A text that does not match is CONFIG_INVALID with the expected form.
import { OsError, orElse } from '../lib/errors'
import { isSecret, masked } from '../lib/secrets'
import type { ValueType } from './describe'

/** Types, with the names that people and other tools use for them. */
const NAMES = {
  int: ['int', 'integer'],
  float: ['float', 'number', 'double'],
  bool: ['bool', 'boolean'],
  str: ['str', 'string', 'text'],
  json: ['json', 'list', 'dict', 'object', 'array'],
}
export const TYPE_NAMES = Object.keys(NAMES) as readonly (keyof typeof NAMES)[]

/** The value for an error message; a secret is not shown (X19). */
const shown = (key: string, value: unknown): string =>
  key.split('.').some(part => isSecret(part, value)) ? 'this value' : JSON.stringify(masked(value)).slice(0, 200)

const refuse = (key: string, value: unknown, what: string): OsError =>
  new OsError('CONFIG_INVALID', `${key}: ${shown(key, value)} is not ${what}`, { details: { key, allowed: what } })

/** Throws CONFIG_INVALID (no match) or USAGE (unknown type). */
export function convert(key: string, value: unknown, type: string | undefined, known: ValueType | undefined): unknown {
  if (type === undefined || type === '' || type === 'auto') return guess(key, value, known)
  const meant = TYPE_NAMES.find(name => NAMES[name].includes(type.toLowerCase()))
  if (!meant) throw new OsError('USAGE', `no value type ${JSON.stringify(type)}; types: ${TYPE_NAMES.join(' ')}`)
  return as(key, value, meant)
}

function as(key: string, value: unknown, type: ValueType | 'json'): unknown {
  const text = typeof value === 'string' ? value.trim() : value
  switch (type) {
    case 'int': {
      const n = typeof text === 'number' ? text : /^[+-]?\d+$/.test(String(text)) ? Number(text) : Number.NaN
      if (!Number.isSafeInteger(n)) throw refuse(key, value, 'a whole number')
      return n
    }
    case 'float': {
      const plain = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
      const n = typeof text === 'number' ? text : plain.test(String(text)) ? Number(text) : Number.NaN
      if (!Number.isFinite(n)) throw refuse(key, value, 'a number')
      return n
    }
    case 'bool': {
      if (typeof text === 'boolean') return text
      if (/^(true|1|yes|on)$/i.test(String(text))) return true
      if (/^(false|0|no|off)$/i.test(String(text))) return false
      throw refuse(key, value, 'true or false')
    }
    case 'str':
      return typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : String(value)
    default:
      return typeof value === 'string' ? json(key, value) : value
  }
}

function json(key: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new OsError('CONFIG_INVALID', `${key}: ${shown(key, text)} is not JSON`, { cause, details: { key } })
  }
}

function guess(key: string, value: unknown, known: ValueType | undefined): unknown {
  if (typeof value !== 'string') return value
  if (known === 'list' || known === 'object') return as(key, value, 'json')
  if (known && known !== 'any') return as(key, value, known)
  // not JSON: for a key without a type, a bare word is a text
  return orElse(value, () => JSON.parse(value))
}
