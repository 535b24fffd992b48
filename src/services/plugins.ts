// The plugins of one program, put together: which there are, which start with the gateway, and what people and scripts do
// with them (CLI, HTTP, terminal UI).
//
// What fails: a plugin that cannot be loaded or started is shown with its reason and its count of failures, the others go
// on. In safe mode none starts automatically (R25). Defaults that cannot be saved are logged.
import type { Changed, ConfigStore } from '../config'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import { guardedAccess } from './access'
import type {
  CommandIo,
  CommandOutcome,
  DisplayAccess,
  GatewayAccess,
  PluginDefinition,
  PluginHost,
  PluginNode,
  PluginTable,
  WebService,
} from './contract'
import { BUILTIN_NAMES, builtinFacts } from './defaults'
import type { ServiceManager } from './manager'
import {
  ensureAndMountPlugin,
  equip,
  normalizePluginName,
  pluginKey,
  pluginSettings,
  syncAllPluginDefaults,
} from './registry'
import { beganBy, culprit, type FoundPlugin, findPlugins, ownerOf, StartMarks, tableOf } from './third-party'

export interface PluginsParts {
  readonly manager: ServiceManager
  readonly node: PluginNode & { readonly store: ConfigStore; readonly serviceManager: unknown }
  readonly builtins: PluginTable
  readonly version: string
  readonly logger?: Logger
  readonly clock?: Clock
  readonly files?: Files
  readonly gateway?: GatewayAccess
  readonly display?: DisplayAccess
  readonly web?: WebService
  /** why no plugin starts automatically */
  readonly safeMode?: () => string | undefined
  /** what the last run was at when its event loop froze, the innermost first */
  readonly frozen?: readonly string[]
}

/** One row of plugin-list and of GET /api/plugins. */
export interface PluginItem {
  name: string
  summary: string
  config_prefix: string
  builtin: boolean
  enabled: boolean
  auto_start: boolean
  mode: string
  mounted: boolean
  loaded: boolean
  running: boolean
  failures: number
  error?: string
}

export const PLUGIN_ACTIONS = ['load', 'start', 'stop', 'cmd', 'set_enabled'] as const
export type PluginAction = (typeof PLUGIN_ACTIONS)[number]

/** Body of POST /api/plugins. */
export interface PluginRequest {
  readonly plugin: string
  /** load when left out */
  readonly action?: PluginAction
  readonly sub_cmd?: string
  readonly args?: readonly string[]
  readonly enabled?: boolean
}

export class Plugins {
  readonly manager: ServiceManager
  readonly #parts: PluginsParts
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #found: readonly FoundPlugin[]
  readonly #marks: StartMarks | null
  readonly #definitions = new Map<string, PluginDefinition>()
  /** of plugins that never got as far as being mounted */
  readonly #failed = new Map<string, { failures: number; error: string }>()
  readonly #unlisten: () => void
  #starting: Promise<void> = Promise.resolve()

