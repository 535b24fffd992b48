// Checks arguments of the library's public methods: a caller's mistake throws BAD_ARGUMENT with the argument's name,
// before any other code uses it. One table per class describes the arguments: `serverPort port`, with `?` if null and
// undefined are allowed too, with `~` if only undefined is. A method that returns a promise rejects.

import { OsError } from './errors'
import { nearest } from './nearest'
import { isObject as isJsonObject } from './objects'

const isObject = (value: unknown): boolean => isJsonObject(value) && !ArrayBuffer.isView(value)
const isWhole = (value: unknown, max: number): boolean => Number.isInteger(value) && Number(value) <= max

const KINDS: Readonly<Record<string, readonly [what: string, holds: (value: unknown) => boolean]>> = {
  text: ['a text', value => typeof value === 'string'],
  bytes: ['a Uint8Array', value => value instanceof Uint8Array],
  packet: ['a Uint8Array or a text', value => typeof value === 'string' || value instanceof Uint8Array],
  list: ['a list', Array.isArray],
  object: ['an object', isObject],
  item: ['a list or an object', value => Array.isArray(value) || isObject(value)],
  function: ['a function', value => typeof value === 'function'],
  boolean: ['true or false', value => typeof value === 'boolean'],
  number: ['a number', value => typeof value === 'number' && !Number.isNaN(value)],
  // numeric texts and NaN are accepted, as in the reference
  numeric: ['a number or a text', value => ['number', 'bigint', 'string'].includes(typeof value)],
  whole: ['a whole number', value => Number.isInteger(value) || typeof value === 'bigint'],
  node: ['a Node', value => isObject(value) && isObject((value as { serviceManager?: unknown }).serviceManager)],
  refused: [
    'a refused frame',
    value => ['aid', 'tid', 'ts', 'crc16'].every(key => Number.isInteger(Object(value)[key])),
  ],
  medium: ['a medium', value => typeof Object(value).name === 'string'],
  sender: ['an id or a text', value => Number.isInteger(value) || typeof value === 'string'],
  seconds: ['a number of seconds', value => typeof value === 'number' && value >= 0],
  count: ['a whole number 0–65535', value => isWhole(value, 65_535) && Number(value) >= 0],
  id: ['an id 0–4294967295', value => isWhole(value, 4_294_967_295) && Number(value) >= 0],
  port: ['a port 0–65535', value => isWhole(value, 65_535) && Number(value) >= 0],
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}

type Check = (where: string, value: unknown) => void

/** `configPath text?` as a function, so that a specification is parsed once and not at every call. */
function checkOf(spec: string): Check {
  const [name = '', kind = ''] = spec.split(' ')
  const [what, holds] = KINDS[kind.replace(/[?~]$/, '')]!
  const [mayLack, mayBeNull] = [/[?~]$/.test(kind), kind.endsWith('?')]
  return (where, value) => {
    if ((mayLack && value === undefined) || (mayBeNull && value === null)) return
    if (!holds(value)) throw badArgument(where, name, what, value)
  }
}

/** `configPath text?, name text?`: one check per argument. */
const checksOf = (specs: string): Check[] => specs.split(', ').map(checkOf)

/** Throws BAD_ARGUMENT if `value` does not match `spec`, such as `configPath text?`. `where`: the function. */
export const checkArgument = (where: string, spec: string, value: unknown): void => checkOf(spec)(where, value)

type Words<Text extends string> = Text extends `${infer First} ${infer Tail}` ? First | Words<Tail> : Text
type Missing<All, Some> = Exclude<All | Some, All & Some>

/** The option names of `T`, for a constructor. A missing or extra name does not compile. */
export const namesOf =
  <T>() =>
  <Text extends string>(
    ...names: [Missing<keyof T, Words<Text>>] extends [never] ? readonly Text[] : never
  ): readonly string[] =>
    names.join(' ').split(' ')

/** Throws BAD_ARGUMENT for the first option that is not in `names`, with the probably intended one. */
export function checkNames(where: string, options: object, names: readonly string[], what = 'options'): void {
  checkArgument(where, `${what} object~`, options)
  const unknown = Object.keys(options).find(name => !names.includes(name))
  if (unknown === undefined) return
  const meant = nearest(unknown, names)
  const hint = meant ? `did you mean ${meant}?` : `there are ${names.join(', ')}`
  throw new OsError('BAD_ARGUMENT', `${where}: no option is named ${shown(unknown)}; ${hint}`, {
    details: { argument: unknown },
  })
}

export const badArgument = (where: string, name: string, what: string, value: unknown): OsError =>
  new OsError('BAD_ARGUMENT', `${where}: ${name} must be ${what}, not ${shown(value)}`, { details: { argument: name } })

type Call = (...args: unknown[]) => unknown

/** Wraps functions with a check: name → the function, and its arguments in order. */
export const checkFunctions = <Functions extends object>(
  table: {
    readonly [Name in keyof Functions]: readonly [call: Functions[Name], specs: string]
  },
): Functions =>
  Object.fromEntries(
    Object.entries<readonly [Call, string]>(table as never).map(([name, [call, specs]]) => {
      const checks = checksOf(specs)
      const checked = (...args: unknown[]): unknown => {
        for (const [k, check] of checks.entries()) check(name, args[k])
        return call(...args)
      }
      return [name, readsAs(checked, call, call.name)]
    }),
  ) as Functions

/** Copies name, length and source text of the wrapped function, which show its parameters. */
const readsAs = (checked: object, original: Call, name: string): object =>
  Object.defineProperties(checked, {
    name: { value: name },
    length: { value: original.length },
    toString: { value: () => original.toString() },
  })

/** Adds a check to methods of a class: method → its arguments in order. */
export function checkMethods(type: { prototype: object }, name: string, table: Record<string, string>): void {
  const methods = type.prototype as Record<string, Call>
  for (const [method, specs] of Object.entries(table)) {
    const original = methods[method]!
    const rejects = original.constructor.name === 'AsyncFunction'
    const where = `${name}.${method}`
    const checks = checksOf(specs)
    // fast path: a gateway calls IdAllocator.touch for every packet
    const checked = function (this: unknown, ...args: unknown[]): unknown {
      try {
        for (let k = 0; k < checks.length; k++) checks[k]!(where, args[k])
      } catch (error) {
        if (rejects) return Promise.reject(error)
        throw error
      }
      return original.apply(this, args)
    }
    const value = readsAs(checked, original, method)
    Object.defineProperty(methods, method, { value, writable: true, configurable: true })
  }
}
