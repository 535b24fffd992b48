// Dotted keys: `gateway.uplinks.0.port`. A key is canonical or refused: no empty part, no blanks, no control characters,
// and none of the names that reach into an object's prototype (S8). Everything that compares or follows keys uses this.
import { OsError } from '../lib/errors'

export { distance, nearest } from '../lib/nearest'

export type Tree = Record<string, unknown>

const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype'])

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** True for a name that may be a key. */
export const safeName = (name: string): boolean =>
  name.length > 0 && name.length <= 200 && !FORBIDDEN.has(name) && !/[\s\x00-\x1f\x7f]/.test(name)

/** The parts of a dotted key. Throws CONFIG_KEY when it is not canonical. */
export function splitKey(key: string): string[] {
  const parts = key.split('.')
  if (parts.length > 32 || !parts.every(safeName)) {
    throw new OsError('CONFIG_KEY', `${JSON.stringify(key)} is not a configuration key`, { details: { key } })
  }
  return parts
}

export const joinKey = (path: readonly (string | number)[]): string => path.join('.')

/** Throws CONFIG_KEY when a value that came from outside holds a forbidden name at any depth. */
export function refuseForbidden(value: unknown, at = '', depth = 0): void {
  if (depth > 64) throw new OsError('CONFIG_INVALID', `${at} is nested too deep`, { details: { key: at } })
  if (Array.isArray(value)) {
    for (const [k, item] of value.entries()) refuseForbidden(item, at ? `${at}.${k}` : String(k), depth + 1)
  } else if (isTree(value)) {
    for (const name of Object.keys(value)) {
      const key = at ? `${at}.${name}` : name
      if (FORBIDDEN.has(name)) {
        throw new OsError('CONFIG_KEY', `${JSON.stringify(key)} is not a configuration key`, { details: { key } })
      }
      refuseForbidden(value[name], key, depth + 1)
    }
  }
}

/** The value at a path, or undefined. Only own keys count. */
export function getAt(tree: unknown, path: readonly (string | number)[]): unknown {
  let at: unknown = tree
  for (const part of path) {
    if (Array.isArray(at)) at = /^\d+$/.test(String(part)) ? at[Number(part)] : undefined
    else if (isTree(at) && Object.hasOwn(at, part)) at = at[part]
    else return undefined
  }
  return at
}

/** A copy of the tree with the value put at the path; missing objects are made. Throws CONFIG_KEY through a non-object. */
export function withAt(tree: unknown, path: readonly string[], value: unknown): unknown {
  const [head, ...rest] = path
  if (head === undefined) return value
  if (Array.isArray(tree)) {
    if (!/^\d+$/.test(head) || Number(head) >= tree.length) {
      throw new OsError('CONFIG_KEY', `the list has no element ${head}`)
    }
    return tree.map((item, k) => (k === Number(head) ? withAt(item, rest, value) : item))
  }
  if (tree !== undefined && tree !== null && !isTree(tree)) {
    throw new OsError('CONFIG_KEY', `${head} would lie inside a value that is no object`)
  }
  return { ...tree, [head]: withAt(isTree(tree) && Object.hasOwn(tree, head) ? tree[head] : undefined, rest, value) }
}

/** The path as jsonc-parser wants it: numbers where the tree has lists. */
export function textPath(tree: unknown, path: readonly string[]): (string | number)[] {
  let at: unknown = tree
  return path.map(part => {
    const inList = Array.isArray(at)
    at = getAt(at, [part])
    return inList ? Number(part) : part
  })
}

/** Nested sections → the leaves they change. A list is a leaf; an empty object changes nothing. */
export function leaves(value: unknown, path: readonly string[] = []): { path: string[]; value: unknown }[] {
  if (!isTree(value)) return [{ path: [...path], value }]
  return Object.keys(value).flatMap(name => leaves(value[name], [...path, name]))
}

/** True when the key is one of the prefixes or lies below one. Both sides are canonical, so `gatewayX` is not `gateway`. */
export function underPrefix(key: string, prefixes: readonly string[]): boolean {
  const path = splitKey(key)
  return prefixes.some(prefix => {
    const parts = prefix.replace(/\.$/, '').split('.')
    return parts.length <= path.length && parts.every((part, k) => part === path[k])
  })
}
