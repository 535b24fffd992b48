// Options and status of a database.
import type { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import type { ErrorCode } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { LogSource } from '../log'
import type { WindowSettings } from './folder'
import type { WorkerProgram } from './program'
import type { ServerDriver } from './server/setup'
import type { WindowReport } from './window-damage'

/** storage.sql of Config.json */
export interface SqlConfig {
  enabled?: boolean
  dialect?: string
  driver?: { path?: string } & ServerDriver
}

export interface DatabaseOptions {
  sql?: SqlConfig
  log: LogSource
  /** the sealed windows; absent: only an open window, whose oldest packets are dropped */
  windows?: WindowSettings
  clock?: Clock
  logger?: Logger
  /** limits of the open window */
  maxPackets?: number
  maxBytes?: number
  /** how long a query waits for a rebuild */
  startWaitMs?: number
  /** the worker ends after this time without a query; absent: never */
  idleMs?: number
  /** the worker is replaced if it uses more than this, and more than a multiple of its initial size */
  heapBytes?: number
  heapGrowth?: number
  /** default: the worker in the bundle */
  program?: () => WorkerProgram
  /** the worker of a database server; default: the one next to the bundle */
  serverScript?: string
  /** base of relative paths in storage.sql.driver */
  dataDir?: string
  backoff?: Backoff
}

export interface DatabaseStatus {
  /** `resting`: no worker runs until the next query */
  state: 'closed' | 'starting' | 'up' | 'resting' | 'down'
  reason?: string
  /** error code, if the reason is an error */
  code?: ErrorCode
  /** the newest error, which may be resolved */
  last_error?: { readonly code: ErrorCode; readonly message: string; readonly at: number }
  dialect: string
  lag_records: number
  packets: number
  duplicates: number
  /** packets dropped from the bounded view */
  left: number
  /** facts that the log dropped before they were stored, or that were in a damaged window and are no longer in the log */
  missed: number
  /** absent: no windows are kept, or none was read yet */
  windows?: WindowReport
  /** queries that failed because the view was down or disabled */
  refused: number
}

/** of a gateway without a database */
export const NO_DATABASE: DatabaseStatus = {
  state: 'closed',
  dialect: '',
  lag_records: 0,
  packets: 0,
  duplicates: 0,
  left: 0,
  missed: 0,
  refused: 0,
}
