// Masks secrets of the configuration (X19): keys that the schema marks as secret, keys with the name of a secret, and
// secrets within texts are shown as ********. A masked value in a write means "unchanged". It is refused
// (SECRET_NEEDED) if no value is stored, or if its entry got another host, port or medium: the secret would be sent to
// another machine.

import { OsError } from '../lib/errors'
import { isObject } from '../lib/objects'
import { holdsSecret, isEmptySecret, labelsOf, MASK, type Marks, masked, snake } from '../lib/secrets'
import { schemaAt, schemaBelow } from './describe'
import { parseDocument } from './document'
import { getAt, joinKey, same, type Tree } from './keys'
import { rewritten } from './rewrite'
import { type AnySchema, openSchema } from './schema'

type Path = readonly (string | number)[]

const isMarked = (known: AnySchema | undefined): boolean =>
  known !== undefined && openSchema(known).pipe.some(item => item.metadata?.secret === true)

const marksOf = (known: AnySchema | undefined): Marks | undefined =>
  known && { secret: isMarked(known), below: name => marksOf(schemaBelow(known, name)) }

/** True if a name on the way to a path of `tree` is that of a secret. */
const isNamed = (tree: unknown, path: Path): boolean =>
  path.some((part, k) => holdsSecret(getAt(tree, path.slice(0, k)), part))

/** A copy of the value at `path` of `tree` without secrets. */
export const mask = (schema: AnySchema, value: unknown, path: Path = [], tree?: unknown): unknown =>
  masked(value, isNamed(tree, path), marksOf(schemaAt(schema, path)))

/** Keys with the destination of an entry: a secret is only for this destination. */
const PLACE =
  /(?:^|_)(?:hosts?(?:_?name)?|ip|port|medium|addr(?:ess)?|url|uri|broker|server(?:_?name)?|endpoint|dialect|type|socket_?path)$/
const isPlace = (name: string): boolean => PLACE.test(snake(name))

/**
 * Compares without the user info of URLs: another password is not another destination. A destination that is itself a
 * secret may be masked.
 */
const sameBare = (a: unknown, b: unknown): boolean => a === MASK || same(masked(a), masked(b))

/** True if a key of the destination has changed; writing out a default is no change. */
const isMoved = (item: Tree, old: Tree, effective: unknown): boolean =>
  Object.keys({ ...old, ...item }).some(
    name =>
      isPlace(name) &&
      !sameBare(item[name], old[name]) &&
      !(old[name] === undefined && sameBare(item[name], getAt(effective, [name]))),
  )

/** The pairs of a list that are a destination. */
const placesIn = (list: readonly unknown[]): unknown[] =>
  list.filter((part, k) => {
    const labels = Array.isArray(part) ? [part[0]] : isObject(part) ? labelsOf(part) : [list[k - 1]]
    return labels.some(label => typeof label === 'string' && isPlace(label))
  })

const needed = (path: Path, why: string): OsError =>
  new OsError('SECRET_NEEDED', `${joinKey(path)}: ${why}`, { details: { key: joinKey(path) } })

const MOVED = 'its entry got another host, port or medium'

/** The label of a list element: its name, the first part of a pair, or the text before it. */
function labelOf(list: readonly unknown[], k: number): unknown {
  const part = list[k]
  if (Array.isArray(part)) return typeof part[0] === 'string' ? part[0] : undefined
  if (isObject(part)) return part.name ?? (labelsOf(part).join(' ') || undefined)
  return holdsSecret(list, k) ? list[k - 1] : undefined
}

function byLabel(list: readonly unknown[]): Map<unknown, unknown[]> {
  const groups = new Map<unknown, unknown[]>()
  for (const [k, part] of list.entries()) {
    const label = labelOf(list, k)
    const group = groups.get(label)
    if (group) group.push(part)
    else groups.set(label, [part])
  }
  return groups
}