  constructor(parts: PluginsParts) {
    this.#parts = parts
    this.manager = parts.manager
    this.#config = parts.node.store
    this.#logger = parts.logger ?? silentLogger
    this.#found = findPlugins(this.#config, this.#logger)
    this.#marks =
      this.#found.length > 0 ? new StartMarks(this.#config.dataDir, parts.files ?? realFiles, this.#logger) : null
    const stuck = ownerOf(this.#found, parts.frozen ?? [])
    if (stuck) this.#marks?.bar(stuck.name, `it froze the gateway in ${stuck.frame}`)
    equip(this.manager, {
      table: { ...tableOf(this.#found), ...parts.builtins },
      host: (name, definition) => this.#host(name, definition),
    })
    const unlisten = this.#config.onChange(changes => this.#changed(changes))
    if (this.#marks && parts.gateway) process.on('exit', this.#exited)
    this.#unlisten = () => {
      unlisten()
      process.off('exit', this.#exited)
    }
  }

  /** Every plugin there is, built-in ones first. */
  list(): PluginItem[] {
    const names = [...BUILTIN_NAMES.filter(name => Object.hasOwn(this.#parts.builtins, name))]
    return [...names, ...this.#found.map(({ name }) => name)].map(name => this.#item(name))
  }

  /** Mounts and loads a plugin. Throws NOT_FOUND, FORBIDDEN, TIMEOUT, PLUGIN_FAILED. */
  async load(plugin: string): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    await this.#making(name, () => this.#mount(name))
    return this.#item(name)
  }

  /** Loads and starts a plugin; what runs stays as it is. Throws what load() throws. */
  async start(plugin: string): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    await this.#making(name, async () => {
      await this.#mount(name)
      await this.manager.start(name)
    })
    return this.#item(name)
  }

  /** Stops a plugin; one that does not run stays as it is. */
  async stop(plugin: string): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    if (this.manager.get(name) !== null) await this.manager.stop(name)
    return this.#item(name)
  }

  /** Turns a plugin on or off for good; off stops it. */
  async setEnabled(plugin: string, enabled: boolean): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    this.#item(name) // throws NOT_FOUND
    this.#config.set(`${pluginKey(name)}.enabled`, enabled)
    if (!enabled) {
      await this.stop(name)
      this.manager.unmount(name)
    }
    return this.#item(name)
  }

  /** Runs a command of a plugin, which is loaded for it. Throws NOT_FOUND, FORBIDDEN, USAGE, and what the command throws. */
  async command(plugin: string, argv: readonly string[], io: CommandIo): Promise<CommandOutcome> {
    const { name } = await this.load(plugin)
    return this.#as(name, () => this.manager.runCommand(name, argv, io))
  }

  /** POST /api/plugins. Throws BAD_REQUEST and what the action throws. */
  async act(request: PluginRequest, io: CommandIo): Promise<Record<string, unknown> & { exit_code?: number }> {
    const { action = 'load', args = [], sub_cmd = '' } = request
    const name = normalizePluginName(request.plugin)
    const done = { ok: true, plugin: name, action }
    if (action === 'set_enabled') {
      if (typeof request.enabled !== 'boolean') throw new OsError('BAD_REQUEST', 'enabled is true or false')
      return { ...done, item: await this.setEnabled(name, request.enabled) }
    }
    if (action !== 'cmd') return { ...done, item: await this[action](name) }
    const lines: string[] = []
    const {
      value,
      text,
      exitCode = 0,
    } = await this.command(name, [sub_cmd, ...args], {
      ...io,
      print: line => void (lines.length < 1000 && lines.push(line)),
    })
    const output = [...lines, ...(text === undefined ? [] : [text])].join('\n')
    return {
      ...done,
      ok: exitCode === 0,
      exit_code: exitCode,
      command: sub_cmd,
      ...(value && { result: value }),
      ...(output !== '' && { output }),
    }
  }

  /** Saves what the configuration lacks, then starts what is to start with the gateway. Never throws. */
  startConfigured(): Promise<void> {
    this.#starting = this.#startConfigured()
    return this.#starting
  }

  /** Stops everything, the last started first. Never throws. */
  async close(): Promise<void> {
    this.#unlisten()
    await this.#starting
    await this.manager.stopAll()
  }

  /** True when an uncaught error comes from a plugin of another maker: it is counted there, and the plugin stopped. */
  blame(thrown: unknown): boolean {
    const name = culprit(this.#found, thrown)
    if (name === undefined) return false
    this.manager.blame(name, thrown)
    return true
  }

  /** The process is about to end: a plugin that ended it is not to do so again. */
  readonly #exited = (): void => {
    const owner = culprit(this.#found, new Error('process.exit'))
    if (owner) this.#marks?.bar(owner, 'it ended the process')
  }

  async #startConfigured(): Promise<void> {
    this.#saveDefaults()
    const reason = this.#parts.safeMode?.()
    if (reason !== undefined) return this.#logger.warn(`plugins stay off in safe mode: ${reason}`)
    const wanted = this.list().filter(({ enabled, auto_start, mode }) => enabled && auto_start && mode !== 'manual')
    await Promise.all(wanted.filter(({ builtin }) => builtin).map(({ name }) => this.#quietly(name)))
    // one after the other, so that it is known whose start ended the process
    for (const { name, builtin } of wanted) {
      if (builtin) continue
      const barred = this.#marks?.barred(name)
      if (barred === undefined) await this.#quietly(name)
      else this.#note(name, new OsError('PLUGIN_FAILED', `${name} is left off: ${barred}`))
    }
  }

  /** A plugin that was turned on starts where it would have started with the gateway. */
  async #mayStart(name: string): Promise<void> {
    const { gateway, safeMode } = this.#parts
    const item = this.list().find(other => other.name === name)
    if (!gateway || safeMode?.() !== undefined || !item?.enabled || !item.auto_start || item.mode === 'manual') return
    await this.#quietly(name)
  }

  async #quietly(name: string): Promise<void> {
    try {
      // only its code says what a plugin of another maker wants to be by default
      if (this.#isForeign(name) && !(await this.load(name)).auto_start) return
      await this.start(name)
    } catch (error) {
      this.#logger.warn(`plugin ${name} does not run: ${asOsError(error).message}`)
    }
  }

  async #mount(name: string): Promise<void> {
    await ensureAndMountPlugin(this.#parts.node, name, true, String(this.#settings(name).mode))
  }

  /** Counts failures of what is not mounted yet; the manager counts the rest. */
  async #making(name: string, make: () => Promise<void>): Promise<void> {
    try {
      await (this.#marks && this.#isForeign(name) ? this.#marks.during(name, () => this.#as(name, make)) : make())
      this.#failed.delete(name)
    } catch (thrown) {
      const error = asOsError(thrown)
      // what no plugin is, or what the list shows already, is no failure of one; what its code requires is
      const shown = error.code === 'NOT_FOUND' || (error.code === 'FORBIDDEN' && !error.message.includes(' requires '))
      if (this.manager.get(name) === null && !shown) this.#note(name, error)
      throw error
    }
  }

  #note(name: string, { message }: OsError): void {
    this.#failed.set(name, { failures: (this.#failed.get(name)?.failures ?? 0) + 1, error: message })
  }

  /** Runs a call into a plugin, so that whatever it leaves running is known to be that plugin's. */
  #as<T>(name: string, call: () => T): T {
    return this.#isForeign(name) ? beganBy.run(name, call) : call()
  }

  #isForeign(name: string): boolean {
    return this.#found.some(found => found.name === name)
  }

