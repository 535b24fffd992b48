// The gateway's time (D18): the node's clock, its time source, what a restart begins with, and what the log records of
// it. There before the log is, since the log's own times are the node's: a board without an RTC begins at 1970.
// A step before the log is open is no record; nothing was stamped by then.

import type { ConfigStore } from '../../config'
import type { Clock } from '../../lib/clock'
import { within } from '../../lib/deadline'
import type { Files } from '../../lib/files'
import type { Logger } from '../../lib/logger'
import { systemTimers } from '../../lib/timers'
import type { FlashLog } from '../../log'
import { NodeClock, type TimeStep } from '../../protocol/time'
import { qualityOf } from '../intake/intake'
import { type TimeReport, TimeWatch } from './clock-watch'
import { TimeCorrections } from './corrections'
import { SavedTime } from './last-time'
import { type ClockSigns, readSigns, rtcAnswer, TimeSources } from './time-sources'

interface TimeKeeperOptions {
  config: ConfigStore
  clock: Clock
  files: Files
  logger: Logger
  /** unix ms the program was built at: a system clock before it is not believed */
  builtAt: number
  clockSigns?: () => ClockSigns
  /** settles when more is known than `clockSigns` said first */
  clockAnswer?: () => Promise<void>
}

/** the start waits so long for an RTC; one that is slower counts when it has answered */
const ANSWER_MS = 500

export class TimeKeeper {
  readonly time: NodeClock
  readonly corrections = new TimeCorrections()
  readonly #watch: TimeWatch
  readonly #logger: Logger
  #log: FlashLog | undefined
  /** of the newest step's record */
  #stepSeq = 0
  #onSynced: () => void = () => undefined

  /** With the time of the RTC, which is read on a thread. */
  static async open(options: TimeKeeperOptions): Promise<TimeKeeper> {
    const keeper = new TimeKeeper(options)
    const { clockSigns, clockAnswer = clockSigns ? undefined : rtcAnswer } = options
    if (!clockAnswer || keeper.time.synced) return keeper
    const answered = clockAnswer().then(() => keeper.#watch.ask())
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
      onStep: step => {
        this.#watch.stepped(step)
        this.#stepped(step)
      },
    })
    this.#watch = new TimeWatch({
      clock,
      time: this.time,
      timeSources: new TimeSources(clockSigns, () => clock.wall()),
      saved: new SavedTime(config.dataDir, files, logger.child('time')),
    })
    this.#watch.look()
  }

  /** False while the record of the newest step is not on flash; a log that cannot commit does not count. */
  get kept(): boolean {
    const log = this.#log
    return !log || log.degraded || this.#stepSeq <= log.committedSeq
  }

  /** From now on every step is a record of this log. `onSynced` is called when the time became right, and when its record is on flash. */
  begin(log: FlashLog, onSynced: () => void): void {
    this.#log = log
    this.#onSynced = onSynced
    log.setQuality(qualityOf(this.time))
  }

  start(): void {
    this.#watch.start()
  }

  /** Keeps the time for the next start; no step becomes a record any more. */
  stop(): void {
    this.#watch.stop()
    this.#log = undefined
  }

  status(): TimeReport {
    return this.#watch.status()
  }

  /** The node's time moved, or a time source confirmed it: one clock record, which corrects what was stamped before. */
  #stepped({ movedMs, offsetMs, source, synced }: TimeStep): void {
    const log = this.#log
    if (!log) return
    const known = source === 'jump' ? 'the system clock jumped' : `time by ${source}`
    this.#logger.info(`${known}: ${movedMs} ms, now ${offsetMs} ms off the system clock`)
    const record = { trueWallMs: this.time.now(), offsetMs: movedMs, source }
    const seq = log.appendClock(record, synced ? 'synced' : 'unsynced')
    this.#stepSeq = seq
    this.corrections.note(log.boot, seq, movedMs, synced)
    if (!synced) return
    this.#onSynced()
    // what could not be committed is no reason to wait: see `kept`
    void log.committed(seq).then(this.#onSynced, this.#onSynced)
  }
}
