// The contract between a gateway and its plugins. A plugin is a definition (name, defaults, create) whose service has any of
// the members below; it reaches the gateway through its host only. Every call into a service is guarded by the manager: what
// it throws is counted and shown, and a start that does not come back is given up.
import type { ConfigStore } from '../config'
import type { GatewayApi } from '../gateway/api'
import type { Clock } from '../lib/clock'
import type { OptionSpec, OptionValues } from '../lib/command-options'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { Transporter } from '../node/transporters'
import type { UserStore } from './users'

export type { OptionSpec, OptionValues }

/** What a plugin's `create` gives. All members may be left out; all may return promises. */
export interface Service {
  /** called once, by the first load() */
  autoLoad?(): unknown
  /** after load, at the start of the gateway or by hand; must come back within the manager's time limit */
  start?(): unknown
  stop?(): unknown
  status?(): unknown
  getCliCommands?(): Record<string, CliHandler>
  /** Sections and display providers, registered from load to stop. The same objects at each call. */
  displayProviders?(): readonly unknown[]
}

/** One command of a plugin: `os-node plugin-cmd PLUGIN COMMAND …`, POST /api/plugins, the terminal UI. */
export interface CliHandler {
  readonly summary: string
  /** words behind the command, for its --help */
  readonly example?: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** options that may be written without their name, in this order */
  readonly operands?: readonly string[]
  /** true: only looks, so that a viewer may run it */
  readonly reads?: boolean
  run(options: OptionValues, io: CommandIo): Promise<CommandOutcome> | CommandOutcome
}

export interface CommandIo {
  /** aborted by Ctrl-C, by a client that left, by a time cap */
  readonly signal: AbortSignal
  /** a line at once, for commands that go on working */
  print(text: string): void
}

export interface CommandOutcome {
  /** the result as JSON */
  readonly value?: Record<string, unknown>
  /** the same for people; left out: the JSON */
  readonly text?: string
  /** sent one by one before the value, at the reader's pace */
  readonly rows?: AsyncIterable<unknown>
  /** 0 when left out */
  readonly exitCode?: number
}

/** The HTTP service of this program, handed in by main: it is on a higher floor. */
export interface WebService {
  /** Listens; host and port left out: as configured. False when it listens there already. Throws PORT_BUSY, NETWORK … */
  start(host?: string | null, port?: number | null): Promise<boolean>
  /** false when it did not listen */
  stop(): Promise<boolean>
  state(): WebState
  /** settles with an exit code when what start() started has ended; the signal ends it */
  ended?(signal: AbortSignal): Promise<number>
  readonly users: UserStore
  /** body of GET /api/dashboard */
  dashboard(sections?: readonly string[]): Promise<Record<string, unknown>>
}

export interface WebState {
  readonly running: boolean
  readonly host: string
  readonly port: number
  readonly url: string | null
  readonly uptime_s: number
}

/** What a plugin may use of the program it lives in. */
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
  /** absent outside a running gateway */
  readonly gateway?: GatewayAccess
  /** absent where there is no display */
  readonly display?: DisplayAccess
  /** absent where there is none to start */
  readonly web?: WebService
  /** the settings of this plugin, defaults included */
  settings(): Record<string, unknown>
  /** starts and stops this plugin as plugin-load and the API do; false when there was nothing to do */
  start(): Promise<boolean>
  stop(): Promise<boolean>
}

/** The part of the library's Node that plugins use; display providers get the same. */
export interface PluginNode {
  readonly assignedId: number
  readonly deviceId: string
  dispatch(packet: Uint8Array | string, medium?: string | null): Promise<boolean>
  receive(packet: Uint8Array): object
  /** the packet as one that stands alone (X15); throws RELAY_UNDECODABLE */
  relay(packet: Uint8Array): Uint8Array
  /** a data packet in plain form, deciphered by the sessions of this node; null when no key fits */
  readable(packet: Uint8Array): Uint8Array | null
  readonly transporterManager: {
    /** a sender with options of its own over those of the configuration; null: an unknown medium. Close it. */
    open(medium: string, options: Record<string, unknown>): Transporter | null
  }
}

/** What plugins use of a running gateway: nothing that stops it. Listeners get each event once, in order; one that throws is counted and logged. */
export type GatewayAccess = Pick<
  GatewayApi,
  'status' | 'links' | 'submit' | 'readable' | 'onFact' | 'onPacket' | 'onSent' | 'onLink'
>

/** A section of a plugin that needs no formats of its own; a display provider of the display room does as well. */
export interface Section {
  readonly section_id: string
  readonly display_name: string
  readonly plugin_name: string
  /** `plugin` when left out */
  readonly category?: string
  /** 0–100, 50 when left out */
  readonly priority?: number
  readonly refresh_interval_s?: number
  data(): object | Promise<object>
}

/** The display room, handed in: it is on the same floor. */
export interface DisplayAccess {
  /** the class that plugins extend for formats of their own */
  readonly DisplayProvider: unknown
  /** Takes a Section or a provider. False: the name is taken. Throws BAD_REQUEST for what is neither. */
  register(provider: unknown): boolean
  unregister(provider: unknown): void
  metadata(): Record<string, unknown>
  renderSection(section: string, format?: string): Promise<unknown> | unknown
  collectAllSections(format?: string): Promise<Record<string, unknown>> | Record<string, unknown>
}

/** A plugin: what its module exports as `default`, `plugin` or as a whole. */
export interface PluginDefinition {
  /** lower case, digits and _ */
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary?: string
  /** merged into RESOURCES.service_plugins.<name>; what is there wins */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** true: stopped and started again when its settings change */
  readonly restart?: boolean
  create(host: PluginHost): Service | Promise<Service>
}

/** Plugins by name, loaded on first use. */
export type PluginTable = Readonly<Record<string, () => Promise<PluginDefinition>>>