  #settings(name: string): Record<string, unknown> {
    return pluginSettings(this.#config, name, this.#definitions.get(name)?.defaults)
  }

  #item(name: string): PluginItem {
    const found = this.#found.find(plugin => plugin.name === name)
    if (!found && !Object.hasOwn(this.#parts.builtins, name))
      throw new OsError('NOT_FOUND', `no plugin ${JSON.stringify(name)}`, { hint: 'see os-node plugin-list' })
    const { enabled, auto_start, mode } = this.#settings(name)
    const state = this.manager.state(name)
    const { failures = 0, error = found?.refused } = state ?? this.#failed.get(name) ?? {}
    return {
      name,
      summary: builtinFacts(name)?.summary ?? this.#definitions.get(name)?.summary ?? '',
      config_prefix: pluginKey(name),
      builtin: found === undefined,
      enabled: enabled === true,
      auto_start: auto_start === true,
      mode: String(mode),
      mounted: state !== undefined,
      loaded: state?.loaded ?? false,
      running: state?.running ?? false,
      failures,
      ...(error !== undefined && { error }),
    }
  }

  #host(name: string, definition: PluginDefinition): PluginHost {
    const { node, version, clock = systemClock, files = realFiles, gateway, display, web } = this.#parts
    const config = this.#config
    this.#definitions.set(name, definition)
    if (this.#isForeign(name) && definition.defaults) this.#save(() => config.update(settingsTree(config, definition)))
    return {
      name,
      config,
      logger: this.#logger.child(name),
      clock,
      files,
      dataDir: config.dataDir,
      version,
      node,
      ...(gateway && { gateway: this.#guarded(name, gateway) }),
      ...(display && { display }),
      ...(web && { web }),
      settings: () => this.#settings(name),
      start: () => this.manager.start(name),
      stop: () => this.manager.stop(name),
    }
  }

  #guarded(name: string, gateway: GatewayAccess): GatewayAccess {
    const failed = (thrown: unknown): void => this.manager.fault(name, 'a listener', thrown)
    return guardedAccess(gateway, failed, call => this.#as(name, call))
  }

  /** A file that is not there is not made for this: the defaults count all the same. */
  #saveDefaults(): void {
    this.#save(() => void syncAllPluginDefaults(this.#config))
  }

  #save(write: () => unknown): void {
    const { files = realFiles } = this.#parts
    if (this.#config.problem || !files.exists(this.#config.path)) return
    try {
      write()
    } catch (error) {
      this.#logger.warn(`defaults of plugins were not saved: ${asOsError(error).message}`)
    }
  }

  /** A plugin that is turned off stops; one that says so begins anew with its new settings. */
  #changed(changes: readonly Changed[]): void {
    const prefix = 'RESOURCES.service_plugins.'
    const touched = changes.filter(({ key }) => key.startsWith(prefix)).map(({ key }) => key.slice(prefix.length))
    for (const name of new Set(touched.map(key => key.split('.')[0]!))) {
      if (!this.manager.state(name)?.running) {
        if (touched.includes(`${name}.enabled`)) void this.#mayStart(name)
        continue
      }
      const off = this.#settings(name).enabled === false
      if (!off && !this.#definitions.get(name)?.restart) continue
      const again = async (): Promise<void> => {
        await this.manager.stop(name)
        if (!off) await this.#as(name, () => this.manager.start(name))
      }
      again().catch(error => this.#logger.warn(`plugin ${name}: ${asOsError(error).message}`))
    }
  }
}

const settingsTree = (config: ConfigStore, { name, defaults = {} }: PluginDefinition): Record<string, unknown> => ({
  RESOURCES: {
    service_plugins: { [normalizePluginName(name)]: pluginSettings(config, normalizePluginName(name), defaults) },
  },
})
