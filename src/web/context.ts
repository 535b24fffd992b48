// Everything the web face needs of the gateway, as one interface: the face knows no concrete room, and a test hands in
// plain objects. Functions are called once per request and must be cheap; what throws costs its own part of the answer.
import type { JobRunner } from '../commands/jobs'
import type { Change, SchemaRow, Update } from '../config'
import type { DisplayRegistry } from '../display'
import type { GatewayApi, TransportApi } from '../gateway/api'
import type { OsError } from '../lib/errors'
import type { Logger, LogLine } from '../lib/logger'
import type { TransportView } from '../links/transport-view'
import type { httpPlugins } from '../services/http'
import type { UserStore } from '../services/users'
import type { HistoryQuery, PacketQuery, SensorQuery } from '../storage'
import type { SystemUpdate } from './system-update'

/** Writes a backup into a sink; a passphrase seals the secrets into it. Throws TOO_MANY_JOBS while another one is written. */
export type WriteBackup = (
  passphrase: string | undefined,
  sink: (bytes: Uint8Array) => Promise<void>,
) => Promise<object>

/** Takes a backup in pieces; see backup.ts. */
export interface Restore {
  /** `offset` 0 begins anew. Returns the bytes so far. Throws BAD_REQUEST, BODY_TOO_LARGE, DISK_FULL, STORAGE. */
  piece(offset: number, bytes: Uint8Array): number
  /** Checks what was uploaded, then the gateway stops. Throws BAD_REQUEST, E_BACKUP, E_PASSPHRASE, DISK_FULL, STORAGE. */
  start(size: number, passphrase: string | undefined): Promise<object>
}

export type { LatestReading } from '../gateway/latest'

/**
 * The data queries; each answers the body of its route (specification "Data query endpoints"). They throw OsError
 * DB_NOT_CONFIGURED, DB_STARTING or DB_UNAVAILABLE; anything else they throw becomes DB_UNAVAILABLE.
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
  /** true when this very token was accepted a short while ago; must be cheap and constant in time */
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
  /** many keys, each as set() does it: what became of each; throws only what no key is to blame for */
  setAll(updates: readonly Update[]): Promise<readonly (Change | OsError)[]>
  /** nested sections, all or nothing; throws the same, FORBIDDEN with `details.keys` */
  update(nested: unknown): Promise<readonly Change[]>
  /** what is worth a warning, and no fault */
  advice?(): readonly string[]
}

/** Service plugins. Unknown names are BAD_REQUEST `unknown plugin`. */
export type PluginsControl = ReturnType<typeof httpPlugins>

/** Display providers (X31); the registry of the process. */
export type DisplayControl = Pick<DisplayRegistry, 'metadata' | 'render' | 'collect'>

export type WebLogger = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** What the page uses of a running gateway; what is absent cannot be done here. */
type WebGateway = Pick<GatewayApi, 'status' | 'latest'> & Partial<Pick<GatewayApi, 'outputs' | 'reload' | 'safeMode'>>

export interface WebContext extends WebGateway {
  readonly version: string
  /** absent: only the SD image updates itself */
  readonly update?: SystemUpdate
  readonly backup?: WriteBackup
  readonly restore?: Restore
  /** why the disk cannot be written, without a path: anyone may ask for /health. undefined: it can */
  trouble?(): string | undefined
  /** the dashboard's parts by name: identity, config, transport, pipeline, plugins, db, users, … (secrets masked) */
  readonly sections: Readonly<Record<string, () => unknown>>
  readonly config: WebConfig
  transport(): TransportView
  /** absent: media cannot be switched here */
  readonly media?: Omit<TransportApi, 'view'>
  /** null while storage.sql is not enabled; a function where it may change while running */
  readonly db: Queries | null | (() => Queries | null)
  readonly auth: WebAuth
  /** web_user.read_only and web_user.management_enabled, as shown by the dashboard */
  settings?(): { read_only: boolean; management_enabled: boolean }
  /** names this gateway is reached by, besides its addresses; read at the start of the server */
  hosts?(): readonly string[]
  /** web_user.session_idle_seconds and session_max_seconds */
  sessionTimes?(): { idleS: number; maxS: number }
  /** absent: the admin token only */
  readonly users?: UserStore
  /** absent: no plugins here */
  readonly plugins?: PluginsControl
  readonly display?: DisplayControl
  /** absent: no commands over HTTP */
  readonly jobs?: JobRunner
  readonly events?: Pick<GatewayApi, 'onReading' | 'onLink'>
  /** the newest lines of the log, oldest first */
  log?(): readonly LogLine[]
  readonly logger: WebLogger
}
