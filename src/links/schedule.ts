// Reads one source at its interval (decision 0045): without drift, on the grid set when it came up; reads never overlap, and
// missed ones are not made up for. Errors: a read hangs (link degraded, counted, all other sources continue; its late
// readings are still passed on); a read throws (the group is lost, the link reopens); the receiver of readings throws
// (logged and counted, the source continues).
import type { Clock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { secondTimers, systemTimers, type Timers } from '../lib/timers'
import type { Source, SourceReading } from './contracts'

/** `at` is UNIX ms: when the read began, or for a late one when it ended. */
export type ReadingsHandler = (source: Source, readings: readonly SourceReading[], at: number) => void

/** the reason for a read without any value, if the driver gives none */
export const SILENT = 'no sensor answers'

interface ScheduleOptions {
  clock: Clock
  timers: Timers
  logger: Logger
  onReadings: ReadingsHandler
  /** the read hangs, gave no value (SILENT) or has recovered (empty reason) */
  complain: (reason: string) => void
  lost: (reason: string) => void
  /** a read that takes longer hangs; default: the interval, at least 1 s, at most 10 s */
  deadlineMs?: number
}

interface ScheduleTally {
  reads: number
  /** reads that exceeded the deadline, threw, or whose receiver threw */
  errors: number
  /** intervals without a read, because one was still running or the machine slept */
  skipped: number
}

export class Schedule {
  readonly tally: ScheduleTally = { reads: 0, errors: 0, skipped: 0 }
  readonly #source: Source
  readonly #options: ScheduleOptions
  readonly #deadlineMs: number
  readonly #whole: boolean
  /** counts starts; results of an older one are dropped */
  #run = 0
  /** time of the next read, on the monotonic clock */
  #due = 0
  /** a read is running, possibly since before the last start */
  #reading = false
  /** requested during a read */
  #again = false
  #began = 0
  #cancelTurn: (() => void) | undefined
  #cancelDeadline: (() => void) | undefined

  constructor(source: Source, options: ScheduleOptions) {
    this.#source = source
    this.#options = options
    this.#whole = options.timers === systemTimers && source.intervalMs % 1000 === 0
    this.#deadlineMs = options.deadlineMs ?? Math.min(10_000, Math.max(1000, source.intervalMs))
  }

  /** Reads immediately, then at every interval; intervals of whole seconds run at whole seconds, together with other sources. */
  start(): void {
    this.stop()
    const now = this.#options.clock.mono()
    this.#due = this.#whole ? Math.round(now / 1000) * 1000 : now
    this.#turn(this.#run)
  }

  stop(): void {
    this.#run++
    this.#cancelTurn?.()
    this.#cancelDeadline?.()
  }

  /** Reads now, outside the grid; during a read, right after it. */
  now(): void {
    if (this.#reading) this.#again = true
    else void this.#read(this.#run)
  }

  #turn(run: number): void {
    const { clock, timers, complain } = this.#options
    const interval = this.#source.intervalMs
    const now = clock.mono()
    if (this.#reading) {
      this.tally.skipped++
      // also reported here, because the read may hang since before a reopening
      if (now - this.#began > this.#deadlineMs) complain(this.#hangs())
    } else void this.#read(run)
    this.#due += interval
    if (this.#due <= now) {
      const missed = Math.floor((now - this.#due) / interval) + 1
      this.tally.skipped += missed
      this.#due += missed * interval
    }
    this.#cancelTurn = (this.#whole ? secondTimers : timers).after(this.#due - now, () => {
      if (run === this.#run) this.#turn(run)
    })
  }

  async #read(run: number): Promise<void> {
    const { clock, timers, complain } = this.#options
    this.#reading = true
    this.#began = clock.mono()
    let hangs = false
    const at = clock.wall()
    this.#cancelDeadline = timers.after(this.#deadlineMs, () => {
      hangs = true
      this.tally.errors++
      complain(this.#hangs())
    })
    const cancel = this.#cancelDeadline
    try {
      const readings = await this.#source.read()
      cancel()
      if (run !== this.#run) return
      this.tally.reads++
      this.#deliver(readings, hangs ? clock.wall() : at)
      if (!hangs) complain(readings.some(row => Number.isFinite(row[2])) || readings.length === 0 ? '' : SILENT)
    } catch (error) {
      cancel()
      if (run !== this.#run) return
      this.tally.errors++
      this.#options.lost(asOsError(error, 'LINK_DOWN').message)
    } finally {
      this.#reading = false
      const again = this.#again
      this.#again = false
      if (again && run === this.#run) this.now()
    }
  }

  #hangs(): string {
    return `a read takes longer than ${this.#deadlineMs / 1000} s`
  }

  #deliver(readings: readonly SourceReading[], at: number): void {
    // a NaN from a driver would change the group's shape later; it counts as a failed sensor
    const rows = readings.every(row => row[2] === null || Number.isFinite(row[2]))
      ? readings
      : readings.map(row => (Number.isFinite(row[2]) ? row : ([row[0], 'ERROR', null, row[3]] as const)))
    try {
      this.#options.onReadings(this.#source, rows, at)
    } catch (error) {
      this.tally.errors++
      this.#options.logger.error(`readings of ${this.#source.name} not accepted: ${asOsError(error).message}`)
    }
  }
}
