// Dotted keys: `gateway.uplinks.0.port`, also written `gateway.uplinks[0].port`. A key is canonical or refused: no
// empty part, no blanks, no control characters, and no name that reaches an object's prototype (S8). All code that
// compares or follows keys uses this.

import { OsError } from '../lib/errors'
import { isObject } from '../lib/objects'

export { nearest } from '../lib/nearest'

export type Tree = Record<string, unknown>

/** Names that reach an object's prototype. */
export const FORBIDDEN: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

/** True for a name that is allowed as a key. */
export const safeName = (name: string): boolean =>
  name.length > 0 && name.length <= 200 && !FORBIDDEN.has(name) && !/[\s\x00-\x1f\x7f]/.test(name)

/** The parts of a dotted key. Throws CONFIG_KEY if it is not canonical, BAD_ARGUMENT if it is not a text. */
export function splitKey(key: string): string[] {
  if (typeof key !== 'string') throw new OsError('BAD_ARGUMENT', 'key is a text such as gateway.log_level')
  const parts = key.replace(/(?<=.)\[(\d{1,9})\](?=[.[]|$)/g, '.$1').split('.')
  if (parts.length > 32 || !parts.every(safeName)) {
    throw new OsError('CONFIG_KEY', `${JSON.stringify(key)} is not a configuration key`, { details: { key } })
  }
  return parts
}

const pathsOfKeys = new Map<string, readonly string[]>()

/** splitKey() that keeps the parts of the first 500 keys, since some are read with each packet. */
export function pathOf(key: string): readonly string[] {
  const known = pathsOfKeys.get(key)
  if (known) return known
  const path = splitKey(key)
  if (pathsOfKeys.size < 500) pathsOfKeys.set(key, path)
  return path
}

export const joinKey = (path: readonly (string | number)[]): string => path.join('.')

/** Throws CONFIG_KEY when a value from outside contains a forbidden name at any depth. */
export function refuseForbidden(value: unknown, at = '', depth = 0): void {
  if (depth > 64) throw new OsError('CONFIG_INVALID', `${at} is nested too deeply`, { details: { key: at } })
  if (Array.isArray(value)) {
    for (const [k, item] of value.entries()) refuseForbidden(item, at ? `${at}.${k}` : String(k), depth + 1)
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      const key = at ? `${at}.${name}` : name
      if (FORBIDDEN.has(name)) {
        throw new OsError('CONFIG_KEY', `${JSON.stringify(key)} is not a configuration key`, { details: { key } })
      }
      refuseForbidden(value[name], key, depth + 1)
    }
  }
}

/** The value at a path, or undefined. Only own keys are followed. */
export function getAt(tree: unknown, path: readonly (string | number)[]): unknown {
  let at: unknown = tree
  for (const part of path) {
    if (Array.isArray(at)) at = /^\d+$/.test(String(part)) ? at[Number(part)] : undefined
    else if (isObject(at) && Object.hasOwn(at, part)) at = at[part]
    else return undefined
  }
  return at
}

/** The index of a list element: an existing one, or the one after the last. Throws CONFIG_KEY. */
function elementAt(list: readonly unknown[], part: string, most: number, path: readonly string[]): number {
  if (/^\d{1,9}$/.test(part) && Number(part) <= most) return Number(part)
  const last = list.length === 0 ? 'is empty' : `has the elements 0 to ${list.length - 1}`
  const append = most === list.length ? `; ${list.length} appends one` : ''
  throw new OsError('CONFIG_KEY', `${joinKey(path)}: the list ${last}${append}`, { details: { key: joinKey(path) } })
}

/**
 * Sets a value at a path of a tree, in place. Missing sections are created, a new element is appended at the end of a
 * list. Throws CONFIG_KEY for a path through a plain value, or beyond the end of a list.
 */
export function putAt(tree: Tree, path: readonly string[], value: unknown): void {
  let at: unknown = tree
  path.forEach((part, k) => {
    const last = k === path.length - 1
    const made = last ? value : {}
    if (Array.isArray(at)) {
      const n = elementAt(at, part, at.length, path)
      if (last || n === at.length) at[n] = made
      at = at[n]
    } else if (isObject(at)) {
      if (last || !Object.hasOwn(at, part) || at[part] === null) at[part] = made
      at = at[part]
    } else throw new OsError('CONFIG_KEY', `${joinKey(path)}: ${part} would be inside a value that is not an object`)
  })
}

/** Removes the value at a path, in place. False if there was none. */
export function removeAt(tree: Tree, path: readonly (string | number)[]): boolean {
  const around = getAt(tree, path.slice(0, -1))
  const last = String(path.at(-1))
  if (getAt(around, [last]) === undefined) return false
  if (Array.isArray(around)) around.splice(Number(last), 1)
  else delete (around as Tree)[last]
  return true
}

/** Nested sections → the leaves they change. A list is a leaf; an empty object changes nothing. */
export function leaves(value: unknown, path: readonly string[] = []): { path: string[]; value: unknown }[] {
  if (!isObject(value)) return [{ path: [...path], value }]
  return Object.keys(value).flatMap(name => leaves(value[name], [...path, name]))
}

/** True when the key is one of the prefixes or below one. Both sides are canonical, so `gatewayX` is not `gateway`. */
export function underPrefix(key: string, prefixes: readonly string[]): boolean {
  const path = splitKey(key)
  return prefixes.some(prefix => {
    const parts = prefix.replace(/\.$/, '').split('.')
    return parts.length <= path.length && parts.every((part, k) => part === path[k])
  })
}

/** Deep equality of two JSON values; the order of keys does not matter. */
export function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b) || (a === 0 && b === 0)) return true
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, k) => same(item, b[k]))
  if (!isObject(a) || !isObject(b)) return false
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => Object.hasOwn(b, name) && same(a[name], b[name]))
}
