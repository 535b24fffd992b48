// The guard of a running gateway combines the progress token, the event loop watch, the systemd watchdog, the resource guard
// and the crash count. main passes the supervision of the process; without it (tests, library) the guard only observes.
//
// Errors: a stall is logged. Under systemd the watchdog is then no longer notified; otherwise the process ends with
// EXIT_STALLED, so that its supervisor restarts it.
import type { ConfigStore } from '../../config'
import type { Clock } from '../../lib/clock'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'
import type { Crashes, SafeModeReport } from './crashes'
import type { FlashReport, FlashWear } from './flash'
import type { FreezeWatch } from './freeze'
import { Progress } from './progress-token'
import {
  type FilesReport,
  filesReport,
  type GuardLevel,
  memoryLimit,
  type ResourceReport,
  Resources,
} from './resources'
import { type Notifier, noNotifier } from './sdnotify'

export const EXIT_CRASHED = 70
const EXIT_STALLED = 71

/** What main knows about the process and its environment. */
export interface Supervision {
  readonly notifier?: Notifier
  readonly freeze?: FreezeWatch
  readonly crashes?: Crashes
  readonly flash?: FlashWear | undefined
  /** why this run is in safe mode */
  readonly safeMode?: string | undefined
  /** tries to commit, then ends the process */
  end?(code: number, reason: string): void
  /** called once, when the gateway works */
  proven?(): void
  /** called every two seconds: reports changes of the ports that this process listens on */
  listens?(): void
}

interface GuardParts extends Supervision {
  readonly config: ConfigStore
  readonly clock: Clock
  readonly logger: Logger
  readonly timers?: Timers
  pass(): Promise<void>
  /** one status line */
  line(): string
  /** whether the gateway works: see trial-health.ts */
  works(): boolean
  level(level: GuardLevel, reason: string): void
}

/** Part of the status. */
export interface GuardReport extends ResourceReport {
  /** ms since the progress token returned */
  progress_ms: number
  files: FilesReport
}

const STATUS_MS = 10_000
const LISTENS_MS = 2000

export class Guard {
  readonly #parts: GuardParts
  readonly #notifier: Notifier
  readonly #timers: Timers
  readonly #progress: Progress
  readonly #resources: Resources
  readonly #cancels = new Map<string, () => void>()
  #safeMode: string | undefined
  #line = ''
  #started = false
  #limit = 0
  #left = (): void => undefined
  /** settles when safe mode is left */
  readonly left = new Promise<void>(resolve => {
    this.#left = resolve
  })

  constructor(parts: GuardParts) {
    this.#parts = parts
    const { config, clock, logger, notifier = noNotifier, timers = systemTimers, safeMode } = parts
    this.#notifier = notifier
    this.#timers = timers
    this.#safeMode = safeMode
    const settings = () => config.config.gateway
    this.#progress = new Progress({
      ...{ clock, logger, timers },
      stallMs: () => settings().watchdog.stall_s * 1000,
      pass: () => parts.pass(),
      stalled: ms => this.#stalled(ms),
    })
    this.#resources = new Resources({
      ...{ logger, timers },
      memoryLimit: () => (settings().guard.enabled ? this.#limit : 0),
      lagLimit: () => (settings().guard.enabled ? settings().guard.lag_ms : 0),
      changed: (level, reason) => parts.level(level, reason),
    })
    this.settings()
  }

  get safeMode(): string | undefined {
    return this.#safeMode
  }

  get level(): GuardLevel {
    return this.#resources.level
  }

  /** Applies the current configuration. */
  settings(): void {
    const { watchdog, guard } = this.#parts.config.config.gateway
    this.#limit = memoryLimit(guard.memory_mb)
    if (this.#started) this.#parts.freeze?.limit(watchdog.enabled ? watchdog.stall_s * 1000 : 0)
  }

  /** The log is open and each link was tried once (R24). */
  started(): void {
    this.#progress.start()
    this.#resources.start()
    this.#started = true
    // the line needs a complete status, so it is only made for systemd
    if (this.#notifier.active) {
      this.#line = this.#parts.line()
      this.#notifier.send({ READY: 1, STATUS: this.#line })
      this.#every('status', STATUS_MS, () => {
        const line = this.#parts.line()
        if (line !== this.#line) this.#notifier.send({ STATUS: line })
        this.#line = line
      })
    }
    if (this.#parts.proven) this.#every('proof', STATUS_MS, () => this.#prove())
    if (this.#parts.listens) this.#every('listens', LISTENS_MS, this.#parts.listens)
    const { watchdogMs } = this.#notifier
    if (watchdogMs > 0) this.#every('watchdog', watchdogMs / 2, () => this.#feed())
    const { healthy_s } = this.#parts.config.config.gateway.safe_mode
    if (!this.#safeMode) this.#after('healthy', healthy_s * 1000, () => this.#parts.crashes?.healthy())
    this.settings()
  }

  /** Notifies systemd of the begin and end of a reload; before READY nothing is sent. */
  async reloading<T>(run: () => Promise<T>): Promise<T> {
    if (!this.#started || !this.#notifier.active) return run()
    const usec = process.hrtime.bigint() / 1000n
    this.#notifier.send({ RELOADING: 1, MONOTONIC_USEC: String(usec), STATUS: 'reading the configuration again' })
    try {
      return await run()
    } finally {
      this.#line = this.#parts.line()
      this.#notifier.send({ READY: 1, STATUS: this.#line })
    }
  }

  /** The stop begins and may take `ms`. */
  stopping(ms: number): void {
    this.#started = false
    for (const cancel of this.#cancels.values()) cancel()
    this.#cancels.clear()
    this.#progress.stop()
    this.#resources.stop()
    this.#notifier.send({ STOPPING: 1, EXTEND_TIMEOUT_USEC: ms * 1000, STATUS: 'stopping: draining and committing' })
  }

  /** Safe mode has ended: resets the crash count. */
  leaveSafeMode(): void {
    this.#safeMode = undefined
    this.#parts.crashes?.healthy()
    this.#left()
  }

  safeModeReport(): SafeModeReport {
    const reason = this.#safeMode
    return { active: reason !== undefined, ...(reason && { reason }), crashes: this.#parts.crashes?.count ?? 0 }
  }

  report(): GuardReport {
    return { ...this.#resources.report(), progress_ms: Math.round(this.#progress.unseenMs), files: filesReport() }
  }

  flash(): FlashReport | undefined {
    return this.#parts.flash?.report(this.#parts.config.config.gateway.flash.endurance_tb)
  }

  #prove(): void {
    if (!this.#parts.works()) return
    this.#cancels.get('proof')?.()
    this.#cancels.delete('proof')
    this.#parts.proven?.()
  }

  #feed(): void {
    if (this.#progress.alive) this.#notifier.send({ WATCHDOG: 1 })
  }

  #stalled(ms: number): void {
    const reason = `the pipeline has stalled: no progress for ${Math.round(ms / 1000)} s`
    this.#parts.logger.error(reason)
    this.#notifier.send({ STATUS: reason })
    const { enabled } = this.#parts.config.config.gateway.watchdog
    if (enabled && this.#notifier.watchdogMs === 0) this.#parts.end?.(EXIT_STALLED, reason)
  }

  #after(name: string, ms: number, run: () => void): void {
    this.#cancels.set(name, this.#timers.after(Math.min(ms, 2 ** 31 - 1), run))
  }

  #every(name: string, ms: number, run: () => void): void {
    this.#after(name, ms, () => {
      run()
      // a timer that ended itself or was stopped is not started again
      if (this.#cancels.has(name)) this.#every(name, ms, run)
    })
  }
}
