// The gateway's time (decision 0044): the node's clock, its time source, its start value after a restart, and its log records. Created
// before the log, since the log's own times come from it: a board without an RTC begins at 1970. A step before the log is
// open is not logged; nothing was stamped before it. It checks for jumps of the OS clock every second, queries the time
// sources every minute and at each jump, and stores the last correct time for the next start.

import type { ConfigStore } from '../../config'
import type { Clock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import type { Files } from '../../lib/files'
import type { Logger } from '../../lib/logger'
import { secondTimers, systemTimers } from '../../lib/timers'
import type { FlashLog } from '../../log'
import { NodeClock, type TimeStep } from '../../protocol/time'
import { qualityOf } from '../intake/intake'
import { TimeCorrections } from './corrections'
import { SavedTime } from './last-time'
import { type ClockSigns, readSigns, rtcAnswer, type TimeReport, TimeSources } from './time-sources'

const LOOK_MS = 1000
const ASK_MS = 60_000
const SAVE_MS = 3_600_000

interface TimeKeeperOptions {
  config: ConfigStore
  clock: Clock
  files: Files
  logger: Logger
  /** build time of the program, unix ms: a system clock before it is not trusted */
  builtAt: number
  clockSigns?: () => ClockSigns
  /** settles when more is known than the first call of `clockSigns` returned */
  clockAnswer?: () => Promise<void>
}

/** how long the start waits for an RTC; a slower one is used once it has answered */
const ANSWER_MS = 500

export class TimeKeeper {
  readonly time: NodeClock
  readonly corrections = new TimeCorrections()
  readonly #sources: TimeSources
  readonly #saved: SavedTime
  readonly #logger: Logger
  #log: FlashLog | undefined
  /** seq of the newest step's record */
  #stepSeq = 0
  #onSynced: () => void = () => undefined
  #cancel: (() => void) | undefined
  #undoubt: (() => void) | undefined
  #askAt = 0
  #saveAt = 0
  #last: TimeStep | undefined
  #jumps = 0
  #stopped = false

  /** Includes the RTC, which is read on a thread. */
  static async open(options: TimeKeeperOptions): Promise<TimeKeeper> {
    const keeper = new TimeKeeper(options)
    const { clockSigns, clockAnswer = clockSigns ? undefined : rtcAnswer } = options
    if (!clockAnswer || keeper.time.synced) return keeper
    const answered = clockAnswer().then(() => keeper.#ask())
    await within(systemTimers, ANSWER_MS, answered, () => undefined)
    return keeper
  }

  private constructor({ config, clock, files, logger, builtAt, clockSigns = readSigns }: TimeKeeperOptions) {
    const { time_sync_threshold, max_time_step_seconds } = config.config.security_settings
    this.#logger = logger
    this.time = new NodeClock(clock, {
      buildMs: builtAt,
      thresholdSeconds: time_sync_threshold,
      maxStepSeconds: max_time_step_seconds,
      timeSource: null,
      onStep: step => this.#stepped(step),
    })
    this.#sources = new TimeSources(clockSigns, () => clock.wall())
    this.#saved = new SavedTime(config.dataDir, files, logger.child('time'))
    const saved = this.#saved.read()
    if (saved !== null) this.time.noteSaved(saved)
    this.#look()
  }

  /** False while the record of the newest step is not on flash, also while the disk refuses. */
  get kept(): boolean {
    return !this.#log || this.#stepSeq <= this.#log.committedSeq
  }

  /**
   * From now on every step is logged. `onSynced` is called when the time becomes correct, and when its record is on flash.
   */
  begin(log: FlashLog, onSynced: () => void): void {
    this.#log = log
    this.#onSynced = onSynced
    log.setQuality(qualityOf(this.time))
  }

  start(): void {
    this.#undoubt ??= this.time.onDoubt(() => {
      this.#sources.doubt()
      this.#askAt = 0
    })
    this.#turn()
  }

  /** Stores the time for the next start; later steps are not logged. */
  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#undoubt?.()
    this.#undoubt = undefined
    this.#save()
    this.#log = undefined
  }

  status(): TimeReport {
    const { lastSync, quality, offsetMs } = this.time
    return {
      quality,
      offset_ms: offsetMs,
      ...(this.#last && { source: this.#last.source }),
      ...(lastSync !== null && { last_sync: lastSync }),
      ...(this.#last?.heldBackMs && { held_back_ms: Math.round(this.#last.heldBackMs) }),
      jumps: this.#jumps,
      ntp: this.#sources.ntp(),
    }
  }

  #turn(): void {
    this.#look()
    this.#cancel = secondTimers.after(LOOK_MS, () => this.#turn())
  }

  #look(): void {
    const { time } = this
    time.now()
    const mono = time.mono()
    if (mono >= this.#askAt) {
      this.#askAt = mono + ASK_MS
      time.confirmTime(this.#sources.now())
    }
    if (mono >= this.#saveAt && time.synced) this.#save()
  }

  /** Queries which time source confirms the clock. */
  #ask(): void {
    if (this.#stopped) return
    this.#askAt = 0
    this.#look()
  }

  #save(): void {
    const { time } = this
    this.#saveAt = time.mono() + SAVE_MS
    if (time.synced) this.#saved.write(time.now())
  }

  /** The node's time moved, or a time source confirmed it: logs one clock record, which corrects earlier times. */
  #stepped(step: TimeStep): void {
    const { movedMs, offsetMs, source, synced } = step
    this.#last = step
    if (source === 'jump') this.#jumps++
    // store soon after the first sync: power may fail at any time
    if (synced) this.#saveAt = 0
    const log = this.#log
    if (!log) return
    const known = source === 'jump' ? 'the system clock jumped' : `time by ${source}`
    this.#logger.info(`${known}: ${movedMs} ms, now ${offsetMs} ms off the system clock`)
    const seq = this.#append(log, step)
    this.corrections.note(log.boot, seq, movedMs, synced)
    if (synced) this.#onSynced()
  }

  /** Appends the record of a step, and again where RAM could not keep it while the disk refused. */
  #append(log: FlashLog, step: TimeStep): number {
    const { movedMs: offsetMs, source, synced } = step
    const seq = log.appendClock({ trueWallMs: this.time.now(), offsetMs, source }, synced ? 'synced' : 'unsynced')
    this.#stepSeq = seq
    if (synced)
      void log.committed(seq).then(this.#onSynced, () => {
        // a later step or an unsynced clock: another record would correct readings since this one, too
        if (this.#log && this.#stepSeq === seq && this.time.synced) this.#append(log, step)
      })
    return seq
  }
}
