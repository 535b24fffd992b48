// All verbs, and the functions that run one for another process: over the control socket, HTTP or the terminal UI.
import type { ControlAnswer, ControlRequest } from '../gateway/control'
import { OsError } from '../lib/errors'
import type { CommandContext } from './context'
import { checkOptions, findVerb, parseCommand } from './parse'
import type { AnyVerb, VerbResult } from './verb'
import { backup, restore } from './verbs/backup'
import { boardShow } from './verbs/board'
import { completion } from './verbs/completion'
import { configGet, configSet, configShow, configUnset } from './verbs/config'
import { dbExport } from './verbs/db'
import { decode } from './verbs/decode'
import { demo } from './verbs/demo'
import { doctor } from './verbs/doctor'
import { flash } from './verbs/flash'
import { gpioList, gpioSet } from './verbs/gpio'
import { ensureId, timeSync } from './verbs/identity'
import { dbStatus, idInfo, pipelineInfo, snapshot } from './verbs/info'
import { inject } from './verbs/inject'
import { logExport, logVerify } from './verbs/log'
import { outputsSafe } from './verbs/outputs'
import { pluginTest } from './verbs/plugin-test'
import { deps, envGuard, pluginCmd, pluginList, pluginLoad, portForwarder, webUser } from './verbs/plugins'
import { reload } from './verbs/reload'
import { repairConfig } from './verbs/repair'
import { safeMode } from './verbs/safe-mode'
import { sessionForget } from './verbs/session'
import { core, logLevel } from './verbs/settings'
import { slots, update } from './verbs/slots'
import { sourceList, sourceTest } from './verbs/source'
import { run, serve } from './verbs/start'
import { status } from './verbs/status'
import { token } from './verbs/token'
import { transmit } from './verbs/transmit'
import { reloadProtocol, transporterToggle, transportStatus } from './verbs/transport'
import { tuiBios, tuiInteractive, tuiRender, tuiSections } from './verbs/tui'
import { watch } from './verbs/watch'

export type * from './context'
export { alternativeTo } from './foreign-commands'
export { groupHelp, programHelp, shortHelp, verbHelp } from './help'
export { checkOptions, findVerb, parseCommand } from './parse'
export { commandLine, PROGRAMS } from './program-names'
export * from './verb'

/** In the order of the help. */
export const VERBS: readonly AnyVerb[] = [
  run,
  serve,
  demo,
  status,
  reload,
  safeMode,
  transmit,
  inject,
  decode,
  ensureId,
  timeSync,
  idInfo,
  snapshot,
  pipelineInfo,
  dbStatus,
  dbExport,
  backup,
  restore,
  watch,
  doctor,
  sourceList,
  sourceTest,
  gpioList,
  gpioSet,
  outputsSafe,
  boardShow,
  transportStatus,
  transporterToggle,
  reloadProtocol,
  configGet,
  configSet,
  configUnset,
  configShow,
  repairConfig,
  sessionForget,
  core,
  logLevel,
  logVerify,
  logExport,
  token,
  tuiInteractive,
  tuiBios,
  tuiRender,
  tuiSections,
  pluginList,
  pluginLoad,
  pluginCmd,
  pluginTest,
  update,
  slots,
  flash,
  webUser,
  portForwarder,
  envGuard,
  deps,
  completion(() => VERBS),
]

/** Adds how the command was run to its result. */
export const withVia = (context: CommandContext, { value }: VerbResult<object>): Record<string, unknown> | undefined =>
  value && { ...value, via: context.via }

function named(command: string): AnyVerb {
  const { verb, args } = findVerb(VERBS, command.split(' '))
  if (args.length > 0) throw new OsError('USAGE', `no command ${JSON.stringify(command)}`)
  return verb
}

/**
 * Runs a request inside a gateway; the `run` of `startControl`. Verbs that start a gateway are refused, and no file is
 * read for the caller.
 */
export async function runRequest(context: CommandContext, request: ControlRequest): Promise<ControlAnswer> {
  const { verb, options } = request.argv
    ? parseCommand(VERBS, request.argv)
    : { verb: named(request.command ?? ''), options: undefined }
  if (verb.where === 'local') throw new OsError('USAGE', `${verb.name} does not run inside a gateway`)
  const result = await verb.run(context, options ?? checkOptions(verb, request.options ?? {}))
  const { rows, text, exitCode = 0 } = result
  return { result: withVia(context, result), ...(rows && { rows }), ...(text !== undefined && { text }), exitCode }
}