/**
 * Finds the stored elements that those of a new list continue: by equal labels, in order while the counts match, else
 * by index.
 */
function continued(list: readonly unknown[], stored: unknown): readonly unknown[] {
  if (!Array.isArray(stored)) return []
  const [mine, theirs] = [byLabel(list), byLabel(stored)]
  return list.map((_, k) => {
    const label = labelOf(list, k)
    if (label === undefined) return stored[k]
    const [olds, news] = [theirs.get(label), mine.get(label)!]
    if (olds?.length !== news.length) return undefined
    news.pop()
    return olds.shift()
  })
}

interface Unmasking {
  /** the stored configuration with its defaults */
  readonly effective?: unknown
  /** secrets must be sent again if their entry's destination changes (HTTP): true for paths in the change itself */
  readonly sent?: (path: Path) => boolean
}

/** Replaces masked values of a tree with the stored secrets. Throws SECRET_NEEDED. */
export function unmask(
  schema: AnySchema,
  value: unknown,
  stored: unknown,
  { effective, sent = () => true }: Unmasking = {},
): unknown {
  const walk = (item: unknown, old: unknown, now: unknown, path: Path, moved: boolean, named = false): unknown => {
    if (item === old && !moved) return item
    const below = (part: unknown, key: string | number, was: unknown, is: unknown, away: boolean): unknown =>
      walk(part, was, is, [...path, key], away, named || holdsSecret(item, key))
    if (Array.isArray(item)) {
      const away = moved || (Array.isArray(old) && !sameBare(placesIn(item), placesIn(old)))
      const [olds, nows] = [continued(item, old), continued(item, now)]
      return item.map((part, k) => below(part, k, olds[k], nows[k], away))
    }
    if (isObject(item)) {
      const away = moved || (isObject(old) && isMoved(item, old, now))
      return Object.fromEntries(
        Object.entries(item).map(([name, part]) => [
          name,
          below(part, name, getAt(old, [name]), getAt(now, [name]), away),
        ]),
      )
    }
    if (typeof item !== 'string') return item
    const shown = (text: unknown): unknown => masked(text, named || isMarked(schemaAt(schema, path)))
    if (!item.includes(MASK)) {
      const kept = moved && item !== '' && item === old && !sent(path) && shown(item) !== item
      if (kept) throw needed(path, MOVED)
      return item
    }
    // a secret may be a list or an object: the mask replaces all of it
    if (item !== old && (isEmptySecret(old) || shown(old) !== item))
      throw needed(path, `${MASK} refers to a stored secret, and none is stored here`)
    if (moved && item !== old) throw needed(path, `${MASK} would keep the stored secret, and ${MOVED}`)
    return old
  }
  return walk(value, stored, effective, [], false)
}

/** The text of a configuration file, the same without secrets, and the keys of removed secrets. */
export interface ConfigTexts {
  readonly whole: string
  readonly bare: string
  readonly leftOut: readonly string[]
}

/**
 * Removes keys that are secrets or whose text contains one; in a list they become empty, so that the indexes stay.
 * Comments stay. Throws CONFIG_SYNTAX.
 */
export function configTexts(schema: AnySchema, path: string, text: string): ConfigTexts {
  const leftOut: string[] = []
  const walk = (value: unknown, shown: unknown, at: Path): unknown => {
    if (Array.isArray(value) && Array.isArray(shown))
      return value.map((part, k) => walk(part, shown[k], [...at, k]) ?? '')
    if (isObject(value) && isObject(shown)) {
      const parts = Object.entries(value).map(([name, part]) => [name, walk(part, shown[name], [...at, name])] as const)
      return Object.fromEntries(parts.filter(([, part]) => part !== undefined))
    }
    if (value === shown) return value
    leftOut.push(joinKey(at))
    return undefined
  }
  const document = parseDocument(path, text)
  const bare = walk(document.value, mask(schema, document.value), []) as Tree
  return { whole: document.text, bare: rewritten(document, bare), leftOut }
}
