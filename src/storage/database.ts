// The database manager of the specification: the query operations over the SQL view of the log. Sqlite is sql.js in a
// worker thread, rebuilt from the log at each start. While it is rebuilt questions wait at most 5 s (DB_STARTING); when the
// worker dies they fail (DB_UNAVAILABLE) until a new one, started after a growing pause, has read the log again. Facts are
// safe in the log all the time: losing the view loses nothing.
import { Backoff } from '../lib/backoff'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import type { LogSource } from '../log'
import type { Question } from './messages'
import type { DeviceList, PacketDetail, PacketList, PacketQuery, SensorList, SensorQuery } from './shapes'
import { clampLimit, clampOffset, whole } from './shapes'
import { SqlThread } from './sqlthread'

/** storage.sql of Config.json */
export interface SqlConfig {
  enabled?: boolean
  dialect?: string
  driver?: { path?: string }
}

export interface DatabaseOptions {
  sql?: SqlConfig
  log: LogSource
  /** path of the bundle, which is the worker too */
  workerScript: string
  clock?: Clock
  logger?: Logger
  /** bounds of the open window; the oldest packets leave it first */
  maxPackets?: number
  maxBytes?: number
  /** how long a question waits for a rebuild */
  startWaitMs?: number
  backoff?: Backoff
}

export interface DatabaseStatus {
  state: 'closed' | 'starting' | 'up' | 'down'
  reason?: string
  dialect: string
  lag_records: number
  packets: number
  duplicates: number
  /** packets that left the bounded window */
  left: number
  /** questions that failed because the view was down or kept off */
  refused: number
}

export class Database {
  readonly #o: DatabaseOptions
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #backoff: Backoff
  #thread: SqlThread | undefined
  #state: DatabaseStatus['state'] = 'closed'
  #reason = ''
  #paused = false
  #refused = 0
  #target = 0
  #waiting: (() => void)[] = []
  #retry: NodeJS.Timeout | undefined
  #unsubscribe: () => void = () => undefined

  constructor(options: DatabaseOptions) {
    this.#o = options
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#backoff = options.backoff ?? new Backoff({ minMs: 500, maxMs: 30_000 })
  }

  /** Starts the view. Throws DB_NOT_CONFIGURED when storage.sql is off or names a dialect that is not built in. */
  async connect(): Promise<void> {
    const { enabled = true, dialect = 'sqlite' } = this.#o.sql ?? {}
    if (!enabled) throw new OsError('DB_NOT_CONFIGURED', 'database not configured')
    if (dialect !== 'sqlite') {
      throw new OsError('DB_NOT_CONFIGURED', `database not configured: dialect "${dialect}" is not available`, {
        hint: 'set storage.sql.dialect to "sqlite"',
      })
    }
    if (this.#state !== 'closed') return
    this.#unsubscribe = this.#o.log.onCommit(() => this.#thread?.feed())
    this.#start()
  }

  /** Gives the memory of the view back, or keeps it from starting; questions fail with the reason until resume(). */
  async pause(reason: string): Promise<void> {
    const closed = this.close()
    this.#paused = true
    this.#state = 'down'
    this.#reason = reason
    await closed
  }

  /** Builds the view after pause(); without one it does nothing. Throws as connect(). */
  async resume(): Promise<void> {
    if (!this.#paused) return
    this.#paused = false
    this.#state = 'closed'
    await this.connect()
  }

  async close(): Promise<void> {
    this.#paused = false
    this.#unsubscribe()
    clearTimeout(this.#retry)
    this.#state = 'closed'
    this.#wake()
    const thread = this.#thread
    this.#thread = undefined
    await thread?.end()
  }

  /** How many committed facts the view does not hold yet. */
  lagRecords(): number {
    const applied = this.#thread?.appliedSeq ?? 0
    const { log } = this.#o
    return applied >= log.committedSeq ? 0 : log.factsAfter(applied)
  }

  status(): DatabaseStatus {
    const counts = this.#thread?.counts
    return {
      state: this.#state,
      ...(this.#state === 'down' && { reason: this.#reason }),
      dialect: 'sqlite',
      lag_records: this.lagRecords(),
      packets: counts?.packets ?? 0,
      duplicates: counts?.duplicates ?? 0,
      left: counts?.left ?? 0,
      refused: this.#refused,
    }
  }

  /** Devices, the one seen last first. `limit` 1..500 (100), `offset` from 0; both are clamped. */
  async queryDevices(limit?: number, offset?: number): Promise<DeviceList> {
    const question = { name: 'devices', limit: clampLimit(limit, 100), offset: clampOffset(offset) } as const
    return (await this.#ask(question)) as DeviceList
  }

  /** Packets by timestamp_raw, newest first. Throws BAD_REQUEST for a since or until that is no number. */
  async queryPackets(query: PacketQuery = {}): Promise<PacketList> {
    check(query)
    return (await this.#ask({ name: 'packets', query })) as PacketList
  }

  /** One packet with its sensors, null when there is none of that uuid. */
  async queryPacket(uuid: string): Promise<PacketDetail | null> {
    return (await this.#ask({ name: 'packet', uuid: String(uuid) })) as PacketDetail | null
  }

  /** Sensor rows by timestamp_raw, newest first, then by their place in the packet. */
  async querySensors(query: SensorQuery = {}): Promise<SensorList> {
    check(query)
    return (await this.#ask({ name: 'sensors', query })) as SensorList
  }

  async #ask(question: Question): Promise<unknown> {
    if (this.#state === 'starting') await this.#started()
    if (this.#state === 'up') return this.#thread!.ask(question)
    if (this.#state === 'starting') throw new OsError('DB_STARTING', 'database starting')
    if (this.#state === 'closed') throw new OsError('DB_NOT_CONFIGURED', 'database not configured')
    this.#refused++
    throw new OsError('DB_UNAVAILABLE', 'database unavailable', { details: { reason: this.#reason } })
  }

  /** Waits until the state is no longer `starting`, or for the longest wait. */
  #started(): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(done, this.#o.startWaitMs ?? 5000)
      function done(): void {
        clearTimeout(timer)
        resolve()
      }
      this.#waiting.push(done)
    })
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #start(): void {
    this.#state = 'starting'
    this.#target = this.#o.log.committedSeq
    try {
      this.#thread = new SqlThread({
        script: this.#o.workerScript,
        log: this.#o.log,
        maxPackets: this.#o.maxPackets ?? 200_000,
        maxBytes: this.#o.maxBytes ?? 16 * 1024 * 1024,
        onApplied: upTo => this.#applied(upTo),
        onDead: error => this.#died(error),
      })
    } catch (error) {
      this.#died(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #applied(upTo: number): void {
    if (this.#state !== 'starting' || upTo < this.#target) return
    this.#state = 'up'
    this.#backoff.up(this.#clock.mono())
    this.#wake()
  }

  #died(error: Error): void {
    if (this.#state === 'closed' || this.#paused) return
    this.#state = 'down'
    this.#reason = error.message
    this.#thread = undefined
    const pause = this.#backoff.next(this.#clock.mono())
    this.#logger.warn(`the SQL view stopped (${error.message}); it is started again in ${pause} ms`)
    this.#wake()
    this.#retry = setTimeout(() => this.#start(), pause)
    this.#retry.unref()
  }
}

function check({ since, until, limit, offset }: PacketQuery): void {
  if (since !== undefined && since !== null) whole('since', since)
  if (until !== undefined && until !== null) whole('until', until)
  clampLimit(limit, 50)
  clampOffset(offset)
}
