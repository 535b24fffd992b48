// Everything the web service needs of the gateway, as one interface: the service knows no concrete room, and tests pass
// plain objects. Functions are called once per request and must be cheap; one that throws affects only its own part of
// the answer.
import type { JobRunner } from '../commands/jobs'
import type { Change, SchemaRow, SettingUpdate } from '../config'
import type { DisplayRegistry } from '../display'
import type { GatewayApi, Queries, TransportApi } from '../gateway/api'
import type { OsError } from '../lib/errors'
import type { Logger, LogLine } from '../lib/logger'
import type { TransportView } from '../links/transport-view'
import type { httpPlugins } from '../services/http'
import type { UserStore } from '../services/users'
import type { SystemUpdate } from './system-update'
import type { SystemWifi } from './system-wifi'

/**
 * Writes a backup into a sink; a passphrase includes the secrets, encrypted with it. Throws TOO_MANY_JOBS while another
 * is written.
 */
export type WriteBackup = (
  passphrase: string | undefined,
  sink: (bytes: Uint8Array) => Promise<void>,
) => Promise<object>

/** Receives a backup in pieces; see backup.ts. */
export interface Restore {
  /** `offset` 0 starts again. Returns the bytes so far. Throws BAD_REQUEST, BODY_TOO_LARGE, DISK_FULL, STORAGE. */
  piece(offset: number, bytes: Uint8Array): number
  /** Checks the upload, then the gateway stops. Throws BAD_REQUEST, E_BACKUP, E_PASSPHRASE, DISK_FULL, STORAGE. */
  start(size: number, passphrase: string | undefined): Promise<object>
}

export type { Queries } from '../gateway/api'
export type { LatestReading } from '../gateway/latest'

export interface WebAuth {
  /** web_user.auth_enabled, read per request */
  enabled(): boolean
  /** true for the admin token; may be slow (scrypt), so the server runs one at a time */
  verify(token: string): Promise<boolean>
  /** true if this token was accepted recently; must be cheap and constant-time */
  remembered?(token: string): boolean
  /** a value that changes with the token, so that sessions opened with the old one end */
  stamp?(): unknown
}

/** The configuration for the web service. Secrets are masked (X19); keys are dotted. */
export interface WebConfig {
  /** a value by dotted path; without one the complete configuration */
  get(key?: string): unknown
  has(key: string): boolean
  /** every key with type, allowed values and meaning */
  rows(): readonly SchemaRow[]
  /** prefixes of the keys that may be written over HTTP */
  prefixes(): readonly string[]
  writable(key: string): boolean
  /**
   * Throws CONFIG_KEY, CONFIG_INVALID (also for links that could not be created), CONFIG_WRITE, USAGE (unknown type),
   * FORBIDDEN outside of the prefixes.
   */
  set(key: string, value: unknown, type?: string): Promise<Change>
  /** many keys, each like set(): the result of each; throws only errors that no single key caused */
  setAll(updates: readonly SettingUpdate[]): Promise<readonly (Change | OsError)[]>
  /** nested sections, all or nothing; throws the same, FORBIDDEN with `details.keys` */
  update(nested: unknown): Promise<readonly Change[]>
  /** warnings about a valid configuration */
  advice?(): readonly string[]
}

/** Service plugins. Unknown names are BAD_REQUEST `unknown plugin`. */
export type PluginsControl = ReturnType<typeof httpPlugins>

/** Display providers (X31); the registry of the process. */
export type DisplayControl = Pick<DisplayRegistry, 'metadata' | 'render' | 'collect'>

export type WebLogger = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

export interface WebContext extends Pick<GatewayApi, 'status' | 'latest' | 'outputs' | 'reload' | 'safeMode'> {
  readonly version: string
  /** absent: only the SD image updates itself */
  readonly update?: SystemUpdate
  /** absent: only the Wi-Fi of the SD image is set on the page */
  readonly wifi?: SystemWifi
  readonly backup: WriteBackup
  readonly restore: Restore
  /** why the disk cannot be written, without a path, because /health is public. undefined: it can */
  trouble(): string | undefined
  /** the dashboard's parts by name: identity, config, transport, pipeline, plugins, db, users, … (secrets masked) */
  readonly sections: Readonly<Record<string, () => unknown>>
  readonly config: WebConfig
  transport(): TransportView
  readonly media: Omit<TransportApi, 'view'>
  /** null while storage.sql is not enabled; a function if it can change at run time */
  readonly db: Queries | null | (() => Queries | null)
  readonly auth: WebAuth
  /** web_user.read_only and web_user.management_enabled, as shown by the dashboard */
  settings(): { read_only: boolean; management_enabled: boolean }
  /** host names of this gateway, besides its addresses; read at the start of the server */
  hosts(): readonly string[]
  /** web_user.session_idle_seconds and session_max_seconds */
  sessionTimes(): { idleS: number; maxS: number }
  readonly users: UserStore
  readonly plugins: PluginsControl
  readonly display: DisplayControl
  readonly jobs: JobRunner
  readonly events: Pick<GatewayApi, 'onReading' | 'onLink'>
  /** the newest lines of the log, oldest first */
  log(): readonly LogLine[]
  readonly logger: WebLogger
}
