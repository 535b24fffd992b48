// Plugins for the HTTP API (GET and POST /api/plugins). An unknown name is BAD_REQUEST `unknown plugin`; a command that fails
// returns its exit code and its output.
import { asOsError, OsError } from '../lib/errors'
import type { Plugins } from './plugins'

interface HttpCommand {
  readonly exit_code: number
  readonly stdout: string
  readonly stderr?: string
}

/** time limit of a plugin command over HTTP */
const LIMIT_MS = 60_000
const MAX_CHARS = 1_000_000

const known = async <T>(plugin: string, call: Promise<T>): Promise<T> => {
  try {
    return await call
  } catch (thrown) {
    const error = asOsError(thrown)
    if (error.code !== 'NOT_FOUND' || !error.message.startsWith('no plugin')) throw error
    throw new OsError('BAD_REQUEST', 'unknown plugin', { cause: error, hint: error.message, details: { plugin } })
  }
}

/** The plugin actions of the page; an unknown name is BAD_REQUEST. */
export const httpPlugins = (plugins: Plugins) => ({
  list: () => ({ plugins: plugins.manager.snapshot(), items: plugins.list() }),
  load: (plugin: string) => known(plugin, plugins.load(plugin)),
  start: (plugin: string) => known(plugin, plugins.start(plugin)),
  stop: (plugin: string) => known(plugin, plugins.stop(plugin)),
  setEnabled: (plugin: string, enabled: boolean) => known(plugin, plugins.setEnabled(plugin, enabled)),
  command: (plugin: string, argv: readonly string[]) => known(plugin, command(plugins, plugin, argv)),
})

async function command(plugins: Plugins, plugin: string, argv: readonly string[]): Promise<HttpCommand> {
  const lines: string[] = []
  let chars = 0
  const print = (line: string): void => {
    chars += line.length
    if (chars < MAX_CHARS) lines.push(line)
  }
  const signal = AbortSignal.timeout(LIMIT_MS)
  try {
    const { value, text, rows, exitCode = 0 } = await plugins.command(plugin, argv, { signal, print })
    // a command that runs until it is stopped is not awaited: its first row shows its state
    if (rows) for await (const row of rows) return { exit_code: exitCode, stdout: JSON.stringify(row) }
    if (value !== undefined) lines.push(JSON.stringify(value))
    else if (text !== undefined) lines.push(text)
    return { exit_code: exitCode, stdout: lines.join('\n') }
  } catch (thrown) {
    const error = asOsError(thrown)
    // an error in the caller's request is returned as such; an error of the command itself is its output
    if (['NOT_FOUND', 'FORBIDDEN', 'INTERNAL'].includes(error.code) && error.message.startsWith('no plugin'))
      throw error
    return { exit_code: error.traits.exit, stdout: lines.join('\n'), stderr: error.message }
  }
}
