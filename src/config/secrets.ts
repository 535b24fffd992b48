// Secrets of the configuration (X19): keys the schema calls secret, keys that are named like one, and what texts hold are
// shown as ********. A masked value that comes back means "leave it as it is". It is refused (SECRET_NEEDED) where nothing is
// stored, and where the entry it belongs to got another host, port or medium: the secret would go to another machine.

import { OsError } from '../lib/errors'
import { isObject } from '../lib/objects'
import { isEmptySecret, isSecretName, MASK, maskText } from '../lib/secrets'
import { schemaAt, schemaBelow } from './describe'
import { getAt, joinKey, same, type Tree } from './keys'
import { type AnySchema, openSchema } from './schema'

type Path = readonly (string | number)[]

const isMarked = (known: AnySchema | undefined): boolean =>
  known !== undefined && openSchema(known).pipe.some(item => item.metadata?.secret === true)

const isSecret = (schema: AnySchema, path: Path): boolean =>
  path.some(part => isSecretName(String(part))) || isMarked(schemaAt(schema, path))

/** A copy without secrets. Empty ones stay empty, so that one sees whether something is set. */
export function mask(schema: AnySchema, value: unknown, path: Path = []): unknown {
  const masked = (item: unknown, known: AnySchema | undefined, secret: boolean): unknown => {
    if (secret || isMarked(known)) return isEmptySecret(item) ? item : MASK
    if (typeof item === 'string') return maskText(item)
    if (typeof item !== 'object' || item === null) return item
    const below = (name: string | number, part: unknown): unknown =>
      masked(part, known && schemaBelow(known, name), isSecretName(String(name)))
    if (Array.isArray(item)) return item.map((part, k) => below(k, part))
    return Object.fromEntries(Object.entries(item).map(([name, part]) => [name, below(name, part)]))
  }
  const named = path.some(part => isSecretName(String(part)))
  return masked(value, schemaAt(schema, path), named)
}

/** What says where an entry sends: a secret is for this place alone. */
const PLACE =
  /(?:^|_)(?:hosts?|port|medium|addr(?:ess)?|url|uri|broker|server(?:name)?|endpoint|dialect|type|socketpath)$/i

/** Without the user info of URLs: another password is no other place. */
const bare = (value: unknown): unknown => (typeof value === 'string' ? maskText(value) : value)

/** True where one of the keys that say the place is another one; a default that is written out is none. */
const isMoved = (item: Tree, old: Tree, effective: unknown): boolean =>
  Object.keys({ ...old, ...item }).some(
    name =>
      PLACE.test(name) &&
      !same(bare(item[name]), bare(old[name])) &&
      !(old[name] === undefined && same(bare(item[name]), bare(getAt(effective, [name])))),
  )

const needed = (path: Path, why: string): OsError =>
  new OsError('SECRET_NEEDED', `${joinKey(path)}: ${why}`, { details: { key: joinKey(path) } })

const MOVED = 'its entry got another host, port or medium'

/** The stored element that an element of a new list continues: the one of the same name, else the one at its place. */
function byName(stored: unknown): (item: unknown, at: number) => unknown {
  if (!Array.isArray(stored)) return () => undefined
  const names = new Map(stored.map(entry => [getAt(entry, ['name']), entry as unknown]))
  return (item, at) => {
    const name = getAt(item, ['name'])
    return name === undefined ? stored[at] : names.get(name)
  }
}

interface Unmasking {
  /** the stored configuration with its defaults */
  readonly effective?: unknown
  /** where a secret has to come anew with another place of its entry (HTTP): true for what the change brings itself */
  readonly sent?: (path: Path) => boolean
}

/** A tree in which masked values stand → the same with the stored secrets. Throws SECRET_NEEDED. */
export function unmask(
  schema: AnySchema,
  value: unknown,
  stored: unknown,
  { effective, sent = () => true }: Unmasking = {},
): unknown {
  const walk = (item: unknown, old: unknown, now: unknown, path: Path, moved: boolean): unknown => {
    if (item === old && !moved) return item
    if (Array.isArray(item)) {
      const [olds, nows] = [byName(old), byName(now)]
      return item.map((part, k) => walk(part, olds(part, k), nows(part, k), [...path, k], moved))
    }
    if (isObject(item)) {
      const away = moved || (isObject(old) && isMoved(item, old, now))
      return Object.fromEntries(
        Object.entries(item).map(([name, part]) => [
          name,
          walk(part, getAt(old, [name]), getAt(now, [name]), [...path, name], away),
        ]),
      )
    }
    if (typeof item !== 'string') return item
    const masked = item.includes(MASK)
    if (!masked) {
      const kept = moved && item !== '' && item === old && !sent(path) && mask(schema, item, path) !== item
      if (kept) throw needed(path, MOVED)
      return item
    }
    if (typeof old === 'string' && (item === old || mask(schema, old, path) === item)) {
      if (moved && item !== old) throw needed(path, `${MASK} would keep the stored secret, and ${MOVED}`)
      return old
    }
    // a secret may be a list or an object: the sign stands for the whole of it
    if (item === MASK && !isEmptySecret(old) && typeof old !== 'string' && isSecret(schema, path)) {
      if (moved) throw needed(path, `${MASK} would keep the stored secret, and ${MOVED}`)
      return old
    }
    throw needed(path, `${MASK} stands for a stored secret, and none is stored here`)
  }
  return walk(value, stored, effective, [], false)
}
