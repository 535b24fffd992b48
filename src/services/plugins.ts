// All plugins of a program: which exist, which start with the gateway, and the actions of people and scripts (CLI, HTTP,
// terminal UI).
//
// Errors: a plugin that cannot be loaded or started is shown with its reason and failure count, and the others continue. In
// safe mode no plugin starts automatically (R25). If defaults cannot be saved, that is logged.
import type { Changed, ConfigStore } from '../config'
import { systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
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
  readonly gateway?: GatewayAccess
  readonly display?: DisplayAccess
  readonly web?: WebService
  /** why no plugin starts automatically */
  readonly safeMode?: () => string | undefined
  /** the stack of the last run if its event loop froze, innermost first */
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

export class Plugins {
  readonly manager: ServiceManager
  readonly #parts: PluginsParts
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #found: readonly FoundPlugin[]
  readonly #marks: StartMarks | null
  readonly #definitions = new Map<string, PluginDefinition>()
  /** of plugins that could not be mounted */
  readonly #failed = new Map<string, { failures: number; error: string }>()
  readonly #unlisten: () => void
  #starting: Promise<void> = Promise.resolve()

  constructor(parts: PluginsParts) {
    this.#parts = parts
    this.manager = parts.manager
    this.#config = parts.node.store
    this.#logger = parts.logger ?? silentLogger
    this.#found = findPlugins(this.#config, this.#logger)
    this.#marks = this.#found.length > 0 ? new StartMarks(this.#config.dataDir, realFiles, this.#logger) : null
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

  /** All plugins, built-in ones first. */
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

  /** Loads and starts a plugin; a running one is unchanged. Throws the errors of load(). */
  async start(plugin: string): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    await this.#making(name, async () => {
      await this.#mount(name)
      await this.manager.start(name)
    })
    return this.#item(name)
  }

  /** Stops a plugin; one that does not run is unchanged. */
  async stop(plugin: string): Promise<PluginItem> {
    const name = normalizePluginName(plugin)
    if (this.manager.get(name) !== null) await this.manager.stop(name)
    return this.#item(name)
  }

  /** Enables or disables a plugin permanently; disabling stops it. */
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

  /** Loads a plugin and runs one of its commands. Throws NOT_FOUND, FORBIDDEN, USAGE, and the errors of the command. */
  async command(plugin: string, argv: readonly string[], io: CommandIo): Promise<CommandOutcome> {
    const { name } = await this.load(plugin)
    return this.#as(name, () => this.manager.runCommand(name, argv, io))
  }

  /** Saves missing defaults in the configuration, then starts the plugins that start with the gateway. Never throws. */
  startConfigured(): Promise<void> {
    this.#starting = this.#startConfigured()
    return this.#starting
  }

  /** Stops all plugins, the last started first. Never throws. */
  async close(): Promise<void> {
    this.#unlisten()
    await this.#starting
    await this.manager.stopAll()
  }

  /** True if an uncaught error comes from a third-party plugin: it is counted, and the plugin is stopped. */
  blame(thrown: unknown): boolean {
    const name = culprit(this.#found, thrown)
    if (name === undefined) return false
    this.manager.blame(name, thrown)
    return true
  }

  /** The process is about to exit: a plugin that caused it must not do so again. */
  readonly #exited = (): void => {
    const owner = culprit(this.#found, new Error('process.exit'))
    if (owner) this.#marks?.bar(owner, 'it ended the process')
  }

  async #startConfigured(): Promise<void> {
    this.#save(() => syncAllPluginDefaults(this.#config))
    const reason = this.#parts.safeMode?.()
    if (reason !== undefined) return this.#logger.warn(`plugins stay off in safe mode: ${reason}`)
    const wanted = this.list().filter(({ enabled, auto_start, mode }) => enabled && auto_start && mode !== 'manual')
    await Promise.all(wanted.filter(({ builtin }) => builtin).map(({ name }) => this.#quietly(name)))
    // one after another, so that it is known whose start ended the process
    for (const { name, builtin } of wanted) {
      if (builtin) continue
      const barred = this.#marks?.barred(name)
      if (barred === undefined) await this.#quietly(name)
      else this.#note(name, new OsError('PLUGIN_FAILED', `${name} is not started: ${barred}`))
    }
  }

  /** Starts an enabled plugin if it would have started with the gateway. */
  async #mayStart(name: string): Promise<void> {
    const { gateway, safeMode } = this.#parts
    const item = this.list().find(other => other.name === name)
    if (!gateway || safeMode?.() !== undefined || !item?.enabled || !item.auto_start || item.mode === 'manual') return
    await this.#quietly(name)
  }

  async #quietly(name: string): Promise<void> {
    try {
      // the default of a third-party plugin is only in its code
      if (this.#isForeign(name) && !(await this.load(name)).auto_start) return
      await this.start(name)
    } catch (error) {
      this.#logger.warn(`plugin ${name} does not run: ${asOsError(error).message}`)
    }
  }

  async #mount(name: string): Promise<void> {
    await ensureAndMountPlugin(this.#parts.node, name, true, String(this.#settings(name).mode))
  }

  /** Counts failures before a plugin is mounted; the manager counts later ones. */
  async #making(name: string, make: () => Promise<void>): Promise<void> {
    try {
      await (this.#marks && this.#isForeign(name) ? this.#marks.during(name, () => this.#as(name, make)) : make())
      this.#failed.delete(name)
    } catch (thrown) {
      const error = asOsError(thrown)
      // not counted: a name that is no plugin, or a refusal that the list already shows; counted: a missing module of its
      // code
      const shown = error.code === 'NOT_FOUND' || (error.code === 'FORBIDDEN' && !error.message.includes(' requires '))
      if (this.manager.get(name) === null && !shown) this.#note(name, error)
      throw error
    }
  }

  #note(name: string, { message }: OsError): void {
    this.#failed.set(name, { failures: (this.#failed.get(name)?.failures ?? 0) + 1, error: message })
  }

  /** Runs a call into a plugin, so that everything it leaves running is attributed to that plugin. */
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
    const { node, version, gateway, display, web } = this.#parts
    const config = this.#config
    this.#definitions.set(name, definition)
    if (this.#isForeign(name) && definition.defaults)
      this.#save(() => config.update({ RESOURCES: { service_plugins: { [name]: this.#settings(name) } } }))
    return {
      name,
      config,
      logger: this.#logger.child(name),
      clock: systemClock,
      files: realFiles,
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

  /** A missing file is not created for this: the defaults apply without it. */
  #save(write: () => unknown): void {
    if (this.#config.problem || !realFiles.exists(this.#config.path)) return
    try {
      write()
    } catch (error) {
      this.#logger.warn(`plugin defaults were not saved: ${asOsError(error).message}`)
    }
  }

  /** A disabled plugin is stopped; one with `restart` is restarted with its new settings. */
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
