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

/** A copy of `raw` without the options that the schema does not know, and these. */
export function knownOptions<T extends object>(
  schema: GenericSchema,
  raw: T,
): { options: T; unknown: UnknownOption[] } {
  const options = structuredClone(raw)
  const unknown: UnknownOption[] = []
  // a strict object says one key at a time
  while (unknown.length < MOST_UNKNOWN) {
    const found = (safeParse(schema, options).issues ?? []).filter(isUnknown)
    if (!found.some(issue => removeAt(options as Record<string, unknown>, pathOf(issue)))) break
    unknown.push(...found.map(issue => ({ path: pathOf(issue), text: wordsOf(issue) })))
  }
  return { options, unknown }
}

const MOST_UNKNOWN = 100

/** `raw` with the schema's defaults, or CONFIG_INVALID (UNKNOWN_KEY where that is all) naming link and keys. `details.keys` lists the keys. */
export function checkOptions<Options>(schema: GenericSchema<unknown, Options>, raw: unknown, link: string): Options {
  const result = safeParse(schema, raw ?? {})
  if (result.success) return result.output
  const keys: string[] = []
  const unknown = result.issues.every(isUnknown)
  const texts = result.issues.map(issue => {
    const key = pathOf(issue).join('.')
    keys.push(key)
    const words = wordsOf(issue)
    return key === '' ? words : `${key}: ${words}`
  })
  throw new OsError(unknown ? 'UNKNOWN_KEY' : 'CONFIG_INVALID', `options of ${link}: ${texts.join('; ')}`, {
    details: { link, keys },
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
  if (input === undefined) return 'must be given'
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
