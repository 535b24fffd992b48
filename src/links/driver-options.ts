// Checks a driver's options from Config.json against the driver's schema before anything is opened; all faults are
// reported together, each with its key.
import { type BaseIssue, type GenericSchema, safeParse } from 'valibot'
import { nearest, removeAt } from '../config'
import { OsError } from '../lib/errors'

export interface UnknownOption {
  readonly path: readonly (string | number)[]
  /** the fault */
  readonly text: string
}

/** True for an unknown option in the issue of a strict object. */
const isUnknown = ({ type, expected }: BaseIssue<unknown>): boolean => type === 'strict_object' && expected === 'never'

const pathOf = ({ path }: BaseIssue<unknown>): (string | number)[] =>
  ((path ?? []) as readonly { key?: unknown }[]).map(({ key }) => key as string | number)

/** Options that every source has, whatever its driver. */
export const COMMON: readonly string[] = ['name', 'type', 'deadband']

/** The message for an unknown option: the probably intended one, else the existing ones. */
export function noSuchOption(typed: string, names: readonly string[]): string {
  const meant = nearest(typed, names) ?? names.find(name => name.startsWith(`${typed}_`))
  return `no such option; ${meant ? `did you mean ${meant}?` : `there are ${names.join(', ')}`}`
}

/** Like wordsOf; for an option of the entry itself the `common` names are known too. */
function saidOf(schema: GenericSchema, issue: BaseIssue<unknown>, common: readonly string[]): string {
  const { entries } = schema as { entries?: object }
  const [key, ...below] = pathOf(issue)
  if (!isUnknown(issue) || below.length > 0 || !entries) return wordsOf(issue)
  return noSuchOption(String(key), [...common, ...Object.keys(entries)])
}

/** Splits a copy of `raw` into known and unknown options; `common` are the entry's other known options. */
export function knownOptions<T extends object>(
  schema: GenericSchema,
  raw: T,
  common: readonly string[] = [],
): { options: T; unknown: UnknownOption[] } {
  const options = structuredClone(raw)
  const unknown: UnknownOption[] = []
  // a strict object reports one key at a time
  while (unknown.length < MOST_UNKNOWN) {
    const found = (safeParse(schema, options).issues ?? []).filter(isUnknown)
    if (!found.some(issue => removeAt(options as Record<string, unknown>, pathOf(issue)))) break
    unknown.push(...found.map(issue => ({ path: pathOf(issue), text: saidOf(schema, issue, common) })))
  }
  return { options, unknown }
}

const MOST_UNKNOWN = 100

/**
 * `raw` with the schema's defaults, or CONFIG_INVALID with link and keys; UNKNOWN_KEY if a key is unknown, whatever
 * other faults exist. `details.keys` lists the keys, `details.unknown` the unknown ones among them.
 */
export function checkOptions<Options>(
  schema: GenericSchema<unknown, Options>,
  raw: unknown,
  link: string,
  common: readonly string[] = [],
): Options {
  const result = safeParse(schema, raw ?? {})
  if (result.success) return result.output
  const keys: string[] = []
  const unknown: string[] = []
  const texts = result.issues.map(issue => {
    const key = pathOf(issue).join('.')
    keys.push(key)
    if (isUnknown(issue)) unknown.push(key)
    const words = saidOf(schema, issue, common)
    return key === '' ? words : `${key}: ${words}`
  })
  throw new OsError(unknown.length > 0 ? 'UNKNOWN_KEY' : 'CONFIG_INVALID', `options of ${link}: ${texts.join('; ')}`, {
    details: { link, keys, ...(unknown.length > 0 && { unknown }) },
  })
}

/** Prefix of the library's own messages; a schema's messages are ours already. */
const FOREIGN = /^Invalid /
const TYPES: Readonly<Record<string, string>> = {
  number: 'a number',
  integer: 'a whole number',
  finite: 'a number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

/** The fault of an option, without its value, which may be a secret. */
function wordsOf({ type, message, input, expected, requirement }: BaseIssue<unknown>): string {
  if (!FOREIGN.test(message)) return message
  if (input === undefined) return 'is required'
  const what = TYPES[type]
  if (what !== undefined) return `must be ${what}`
  if (type === 'min_value') return `must be at least ${requirement}`
  if (type === 'gt_value') return `must be more than ${requirement}`
  if (type === 'max_value') return `must be at most ${requirement}`
  if (type === 'min_length') return requirement === 1 ? 'must not be empty' : `must not be shorter than ${requirement}`
  if (type === 'max_length') return `must not be longer than ${requirement}`
  const choices = (expected ?? '').replace(/^\(|\)$/g, '').split(' | ')
  if (type !== 'picklist') return `must be ${choices.join(' or ')}`
  const names = choices.map(choice => choice.replaceAll('"', ''))
  const meant = typeof input === 'string' ? nearest(input, names) : undefined
  return `must be ${names.length > 1 ? 'one of ' : ''}${names.join(', ')}${meant ? `; did you mean ${meant}?` : ''}`
}

/** The host of a peer. Throws CONFIG_INVALID if it or the port is missing. */
export function peerHost(name: string, { host, port }: { host?: string | undefined; port: number }): string {
  if (host && port !== 0) return host
  throw new OsError('CONFIG_INVALID', `options of ${name}: host and port of the peer are needed`, {
    details: { link: name, keys: [port === 0 ? 'port' : 'host'] },
  })
}
