// What a database is made with, and how it says that it is.
import type { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import type { ErrorCode } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { LogSource } from '../log'
import type { WindowSettings } from './messages'
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
  /** the sealed windows; left out: an open window only, whose oldest packets leave it */
  windows?: WindowSettings
  clock?: Clock
  logger?: Logger
  /** bounds of the open window */
  maxPackets?: number
  maxBytes?: number
  /** how long a question waits for a rebuild */
  startWaitMs?: number
  /** the worker ends after so long without a query; left out: it stays */
  idleMs?: number
  /** the worker is replaced when it takes more, and so many times what it took when it was new */
  heapBytes?: number
  heapGrowth?: number
  /** left out: the one of the bundle */
  program?: () => WorkerProgram
  /** the worker of a database server; left out: the one beside the bundle */
  serverScript?: string
  /** where the files that storage.sql.driver names lie, unless absolute */
  dataDir?: string
  backoff?: Backoff
}

export interface DatabaseStatus {
  /** `resting`: no worker runs until the next query */
  state: 'closed' | 'starting' | 'up' | 'resting' | 'down'
  reason?: string
  /** of the reason, where it is an error */
  code?: ErrorCode
  /** the newest error, which may be over */
  last_error?: { readonly code: ErrorCode; readonly message: string; readonly at: number }
  dialect: string
  lag_records: number
  packets: number
  duplicates: number
  /** packets that left the bounded view */
  left: number
  /** absent: none are kept, or none was looked at yet */
  windows?: WindowReport
  /** questions that failed because the view was down or kept off */
  refused: number
}
