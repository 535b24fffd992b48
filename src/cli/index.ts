// The command line: parses, finds the running gateway of the data directory, runs the command there or here, prints.
// stdout gets only the result; logs and hints go to stderr. Every error ends with the exit code of the errors table.
import { readFileSync } from 'node:fs'
import { isUnfinished } from '../backup/restore-progress'
import {
  type AnyVerb,
  alternativeTo,
  type CommandContext,
  failureOf,
  groupHelp,
  holds,
  type OptionValues,
  parseCommand,
  programHelp,
  resultText,
  shortHelp,
  VERBS,
  type VerbResult,
  verbHelp,
  withVia,
} from '../commands'
import { inUpdateFile } from '../commands/update-file'
import { ConfigStore, type Fragment } from '../config'
import { findConfig } from '../config/find'
import { acquireLock, type DataLock } from '../gateway/lock'
import { asOsError, errorJson, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { createLogger, type Logger } from '../lib/logger'
import { progressBar } from '../lib/progress'
import { mapStacks } from '../lib/stacks'
import { unpackInto } from '../native'
import { bytesText } from '../units/display'
import { ask, type GatewayAnswer, waitForGateway } from './client'
import { errorText, type Out, paintFor, ReaderLeft, watchReader, writeLine } from './output'
import { actAsOwner } from './owner'
import { readSecret } from './secret'

/** What main needs to make a context for a command that runs in this process. */
export interface LocalSetup {
  readonly verb: AnyVerb
  readonly config: ConfigStore
  readonly logger: Logger
  readonly signal: AbortSignal
  /** held for commands that change files; a command that starts a gateway takes its own lock */
  readonly lock?: DataLock
  print(value: Record<string, unknown>, text: string): void
}

export interface CliDeps {
  readonly version: string
  readonly env: Record<string, string | undefined>
  readonly cwd: string
  readonly stdout: Out
  readonly stderr: Out
  readonly signal: AbortSignal
  /** prefix of each log line, to distinguish two processes that share a terminal */
  readonly logPrefix?: string
  /** configuration keys beyond those that every gateway knows */
  readonly fragments?: readonly Fragment[]
  context(setup: LocalSetup): Promise<CommandContext>
  /** reads a file named on the command line; `-` is stdin */
  read?(path: string): Promise<string>
  /** prompts for a secret; `what` is its name */
  secret?(what: string): Promise<string>
  readonly files?: Files
  readonly verbs?: readonly AnyVerb[]
  /** how long to wait for a starting gateway or another command */
  readonly waitMs?: number
}

/** Runs one command line and returns the exit code. Never throws, never ends the process. */
export async function runCli(argv: readonly string[], deps: CliDeps): Promise<number> {
  const { stdout, stderr, env, verbs = VERBS } = deps
  const paint = paintFor(stderr, env)
  let asJson = argv.includes('--json')
  watchReader(stdout)
  // a gateway keeps running when the reader of its log exits
  watchReader(stderr)
  try {
    const [first] = argv
    if (first === '--version' || first === 'version' || first === '-v') return await say(deps, deps.version)
    if (first === '--help' || first === '-h' || (first === 'help' && argv.length === 1)) {
      return await say(deps, programHelp(verbs, deps.version).trimEnd())
    }
    if (first === undefined) return await say(deps, shortHelp(verbs, deps.version).trimEnd())
    if (first.startsWith('-'))
      throw new OsError('USAGE', `a command comes before ${first}`, { hint: 'see os-node --help' })
    const instead = first === 'help' && alternativeTo(`help ${argv[1]}`)
    if (instead) throw new OsError('USAGE', `os-node help has no option ${argv[1]}`, { hint: instead })
    const group = groupHelp(verbs, argv)
    if (group !== null) return await say(deps, group.trimEnd())
    const parsed = parseCommand(verbs, first === 'help' ? [...argv.slice(1), '--help'] : argv, env)
    if (parsed.help) return await say(deps, verbHelp(parsed.verb).trimEnd())
    asJson = parsed.json || parsed.verb.json === true
    const place = parsed.verb.place?.()
    try {
      const options = { ...parsed.options, ...(place && { config: place.config, 'data-dir': place.dataDir }) }
      return await execute(parsed.verb, options, parsed.json, deps)
    } finally {
      place?.remove()
    }
  } catch (thrown) {
    // the reader of stdout exited early: no error of the command
    if (thrown instanceof ReaderLeft) return 0
    const error = asOsError(thrown)
    const answer = errorJson(error, argv[0] ?? '')
    if (asJson) stdout.write(`${JSON.stringify(answer)}\n`)
    stderr.write(errorText(error.message, answer.hint, paint))
    // a bug: print its position in the sources
    if (error.code === 'INTERNAL' && error.cause instanceof Error) {
      mapStacks()
      stderr.write(`${error.cause.stack}\n`)
    }
    return error.traits.exit
  }
}

async function say({ stdout }: CliDeps, text: string): Promise<number> {
  await writeLine(stdout, text)
  return 0
}

async function execute(verb: AnyVerb, parsed: OptionValues, json: boolean, deps: CliDeps): Promise<number> {
  const { env, cwd, files = realFiles, stderr, logPrefix = '' } = deps
  const logger = createLogger({ write: line => void stderr.write(logPrefix + line) })
  const place = {
    path: parsed.config as string | undefined,
    dataDir: parsed['data-dir'] as string | undefined,
    ...{ env, cwd, files },
  }
  if (holds(verb.changes, parsed) && !holds(verb.starts, parsed) && !holds(verb.installs, parsed)) {
    const { dataDir, path } = findConfig(place)
    actAsOwner([dataDir, path])
  }
  // a restore completes the one before itself, or replaces it
  if (verb.name !== 'restore') await endRestore(findConfig(place))
  const config = ConfigStore.load({
    ...place,
    logger: logger.child('config'),
    keep: holds(verb.changes, parsed) && verb.makesConfig !== true,
    tolerant: verb.tolerant === true,
    makes: verb.makesConfig === true,
    ...(deps.fragments && { fragments: deps.fragments }),
  })
  unpackInto(config.dataDir)
  const read = deps.read ?? (async path => readFileSync(path === '-' ? '/dev/stdin' : path, 'utf8'))
  const secret = deps.secret ?? (what => readSecret(what, process.stdin, stderr))
  const warn = (text: string): void => logger.warn(text)
  const options = verb.prepare ? await verb.prepare(parsed, path => readNamed(path, read), secret, warn) : parsed
  // progress of rows on a terminal
  const bar = progressBar(verb.rowText && deps.stdout.isTTY ? undefined : stderr, 0, undefined, bytesText)
  const print = printer(verb, json, deps)
  const run: Run = {
    ...{ verb, options, config, logger, json, deps },
    onRow: rowPrinter(verb, json, deps),
    progress: (done, total) => bar.show(done, total),
    show: (value, result) => {
      bar.end()
      return print(value, result)
    },
  }
  try {
    return (await runInGateway(run)) ?? (await runHere(run))
  } finally {
    bar.end()
  }
}

/** A command with its options, and what it prints with. */
interface Run extends Pick<LocalSetup, 'verb' | 'config' | 'logger'> {
  readonly options: OptionValues
  readonly json: boolean
  readonly deps: CliDeps
  onRow(row: unknown): Promise<void>
  progress(done: number, total: number): void
  show: Show
}

/** The exit code; undefined: no gateway runs, or the command does not run in one. */
async function runInGateway({ verb, options, config, logger, deps, onRow, progress, show }: Run) {
  if (verb.where === 'local') return undefined
  const { signal } = deps
  const changes = holds(verb.changes, options)
  const found = waitForGateway(config.dataDir, { waitMs: deps.waitMs ?? 5000, changes, signal })
  const socket = await found.catch(error => {
    // a gateway that hangs is one of the problems the doctor is used for
    if (!verb.tolerant || changes) throw error
    logger.warn(asOsError(error).message)
    return undefined
  })
  if (socket) {
    const { config: _c, 'data-dir': _d, json: _j, help: _h, ...own } = options
    const request = ask(socket, { command: verb.name, options: own }, { onRow, progress, signal })
    const answer = await request.catch(error => {
      // an endless command was stopped as intended
      if (holds(verb.endless, options) && signal.aborted) return { exitCode: 0 } as GatewayAnswer
      throw error
    })
    if (answer.result) await show(answer.result, answer)
    return answer.exitCode
  }
  if (verb.where === 'gateway') throw new OsError('NO_GATEWAY', `no gateway is running on ${config.dataDir}`)
  return undefined
}

/** Completes an interrupted restore before anything reads the state. Throws LOCKED, STORAGE. */
async function endRestore({ dataDir, path }: ReturnType<typeof findConfig>): Promise<void> {
  if (!isUnfinished(dataDir)) return
  actAsOwner([dataDir, path])
  const lock = await acquireLock(dataDir, 'command')
  try {
    await inUpdateFile('E_BACKUP', ({ backup }) => backup.finishRestore(dataDir))
  } finally {
    lock.release()
  }
}

async function readNamed(path: string, read: (path: string) => Promise<string>): Promise<string> {
  try {
    return await read(path)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new OsError('USAGE', `${path} cannot be read: ${why}`, { cause, hint: 'check the path' })
  }
}

async function runHere({ verb, options, config, logger, json, deps, onRow, progress, show }: Run): Promise<number> {
  const lock =
    holds(verb.changes, options) && !holds(verb.starts, options)
      ? await acquireLock(config.dataDir, 'command')
      : undefined
  let context: CommandContext | undefined
  try {
    const print = (value: Record<string, unknown>, text: string): void => {
      deps.stdout.write(`${json ? JSON.stringify(value) : text}\n`)
    }
    context = await deps.context({ verb, config, logger, signal: deps.signal, print, ...(lock && { lock }) })
    const result: VerbResult<object> = await verb.run({ ...context, progress }, options)
    for await (const row of result.rows ?? []) await onRow(row)
    const value = withVia(context, result)
    if (value) await show(value, result)
    return result.exitCode ?? 0
  } finally {
    try {
      await context?.close?.()
    } finally {
      lock?.release()
    }
  }
}

/** Rows are printed as text by the verb; with --json, or without a text function, as JSON lines. An empty text prints no line. */
function rowPrinter(verb: AnyVerb, json: boolean, { stdout, env }: CliDeps): (row: unknown) => Promise<void> {
  if (json || !verb.rowText) return row => writeLine(stdout, JSON.stringify(row))
  const paint = paintFor(stdout, env)
  return async row => {
    const text = verb.rowText!(row, paint)
    if (text !== '') await writeLine(stdout, text)
  }
}

type Show = (
  value: Record<string, unknown>,
  result: { readonly text?: string; readonly exitCode?: number },
) => Promise<void>

/**
 * Prints a result: with --json one line with `via`, and as JSON where the specification shows JSON; else text. A result
 * that is an error is one text on stderr.
 */
function printer(verb: AnyVerb, json: boolean, { stdout, stderr, env }: CliDeps): Show {
  const paint = paintFor(stdout, env)
  return async (value, { text, exitCode = 0 }) => {
    const failure = exitCode === 0 ? undefined : failureOf(value)
    if (json) await writeLine(stdout, JSON.stringify(value))
    else if (verb.json) {
      const { via, ...plain } = value
      await writeLine(stdout, JSON.stringify(plain, null, stdout.isTTY ? 2 : 0))
    } else if (!failure) await writeLine(stdout, text ?? resultText(verb, value, paint))
    if (failure) stderr.write(errorText(failure.message, failure.hint, paintFor(stderr, env)))
  }
}
