// JSON text as peers write it: Python's default spacing (`{"a": 1, "b": [1, 2]}`), UTF-8 not ASCII-escaped. Values that JSON
// cannot represent become null, as in JSON.stringify; cannot fail for plain data.

import { orElse } from '../lib/errors'
import { isObject } from '../lib/objects'

interface PythonJsonOptions {
  /** keys in code point order, as json.dumps(sort_keys=True) */
  sortKeys?: boolean
}

export function pythonJson(value: unknown, { sortKeys = false }: PythonJsonOptions = {}): string {
  if (Array.isArray(value)) return `[${value.map(item => pythonJson(item, { sortKeys })).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined)
    if (sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}: ${pythonJson(item, { sortKeys })}`).join(', ')}}`
  }
  return JSON.stringify(value) ?? 'null'
}

/** An object from UTF-8 JSON bytes; anything else, broken JSON included, is `{}`, as peers do. */
export function tolerantObject(bytes: Uint8Array): Record<string, unknown> {
  // as the reference: a request with broken JSON is answered like one without
  const value: unknown = orElse(undefined, () => JSON.parse(new TextDecoder().decode(bytes)))
  return isObject(value) ? value : {}
}
