// Secrets never leave in readable form (X19): keys the schema calls secret, keys that are named like one, and the password
// inside a URL are shown as ********. A masked value that comes back means "leave it as it is"; one that has nothing to stand
// for is refused, so that stars are never stored as a password.
import { OsError } from '../lib/errors'
import { schemaAt } from './describe'
import { getAt, isTree, joinKey } from './keys'
import { type AnySchema, openSchema } from './schema'

export const MASK = '********'
/** Names that hold secrets wherever they stand, also below parts without a schema. */
export const SECRET_NAME =
  /(^|_)(password|passwd|passphrase|secret|token|psk|api_?key|private_?key|bind_?key|credentials?)$/i
const URL_PASSWORD = /([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*:)([^\s/?#]+)(@)/gi

export function isSecret(schema: AnySchema, path: readonly (string | number)[]): boolean {
  if (SECRET_NAME.test(String(path.at(-1) ?? ''))) return true
  const known = schemaAt(schema, path)
  return known !== undefined && openSchema(known).pipe.some(item => item.metadata?.secret === true)
}

export const maskText = (text: string): string => text.replace(URL_PASSWORD, `$1${MASK}$3`)

/** A copy for eyes. Empty secrets stay empty, so that one sees whether something is set. */
export function mask(schema: AnySchema, value: unknown, path: readonly (string | number)[] = []): unknown {
  if (isSecret(schema, path)) return value === '' || value === null || value === undefined ? value : MASK
  if (typeof value === 'string') return maskText(value)
  if (Array.isArray(value)) return value.map((item, k) => mask(schema, item, [...path, k]))
  if (!isTree(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, mask(schema, item, [...path, name])]))
}

/** Puts the stored secrets back into a value that was shown masked. Throws CONFIG_INVALID where nothing is stored. */
export function unmask(
  schema: AnySchema,
  value: unknown,
  stored: unknown,
  path: readonly (string | number)[],
): unknown {
  if (typeof value === 'string' && value.includes(MASK)) {
    if (stored !== undefined && mask(schema, stored, path) === value) return stored
    if (value === MASK || maskText(value) === value) {
      const key = joinKey(path)
      throw new OsError('CONFIG_INVALID', `${key}: ${MASK} stands for a stored secret, and none is stored here`, {
        hint: 'send the real value',
        details: { key },
      })
    }
    return value
  }
  if (Array.isArray(value)) {
    return value.map((item, k) => unmask(schema, item, counterpart(item, stored, k), [...path, k]))
  }
  if (!isTree(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, unmask(schema, item, getAt(stored, [name]), [...path, name])]),
  )
}

/** The stored element that an element of a new list continues: the one of the same name, else the one at its place. */
function counterpart(item: unknown, stored: unknown, at: number): unknown {
  if (!Array.isArray(stored)) return undefined
  const name = getAt(item, ['name'])
  return name === undefined ? stored[at] : stored.find(old => getAt(old, ['name']) === name)
}
