// The service manager (specification, "Service manager"): keeps mounted services, loads, starts and stops them, and runs the
// commands of plugins.
//
// Errors: if a service throws or times out, that is counted and shown with the reason, and the others continue. load(),
// start() and stop() of one name throw it to the caller, startAll() and stopAll() do not throw.

import { ConfigStore } from '../config'
import { checkOptions, readArguments } from '../lib/arguments'
import { checkArgument, checkNames, namesOf } from '../lib/checked'
import type { CommandForm } from '../lib/command-options'
import { asOsError, OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { nearest } from '../lib/nearest'
import { masked } from '../lib/secrets'
import { SerialQueue } from '../lib/serial-queue'
import { systemTimers, type Timers } from '../lib/timers'
import type { ServiceManagerLike, ServiceSnapshot } from '../node/services'
import { helpOf, listed, summaries } from './command-help'
import type { CliHandler, CommandIo, CommandOutcome, DisplayAccess, Service } from './contract'
import { guarded } from './guarded'

/** The state of a mounted service, as every user interface shows it. */
export interface ServiceState {
  mode: string
  loaded: boolean
  running: boolean
  /** calls that threw or timed out */
  failures: number
  /** the last failure, until a start succeeds */
  error?: string
}

interface Mounted {
  readonly service: Service
  readonly config: Record<string, unknown> | null
  readonly state: ServiceState
  loading: Promise<void> | undefined
  /** registered providers; null: not requested yet */
  shown: readonly unknown[] | null
  /** starts and stops of one service run one after another */
  readonly turns: SerialQueue
}

export interface ManagerOptions {
  logger?: Logger
  timers?: Timers
  /** time limit for one call of a service (10 s) */
  limitMs?: number
  display?: DisplayAccess
}

const HELP = { type: 'boolean', help: 'print this help' } as const

const OPTIONS = namesOf<ManagerOptions>()('logger timers limitMs display')

export class ServiceManager implements ServiceManagerLike {
  readonly #config: ConfigStore | Record<string, unknown> | null
  readonly #mode: string
  readonly #mounted = new Map<string, Mounted>()
  readonly #logger: Logger
  readonly #timers: Timers
  /** time limit for one call of a service */
  readonly limitMs: number
  readonly #display: DisplayAccess | undefined

  /** `config`: shown by config_index for services mounted without their own settings. */
  constructor(
    config: ConfigStore | Record<string, unknown> | null = null,
    mode = 'runtime',
    options: ManagerOptions = {},
  ) {
    checkNames('new ServiceManager', options, OPTIONS)
    const { logger = silentLogger, timers = systemTimers, limitMs = 10_000, display } = options
    checkArgument('new ServiceManager', 'config object?', config)
    checkArgument('new ServiceManager', 'mode text', mode)
    this.#config = config
    this.#mode = mode
    this.#logger = logger
    this.#timers = timers
    this.limitMs = limitMs
    this.#display = display
  }

  /** Mounts a service; replaces one that was mounted under the name, without stopping it. */
  mount<S>(name: string, service: S, config: Record<string, unknown> | null = null, mode: string | null = null): S {
    if (typeof service !== 'object' || service === null)
      throw new OsError('BAD_REQUEST', `${name}: a service is an object`)
    this.#mounted.set(name, {
      service: service as Service,
      config,
      state: { mode: mode ?? this.#mode, loaded: false, running: false, failures: 0 },
      loading: undefined,
      shown: null,
      turns: new SerialQueue(),
    })
    return service
  }

  get(name: string, fallback: unknown = null): unknown {
    return this.#mounted.get(name)?.service ?? fallback
  }

  /** Removes a service. Stop it first. */
  unmount(name: string): boolean {
    return this.#mounted.delete(name)
  }

  names(): string[] {
    return [...this.#mounted.keys()]
  }

  state(name: string): ServiceState | undefined {
    const mounted = this.#mounted.get(name)
    return mounted && { ...mounted.state }
  }

  /** Returns the service and calls its autoLoad once; a failed load is retried. Throws NOT_FOUND, TIMEOUT, PLUGIN_FAILED. */
  async load(name: string): Promise<unknown> {
    const mounted = this.#find(name)
    mounted.loading ??= this.#guarded(name, mounted, 'load', () => mounted.service.autoLoad?.()).then(
      () => {
        mounted.state.loaded = true
        this.#show(name, mounted)
      },
      error => {
        mounted.loading = undefined
        throw error
      },
    )
    await mounted.loading
    return mounted.service
  }

  /** Loads and starts one service; false if it already runs. Throws the errors of load(). */
  async start(name: string): Promise<boolean> {
    const mounted = this.#find(name)
    if (!mounted.state.running) delete mounted.state.error
    await this.load(name)
    return mounted.turns.run(async () => {
      if (mounted.state.running) return false
      this.#show(name, mounted)
      await this.#guarded(name, mounted, 'start', () => mounted.service.start?.())
      mounted.state.running = true
      return true
    })
  }

  /** Stops one service; false if it does not run. It counts as stopped even if its stop failed. */
  async stop(name: string): Promise<boolean> {
    const mounted = this.#find(name)
    return mounted.turns.run(async () => {
      if (!mounted.state.running) return false
      mounted.state.running = false
      this.#hide(mounted)
      await this.#guarded(name, mounted, 'stop', () => mounted.service.stop?.())
      return true
    })
  }

  /** Loads and starts every mounted service, or the named ones. Returns those that run then. */
  async startAll(names: readonly string[] = this.names()): Promise<string[]> {
    const started = await Promise.all(
      names.map(name =>
        this.start(name).then(
          () => [name],
          () => [], // counted, shown and logged by #guarded
        ),
      ),
    )
    return started.flat()
  }

  /** Stops all running services, the last mounted first. */
  async stopAll(): Promise<void> {
    for (const name of this.names().reverse()) await this.stop(name).catch(() => undefined) // logged by #guarded
  }

  /** Names of mounted and running services, and their settings with secrets masked. */
  snapshot(): ServiceSnapshot {
    const mounted = [...this.#mounted]
    return {
      mode: this.#mode,
      mount_index: mounted.map(([name]) => name),
      runtime_index: mounted.filter(([, { state }]) => state.loaded || state.running).map(([name]) => name),
      config_index: Object.fromEntries(mounted.map(([name, { config }]) => [name, this.#shown(name, config)])),
    }
  }

  /** status() of a service, null if it has none. Throws NOT_FOUND, TIMEOUT, PLUGIN_FAILED. */
  async status(name: string): Promise<unknown> {
    const mounted = this.#find(name)
    return (await this.#guarded(name, mounted, 'status', () => mounted.service.status?.())) ?? null
  }

  /** Commands by plugin and name. If getCliCommands throws, the plugin has none, and the failure is counted. */
  collectCliCommands(): Record<string, Record<string, CliHandler>> {
    return Object.fromEntries([...this.#mounted].map(([name, mounted]) => [name, this.#commands(name, mounted)]))
  }

  /**
   * Runs a command of a plugin: `['add', '--username', 'bob']`. Throws NOT_FOUND, USAGE, and the errors of the command. A
   * command has no time limit; its signal ends it.
   */
  async runCommand(name: string, argv: readonly string[], io: CommandIo): Promise<CommandOutcome> {
    const mounted = this.#find(name)
    const commands = this.#commands(name, mounted)
    const [command = '', ...args] = argv
    const called = io.called ?? `plugin-cmd ${name}`
    const handler = Object.hasOwn(commands, command) ? commands[command] : undefined
    if (command === '--help' || command === '-h')
      return { text: listed(name, called, commands), value: summaries(commands) }
    if (!handler) {
      const known = Object.keys(commands)
      const meant = nearest(command, known)
      const guess = meant === undefined ? '' : ` (did you mean ${meant}?)`
      const what =
        command === '' ? `${name} needs a command` : `${name} has no command ${JSON.stringify(command)}${guess}`
      throw new OsError('USAGE', `${what}: ${known.join(', ') || 'it has none'}`, {
        hint: `see os-node ${called} --help`,
      })
    }
    const form: CommandForm = {
      name: `${called} ${command}`,
      options: { ...handler.options, help: HELP },
      ...(handler.operands && { operands: handler.operands }),
    }
    const values = readArguments(form, args)
    if (values.help === true) return { text: helpOf(form, handler) }
    const { help: _, ...options } = checkOptions(form, values)
    try {
      // a command without a result is done
      return (await handler.run(options, io)) ?? {}
    } catch (thrown) {
      if (thrown instanceof OsError) throw thrown
      throw this.#failed(name, mounted, command, thrown)
    }
  }

  /** Like runCommand(), for a command line; prints the result and returns the exit code. */
  async dispatchPluginCli(
    pluginName: string,
    argv: readonly string[],
    {
      signal = new AbortController().signal,
      print = text => void process.stdout.write(`${text}\n`),
    }: Partial<CommandIo> = {},
  ): Promise<number> {
    try {
      const { value, text, exitCode = 0 } = await this.runCommand(pluginName, argv, { signal, print })
      if (text !== undefined) print(text)
      else if (value !== undefined) print(JSON.stringify(value))
      return exitCode
    } catch (thrown) {
      const error = asOsError(thrown)
      print(JSON.stringify({ ok: false, ...error.toJSON() }))
      return error.traits.exit
    }
  }

  #find(name: string): Mounted {
    const mounted = this.#mounted.get(name)
    if (!mounted) throw new OsError('NOT_FOUND', `no service ${JSON.stringify(name)} is mounted`)
    return mounted
  }

  async #guarded<T>(name: string, mounted: Mounted, what: string, call: () => T | Promise<T>): Promise<T> {
    try {
      return await guarded(`${name}: ${what}`, this.limitMs, call, this.#timers)
    } catch (thrown) {
      throw this.#failed(name, mounted, what, thrown)
    }
  }

  #failed(name: string, { state }: Mounted, what: string, thrown: unknown): OsError {
    const known = thrown instanceof OsError
    const error = known
      ? thrown
      : new OsError('PLUGIN_FAILED', `${name}: ${what} failed: ${asOsError(thrown).message}`, { cause: thrown })
    state.failures++
    state.error = error.message
    this.#logger.warn(`plugin ${error.message.startsWith(name) ? error.message : `${name}: ${error.message}`}`)
    return error
  }

  /** Counts and shows an error that a plugin threw outside of any call. */
  fault(name: string, what: string, thrown: unknown): void {
    const mounted = this.#mounted.get(name)
    if (mounted) this.#failed(name, mounted, what, thrown)
  }

  /** A plugin caused an uncaught error: its state is unknown, so it is stopped. */
  blame(name: string, thrown: unknown): void {
    if (!this.#mounted.has(name)) return
    this.fault(name, 'background work', thrown)
    void this.stop(name).catch(() => undefined) // logged by #guarded
  }

  #commands(name: string, mounted: Mounted): Record<string, CliHandler> {
    try {
      return { ...this.#standard(name, mounted), ...mounted.service.getCliCommands?.() }
    } catch (thrown) {
      this.#failed(name, mounted, 'getCliCommands', thrown)
      return {}
    }
  }

  /** Commands that every plugin has, unless it defines one of that name. */
  #standard(name: string, { service }: Mounted): Record<string, CliHandler> {
    return {
      start: {
        summary: 'start the plugin',
        run: async () => ({ value: { ok: true, started: await this.start(name), ...this.state(name) } }),
      },
      stop: {
        summary: 'stop the plugin',
        run: async () => ({ value: { ok: true, stopped: await this.stop(name), ...this.state(name) } }),
      },
      ...(service.status && {
        status: {
          summary: 'show its state',
          reads: true,
          run: async () => {
            const status = await this.status(name)
            return { value: typeof status === 'object' && status !== null ? { ...status } : { status } }
          },
        },
      }),
    }
  }

  #show(name: string, mounted: Mounted): void {
    const display = this.#display
    if (!display || mounted.shown) return
    mounted.shown = []
    try {
      const providers = mounted.service.displayProviders?.() ?? []
      mounted.shown = providers.filter(provider => display.register(provider))
      if (mounted.shown.length < providers.length)
        throw new OsError('BAD_REQUEST', 'a display provider was refused: it is invalid, or its name is in use')
    } catch (thrown) {
      this.#failed(name, mounted, 'displayProviders', thrown)
    }
  }

  #hide(mounted: Mounted): void {
    for (const provider of mounted.shown ?? []) this.#display?.unregister(provider)
    mounted.shown = null
  }

  #shown(name: string, own: Record<string, unknown> | null): unknown {
    if (own) return masked(own)
    if (this.#config instanceof ConfigStore) return this.#config.masked(`RESOURCES.service_plugins.${name}`) ?? {}
    const resources = this.#config?.RESOURCES as { service_plugins?: Record<string, unknown> } | undefined
    return masked(resources?.service_plugins?.[name] ?? {})
  }
}
