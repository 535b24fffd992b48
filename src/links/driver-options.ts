// Options of a driver come from Config.json as they were typed. They are checked against the driver's schema before
// anything is opened; what is wrong is reported with its key, all of it at once.
import { type BaseIssue, type GenericSchema, safeParse } from 'valibot'
import { nearest, removeAt } from '../config'
import { OsError } from '../lib/errors'

export interface UnknownOption {
  readonly path: readonly (string | number)[]
  /** what is wrong with it */
  readonly text: string
}

/** An option that no schema knows, as a strict object says it. */
const isUnknown = ({ type, expected }: BaseIssue<unknown>): boolean => type === 'strict_object' && expected === 'never'

const pathOf = ({ path }: BaseIssue<unknown>): (string | number)[] =>
  ((path ?? []) as readonly { key?: unknown }[]).map(({ key }) => key as string | number)

/** What every source takes, whatever its driver. */
export const COMMON: readonly string[] = ['name', 'type', 'deadband']

/** An option that there is not, and the one that was probably meant, else those that there are. */
export function noSuchOption(typed: string, names: readonly string[]): string {
  const meant = nearest(typed, names) ?? names.find(name => name.startsWith(`${typed}_`))
  return `no such option; ${meant ? `did you mean ${meant}?` : `there are ${names.join(', ')}`}`
}

/** As wordsOf; of an option of the entry itself also `common` names were possible. */
function saidOf(schema: GenericSchema, issue: BaseIssue<unknown>, common: readonly string[]): string {
  const { entries } = schema as { entries?: object }
  const [key, ...below] = pathOf(issue)
  if (!isUnknown(issue) || below.length > 0 || !entries) return wordsOf(issue)
  return noSuchOption(String(key), [...common, ...Object.keys(entries)])
}

/** A copy of `raw` without the options that the schema does not know, and these; `common` are those of the entry besides. */
export function knownOptions<T extends object>(
  schema: GenericSchema,
  raw: T,
  common: readonly string[] = [],
): { options: T; unknown: UnknownOption[] } {
  const options = structuredClone(raw)
  const unknown: UnknownOption[] = []
  // a strict object says one key at a time
  while (unknown.length < MOST_UNKNOWN) {
    const found = (safeParse(schema, options).issues ?? []).filter(isUnknown)
    if (!found.some(issue => removeAt(options as Record<string, unknown>, pathOf(issue)))) break
    unknown.push(...found.map(issue => ({ path: pathOf(issue), text: saidOf(schema, issue, common) })))
  }
  return { options, unknown }
}

const MOST_UNKNOWN = 100

/**
 * `raw` with the schema's defaults, or CONFIG_INVALID naming link and keys; UNKNOWN_KEY where a key is unknown, whatever else
 * is wrong. `details.keys` lists the keys, `details.unknown` those of them that are unknown.
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

/** The library's own messages begin so; a schema's are in our words already. */
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

/** What is wrong with an option, without showing a value that may be a secret. */
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

/** The host of a peer. Throws CONFIG_INVALID where it or the port is missing. */
export function peerHost(name: string, { host, port }: { host?: string | undefined; port: number }): string {
  if (host && port !== 0) return host
  throw new OsError('CONFIG_INVALID', `options of ${name}: host and port of the peer are needed`, {
    details: { link: name, keys: [port === 0 ? 'port' : 'host'] },
  })
}
