// The resource guard: if memory or loop lag exceeds its limit, the gateway does less before the system kills it. `lean`: only
// warnings are logged. `tight`: the SQL view pauses as well, and expensive routes (all of /api/data) answer 503 with the
// reason (storage.refused counts them). Sources, log and uplinks continue unchanged: no data is lost. A level is entered
// after its limit is exceeded in several checks in a row, and left after the figures have been well below it for a while
// (hysteresis).
import { readdirSync, readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { asOsError, descriptors, orElse } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'
import { bytesText } from '../../units/display'

export type GuardLevel = 'normal' | 'lean' | 'tight'
const LEVELS: readonly GuardLevel[] = ['normal', 'lean', 'tight']

export interface ResourceReport {
  level: GuardLevel
  reason?: string
  rss: number
  limit: number
  lag_p99_ms: number
  /** how often each level was entered since the start */
  taken: { lean: number; tight: number }
}

export interface ResourceSample {
  readonly rss: number
  readonly lagMs: number
}

interface ResourcesParts {
  readonly logger: Logger
  readonly timers?: Timers
  /** bytes; 0: no limit */
  memoryLimit(): number
  /** limit of the event loop lag in ms; 0: no limit */
  lagLimit(): number
  sample?(): ResourceSample
  changed(level: GuardLevel, reason: string): void
}

export const LOOK_MS = 5000
/**
 * the lag is the delay of a timer of this length: a monitor with its own ticks would wake an idle gateway 50 times a second
 */
const PROBE_MS = 1000
/** share of the memory limit for lean and tight */
const MEMORY = [0.85, 0.95] as const
/** the same for the lag */
const LAG = [1, 3] as const
const LOOKS_UP = 2
const LOOKS_DOWN = 6
/** a level is left when the figures are below this share of its limit */
const MARGIN = 0.9

const readText = (path: string): string => orElse('', () => readFileSync(path, 'utf8'))

/** The memory limit of this process: the smallest limit of its control groups, or undefined if there is none. */
export function cgroupLimit(root = '/sys/fs/cgroup', self = '/proc/self/cgroup'): number | undefined {
  const found: number[] = []
  for (const line of readText(self).split('\n')) {
    const [, controllers, path] = line.split(':')
    if (path === undefined || (controllers !== '' && controllers !== 'memory')) continue
    const base = controllers === '' ? root : `${root}/memory`
    // the limits of the parent groups apply too
    for (let at = path; ; at = at.slice(0, at.lastIndexOf('/'))) {
      for (const name of ['memory.max', 'memory.high', 'memory.limit_in_bytes']) {
        const limit = Number(readText(`${base}${at === '/' ? '' : at}/${name}`).trim())
        if (limit > 0 && limit < 2 ** 53) found.push(limit)
      }
      if (at === '' || at === '/') break
    }
  }
  return found.length > 0 ? Math.min(...found) : undefined
}

/** File descriptors of this process: open, allowed, and how often opening one was refused. */
export interface FilesReport {
  open: number
  limit: number
  refused: number
}

export function filesReport(): FilesReport {
  const { refused } = descriptors
  const limit = Number(/Max open files\s+(\d+)/.exec(readText('/proc/self/limits'))?.[1] ?? 0)
  // without the descriptor that reads the folder. If that fails, none is left, or this is not Linux
  return { open: orElse(limit, () => readdirSync('/proc/self/fd').length - 1), limit, refused }
}

/** without a control group; a maximum because input from unknown senders must not fill the memory of a large machine */
const LEAST = 192 * 1_048_576
const MOST = 1024 * 1_048_576

/** `configured` MB; 0: 80 % of the control group limit, else 40 % of the machine's memory, from 192 MB to 1 GB. */
export function memoryLimit(configuredMb: number, group = cgroupLimit(), machine = totalmem()): number {
  if (configuredMb > 0) return configuredMb * 1_048_576
  if (group !== undefined && group < machine) return Math.floor(group * 0.8)
  return Math.min(MOST, Math.max(LEAST, Math.floor(machine * 0.4)))
}

export class Resources {
  readonly #parts: ResourcesParts
  readonly #timers: Timers
  /** lags of the probes since the last check, ms */
  #lags: number[] = []
  readonly #taken = { lean: 0, tight: 0 }
  #level = 0
  #reason = ''
  #above = 0
  #below = 0
  #last: ResourceSample = { rss: 0, lagMs: 0 }
  #cancel: (() => void) | undefined

  constructor(parts: ResourcesParts) {
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
  }

  get level(): GuardLevel {
    return LEVELS[this.#level]!
  }

  start(): void {
    this.#arm()
  }

  stop(): void {
    this.#cancel?.()
  }

  report(): ResourceReport {
    return {
      level: this.level,
      ...(this.#level > 0 && { reason: this.#reason }),
      rss: this.#last.rss,
      limit: this.#parts.memoryLimit(),
      lag_p99_ms: Math.round(this.#last.lagMs),
      taken: { ...this.#taken },
    }
  }

  #arm(): void {
    const due = performance.now() + PROBE_MS
    this.#cancel = this.#timers.after(PROBE_MS, () => {
      this.#lags.push(Math.max(0, performance.now() - due))
      if (this.#lags.length >= LOOK_MS / PROBE_MS) this.#look()
      this.#arm()
    })
  }

  #sample(): ResourceSample {
    const lags = this.#lags.sort((a, b) => b - a)
    this.#lags = []
    // the second largest: a single long turn is no overload
    return this.#parts.sample?.() ?? { rss: this.#rss(), lagMs: lags[1] ?? 0 }
  }

  /** The last known value if no descriptor is left to read it. */
  #rss(): number {
    try {
      return process.memoryUsage.rss()
    } catch (error) {
      asOsError(error) // counted in asOsError
      return this.#last.rss
    }
  }

  #look(): void {
    this.#last = this.#sample()
    const { level, reason } = this.#judge(1)
    if (level > this.#level) {
      this.#below = 0
      if (++this.#above >= LOOKS_UP) this.#to(level, reason)
      return
    }
    this.#above = 0
    if (this.#judge(MARGIN).level < this.#level) {
      if (++this.#below >= LOOKS_DOWN) this.#to(this.#level - 1, this.#reason)
    } else this.#below = 0
  }

  /** The level for the limits times `margin`. */
  #judge(margin: number): { level: number; reason: string } {
    const { rss, lagMs } = this.#last
    const memory = this.#parts.memoryLimit()
    const lag = this.#parts.lagLimit()
    const passed = (value: number, limit: number, steps: readonly number[]): number =>
      limit > 0 ? steps.filter(step => value > limit * step * margin).length : 0
    const byMemory = passed(rss, memory, MEMORY)
    const byLag = passed(lagMs, lag, LAG)
    const reasons = [
      ...(byMemory > 0 ? [`memory ${bytesText(rss)} of ${bytesText(memory)}`] : []),
      ...(byLag > 0 ? [`event loop late by ${Math.round(lagMs)} ms`] : []),
    ]
    return { level: Math.max(byMemory, byLag), reason: reasons.join('; ') }
  }

  #to(level: number, reason: string): void {
    const up = level > this.#level
    this.#level = level
    this.#reason = reason
    this.#above = this.#below = 0
    if (up && this.level !== 'normal') this.#taken[this.level]++
    this.#parts.logger.warn(up ? `reduced operation (${this.level}): ${reason}` : `operation restored: ${this.level}`)
    this.#parts.changed(this.level, reason)
  }
}
