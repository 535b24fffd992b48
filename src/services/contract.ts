// The contract between a gateway and its plugins. A plugin is a definition (name, defaults, create) whose service has any of
// the members below; it accesses the gateway only through its host. The manager guards every call into a service: errors are
// counted and shown, and a start that does not return times out.
import type { ConfigStore } from '../config'
import type { GatewayApi } from '../gateway/api'
import type { Clock } from '../lib/clock'
import type { OptionSpec, OptionValues } from '../lib/command-options'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { Transporter } from '../node/transporters'
import type { UserStore } from './users'

export type { OptionSpec, OptionValues }

/** The result of a plugin's `create`. All members are optional; all may return promises. */
export interface Service {
  /** called once, by the first load() */
  autoLoad?(): unknown
  /** called after load, at the start of the gateway or by a user; must return within the manager's time limit */
  start?(): unknown
  stop?(): unknown
  status?(): unknown
  getCliCommands?(): Record<string, CliHandler>
  /** Sections and display providers, registered from load to stop. Must return the same objects at each call. */
  displayProviders?(): readonly unknown[]
}

/** One command of a plugin: `os-node plugin-cmd PLUGIN COMMAND …`, POST /api/plugins, the terminal UI. */
export interface CliHandler {
  readonly summary: string
  /** words after the command, for its --help */
  readonly example?: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** options whose name may be left out, in this order */
  readonly operands?: readonly string[]
  /** true: the command only reads, so that an operator may run it */
  readonly reads?: boolean
  run(options: OptionValues, io: CommandIo): Promise<CommandOutcome> | CommandOutcome
}

export interface CommandIo {
  /** aborted by Ctrl-C, by a client that disconnects, by a time limit */
  readonly signal: AbortSignal
  /** prints a line immediately, for long-running commands */
  print(text: string): void
  /** what was typed before the command, for its help: `port-forwarder`; absent: `plugin-cmd NAME` */
  readonly called?: string
}

export interface CommandOutcome {
  /** the result as JSON */
  readonly value?: Record<string, unknown>
  /** the result as text for people; default: the JSON */
  readonly text?: string
  /** sent one by one before the value, at the reader's pace */
  readonly rows?: AsyncIterable<unknown>
  /** default: 0 */
  readonly exitCode?: number
}

/** The HTTP service of this program, passed in by main, since it is in a higher layer. */
export interface WebService {
  /** Listens; host and port default to the configuration. False if it already listens there. Throws PORT_BUSY, NETWORK … */
  start(host?: string | null, port?: number | null): Promise<boolean>
  /** false if it did not listen */
  stop(): Promise<boolean>
  state(): WebState
  /** settles with an exit code when the service started by start() has ended; the signal ends it */
  ended?(signal: AbortSignal): Promise<number>
  readonly users: UserStore
  /** the response body of GET /api/dashboard */
  dashboard(sections?: readonly string[]): Promise<Record<string, unknown>>
}

export interface WebState {
  readonly running: boolean
  readonly host: string
  readonly port: number
  readonly url: string | null
  readonly uptime_s: number
}

/** What a plugin may use of its program. */
export interface PluginHost {
  /** the plugin's name: its settings are RESOURCES.service_plugins.<name> */
  readonly name: string
  readonly config: ConfigStore
  readonly logger: Logger
  readonly clock: Clock
  readonly files: Files
  readonly dataDir: string
  readonly version: string
  /** the library's Node */
  readonly node: PluginNode
  /** absent without a running gateway */
  readonly gateway?: GatewayAccess
  /** absent without a display */
  readonly display?: DisplayAccess
  /** absent without an HTTP service */
  readonly web?: WebService
  /** the settings of this plugin, including defaults */
  settings(): Record<string, unknown>
  /** starts and stops this plugin as plugin-load and the API do; false if nothing changed */
  start(): Promise<boolean>
  stop(): Promise<boolean>
}

/** The part of the library's Node that plugins and display providers use. */
export interface PluginNode {
  readonly assignedId: number
  readonly deviceId: string
  dispatch(packet: Uint8Array | string, medium?: string | null): Promise<boolean>
  receive(packet: Uint8Array): object
  /** the packet as one that decodes without earlier packets (X15); throws RELAY_UNDECODABLE */
  relay(packet: Uint8Array): Uint8Array
  /** a data packet in plaintext, decrypted with the sessions of this node; null if no key fits */
  readable(packet: Uint8Array): Uint8Array | null
  readonly transporterManager: {
    /** a sender with the configured options, overridden by `options`; null: an unknown medium. The caller must close it. */
    open(medium: string, options: Record<string, unknown>): Transporter | null
  }
}

/**
 * What plugins may use of a running gateway: nothing that stops it. Listeners get each event once, in order; if one throws,
 * that is counted and logged.
 */
export type GatewayAccess = Pick<
  GatewayApi,
  'status' | 'links' | 'submit' | 'readable' | 'onFact' | 'onPacket' | 'onSent' | 'onLink'
>

/** A section of a plugin without its own formats; a display provider of the display room may be used instead. */
export interface Section {
  readonly section_id: string
  readonly display_name: string
  readonly plugin_name: string
  /** default: `plugin` */
  readonly category?: string
  /** 0–100, default: 50 */
  readonly priority?: number
  readonly refresh_interval_s?: number
  data(): object | Promise<object>
}

/** The display room, passed in, since it is in the same layer. */
export interface DisplayAccess {
  /** the class that plugins extend for their own formats */
  readonly DisplayProvider: unknown
  /** Adds a Section or a provider. False: the name is in use. Throws BAD_REQUEST for anything else. */
  register(provider: unknown): boolean
  unregister(provider: unknown): void
  metadata(): Record<string, unknown>
  renderSection(section: string, format?: string): Promise<unknown> | unknown
  collectAllSections(format?: string): Promise<Record<string, unknown>> | Record<string, unknown>
}

/** A plugin: what its module exports, as `default`, as `plugin` or as the module itself. */
export interface PluginDefinition {
  /** lower case, digits and _ */
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary?: string
  /** merged into RESOURCES.service_plugins.<name>; existing values take precedence */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** true: restarted when its settings change */
  readonly restart?: boolean
  create(host: PluginHost): Service | Promise<Service>
}

/** Plugins by name, loaded at first use. */
export type PluginTable = Readonly<Record<string, () => Promise<PluginDefinition>>>
