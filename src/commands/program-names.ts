// The names under which this program is installed. `os-web …` is `os-node web-user …`, and the same applies to any link
// `os-VERB` to it.
import { basename } from 'node:path'

/** Program → its verb; null: the verb is the first argument. package.json has the same names in `bin`. */
export const PROGRAMS: Readonly<Record<string, string | null>> = {
  'os-node': null,
  'os-web': 'web-user',
  'os-transmit': 'transmit',
  'os-tui': 'tui',
}

/** The command line in the form of `os-node`; `script` is the path by which this process was started. */
export function commandLine(script: string | undefined, argv: readonly string[]): readonly string[] {
  const program = basename(script ?? '').replace(/\.[cm]?js$/, '')
  const verb = Object.hasOwn(PROGRAMS, program) ? PROGRAMS[program] : /^os-(.+)$/.exec(program)?.[1]
  const isHelp = argv[0] === '--help' || argv[0] === '-h' || argv[0] === '--version'
  return verb && argv[0] !== '--version' ? (isHelp ? ['help', verb] : [verb, ...argv]) : argv
}
