// The contract between a gateway and its plugins. A plugin is a definition (name, defaults, create) whose service has any of
// the members below; it reaches the gateway through its host only. Every call into a service is guarded by the manager: what
// it throws is counted and shown, and a start that does not come back is given up.
import type { ConfigStore } from '../config'
import type { GatewayStatus } from '../gateway/status'
import type { Clock } from '../lib/clock'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { OptionSpec, OptionValues } from '../lib/options'
import type { LinkState } from '../links/contracts'
import type { Transporter } from '../node/transporters'
import type { Fact, LinkMetadata, Reading } from '../pipeline/fact'

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
  /** registered while the service is loaded; providers of the display room */
  displayProviders?(): readonly unknown[]
}

/** One command of a plugin: `os-node plugin-cmd PLUGIN COMMAND …`, POST /api/plugins, the terminal UI. */
export interface CliHandler {
  readonly summary: string
  readonly options?: Readonly<Record<string, OptionSpec>>
  /** options that may stand without their name, in this order */
  readonly operands?: readonly string[]
  /** true: only looks, so that whoever may only read may run it */
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
  /** 0 when left out */
  readonly exitCode?: number
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
  /** absent where nobody shows anything */
  readonly display?: DisplayAccess
  /** the settings of this plugin, defaults included */
  settings(): Record<string, unknown>
}

/** The part of the library's Node that plugins use; display providers are given the same. */
export interface PluginNode {
  readonly assignedId: number
  readonly deviceId: string
  dispatch(packet: Uint8Array, medium?: string | null): Promise<boolean>
  receive(packet: Uint8Array): object
  readonly transporterManager: {
    /** a sender with options of its own over those of the configuration; null: nobody knows the medium. Close it. */
    open(medium: string, options: Record<string, unknown>): Transporter | null
  }
}

export interface FactEvent {
  readonly fact: Fact
  readonly link: LinkMetadata
}

export interface LinkEvent {
  readonly name: string
  readonly state: LinkState
  readonly before: LinkState
}

/** A packet that a receiver took, before anything is known of its content. Its bytes are valid during the call only. */
export interface PacketEvent {
  readonly packet: Uint8Array
  readonly medium: string
  /** where it came from, as the medium writes it */
  readonly address: string
}

/** A running gateway as plugins see it. Listeners get each event once, in order; one that throws is counted and told. */
export interface GatewayAccess {
  status(): GatewayStatus
  /** Readings of the plugin, into the log and upstream. Throws ALL_READINGS_REFUSED, BAD_ID. */
  submit(readings: readonly Reading[], options?: { device_id?: string; device_status?: string }): unknown
  /** every fact that is logged: own and received. Returns how to stop. */
  onFact(listener: (event: FactEvent) => void): () => void
  /** every packet that a receiver took; its bytes are only valid during the call */
  onPacket(listener: (event: PacketEvent) => void): () => void
  /** every change of a link's state */
  onLink(listener: (event: LinkEvent) => void): () => void
}

/** The display room, handed in: it stands on the same floor. */
export interface DisplayAccess {
  /** false: the name is taken, or what was given is no provider */
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
  /** merged into RESOURCES.service_plugins.<name>; what stands there wins */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** true: stopped and started again when its settings change */
  readonly restart?: boolean
  create(host: PluginHost): Service | Promise<Service>
}

/** Plugins by name, loaded on first use. */
export type PluginTable = Readonly<Record<string, () => Promise<PluginDefinition>>>
