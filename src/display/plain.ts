// Converts a provider's result to data that every user interface can show: a JSON copy, bounded and masked. Providers
// are third-party code, so nothing is trusted: circles and depth are cut, lists and texts bounded, keys named like
// secrets masked (X19), and a getter that throws affects only its own value.
import { isObject } from '../lib/objects'
import { masked } from '../lib/secrets'

export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain }
export type Dict = Readonly<Record<string, Plain>>

export const isDict = isObject as (value: Plain | undefined) => value is Dict

const MAX_DEPTH = 12
/** most values of a section; the configuration of a large gateway has several thousand */
const MAX_VALUES = 50_000
const MAX_TEXT = 16_384

interface Walk {
  left: number
  readonly open: Set<object>
}

/** A bounded, masked copy that JSON can hold. Never throws. */
export const plain = (value: unknown): Plain => masked(copy(value, { left: MAX_VALUES, open: new Set() }))

function copy(value: unknown, walk: Walk): Plain {
  if (walk.left-- <= 0) return '…'
  switch (typeof value) {
    case 'boolean':
      return value
    case 'number':
      return Number.isFinite(value) ? value : String(value)
    case 'string':
      return value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value
    case 'bigint':
      return value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER ? Number(value) : String(value)
    case 'object':
      return value === null ? null : copyObject(value, walk)
    default:
      return null
  }
}

function copyObject(value: object, walk: Walk): Plain {
  if (walk.open.has(value)) return '(circular)'
  if (walk.open.size >= MAX_DEPTH) return '…'
  walk.open.add(value)
  try {
    if (value instanceof Date) return Number.isFinite(value.getTime()) ? value.toISOString() : null
    if (value instanceof Error) return value.message
    if (ArrayBuffer.isView(value))
      return Buffer.from(value.buffer, value.byteOffset, Math.min(value.byteLength, 4096)).toString('hex')
    if (Array.isArray(value) || value instanceof Set) return copyItems(value, walk)
    const entries = value instanceof Map ? [...value] : Object.keys(value).map(key => [key, undefined] as const)
    const out: { [key: string]: Plain } = Object.create(null)
    for (const [key, held] of entries) {
      const item = value instanceof Map ? held : read(value, String(key))
      if (item === undefined || typeof item === 'function') continue
      out[String(key)] = copy(item, walk)
      if (walk.left < 0) break
    }
    // without a prototype `__proto__` is a normal key; the spread keeps it one
    return { ...out }
  } finally {
    walk.open.delete(value)
  }
}

function copyItems(items: Iterable<unknown>, walk: Walk): Plain[] {
  const out: Plain[] = []
  for (const item of items) {
    out.push(copy(item, walk))
    if (walk.left < 0) break
  }
  return out
}

function read(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key]
  } catch (error) {
    return error instanceof Error ? `(${error.message})` : '(unreadable)'
  }
}
