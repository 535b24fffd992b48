// Watches the gateway's clock (D18): checks for jumps of the OS clock every second, queries the time sources every minute and
// at each jump, and stores the last correct time for the next start.
import type { Clock } from '../../lib/clock'
import { secondTimers, type Timers } from '../../lib/timers'
import type { NodeClock, TimeQuality, TimeStep } from '../../protocol/time'
import type { SavedTime } from './last-time'
import type { NtpReport, TimeSources } from './time-sources'

const LOOK_MS = 1000
const ASK_MS = 60_000
const SAVE_MS = 3_600_000

/** `time` of `os-node status --json`. */
export interface TimeReport {
  quality: TimeQuality | 'unknown'
  /** the node's time minus the OS clock */
  offset_ms: number
  /** what last moved or confirmed the time */
  source?: TimeStep['source']
  /** UNIX ms */
  last_sync?: number
  /** correction requested by a server that the hourly limit did not allow */
  held_back_ms?: number
  /** jumps of the OS clock since the start */
  jumps?: number
  ntp?: NtpReport
}

interface TimeWatchOptions {
  clock: Clock
  time: NodeClock
  timeSources: TimeSources
  saved: SavedTime
  timers?: Timers
}

export class TimeWatch {
  readonly #o: TimeWatchOptions
  readonly #timers: Timers
  #cancel: (() => void) | undefined
  #undoubt: (() => void) | undefined
  #askAt = 0
  #saveAt = 0
  #last: TimeStep | undefined
  #jumps = 0
  #stopped = false

  constructor(options: TimeWatchOptions) {
    this.#o = options
    this.#timers = options.timers ?? secondTimers
    const saved = options.saved.read()
    if (saved !== null) options.time.noteSaved(saved)
  }

  start(): void {
    const { time, timeSources } = this.#o
    this.#undoubt ??= time.onDoubt(() => {
      timeSources.doubt()
      this.#askAt = 0
    })
    this.#turn()
  }

  /** Ends the watch and stores the time. */
  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#undoubt?.()
    this.#undoubt = undefined
    this.#save()
  }

  /** Called at every step of the node's time. */
  stepped(step: TimeStep): void {
    this.#last = step
    if (step.source === 'jump') this.#jumps++
    // store soon after the first sync: power may fail at any time
    if (step.synced) this.#saveAt = 0
  }

  /** Checks the clock; the owner's timers call it each second. */
  look(): void {
    const { clock, time, timeSources } = this.#o
    time.now()
    const mono = clock.mono()
    if (mono >= this.#askAt) {
      this.#askAt = mono + ASK_MS
      time.confirmTime(timeSources.now())
    }
    if (mono >= this.#saveAt && time.synced) this.#save()
  }

  /** Queries which time source confirms the clock. */
  ask(): void {
    if (this.#stopped) return
    this.#askAt = 0
    this.look()
  }

  status(): TimeReport {
    const { time, timeSources } = this.#o
    const { lastSync } = time
    return {
      quality: time.quality,
      offset_ms: time.offsetMs,
      ...(this.#last && { source: this.#last.source }),
      ...(lastSync !== null && { last_sync: lastSync }),
      ...(this.#last?.heldBackMs && { held_back_ms: Math.round(this.#last.heldBackMs) }),
      jumps: this.#jumps,
      ntp: timeSources.ntp(),
    }
  }

  #turn(): void {
    this.look()
    this.#cancel = this.#timers.after(LOOK_MS, () => this.#turn())
  }

  #save(): void {
    const { clock, time, saved } = this.#o
    this.#saveAt = clock.mono() + SAVE_MS
    if (time.synced) saved.write(time.now())
  }
}
