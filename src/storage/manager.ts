// The database manager of the specification ("Library equivalents"): constructed from a node's configuration, then connect().
// With the log of this process it follows each commit; with the files of a data directory it checks for new records before
// each query, so it works in parallel with a gateway or without one.
//
// Errors: storage.sql off, a dialect that is not built in and a query before connect() are DB_NOT_CONFIGURED, a dead worker
// is DB_UNAVAILABLE, an unreadable log folder STORAGE.

import { isAbsolute, join } from 'node:path'
import { ConfigStore } from '../config/config-store'
import { checkArgument, checkNames, namesOf } from '../lib/checked'
import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { LogFiles, type LogSource } from '../log'
import { Database } from './database'
import type { DatabaseOptions, DatabaseStatus, SqlConfig } from './database-options'
import type { DeviceList, HistoryList, PacketDetail, PacketList, SensorList } from './shapes'
import { windowFolder } from './window-folder-options'

/** RAM for what a running gateway has not sealed yet, however many packets that are */
const UNSEALED_BYTES = 16 * 1024 * 1024

export interface DatabaseManagerOptions {
  /** the view of a running gateway, used instead of a separate one */
  database?: Database
  /** a log opened by this process; default: the files in `<dataDir>/log` */
  log?: LogSource
  /** default: the configured one */
  dataDir?: string
  clock?: Clock
  logger?: Logger
  files?: Files
}

/** Config.json as an object. */
type Dict = Readonly<Record<string, unknown>>

const OPTIONS = namesOf<DatabaseManagerOptions>()('database log dataDir clock logger files')

export class DatabaseManager {
  readonly #sql: SqlConfig
  readonly #store: ConfigStore | undefined
  readonly #options: DatabaseManagerOptions
  #database: Database | null
  #files: LogFiles | null = null

  /** `config`: the `config` or `store` of a Node, or a dict with `storage.sql` and the option `dataDir`. */
  constructor(config: ConfigStore | Dict, options: DatabaseManagerOptions = {}) {
    checkArgument('new DatabaseManager', 'config object', config)
    checkNames('new DatabaseManager', options, OPTIONS)
    this.#store = config instanceof ConfigStore ? config : ConfigStore.of(config)
    const tree = config instanceof ConfigStore ? config.config : config
    this.#sql = (tree.storage as { sql?: SqlConfig } | undefined)?.sql ?? {}
    this.#options = options
    this.#database = options.database ?? null
  }

  /** True while queries are answered, or will be after the log was read. */
  get connected(): boolean {
    return this.#database !== null && this.#database.status().state !== 'closed'
  }

  /** Starts to read the log. Throws DB_NOT_CONFIGURED, STORAGE. */
  async connect(): Promise<void> {
    if (this.connected) return
    const { log, clock, logger } = this.#options
    this.#files = log ? null : new LogFiles(join(this.#dataDir, 'log'), this.#options.files ?? realFiles)
    this.#files?.refresh()
    const database = new Database({
      sql: this.#sql,
      log: (log ?? this.#files)!,
      ...this.#windows(log !== undefined),
      ...(this.#place !== undefined && { dataDir: this.#place }),
      ...(clock && { clock }),
      ...(logger && { logger }),
    })
    await database.connect()
    this.#database = database
  }

  /** Devices, last seen first. `limit` 1–500, clamped, as in all methods here. */
  async queryDevices(limit = 100, offset = 0): Promise<DeviceList> {
    return this.#ready.queryDevices(limit, offset)
  }

  /** Packets, newest first; `since` and `until` in UNIX seconds, inclusive. Throws BAD_REQUEST. */
  async queryPackets(
    deviceId: string | null = null,
    status: string | null = null,
    since: number | null = null,
    until: number | null = null,
    limit = 50,
    offset = 0,
  ): Promise<PacketList> {
    return this.#ready.queryPackets({ device_id: deviceId, status, since, until, limit, offset })
  }

  /** One packet with its sensors; null if there is none with that uuid. */
  async queryPacket(uuid: string): Promise<PacketDetail | null> {
    return this.#ready.queryPacket(uuid)
  }

  /** Sensor rows, newest first, then by their index in the packet. Throws BAD_REQUEST. */
  async querySensors(
    sensorId: string | null = null,
    deviceId: string | null = null,
    since: number | null = null,
    until: number | null = null,
    limit = 50,
    offset = 0,
  ): Promise<SensorList> {
    return this.#ready.querySensors({ sensor_id: sensorId, device_id: deviceId, since, until, limit, offset })
  }

  /** All values of one sensor as `{t, count, min, mean, max}` in `buckets` (1–1000, clamped) of equal width. Throws BAD_REQUEST. */
  async queryHistory(
    deviceId: string,
    sensorId: string,
    since: number | null = null,
    until: number | null = null,
    buckets = 200,
  ): Promise<HistoryList> {
    return this.#ready.queryHistory({ device_id: deviceId, sensor_id: sensorId, since, until, buckets })
  }

  status(): DatabaseStatus | null {
    return this.#database?.status() ?? null
  }

  /** Closes the view if it started it; that of a gateway stays open. */
  async close(): Promise<void> {
    if (this.#options.database) return
    const database = this.#database
    this.#database = null
    await database?.close()
  }

  get #ready(): Database {
    if (!this.#database)
      throw new OsError('DB_NOT_CONFIGURED', 'database not configured', { hint: 'call connect() first' })
    this.#files?.refresh()
    return this.#database
  }

  /** The files of a possibly running gateway are only read, and its unsealed data may be large. */
  #windows(own: boolean): Pick<DatabaseOptions, 'windows' | 'maxPackets' | 'maxBytes'> {
    const path = this.#sql.driver?.path ?? ''
    const dir =
      own && !isAbsolute(path) && this.#place === undefined ? undefined : windowFolder(path, this.#place ?? '/')
    const windows = dir === undefined ? {} : { windows: { dir, readOnly: !own } }
    return own ? windows : { ...windows, maxPackets: Number.POSITIVE_INFINITY, maxBytes: UNSEALED_BYTES }
  }

  get #place(): string | undefined {
    return this.#options.dataDir ?? this.#store?.dataDir
  }

  get #dataDir(): string {
    const dir = this.#place
    if (dir === undefined)
      throw new OsError('DB_NOT_CONFIGURED', 'database not configured: no data directory', {
        hint: 'pass the configuration of a node, or the option dataDir',
      })
    return dir
  }
}
