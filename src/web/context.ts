// Everything the web face needs of the gateway, as one interface: the face knows no concrete room, and a test hands in
// plain objects. Functions are called once per request and must be cheap; what throws costs its own part of the answer.
import type { JobRunner } from '../commands/jobs'
import type { Change, SchemaRow } from '../config'
import type { DisplayRegistry } from '../display'
import type { SafeModeReport } from '../gateway/guard/crashes'
import type { GatewayStatus } from '../gateway/status'
import type { LogLine } from '../lib/logger'
import type { OutputsControl } from '../links/hardware'
import type { TransportView } from '../links/transport-view'
import type { UserStore } from '../services/users'

export type { GatewayStatus, LinkStatus } from '../gateway/status'
export type { TransportView } from '../links/transport-view'

/** The newest readings of one device by one way (own source group, or medium and source). */
export interface LatestReadings {
  readonly device_id: string
  /** UNIX milliseconds */
  readonly t_raw: number
  readonly sensors: readonly { id: string; status: string; unit: string; value: number | null }[]
  /** 'local' for own sensors */
  readonly medium: string
  readonly source_aid: number
}

export interface PacketQuery {
  device_id?: string
  status?: string
  /** whole UNIX seconds, inclusive */
  since?: number
  until?: number
  limit: number
  offset: number
}

export interface SensorQuery {
  device_id?: string
  sensor_id?: string
  since?: number
  until?: number
  limit: number
  offset: number
}

export interface HistoryQuery {
  device_id: string
  sensor_id: string
  since?: number
  until?: number
  buckets: number
}

/**
 * The data queries; each answers the body of its route (specification "Data query endpoints"). They throw OsError
 * DB_NOT_CONFIGURED, DB_STARTING or DB_UNAVAILABLE; anything else they throw is told as DB_UNAVAILABLE.
 */
export interface Queries {
  queryDevices(limit: number, offset: number): Promise<object>
  queryPackets(query: PacketQuery): Promise<object>
  /** null when there is no such packet */
  queryPacket(uuid: string): Promise<object | null>
  querySensors(query: SensorQuery): Promise<object>
  queryHistory(query: HistoryQuery): Promise<object>
}

export interface WebAuth {
  /** web_user.auth_enabled, read per request */
  enabled(): boolean
  /** true for the admin token; may take long (scrypt), so the server runs one at a time */
  verify(token: string): Promise<boolean>
  /** true when this very token was found right a short while ago; must be cheap and constant in time */
  remembered?(token: string): boolean
  /** another value than before once there is another token, so that sessions opened with the old one end */
  stamp?(): unknown
}

/** What is known of the configuration here. Secrets leave masked (X19); keys are dotted. */
export interface WebConfig {
  /** a value by dotted path, the whole configuration without one */
  get(key?: string): unknown
  has(key: string): boolean
  /** every key with its type, what is allowed, and what it means */
  rows(): readonly SchemaRow[]
  /** keys that may be written over HTTP, with all below them */
  prefixes(): readonly string[]
  writable(key: string): boolean
  /** Throws CONFIG_KEY, CONFIG_INVALID (also for links that could not be made), CONFIG_WRITE, USAGE (no such type), FORBIDDEN outside of the prefixes. */
  set(key: string, value: unknown, type?: string): Promise<Change>
  /** nested sections, all or nothing; throws the same, FORBIDDEN with `details.keys` */
  update(nested: unknown): Promise<readonly Change[]>
}

export interface PluginItem {
  readonly name: string
  readonly config_prefix: string
  readonly enabled: boolean
  readonly mode: string
  readonly mounted: boolean
  readonly loaded: boolean
}

export interface PluginList {
  readonly plugins: { readonly mount_index: unknown; readonly runtime_index: unknown; readonly config_index: unknown }
  readonly items: readonly PluginItem[]
}

/** Service plugins. Unknown names are BAD_REQUEST `unknown plugin`. */
export interface PluginsControl {
  list(): PluginList
  load(plugin: string): Promise<unknown>
  start(plugin: string): Promise<unknown>
  stop(plugin: string): Promise<unknown>
  setEnabled(plugin: string, enabled: boolean): Promise<unknown>
  /** one command of the plugin's own, as on the command line */
  command(plugin: string, argv: readonly string[]): Promise<{ exit_code: number; stdout?: string; stderr?: string }>
}

/** Display providers (X31); the registry of the process. */
export type DisplayControl = Pick<DisplayRegistry, 'metadata' | 'render' | 'collect'>

/** What happens while one looks on. Each returns how to stop. */
export interface WebEvents {
  onReading(listener: (reading: LatestReadings) => void): () => void
  /** `name`: the link that changed */
  onLink(listener: (name: string) => void): () => void
}

/** POST /api/transport. Unknown media are BAD_REQUEST `unknown medium`. */
export interface MediaControl {
  /** Throws FORBIDDEN when the key of the medium's flag may not be written over HTTP. */
  toggle(medium: string, enabled: boolean): Promise<{ name: string; enabled: boolean }>
  reload(medium: string): Promise<{ name: string; reloaded: boolean }>
}

export interface WebLogger {
  debug(text: string): void
  info(text: string): void
  warn(text: string): void
  error(text: string): void
}

export interface WebContext {
  readonly version: string
  status(): GatewayStatus
  /** why the disk cannot be written, without a path: anyone may ask for /health. undefined: it can */
  trouble?(): string | undefined
  /** the dashboard's parts by name: identity, config, transport, pipeline, plugins, db, users, … (secrets masked) */
  readonly sections: Readonly<Record<string, () => unknown>>
  readonly config: WebConfig
  transport(): TransportView
  /** absent: media cannot be switched here */
  readonly media?: MediaControl
  /** what can be set through the sources; absent: nothing can */
  readonly outputs?: OutputsControl
  /** reads Config.json again; throws CONFIG_SYNTAX, CONFIG_INVALID. Absent: not here */
  reload?(): Promise<object>
  /** What safe mode there is (R25); `leave`: ends it first, throws STARTING. Absent: not here */
  safeMode?(leave: boolean): Promise<SafeModeReport>
  latest(): readonly LatestReadings[]
  /** null while storage.sql is not enabled; a function where it may change while running */
  readonly db: Queries | null | (() => Queries | null)
  readonly auth: WebAuth
  /** web_user.read_only and web_user.management_enabled, as shown by the dashboard */
  settings?(): { read_only: boolean; management_enabled: boolean }
  /** names this gateway is reached by, besides its addresses; read at the start of the server */
  hosts?(): readonly string[]
  /** web_user.session_idle_seconds and session_max_seconds */
  sessionTimes?(): { idleS: number; maxS: number }
  /** absent: nobody but the admin token */
  readonly users?: UserStore
  /** absent: no plugins here */
  readonly plugins?: PluginsControl
  readonly display?: DisplayControl
  /** absent: no commands over HTTP */
  readonly jobs?: JobRunner
  readonly events?: WebEvents
  /** the newest lines of the log, oldest first */
  log?(): readonly LogLine[]
  readonly logger: WebLogger
}
