// Command line → verb and checked options. Anything wrong is USAGE (exit 2) and says what was probably meant. The same check
// serves options that come as JSON over the control socket or HTTP.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearest } from '../config'
import { OsError } from '../lib/errors'
import { GLOBAL_OPTIONS, type OptionSpec, type OptionValues, type Verb } from './verb'

export interface Parsed {
  readonly verb: Verb
  readonly options: OptionValues
  readonly help: boolean
  readonly json: boolean
}

const usage = (text: string, hint?: string): OsError => new OsError('USAGE', text, hint ? { hint } : {})

/** Finds the verb in front of a command line: one word or two ("log verify"). */
export function findVerb(verbs: readonly Verb[], argv: readonly string[]): { verb: Verb; rest: string[] } {
  const names = new Map<string, Verb>()
  for (const verb of verbs) for (const name of [verb.name, ...(verb.aliases ?? [])]) names.set(name, verb)
  const [first = '', second = ''] = argv
  const two = names.get(`${first} ${second}`)
  if (two) return { verb: two, rest: argv.slice(2) }
  const one = names.get(first)
  if (one) return { verb: one, rest: argv.slice(1) }
  const group = [...names.keys()].filter(name => name.startsWith(`${first} `))
  if (group.length > 0)
    throw usage(
      `os-node ${first} needs one of: ${group.map(name => name.split(' ')[1]).join(', ')}`,
      `see os-node ${first} --help`,
    )
  const meant = nearest(first, names.keys())
  throw usage(`no command ${JSON.stringify(first)}${meant ? `; did you mean ${meant}?` : ''}`, 'see os-node --help')
}

/** Parses a whole command line. Throws USAGE. */
export function parseCommand(
  verbs: readonly Verb[],
  argv: readonly string[],
  env: Record<string, string | undefined> = {},
): Parsed {
  const { verb, rest } = findVerb(verbs, argv)
  const specs = { ...verb.options, ...GLOBAL_OPTIONS }
  const hint = `see os-node ${verb.name} --help`
  const config: ParseArgsConfig = {
    args: rest,
    options: Object.fromEntries(
      Object.entries(specs).map(([name, spec]) => [
        name,
        {
          type: spec.type === 'boolean' ? ('boolean' as const) : ('string' as const),
          ...(name === 'help' && { short: 'h' }),
        },
      ]),
    ),
    // not strict: so that `--value -5` is a number and every complaint is ours
    strict: false,
    allowPositionals: true,
    tokens: true,
  }
  const { values, positionals, tokens = [] } = parseArgs(config)
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined
    if (!spec) {
      const meant = nearest(token.name, Object.keys(specs))
      throw usage(
        `os-node ${verb.name} has no option ${token.rawName}${meant ? `; did you mean --${meant}?` : ''}`,
        hint,
      )
    }
    if (spec.type === 'boolean' && token.value !== undefined) throw usage(`${token.rawName} takes no value`, hint)
    if (
      spec.type !== 'boolean' &&
      (token.value === undefined || (!token.inlineValue && token.value.startsWith('--')))
    ) {
      throw usage(`${token.rawName} needs a value (${spec.value ?? spec.type.toUpperCase()})`, hint)
    }
  }
  if (values.help === true) return { verb, options: {}, help: true, json: values.json === true }
  const operands = (verb.operands ?? []).filter(name => values[name] === undefined)
  const [extra] = positionals.splice(operands.length)
  if (extra !== undefined) throw usage(`os-node ${verb.name} does not take ${JSON.stringify(extra)}`, hint)
  for (const [k, value] of positionals.entries()) values[operands[k]!] = value
  return { verb, options: checkOptions(verb, values, env), help: false, json: values.json === true }
}

/** Checks values (texts of a command line, or JSON) against a verb's options; fills in environment and defaults. */
export function checkOptions(
  verb: Verb,
  given: Record<string, unknown>,
  env: Record<string, string | undefined> = {},
): OptionValues {
  const hint = `see os-node ${verb.name} --help`
  const specs: Record<string, OptionSpec> = { ...verb.options, ...GLOBAL_OPTIONS }
  const out: OptionValues = {}
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(specs, name)) throw usage(`os-node ${verb.name} has no option --${name}`, hint)
  }
  for (const [name, spec] of Object.entries(specs)) {
    const fromEnv = spec.env ? env[spec.env] : undefined
    const raw = Object.hasOwn(given, name) && given[name] !== undefined ? given[name] : fromEnv || spec.default
    if (raw === undefined) {
      const what = verb.operands?.includes(name) ? (spec.value ?? name) : `--${name} ${spec.value ?? ''}`
      if (spec.required) throw usage(`os-node ${verb.name} needs ${what}`.trim(), hint)
      continue
    }
    out[name] = one(name, spec, raw, hint)
  }
  return out
}

function one(name: string, spec: OptionSpec, raw: unknown, hint: string): string | number | boolean {
  const wrong = (what: string): OsError => usage(`--${name} must be ${what}, not ${JSON.stringify(raw)}`, hint)
  if (spec.type === 'boolean') {
    if (typeof raw !== 'boolean') throw wrong('true or false')
    return raw
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
