// The query operations of the specification over the SQL view of the log. Sqlite is sql.js in a worker thread: sealed windows
// in files, and an open one that is rebuilt from the log when the worker starts. During the rebuild queries wait at most 5 s
// (DB_STARTING); if the worker dies they fail (DB_UNAVAILABLE) until a new one, started after a backoff, has read the log
// again. The facts are in the log: a lost view loses no data.
//
// A view with `idleMs` has a worker only while queries are received, or while the log contains a complete window to seal:
// this saves tens of megabytes on a board without queries.
import { randomInt } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { Backoff } from '../lib/backoff'
import { type Clock, systemClock } from '../lib/clock'
import { within } from '../lib/deadline'
import { asOsError, OsError, orElse } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers } from '../lib/timers'
import type { LogSource } from '../log'
import type { DatabaseOptions, DatabaseStatus } from './database-options'
import type { IdQuestion, Question } from './messages'
import { Missed, type StoredRange } from './missed-facts'
import { serverProgram } from './program'
import type { IdAnswer, IdWork } from './server/ids'
import { PORTS, type ServerSetup, serverSetup } from './server/setup'
import type {
  DeviceList,
  HistoryList,
  HistoryQuery,
  PacketDetail,
  PacketList,
  PacketQuery,
  SensorList,
  SensorQuery,
} from './shapes'
import { checkQuery, clampLimit, clampOffset } from './shapes'
import { SqlThread } from './sqlthread'
import type { ViewCounts } from './view'
import { WindowDamage } from './window-damage'
import { windowRange } from './windowfile'

/** decision 0012: a window contains up to 32 k packets or 6 MB */
const WINDOW_PACKETS = 32_768
export const WINDOW_BYTES = 6 * 1024 * 1024
const COUNT_WAIT_MS = 20_000
const HEAP_BYTES = 48 * 1024 * 1024
/** the name of a database server's cursor in the log, and of the number that identifies the log at the server */
export const SERVER_CURSOR = 'sql'
const ORIGIN = 'sql.origin'
/** do not replace a worker that is too large right after its start again and again */
const YOUNG_MS = 60_000
/** nor one that is large because of the summaries of many devices: a new one would read them all and be as large */
const HEAP_GROWTH = 2

const notConfigured = (): OsError => new OsError('DB_NOT_CONFIGURED', 'database not configured')

export class Database {
  readonly #o: DatabaseOptions
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #backoff: Backoff
  readonly #maxPackets: number
  readonly #maxBytes: number
  #thread: SqlThread | undefined
  /** settles when the last worker has ended: two workers must not write into one folder */
  #ended: Promise<void> = Promise.resolve()
  #life: symbol | undefined
  readonly #checked = new Set<string>()
  /** counts of the last worker */
  #counts: ViewCounts | undefined
  readonly #missed: Missed
  #sealedTo: number
  readonly #damage: WindowDamage
  #bornAt!: number
  /** size of the worker after it had read everything */
  #bornHeap!: number
  #idleTimer: NodeJS.Timeout | undefined
  #state: DatabaseStatus['state'] = 'closed'
  #reason = ''
  #error: DatabaseStatus['last_error']
  /** the dialect is that of a database server */
  readonly #server: boolean
  /** this process writes the windows, or to the server */
  readonly #keeps: boolean
  #paused = false
  #refused = 0
  #target!: number
  #waiting: (() => void)[] = []
  #retry: NodeJS.Timeout | undefined
  #unsubscribe: () => void = () => undefined

