// Third-party plugins: files and folders of one directory, disabled by default. They run with all permissions of this
// program, so files that other users can write are not loaded (file-trust.ts).
//
// Errors: a missing directory contains no plugins; an unreadable one neither, which is reported. A file that cannot be
// loaded, that is no plugin or whose plugin has another name is reported as that plugin's error. A plugin that ended the
// process twice during its start is not started automatically again until a user loads it: a mark on flash exists while a
// plugin starts, and a remaining mark counts as an end. A plugin that blocked the event loop until the freeze watch ended the
// process is barred immediately.
import { AsyncLocalStorage } from 'node:async_hooks'
import { type Dirent, existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ConfigStore } from '../config'
import { atomicWrite } from '../lib/atomic'
import { asOsError, errno, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import type { PluginDefinition, PluginTable } from './contract'
import { BUILTIN_NAMES } from './defaults'
import { distrust, watchRequire } from './file-trust'
import { normalizePluginName } from './registry'

interface Settings {
  enabled: boolean
  dir: string
  start_timeout_s: number
  allow?: readonly string[]
}

export interface FoundPlugin {
  readonly name: string
  /** file to load, with links resolved; '' if there is none */
  readonly path: string
  /** identifies uncaught errors of this plugin */
  readonly root: string
  /** why it is not loaded */
  readonly refused?: string
}

const SOURCE = /\.(?:c|m)?js$/
const NAME = /^[a-z][a-z0-9_]{0,63}$/

export const pluginSwitches = (config: ConfigStore): Settings & { dir: string } => {
  const { enabled = false, dir = '', start_timeout_s = 10, allow } = config.get<Partial<Settings>>('plugins') ?? {}
  const folder = dir || join(config.dataDir, 'plugins')
  return { enabled, start_timeout_s, dir: resolve(folder), ...(allow && { allow }) }
}

/** Lists the plugins of the directory, sorted by name. Nothing is loaded. */
export function findPlugins(config: ConfigStore, logger: Logger = silentLogger): FoundPlugin[] {
  const { enabled, dir, allow } = pluginSwitches(config)
  if (!enabled) return []
  let entries: Dirent[] = []
  try {
    entries = readdirSync(dir, { withFileTypes: true })
  } catch (error) {
    if (errno(error) !== 'ENOENT') logger.warn(`the plugin folder ${dir} cannot be read: ${errno(error)}`)
  }
  return entries
    .filter(entry => !entry.name.startsWith('.') && entry.name !== 'node_modules')
    .filter(entry => SOURCE.test(entry.name) || !entry.isFile())
    .map(entry => described(dir, entry.name))
    .filter(found => !allow || allow.map(normalizePluginName).includes(found.name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

function described(dir: string, entry: string): FoundPlugin {
  const name = entry.replace(SOURCE, '').toLowerCase().replaceAll('-', '_')
  try {
    const root = realpathSync(join(dir, entry))
    const path = statSync(root).isDirectory() ? entryOf(root) : root
    if (!statSync(path).isFile()) return { name, root, path, refused: 'is no regular file' }
    return { name, root, path, ...whyNot(name, join(dir, entry), path) }
  } catch (error) {
    return { name, root: '', path: '', refused: `cannot be read: ${errno(error) ?? asOsError(error).message}` }
  }
}

/** The file of a plugin's folder: `main` of its package.json, else index.js. */
function entryOf(folder: string): string {
  const manifest = join(folder, 'package.json')
  const { main } = existsSync(manifest)
    ? (JSON.parse(realFiles.read(manifest).toString('utf8')) as { main?: unknown })
    : { main: undefined }
  const names = [...(typeof main === 'string' ? [main] : []), 'index.js', 'index.cjs', 'index.mjs']
  const found = names.map(name => resolve(folder, name)).find(path => existsSync(path))
  if (!found) throw new OsError('NOT_FOUND', `${folder} has no index.js`)
  return realpathSync(found)
}

function whyNot(name: string, link: string, path: string): { refused?: string } {
  if (!NAME.test(name)) return { refused: 'its name is not of letters, digits and _' }
  if (BUILTIN_NAMES.includes(normalizePluginName(name) as never)) return { refused: 'a built-in plugin has this name' }
  // check both the path as named and the file it resolves to
  const root = realpathSync(link)
  const why = distrust(link) ?? distrust(path, statSync(root).isDirectory() ? root : undefined)
  return why === undefined ? {} : { refused: why }
}

/** Loads a plugin's code. Throws PLUGIN_FAILED, FORBIDDEN. */
async function load({ name, path, refused, root }: FoundPlugin): Promise<PluginDefinition> {
  // checked again: a file may have changed between the start and a load by a user
  const why = refused ?? distrust(path, root !== path && statSync(root).isDirectory() ? root : undefined)
  if (why !== undefined)
    throw new OsError('FORBIDDEN', `plugin ${name}: ${why}`, { hint: 'correct that, then load the plugin again' })
  watchRequire(own)
  const { href } = pathToFileURL(path)
  const load = typeof __importModule === 'function' ? __importModule : (url: string) => import(url)
  const module = (await load(href)) as Record<string, unknown>
  const outer = (module.default ?? module) as Record<string, unknown>
  const plugin = (outer.default ?? outer.plugin ?? module.plugin ?? outer) as Partial<PluginDefinition>
  if (typeof plugin?.create !== 'function' || typeof plugin.name !== 'string')
    throw new OsError('PLUGIN_FAILED', `${path} exports no plugin: { name, create(host) } is expected`)
  if (normalizePluginName(plugin.name) !== name)
    throw new OsError(
      'PLUGIN_FAILED',
      `${path} contains the plugin ${JSON.stringify(plugin.name)}: rename the file to that`,
    )
  return plugin as PluginDefinition
}

/** The found plugins as a table for the manager. */
export const tableOf = (found: readonly FoundPlugin[]): PluginTable =>
  Object.fromEntries(found.map(plugin => [plugin.name, () => load(plugin)]))

/** The plugin whose code is in a stack, the innermost first, and the position; undefined: none. */
export function ownerOf(
  found: readonly FoundPlugin[],
  stack: readonly string[],
): { name: string; frame: string } | undefined {
  for (const frame of stack) {
    const owner = found.find(({ root }) => {
      const names = root === '' ? [] : [root, pathToFileURL(root).href]
      return names.some(name => frame.includes(`${name}:`) || frame.includes(`${name}/`))
    })
    if (owner) return { name: owner.name, frame }
  }
  return undefined
}

const own = typeof __filename === 'string' ? __filename : ''

/** The plugin that started the current work: calls into it, and its timers, promises and sockets. */
export const beganBy = new AsyncLocalStorage<string>()

/**
 * The plugin that an uncaught error belongs to, or undefined: by its stack, else by who started the work. An error in this
 * program's own code is attributed to a plugin only if it is an expected error of a call, not a defect.
 */
export function culprit(found: readonly FoundPlugin[], thrown: unknown): string | undefined {
  const stack = thrown instanceof Error ? (thrown.stack ?? '') : ''
  const frames = stack.split('\n').filter(line => /^\s+at /.test(line))
  const answer = thrown instanceof OsError && thrown.code !== 'INTERNAL'
  const ours = !answer && own !== '' && frames.some(frame => frame.includes(own))
  return ownerOf(found, frames)?.name ?? (ours ? undefined : beganBy.getStore())
}

/** consecutive ends of the process during a plugin's start after which it is barred */
const MAX_ENDS = 2

interface Marks {
  /** the plugin being started now */
  starting: string | null
  /** ends of the process during the start of a plugin */
  ends: Record<string, number>
  /** why a plugin is not started automatically */
  bars: Record<string, string>
}

/** Stores over restarts which plugin was being started when the process ended, or caused its end. */
export class StartMarks {
  readonly #path: string
  readonly #files: Files
  readonly #logger: Logger
  readonly #marks: Marks

  constructor(dataDir: string, files: Files = realFiles, logger: Logger = silentLogger) {
    this.#path = join(dataDir, 'plugin-starts.json')
    this.#files = files
    this.#logger = logger
    const { starting, ends, bars } = this.#read()
    this.#marks = { starting: null, ends, bars }
    if (starting !== null) ends[starting] = (ends[starting] ?? 0) + 1
  }

  /** Why a plugin is not started automatically, or undefined. */
  barred(name: string): string | undefined {
    const { ends, bars } = this.#marks
    const n = ends[name] ?? 0
    return bars[name] ?? (n < MAX_ENDS ? undefined : `the process ended ${n} times during its start`)
  }

  /** Bars a plugin until a user starts it. */
  bar(name: string, reason: string): void {
    this.#marks.bars[name] = reason
    this.#write()
  }

  /** Runs a start with the mark on flash. A successful start resets the count. */
  async during<T>(name: string, start: () => Promise<T>): Promise<T> {
    const marks = this.#marks
    marks.starting = name
    this.#write()
    try {
      const result = await start()
      delete marks.ends[name]
      delete marks.bars[name]
      return result
    } finally {
      marks.starting = null
      this.#write()
    }
  }

  #read(): Marks {
    try {
      const { starting, ends, bars } = JSON.parse(this.#files.read(this.#path).toString('utf8')) as Partial<Marks>
      const counts = Object.entries(ends ?? {}).filter(([, n]) => Number.isSafeInteger(n))
      const reasons = Object.entries(bars ?? {}).filter(([, reason]) => typeof reason === 'string')
      return {
        starting: typeof starting === 'string' ? starting : null,
        ends: Object.fromEntries(counts),
        bars: Object.fromEntries(reasons),
      }
    } catch (error) {
      if (errno(error) !== 'ENOENT') this.#logger.warn(`${this.#path} cannot be read: ${asOsError(error).message}`)
      return { starting: null, ends: {}, bars: {} }
    }
  }

  #write(): void {
    try {
      atomicWrite(this.#path, JSON.stringify(this.#marks), this.#files)
    } catch (error) {
      this.#logger.warn(`${this.#path} cannot be written: ${asOsError(error).message}`)
    }
  }
}
