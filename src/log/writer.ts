// Group commit: everything waiting in RAM goes to the active segment in one write and one fdatasync. A commit starts when
// the oldest record is commit_interval_ms old, when commit_bytes wait, or ack_commit_ms after somebody asked; never two at
// once. When the disk refuses (ENOSPC, EIO, EROFS …) the records stay in RAM, the state reads degraded with the reason,
// and a timer tries again until it heals; then everything is written to a new segment.
import type { Clock } from '../lib/clock'
import { asOsError, errno, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { recordSeq } from './decode'
import { AT_KIND, KIND_FACT, recordLength } from './format'
import type { Timers } from './options'
import type { Retention } from './retention'
import type { Segments } from './segments'
import type { Chunk, Tail } from './tail'

export interface WriterOptions {
  clock: Clock
  timers: Timers
  logger: Logger
  commitIntervalMs: number
  ackCommitMs: number
  commitBytes: number
  segmentBytes: number
}

interface Waiter {
  readonly seq: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

const RETRY_MS = [1000, 2000, 5000]
/** a commit that takes longer than this reads as degraded (R23) */
const STUCK_MS = 120_000

const REASON_TEXT: Record<string, string> = {
  ENOSPC: 'disk full',
  EROFS: 'file system is read-only',
  EIO: 'input/output error',
  EDQUOT: 'disk quota reached',
}

export class Writer {
  committedSeq: number
  /** newest seq that was appended */
  lastSeq: number
  /** called after each commit that went well */
  onDone: () => void = () => undefined
  readonly #o: WriterOptions
  readonly #tail: Tail
  readonly #segments: Segments
  readonly #retention: Retention
  readonly #makeHeader: (base: number) => Buffer
  readonly #listeners = new Set<(committedSeq: number) => void>()
  #waiters: Waiter[] = []
  #timer: unknown
  #due = Number.POSITIVE_INFINITY
  #running: Promise<void> | undefined
  #runningSince = 0
  #taken = 0
  #failure: OsError | undefined
  #failures = 0

  constructor(
    options: WriterOptions,
    parts: { tail: Tail; segments: Segments; retention: Retention; makeHeader: (base: number) => Buffer },
    lastSeq: number,
  ) {
    this.#o = options
    this.#tail = parts.tail
    this.#segments = parts.segments
    this.#retention = parts.retention
    this.#makeHeader = parts.makeHeader
    this.committedSeq = lastSeq
    this.lastSeq = lastSeq
  }

  /** The error that keeps records from the disk, or undefined while all is well. */
  get failure(): OsError | undefined {
    if (this.#failure) return this.#failure
    const since = this.#o.clock.mono() - this.#runningSince
    if (!this.#running || since < STUCK_MS) return undefined
    return new OsError('STORAGE', `a commit has been waiting for the disk for ${Math.floor(since / 1000)} s`)
  }

  /** Tells of a record that was just added to RAM. */
  appended(seq: number): void {
    this.lastSeq = seq
    if (this.#tail.pending - this.#taken >= this.#o.commitBytes) this.#schedule(0)
    else if (this.#due === Number.POSITIVE_INFINITY) this.#schedule(this.#o.commitIntervalMs)
  }

  /** Settles when `seq` is on the medium; rejects when it was lost before. */
  committed(seq: number): Promise<void> {
    if (seq <= this.committedSeq) return Promise.resolve()
    return new Promise((resolve, reject) => {
      this.#waiters.push({ seq, resolve, reject })
      this.#schedule(this.#o.ackCommitMs)
    })
  }

  onCommit(listener: (committedSeq: number) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Rejects those who wait for records that RAM could not keep. */
  lost(from: number, to: number): void {
    const gone = this.#waiters.filter(w => w.seq >= from && w.seq <= to)
    if (gone.length === 0) return
    this.#waiters = this.#waiters.filter(w => !gone.includes(w))
    const error = new OsError(
      'DISK_FULL',
      `records ${from} to ${to} were lost: ${this.#failure?.message ?? 'RAM full'}`,
    )
    for (const waiter of gone) waiter.reject(error)
  }

  /** Commits what waits now and settles when that is done, well or not. */
  async flush(): Promise<void> {
    await this.#running
    if (this.#tail.pending > 0) await this.#start()
  }

  stop(): void {
    this.#o.timers.clear(this.#timer)
    this.#due = Number.POSITIVE_INFINITY
    const waiters = this.#waiters
    this.#waiters = []
    for (const waiter of waiters) {
      waiter.reject(this.#failure ?? new OsError('STORAGE', 'the log was closed before this record was committed'))
    }
  }

  #schedule(ms: number): void {
    if (this.#running || (this.#failure && this.#due !== Number.POSITIVE_INFINITY)) return
    const due = this.#o.clock.mono() + ms
    if (due >= this.#due) return
    if (this.#due !== Number.POSITIVE_INFINITY) this.#o.timers.clear(this.#timer)
    this.#due = due
    this.#timer = this.#o.timers.set(ms, () => {
      this.#due = Number.POSITIVE_INFINITY
      void this.#start()
    })
  }

  #start(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      this.#next()
    })
    return this.#running
  }

  /** Plans the following commit. */
  #next(): void {
    if (this.#failure) this.#schedule(RETRY_MS[Math.min(this.#failures, RETRY_MS.length) - 1] ?? 1000)
    else if (this.#tail.pending >= this.#o.commitBytes) this.#schedule(0)
    else if (this.#tail.pending > 0) {
      this.#schedule(this.#waiters.length > 0 ? this.#o.ackCommitMs : this.#o.commitIntervalMs)
    }
  }

  /** One commit. Never throws. */
  async #run(): Promise<void> {
    if (this.#due !== Number.POSITIVE_INFINITY) this.#o.timers.clear(this.#timer)
    this.#due = Number.POSITIVE_INFINITY
    this.#runningSince = this.#o.clock.mono()
    const taken: { chunk: Chunk; end: number }[] = []
    for (let chunk = this.#tail.head; chunk; chunk = chunk.next) {
      if (chunk.used === chunk.synced) continue
      chunk.busy = true
      taken.push({ chunk, end: chunk.used })
    }
    const target = this.lastSeq
    this.#taken = this.#tail.pending
    const settle = (): void => {
      for (const { chunk } of taken) {
        this.#tail.pending -= chunk.written - chunk.synced
        chunk.synced = chunk.written
      }
    }
    try {
      this.#retention.byAge(this.#o.clock.wall())
      for (const { chunk, end } of taken) if (chunk.written < end) await this.#write(chunk, end, settle)
      await this.#segments.sync()
      settle()
      this.#done(target)
    } catch (error) {
      this.#segments.abandon()
      for (const { chunk } of taken) chunk.written = chunk.synced
      this.#degrade(error)
    }
    for (const { chunk } of taken) chunk.busy = false
    this.#taken = 0
    this.#tail.trim()
  }

  /** Writes `[chunk.written, end)` to the active segment, after rolling to a new one where it would not fit. */
  async #write(chunk: Chunk, end: number, settle: () => void): Promise<void> {
    const start = chunk.written
    const size = end - start
    const active = this.#segments.active
    const full = active && active.last >= active.base && active.size + size > this.#o.segmentBytes
    if (!active || full || this.#retention.tooOld(active, this.#o.clock.wall())) {
      await this.#segments.sync()
      settle()
      const base = recordSeq(chunk.bytes, start)
      this.#retention.makeRoom(this.#makeHeader(base).length + size, true)
      await this.#segments.roll(base, this.#o.clock.wall(), this.#makeHeader(base))
    } else this.#retention.makeRoom(size, false)
    let facts = 0
    let last = 0
    let lastFact = 0
    for (let at = start; at < end; at += recordLength(chunk.bytes, at)) {
      last = recordSeq(chunk.bytes, at)
      if (chunk.bytes[at + AT_KIND] === KIND_FACT) {
        facts++
        lastFact = last
      }
    }
    this.#segments.append(chunk.bytes, start, end, last, facts, lastFact)
    chunk.written = end
  }

  #done(target: number): void {
    this.committedSeq = Math.max(this.committedSeq, target)
    const healed = this.#failure
    this.#failure = undefined
    this.#failures = 0
    if (healed) this.#o.logger.info('the log is written again')
    this.onDone()
    if (this.#waiters.length > 0) {
      const ready = this.#waiters.filter(w => w.seq <= this.committedSeq)
      this.#waiters = this.#waiters.filter(w => w.seq > this.committedSeq)
      for (const waiter of ready) waiter.resolve()
    }
    for (const listener of this.#listeners) {
      try {
        listener(this.committedSeq)
      } catch (error) {
        this.#o.logger.error(`a commit listener failed: ${asOsError(error).message}`)
      }
    }
  }

  #degrade(error: unknown): void {
    const code = errno(error)
    const text = (code && REASON_TEXT[code]) ?? (error instanceof Error ? error.message : String(error))
    this.#failures++
    if (!this.#failure) this.#o.logger.warn(`the log cannot be written (${text}); records wait in RAM`)
    const kind = code === 'ENOSPC' || code === 'EDQUOT' ? 'DISK_FULL' : 'STORAGE'
    this.#failure = error instanceof OsError ? error : new OsError(kind, text, { cause: error })
  }
}
