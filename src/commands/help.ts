// Help for people, generated from the verbs' schemas, so that it always agrees with the parser.
import { operandWords, optionRows, table } from '../lib/option-help'
import { type AnyVerb, GLOBAL_OPTIONS } from './verb'

export function programHelp(verbs: readonly AnyVerb[], version: string): string {
  return [
    `os-node ${version}: gateway for sensors and buses`,
    '',
    'Usage: os-node COMMAND [OPTIONS]',
    '',
    'Commands:',
    table(verbs.map(verb => [verb.name, verb.summary])),
    '',
    'Options of every command:',
    table([...optionRows(GLOBAL_OPTIONS), ['--version', 'print the version']]),
    '',
    'Examples:',
    '  os-node run                       read the sensors of this machine and serve http://127.0.0.1:8765',
    '  os-node status                    what the running gateway does',
    '  os-node transmit --value 21.5 --unit Cel',
    '  os-node COMMAND --help            options and examples of one command',
    '',
    'Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration, 4 storage, 5 network or device',
    '',
  ].join('\n')
}

/** commands in the short help: those a new user needs first */
const FIRST = ['run', 'status', 'transmit', 'doctor', 'config-get', 'config-set', 'source list', 'db export', 'token']

/** Output of `os-node` without a command. */
export function shortHelp(verbs: readonly AnyVerb[], version: string): string {
  const shown = verbs.filter(verb => FIRST.includes(verb.name))
  return [
    `os-node ${version}: gateway for sensors and buses`,
    '',
    'Usage: os-node COMMAND [OPTIONS]',
    '',
    table(shown.map(verb => [lineOf(verb), verb.summary])),
    '',
    'os-node --help lists every command, os-node COMMAND --help its options',
    '',
  ].join('\n')
}

/** The command with its operands. */
const lineOf = ({ name, operands, options }: AnyVerb): string => [name, ...operandWords(operands, options)].join(' ')

export function verbHelp(verb: AnyVerb): string {
  return [
    `os-node ${verb.name}: ${verb.summary}`,
    '',
    `Usage: os-node ${lineOf(verb)} [OPTIONS]`,
    ...(verb.aliases?.length ? [`Also: ${verb.aliases.join(', ')}`] : []),
    ...(verb.description ? ['', verb.description] : []),
    ...(verb.options ? ['', 'Options:', table(optionRows(verb.options))] : []),
    '',
    'Options of every command:',
    table(optionRows(GLOBAL_OPTIONS)),
    '',
    'Examples:',
    ...verb.examples.map(example => `  ${example}`),
    '',
  ].join('\n')
}

/** Help for a word that several commands begin with (`source --help`, `help log`); null if it is not requested. */
export function groupHelp(verbs: readonly AnyVerb[], argv: readonly string[]): string | null {
  const [first, second] = argv[0] === 'help' ? [argv[1], argv[2] ?? '--help'] : argv
  const group = verbs.filter(verb => verb.name.startsWith(`${first} `))
  if (group.length === 0 || (second !== '--help' && second !== '-h') || verbs.some(verb => verb.name === first))
    return null
  return [
    `Usage: os-node ${first} COMMAND [OPTIONS]`,
    '',
    'Commands:',
    table(group.map(verb => [lineOf(verb), verb.summary])),
    '',
    `os-node ${group[0]!.name} --help: options and examples of one of them`,
    '',
  ].join('\n')
}
