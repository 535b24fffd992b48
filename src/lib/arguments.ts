// Command line → checked options, for commands and for the commands of plugins. Any mistake is USAGE (exit 2) with the
// probably intended spelling. The same check is used for JSON options over the control socket or HTTP.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { CommandForm, OptionSpec, OptionValues } from './command-options'
import { OsError } from './errors'
import { nearest } from './nearest'

/** A mistake on the command line. */
export const usage = (text: string, hint?: string): OsError => new OsError('USAGE', text, hint ? { hint } : {})
const helpHint = (form: CommandForm): string => `see os-node ${form.name} --help`

const NUMBER = '\0'
const unmarked = (word: unknown): unknown => {
  if (Array.isArray(word)) return word.map(unmarked)
  return typeof word === 'string' && word.startsWith(NUMBER) ? word.slice(1) : word
}

/** Values by option name, not checked yet. */
type RawOptions = Record<string, unknown>

/** Splits a command line. Throws USAGE for unknown options and extra words. */
export function readArguments(form: CommandForm, argv: readonly string[]): RawOptions {
  const { name, options, operands = [] } = form
  const hint = helpHint(form)
  // a negative number is no option
  const marked = argv.map(word => (/^-[\d.]/.test(word) ? NUMBER + word : word))
  const config: ParseArgsConfig = {
    args: marked,
    options: Object.fromEntries(
      Object.entries(options).map(([option, spec]) => [
        option,
        {
          type: spec.type === 'boolean' ? ('boolean' as const) : ('string' as const),
          ...(spec.type === 'list' && { multiple: true }),
          ...(option === 'help' && { short: 'h' }),
        },
      ]),
    ),
    // not strict: so that `--value -5` is a number and all error messages are ours
    strict: false,
    allowPositionals: true,
    tokens: true,
  }
  const { values: parsed, positionals: words, tokens = [] } = parseArgs(config)
  const positionals = words.map(unmarked)
  const values: RawOptions = Object.fromEntries(Object.entries(parsed).map(([name, value]) => [name, unmarked(value)]))
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const spec = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (!spec) {
      const meant = nearest(token.name, Object.keys(options))
      throw usage(`os-node ${name} has no option ${token.rawName}${meant ? `; did you mean --${meant}?` : ''}`, hint)
    }
    if (spec.type === 'boolean' && token.value !== undefined) throw usage(`${token.rawName} takes no value`, hint)
    if (
      spec.type !== 'boolean' &&
      (token.value === undefined || (!token.inlineValue && token.value.startsWith('--')))
    ) {
      throw usage(`${token.rawName} needs a value (${spec.value ?? spec.type.toUpperCase()})`, hint)
    }
  }
  if (values.help === true) return values
  const free = operands.filter(operand => values[operand] === undefined)
  const last = free.at(-1)
  // a list as the last operand takes all remaining words
  if (last !== undefined && options[last]?.type === 'list' && positionals.length >= free.length)
    values[last] = positionals.splice(free.length - 1)
  const [extra] = positionals.splice(free.length)
  if (extra !== undefined) throw usage(`os-node ${name} does not take ${JSON.stringify(extra)}`, hint)
  for (const [k, value] of positionals.entries()) values[free[k]!] = value
  return values
}

/** Checks values (texts of a command line, or JSON) against the options; fills in environment and defaults. */
export function checkOptions(
  form: CommandForm,
  values: RawOptions,
  env: Record<string, string | undefined> = {},
): OptionValues {
  const { name: command, options, operands } = form
  const hint = helpHint(form)
  const out: OptionValues = {}
  for (const name of Object.keys(values)) {
    if (!Object.hasOwn(options, name)) throw usage(`os-node ${command} has no option --${name}`, hint)
  }
  for (const [name, spec] of Object.entries(options)) {
    const fromEnv = spec.env ? env[spec.env] : undefined
    const raw = Object.hasOwn(values, name) && values[name] !== undefined ? values[name] : fromEnv || spec.default
    if (raw === undefined) {
      const what = operands?.includes(name) ? (spec.value ?? name) : `--${name} ${spec.value ?? ''}`
      if (spec.required) throw usage(`os-node ${command} needs ${what}`.trim(), hint)
      continue
    }
    out[name] = one(name, spec, raw, hint)
  }
  return out
}

function one(name: string, spec: OptionSpec, raw: unknown, hint: string): string | number | boolean | string[] {
  const wrong = (what: string): OsError => usage(`--${name} must be ${what}, not ${JSON.stringify(raw)}`, hint)
  if (spec.type === 'boolean') {
    if (typeof raw !== 'boolean') throw wrong('true or false')
    return raw
  }
  if (spec.type === 'list') {
    const items = typeof raw === 'string' ? [raw] : raw
    if (!Array.isArray(items) || !items.every(item => typeof item === 'string')) throw wrong('a list of texts')
    return items
  }
  if (spec.type === 'string') {
    if (typeof raw !== 'string') throw wrong('a text')
    if (spec.choices && !spec.choices.includes(raw)) throw wrong(`one of ${spec.choices.join(', ')}`)
    return raw
  }
  const n = typeof raw === 'number' ? raw : typeof raw === 'string' && raw.trim() !== '' ? Number(raw) : Number.NaN
  const whole = spec.type === 'integer'
  const { min = -Infinity, max = Infinity } = spec
  if (!Number.isFinite(n) || (whole && !Number.isSafeInteger(n)) || n < min || n > max) {
    const range = spec.max !== undefined ? ` ${min}–${max}` : spec.min !== undefined ? ` of at least ${min}` : ''
    throw wrong(`a ${whole ? 'whole ' : ''}number${range}`)
  }
  return n
}