  constructor(options: DatabaseOptions) {
    this.#o = options
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#damage = new WindowDamage(this.#logger)
    this.#backoff = options.backoff ?? new Backoff({ minMs: 500, maxMs: 30_000 })
    this.#maxPackets = options.maxPackets ?? WINDOW_PACKETS
    this.#maxBytes = options.maxBytes ?? WINDOW_BYTES
    this.#server = this.dialect in PORTS
    const { windows } = options
    this.#keeps = this.#server || windows?.readOnly === false
    const sealed = this.#server
      ? [{ from: 0, to: this.#serverSeq() }]
      : windows
        ? sealedRanges(windows.dir, options.log)
        : []
    this.#sealedTo = Math.max(0, ...sealed.map(({ to }) => to))
    this.#missed = new Missed(options.log, sealed, this.#sealedTo)
  }

  get dialect(): string {
    return this.#o.sql?.dialect ?? 'sqlite'
  }

  /** Starts the view. Throws DB_NOT_CONFIGURED if storage.sql is off or names a dialect that is not built in. */
  async connect(): Promise<void> {
    const { log, sql } = this.#o
    if (sql?.enabled === false) throw notConfigured()
    if (this.dialect !== 'sqlite' && !this.#server) {
      throw new OsError('DB_NOT_CONFIGURED', `database not configured: dialect "${this.dialect}" does not exist`, {
        hint: 'set storage.sql.dialect to "sqlite", "postgresql" or "mysql"',
      })
    }
    if (this.#state !== 'closed') return
    if (!this.#server && log.cursor(SERVER_CURSOR)) log.appendCursor?.(SERVER_CURSOR, 0)
    if (this.#keeps)
      log.pin?.(
        () => (this.#server ? this.#serverSeq() : this.#sealedTo) + 1,
        segment => this.#missed.dropping(segment),
      )
    this.#unsubscribe = log.onCommit(() => {
      if (this.#thread) this.#thread.feed()
      else if (this.#state === 'resting' && this.#due()) this.#start()
    })
    if (this.#o.idleMs === undefined || this.#due()) this.#start()
    else this.#state = 'resting'
  }

  /** Frees the memory of the view, or keeps it from starting; queries fail with the reason until resume(). */
  async pause(reason: string): Promise<void> {
    const closed = this.close()
    this.#paused = true
    this.#state = 'down'
    this.#reason = reason
    await closed
  }

  /** Builds the view after pause(); otherwise does nothing. Throws the errors of connect(). */
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
    if (this.#thread) this.#end(this.#thread)
    await this.#ended
  }

  /** The number of committed facts that are not yet in the view. */
  lagRecords(): number {
    if (this.#state === 'resting') return 0
    const applied = this.#server ? this.#serverSeq() : (this.#thread?.appliedSeq ?? 0)
    const { log } = this.#o
    return applied >= log.committedSeq ? 0 : log.factsAfter(applied)
  }

  status(): DatabaseStatus {
    // before the first worker, use what is known from the log
    const known = this.#thread?.counts ?? this.#counts
    const { packets, duplicates, left, sealed } = known ?? {
      packets: this.#server ? 0 : this.#o.log.factsAfter(0),
      duplicates: 0,
      left: 0,
    }
    return {
      state: this.#state,
      ...(this.#state === 'down' && { reason: this.#reason }),
      ...(this.#server &&
        this.#error && { ...(this.#state === 'down' && { code: this.#error.code }), last_error: this.#error }),
      dialect: this.dialect,
      lag_records: this.lagRecords(),
      packets,
      duplicates: duplicates + this.#missed.duplicates,
      left: left + this.#missed.removed,
      missed: this.#missed.facts,
      ...(sealed && { windows: this.#damage.of(sealed) }),
      refused: this.#refused,
    }
  }

  /** status() with current counts: an idle view reads the log first; `starting` if that takes longer than 20 s. */
  async counted(): Promise<DatabaseStatus> {
    if (this.#state === 'resting') this.#start()
    if (this.#state === 'starting') await this.#started(COUNT_WAIT_MS)
    return this.status()
  }

  /** Devices, last seen first. `limit` 1..500 (100), `offset` from 0; both are clamped. */
  async queryDevices(limit?: number, offset?: number): Promise<DeviceList> {
    const question = { name: 'devices', limit: clampLimit(limit, 100), offset: clampOffset(offset) } as const
    return this.#ask(question) as Promise<DeviceList>
  }

  /** Packets by timestamp_raw, newest first. Throws BAD_REQUEST if since or until is not a number. */
  async queryPackets(query: PacketQuery = {}): Promise<PacketList> {
    checkQuery(query)
    return this.#ask({ name: 'packets', query }) as Promise<PacketList>
  }

  /** One packet with its sensors, null if there is none with that uuid. */
  async queryPacket(uuid: string): Promise<PacketDetail | null> {
    return this.#ask({ name: 'packet', uuid: String(uuid) }) as Promise<PacketDetail | null>
  }

  /** Sensor rows by timestamp_raw, newest first, then by their index in the packet. */
  async querySensors(query: SensorQuery = {}): Promise<SensorList> {
    checkQuery(query)
    return this.#ask({ name: 'sensors', query }) as Promise<SensorList>
  }

  /** All values of one sensor in 1..1000 buckets (200) of equal width. */
  async queryHistory(query: HistoryQuery): Promise<HistoryList> {
    checkQuery(query)
    return this.#ask({ name: 'history', query }) as Promise<HistoryList>
  }

  /**
   * Ids of the allocator that receivers share. Throws DB_NOT_CONFIGURED for another dialect than postgresql, and the errors
   * of a query.
   */
  async allocateIds(work: IdWork): Promise<IdAnswer> {
    if (this.dialect !== 'postgresql') throw new OsError('DB_NOT_CONFIGURED', 'ids are shared in PostgreSQL only')
    return this.#ask({ name: 'ids', work }) as Promise<IdAnswer>
  }

  async #ask(question: Question | IdQuestion, again = false): Promise<unknown> {
    if (this.#state === 'resting') this.#start()
    if (this.#state === 'starting') await this.#started()
    if (this.#state === 'up') {
      const thread = this.#thread!
      const answer = await thread.ask(question).finally(() => this.#quiet(true))
      // a window was lost during the query: the next worker rebuilds it from the log
      return thread.hole && !again ? this.#ask(question, true) : answer
    }
    if (this.#state === 'starting') throw new OsError('DB_STARTING', 'database starting')
    if (this.#state === 'closed') throw notConfigured()
    if (question.name !== 'ids') this.#refused++
    throw new OsError('DB_UNAVAILABLE', 'database unavailable', { details: { reason: this.#reason } })
  }

  /** Waits until the state is no longer `starting`, at most `ms`. */
  #started(ms = this.#o.startWaitMs ?? 5000): Promise<void> {
    const over = new Promise<void>(resolve => this.#waiting.push(resolve))
    return within(systemTimers, ms, over, () => undefined)
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** True if the log contains a complete window that is in no file. */
  #due(): boolean {
    const { log } = this.#o
    if (this.#server) return true
    if (!this.#keeps) return false
    return log.bytesAfter(this.#sealedTo) >= this.#maxBytes || log.factsAfter(this.#sealedTo) >= this.#maxPackets
  }

  #start(): void {
    this.#state = 'starting'
    const life = Symbol()
    this.#life = life
    void this.#ended.then(() => {
      if (life === this.#life && this.#state === 'starting') this.#launch()
    })
  }

  #launch(): void {
    const { log, windows, program } = this.#o
    this.#target = this.#server ? 0 : log.committedSeq
    this.#bornAt = this.#clock.mono()
    try {
      this.#thread = new SqlThread({
        log,
        maxPackets: this.#maxPackets,
        maxBytes: this.#maxBytes,
        checked: this.#checked,
        ...(windows && { windows }),
        ...(program && { program: program() }),
        ...(this.#server && { server: this.#serverWorker() }),
        ...(this.#keeps && { missed: this.#missed }),
        onApplied: (upTo, stored) => this.#applied(upTo, stored),
        onForeign: () => this.#newOrigin(),
        onDead: error => this.#died(error),
      })
    } catch (error) {
      this.#died(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #applied(upTo: number, stored: boolean): void {
    // after the commit at the server
    if (this.#server && stored) this.#o.log.appendCursor?.(SERVER_CURSOR, upTo)
    const { sealed } = this.#thread!.counts
    if (sealed) {
      this.#sealedTo = sealed.upTo
      this.#damage.look(sealed)
    }
    if (this.#state === 'starting') {
      if (upTo < this.#target) return
      this.#state = 'up'
      this.#bornHeap = this.#thread!.heap
      this.#backoff.up(this.#clock.mono())
      this.#wake()
    }
    this.#quiet()
  }

  /** Ends a worker that became too large or lost a window, and one without queries after a while. */
  #quiet(requested = false): void {
    const thread = this.#thread
    if (this.#state !== 'up' || !thread || thread.busy) return
    const { idleMs, heapBytes = HEAP_BYTES, heapGrowth = HEAP_GROWTH } = this.#o
    const large = Math.max(heapBytes, heapGrowth * this.#bornHeap)
    const grown = thread.heap > large && this.#clock.mono() - this.#bornAt > YOUNG_MS
    const end = (): void => {
      this.#end(thread)
      if (!idleMs || this.#due()) this.#start()
      else this.#state = 'resting'
    }
    if (thread.hole || grown) end()
    else if (idleMs && (requested || !this.#idleTimer)) {
      clearTimeout(this.#idleTimer)
      this.#idleTimer = setTimeout(() => {
        this.#idleTimer = undefined
        if (thread === this.#thread && !thread.busy && !this.#due()) end()
      }, idleMs).unref()
    }
  }

  /** The last record that the server is known to have. */
  #serverSeq(): number {
    return this.#thread?.appliedSeq ?? this.#o.log.cursor(SERVER_CURSOR) ?? 0
  }

  #serverWorker(): { script: string; setup: ServerSetup } {
    const { log, sql, serverScript, dataDir = '/' } = this.#o
    const setup = serverSetup(this.dialect, sql?.driver ?? {}, dataDir)
    const origin = log.appendCounter && (log.counter?.(ORIGIN) ?? this.#newOrigin())
    return { script: serverProgram(serverScript), setup: { ...setup, ...(origin !== undefined && { origin }) } }
  }

  /** The number that identifies this log at a server. */
  #newOrigin(): number {
    const origin = randomInt(1, 2 ** 47)
    this.#o.log.appendCounter?.(ORIGIN, origin)
    return origin
  }

  #end(thread: SqlThread): void {
    this.#remember(thread)
    this.#thread = undefined
    this.#ended = thread.end()
  }

  #remember({ counts }: SqlThread): void {
    this.#counts = counts
    if (counts.sealed) this.#damage.keep(counts.sealed)
  }

  #died(thrown: Error): void {
    const error = asOsError(thrown, 'STORAGE')
    if (this.#thread) this.#remember(this.#thread)
    this.#state = 'down'
    this.#reason = error.message
    this.#error = { code: error.code, message: error.message, at: this.#clock.wall() }
    this.#thread = undefined
    const backoffMs = this.#backoff.next(this.#clock.mono())
    const delay = `${(backoffMs / 1000).toFixed(1)} s`
    this.#logger.warn(`the SQL view stopped (${error.message}); it is started again in ${delay}`)
    this.#wake()
    this.#retry = setTimeout(() => this.#start(), backoffMs)
    this.#retry.unref()
  }
}

/** From the file names, without windows of another log; empty if the folder cannot be read. The worker reports both. */
const sealedRanges = (dir: string, { lastSeq }: LogSource): StoredRange[] =>
  orElse([], () =>
    readdirSync(dir)
      .sort()
      .flatMap(name => windowRange(name) ?? [])
      .filter(({ to }) => to <= lastSeq),
  )
