// Command line → verb and checked options. Any mistake is USAGE (exit 2) with the probably intended spelling.
import { checkOptions as check, readArguments, usage } from '../lib/arguments'
import type { CommandForm } from '../lib/command-options'
import { nearest } from '../lib/nearest'
import { alternativeTo } from './foreign-commands'
import { type AnyVerb, GLOBAL_OPTIONS, type OptionValues } from './verb'

interface Parsed {
  readonly verb: AnyVerb
  readonly options: OptionValues
  readonly help: boolean
  readonly json: boolean
}

/** Finds the verb at the start of a command line: one word or two ("log verify"). */
export function findVerb(verbs: readonly AnyVerb[], argv: readonly string[]): { verb: AnyVerb; args: string[] } {
  const names = new Map<string, AnyVerb>()
  for (const verb of verbs) for (const name of [verb.name, ...(verb.aliases ?? [])]) names.set(name, verb)
  const [first = '', second = '', third = ''] = argv
  const two = names.get(`${first} ${second}`)
  if (two) return { verb: two, args: argv.slice(2) }
  // `tui --cmd render -- --section db`: the alternative spelling of plugin commands
  const spelled = second === '--cmd' ? names.get(`${first} ${third}`) : undefined
  if (spelled) return { verb: spelled, args: argv.slice(argv[3] === '--' ? 4 : 3) }
  const one = names.get(first)
  const group = [...names.keys()].flatMap(name => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []))
  const stray = second !== '' && !second.startsWith('-') ? JSON.stringify(second) : undefined
  if (one && (group.length === 0 || !stray || one.operands)) return { verb: one, args: argv.slice(1) }
  if (group.length > 0) {
    const meant = nearest(second, group)
    const what = stray ? `has no command ${stray}${meant ? `; did you mean ${meant}? It` : '; it'} ` : ''
    throw usage(`os-node ${first} ${what}needs one of: ${group.join(', ')}`, `see os-node ${first} --help`)
  }
  const instead = alternativeTo(first)
  const meant = instead ? [] : meantBy(first, [...names.keys()])
  const guess = meant.length > 0 ? `; did you mean ${meant.join(' or ')}?` : ''
  throw usage(`no command ${JSON.stringify(first)}${guess}`, instead ?? 'see os-node --help')
}

/**
 * The command with the smallest edit distance, else those that contain the word, or have a word that begins with it or
 * is similar.
 */
function meantBy(word: string, names: readonly string[]): string[] {
  const near = nearest(word, names)
  if (near !== undefined || word.length < 3) return near === undefined ? [] : [near]
  const lower = word.toLowerCase()
  const words = (name: string): string[] => name.split(/[ _-]/)
  const parts = names.filter(name => words(name).some(part => part.startsWith(lower)))
  const [part] = words(lower)
  const begin = names.filter(name => name.startsWith(`${part}-`) || name.startsWith(`${part} `))
  const like = nearest(lower, names.flatMap(words))
  const likely = names.filter(name => like !== undefined && words(name).includes(like))
  return [parts, begin, likely].find(some => some.length > 0)?.slice(0, 3) ?? []
}

const formOf = (verb: AnyVerb): CommandForm => ({
  name: verb.name,
  options: { ...verb.options, ...GLOBAL_OPTIONS },
  ...(verb.operands && { operands: verb.operands }),
})

/** Parses a whole command line. Throws USAGE. */
export function parseCommand(
  verbs: readonly AnyVerb[],
  argv: readonly string[],
  env: Record<string, string | undefined> = {},
): Parsed {
  const { verb, args } = findVerb(verbs, argv)
  for (const word of args) {
    const instead = alternativeTo(`${verb.name} ${word}`)
    if (instead) throw usage(`os-node ${verb.name} has no option ${word}`, instead)
  }
  const values = verb.read ? verb.read(args) : readArguments(formOf(verb), args)
  const json = values.json === true
  if (values.help === true) return { verb, options: {}, help: true, json }
  return { verb, options: checkOptions(verb, values, env), help: false, json }
}

/** Checks values (texts of a command line, or JSON) against a verb's options; fills in environment and defaults. */
export const checkOptions = (
  verb: AnyVerb,
  values: Record<string, unknown>,
  env: Record<string, string | undefined> = {},
): OptionValues => check(formOf(verb), values, env)
