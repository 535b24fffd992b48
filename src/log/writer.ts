// Group commit: pending records are written to the kernel within HAND_MS, so that a killed process loses nothing older, and
// are on flash after the next commit, which is one fdatasync. A commit starts when the oldest record is commit_interval_ms
// old, when commit_bytes are pending, or ack_commit_ms after a request; never two in parallel. While a new segment is created
// (once per segment_bytes) nothing is written.
//
// Errors: if the disk refuses (ENOSPC, EIO, EROFS …) the records stay in RAM, the state is degraded with the reason, and a
// timer retries until the disk works again; then everything is written to a new segment.
import type { Clock } from '../lib/clock'
import { asOsError, errno, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { Timers } from '../lib/timers'
import { diskFault } from '../lib/writable'
import { recordSeq } from './decode'
import { AT_KIND, KIND_FACT, recordLength } from './format'
import type { Retention } from './retention'
import type { Segment, Segments } from './segments'
import type { Tail, TailChunk } from './tail'

interface WriterOptions {
  clock: Clock
  timers: Timers
  logger: Logger
  commitIntervalMs: number
  ackCommitMs: number
  commitBytes: number
  segmentBytes: number
  bufferBytes: number
}

interface Waiter {
  readonly seq: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

const RETRY_MS = [1000, 2000, 5000]
/** longest time from an append to the write */
const HAND_MS = 20
/** a commit that takes longer counts as degraded (R23) */
const STUCK_MS = 120_000

export class Writer {
  committedSeq: number
  /** newest seq that was appended */
  lastSeq: number
  /** called after each successful commit */
  onDone: () => void = () => undefined
  readonly #o: WriterOptions
  readonly #tail: Tail
  readonly #segments: Segments
  readonly #retention: Retention
  readonly #makeHeader: (base: number) => Buffer
  readonly #listeners = new Set<(committedSeq: number) => void>()
  #waiters: Waiter[] = []
  #cancel: (() => void) | undefined
  #due = Number.POSITIVE_INFINITY
  #running: Promise<void> | undefined
  #runningSince = 0
  #taken = 0
  /** the running commit only waits for its sync: appending to the file continues */
  #syncing = false
  #wanted = false
  #onBegin: () => unknown = () => undefined
  /** a write outside of a commit failed; the next commit handles it */
  #broken: unknown
  #handPlanned = false
  #cancelHand: (() => void) | undefined
  #handedAt = Number.NEGATIVE_INFINITY
  #failure: OsError | undefined
  #failures = 0

  constructor(
    options: WriterOptions,
    parts: { tail: Tail; segments: Segments; retention: Retention; makeHeader: (base: number) => Buffer },
    { lastSeq, committedSeq }: { lastSeq: number; committedSeq: number },
  ) {
    this.#o = options
    this.#tail = parts.tail
    this.#segments = parts.segments
    this.#retention = parts.retention
    this.#makeHeader = parts.makeHeader
    this.committedSeq = committedSeq
    this.lastSeq = lastSeq
  }

  /** The error that keeps records from the disk, or undefined. */
  get failure(): OsError | undefined {
    if (this.#failure) return this.#failure
    const since = this.#o.clock.mono() - this.#runningSince
    if (!this.#running || since < STUCK_MS) return undefined
    return new OsError('STORAGE', `a commit has been waiting for the disk for ${Math.floor(since / 1000)} s`)
  }

  /** A record was just added to RAM. */
  appended(seq: number): void {
    this.lastSeq = seq
    if (this.#tail.pending - this.#taken >= this.#o.commitBytes) this.#schedule(0)
    else if (this.#due === Number.POSITIVE_INFINITY) this.#schedule(this.#o.commitIntervalMs)
    if (!this.#handPlanned) this.#planHand()
  }

  /** See FlashLog.beforeCommit. */
  before(listener: () => unknown): () => void {
    this.#onBegin = listener
    return () => {
      this.#wanted = true
      this.#schedule(this.#o.commitIntervalMs)
    }
  }

  /** Settles when `seq` is on flash; rejects if it was lost before. */
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

  /** Rejects the waiters for records that were dropped from RAM. */
  lost(from: number, to: number): void {
    const gone = this.#waiters.filter(w => w.seq >= from && w.seq <= to)
    this.#waiters = this.#waiters.filter(w => !gone.includes(w))
    const error = new OsError(
      'DISK_FULL',
      `records ${from} to ${to} were lost: ${this.#failure?.message ?? 'RAM full'}`,
    )
    for (const waiter of gone) waiter.reject(error)
  }

  /** Commits pending records now and settles when that has ended, with or without success. */
  async flush(): Promise<void> {
    await this.#running
    if (this.#tail.pending > 0 || this.#wanted) await this.#start()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancelHand?.()
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
    if (this.#due !== Number.POSITIVE_INFINITY) this.#cancel?.()
    this.#due = due
    this.#cancel = this.#o.timers.after(ms, () => {
      this.#due = Number.POSITIVE_INFINITY
      void this.#start()
    })
  }

  /** At the end of this turn if the last write is long enough ago: an idle log needs no timer. */
  #planHand(): void {
    this.#handPlanned = true
    const wait = this.#handedAt + HAND_MS - this.#o.clock.mono()
    if (wait > 0) this.#cancelHand = this.#o.timers.after(wait, () => this.#hand())
    else queueMicrotask(() => this.#hand())
  }

  /** Writes pending records to the kernel, without a sync. Never throws. */
  #hand(): void {
    this.#handPlanned = false
    this.#cancelHand?.()
    const active = this.#segments.active
    if (!active || this.#failure || this.#broken || (this.#running && !this.#syncing)) return
    // during a hanging sync the other records stay in RAM only, where they can be dropped if it is full
    if (this.#tail.pending > this.#o.bufferBytes / 2) return
    try {
      for (let chunk = this.#tail.head; chunk; chunk = chunk.next) {
        const size = chunk.used - chunk.written
        if (size === 0) continue
        if (this.#isFull(active, size)) {
          this.#schedule(0)
          return
        }
        this.#retention.makeRoom(size, false)
        this.#append(chunk, chunk.used)
        this.#handedAt = this.#o.clock.mono()
      }
    } catch (error) {
      this.#broken = error
      this.#schedule(0)
    }
  }

  #start(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      this.#next()
      this.#hand()
    })
    return this.#running
  }

  /** Plans the next commit. */
  #next(): void {
    if (this.#failure) this.#schedule(RETRY_MS[Math.min(this.#failures, RETRY_MS.length) - 1] ?? 1000)
    else if (this.#broken || this.#tail.pending >= this.#o.commitBytes) this.#schedule(0)
    else if (this.#tail.pending > 0 || this.#wanted) {
      this.#schedule(this.#waiters.length > 0 ? this.#o.ackCommitMs : this.#o.commitIntervalMs)
    }
  }

  /** One commit. Never throws. */
  async #run(): Promise<void> {
    this.#begin()
    if (this.#due !== Number.POSITIVE_INFINITY) this.#cancel?.()
    this.#due = Number.POSITIVE_INFINITY
    if (this.#tail.pending === 0 && !this.#broken) return
    this.#runningSince = this.#o.clock.mono()
    const taken: { chunk: TailChunk; end: number }[] = []
    for (let chunk = this.#tail.head; chunk; chunk = chunk.next) {
      if (chunk.used === chunk.synced) continue
      chunk.busy = true
      taken.push({ chunk, end: chunk.used })
    }
    const target = this.lastSeq
    this.#taken = this.#tail.pending
    try {
      if (this.#broken) throw this.#broken
      this.#retention.byAge(this.#o.clock.wall())
      for (const { chunk, end } of taken) if (chunk.written < end) await this.#write(chunk, end)
      this.#syncing = true
      await this.#sync()
      this.#syncing = false
      if (this.#broken) throw this.#broken
      this.#done(target)
    } catch (error) {
      this.#syncing = false
      this.#broken = undefined
      this.#segments.abandon()
      for (let chunk = this.#tail.head; chunk; chunk = chunk.next) chunk.written = chunk.synced
      this.#degrade(error)
    }
    for (const { chunk } of taken) chunk.busy = false
    this.#taken = 0
    this.#tail.trim()
  }

  #begin(): void {
    this.#wanted = false
    try {
      this.#onBegin()
    } catch (error) {
      this.#o.logger.error(`not written to the log: ${asOsError(error).message}`)
    }
  }

  /** Syncs the active segment: everything written before the call is on flash then. */
  async #sync(isLast = false): Promise<void> {
    const reached: [TailChunk, number][] = []
    for (let chunk = this.#tail.head; chunk; chunk = chunk.next) reached.push([chunk, chunk.written])
    await this.#segments.sync(isLast)
    for (const [chunk, written] of reached) {
      this.#tail.pending -= written - chunk.synced
      chunk.synced = written
    }
  }

  /** Whether `size` more bytes belong into the next segment. */
  #isFull(active: Segment, size: number): boolean {
    const full = active.last >= active.base && active.size + size > this.#o.segmentBytes
    // RAM got ahead of a hanging disk: its numbers need a new reservation
    const ahead = this.lastSeq >= this.#segments.reservedEnd
    return full || ahead || this.#retention.tooOld(active, this.#o.clock.wall())
  }

  /** Writes `[chunk.written, end)` to the active segment, or to a new one if it would not fit. */
  async #write(chunk: TailChunk, end: number): Promise<void> {
    const start = chunk.written
    const size = end - start
    const active = this.#segments.active
    if (!active || this.#isFull(active, size)) {
      await this.#sync(true)
      const base = recordSeq(chunk.bytes, start)
      this.#retention.makeRoom(this.#makeHeader(base).length + size, true)
      await this.#segments.roll(base, this.#o.clock.wall(), this.#makeHeader(base))
    } else this.#retention.makeRoom(size, false)
    this.#append(chunk, end)
  }

  #append(chunk: TailChunk, end: number): void {
    const start = chunk.written
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
    if (healed) this.#o.logger.info('writes to the log work again')
    this.onDone()
    const ready = this.#waiters.filter(w => w.seq <= this.committedSeq)
    this.#waiters = this.#waiters.filter(w => w.seq > this.committedSeq)
    for (const waiter of ready) waiter.resolve()
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
    const text = diskFault(error) ?? (error instanceof Error ? error.message : String(error))
    this.#failures++
    if (!this.#failure) this.#o.logger.warn(`the log cannot be written (${text}); records wait in RAM`)
    const kind = code === 'ENOSPC' || code === 'EDQUOT' ? 'DISK_FULL' : 'STORAGE'
    this.#failure = error instanceof OsError ? error : new OsError(kind, text, { cause: error })
  }
}
