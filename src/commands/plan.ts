// What a command line requests, before it is executed: a verb with its options, help, or the reason why it cannot run
// here.
import { asOsError, OsError } from '../lib/errors'
import { programHelp, verbHelp } from './help'
import { parseCommand } from './parse'
import type { AnyVerb, OptionValues } from './verb'

export interface CommandPlan {
  readonly verb: AnyVerb | null
  readonly options: OptionValues
  readonly json: boolean
  /** text for --help, or why it cannot run */
  readonly help?: string
  readonly problem?: OsError
}

/** Never throws. */
export function planOf(verbs: readonly AnyVerb[], version: string, argv: readonly string[]): CommandPlan {
  const nothing = { verb: null, options: {}, json: argv.includes('--json') }
  if (argv[0] === 'help' && argv.length === 1) return { ...nothing, help: programHelp(verbs, version) }
  try {
    const { verb, options, help, json } = parseCommand(verbs, argv[0] === 'help' ? [...argv.slice(1), '--help'] : argv)
    if (help) return { ...nothing, help: verbHelp(verb) }
    if (verb.where !== 'local') return { verb, options, json }
    return { ...nothing, problem: new OsError('USAGE', `${verb.name} does not run inside a gateway`) }
  } catch (thrown) {
    return { ...nothing, problem: asOsError(thrown) }
  }
}
