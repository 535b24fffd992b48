// The names this program is installed under. `os-web …` is `os-node web-user …`, and so is any link `os-VERB` to it.
import { basename } from 'node:path'

/** Program → the verb it stands for; null: the verb follows. package.json has the same names in `bin`. */
export const PROGRAMS: Readonly<Record<string, string | null>> = {
  'os-node': null,
  'os-web': 'web-user',
  'os-transmit': 'transmit',
  'os-tui': 'tui',
}

/** The command line as `os-node` would have it; `script` is the path this process was started by. */
export function commandLine(script: string | undefined, argv: readonly string[]): readonly string[] {
  const program = basename(script ?? '').replace(/\.[cm]?js$/, '')
  const verb = Object.hasOwn(PROGRAMS, program) ? PROGRAMS[program] : /^os-(.+)$/.exec(program)?.[1]
  const isHelp = argv[0] === '--help' || argv[0] === '-h' || argv[0] === '--version'
  return verb && argv[0] !== '--version' ? (isHelp ? ['help', verb] : [verb, ...argv]) : argv
}
