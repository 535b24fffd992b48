// The resource guard: memory and loop lag beyond their bounds make the gateway do less before anything kills it. `lean`: only
// warnings are logged; `tight`: the SQL view rests too, and the routes that cost much, all of /api/data, answer 503 with the
// reason (storage.refused counts them). Sources, log and uplinks go on as they are: nothing is ever lost for this. A level is taken when its bound is passed in several looks in a row, and given
// back only when the figures have been well below it for a while, so that it does not flutter.
import { readdirSync, readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { asOsError, descriptors } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { systemTimers, type Timers } from '../../lib/timers'

export type GuardLevel = 'normal' | 'lean' | 'tight'
const LEVELS: readonly GuardLevel[] = ['normal', 'lean', 'tight']

export interface ResourceReport {
  level: GuardLevel
  reason?: string
  rss: number
  limit: number
  lag_p99_ms: number
  /** how often each level was taken since the start */
  taken: { lean: number; tight: number }
}

export interface Sample {
  readonly rss: number
  readonly lagMs: number
}

interface ResourcesParts {
  readonly logger: Logger
  readonly timers?: Timers
  /** bytes; 0: no bound */
  memoryLimit(): number
  /** bound of the event loop's lag in ms; 0: no bound */
  lagLimit(): number
  sample?(): Sample
  changed(level: GuardLevel, reason: string): void
}

export const LOOK_MS = 5000
/** how late a timer of this length runs is the lag: a monitor with ticks of its own would wake a resting gateway 50 times a second */
const PROBE_MS = 1000
/** part of the memory limit that leads to lean and tight */
const MEMORY = [0.85, 0.95] as const
/** the same for the lag */
const LAG = [1, 3] as const
const LOOKS_UP = 2
const LOOKS_DOWN = 6
/** what must be left below a bound to give its level back */
const MARGIN = 0.9

const readNumber = (path: string): number | undefined => {
  try {
    const n = Number(readFileSync(path, 'utf8').trim())
    return Number.isFinite(n) && n > 0 && n < 2 ** 53 ? n : undefined
  } catch {
    return undefined // no such control group
  }
}

/** The memory this process may use: the smallest bound of its control groups, or undefined where there is none. */
export function cgroupLimit(root = '/sys/fs/cgroup', self = '/proc/self/cgroup'): number | undefined {
  let text: string
  try {
    text = readFileSync(self, 'utf8')
  } catch {
    return undefined // not Linux
  }
  const found: number[] = []
  for (const line of text.split('\n')) {
    const [, controllers, path] = line.split(':')
    if (path === undefined || (controllers !== '' && controllers !== 'memory')) continue
    const base = controllers === '' ? root : `${root}/memory`
    // a group is bound by the groups around it too
    for (let at = path; ; at = at.slice(0, at.lastIndexOf('/'))) {
      for (const name of ['memory.max', 'memory.high', 'memory.limit_in_bytes']) {
        const limit = readNumber(`${base}${at === '/' ? '' : at}/${name}`)
        if (limit !== undefined) found.push(limit)
      }
      if (at === '' || at === '/') break
    }
  }
  return found.length > 0 ? Math.min(...found) : undefined
}

/** Descriptors of this process: in use, allowed, and how often one more was refused. */
export interface FilesReport {
  open: number
  limit: number
  refused: number
}

export function filesReport(): FilesReport {
  const { refused } = descriptors
  let limit = 0
  try {
    limit = Number(/Max open files\s+(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 0)
    // the one that reads is open too
    return { open: readdirSync('/proc/self/fd').length - 1, limit, refused }
  } catch {
    return { open: limit, limit, refused } // none left to look with, or not Linux
  }
}

/** of a machine without a control group, whatever its size: a large one has no reason to be filled by strangers */
const LEAST = 192 * 1_048_576
const MOST = 1024 * 1_048_576

/** `configured` MB, or by itself 80 % of the control group, else 40 % of the machine, from 192 MB to 1 GB. */
export function memoryLimit(configuredMb: number, group = cgroupLimit(), machine = totalmem()): number {
  if (configuredMb > 0) return configuredMb * 1_048_576
  if (group !== undefined && group < machine) return Math.floor(group * 0.8)
  return Math.min(MOST, Math.max(LEAST, Math.floor(machine * 0.4)))
}

export class Resources {
  readonly #parts: ResourcesParts
  readonly #timers: Timers
  /** of the probes since the last look, ms */
  #lags: number[] = []
  readonly #taken = { lean: 0, tight: 0 }
  #level = 0
  #reason = ''
  #above = 0
  #below = 0
  #last: Sample = { rss: 0, lagMs: 0 }
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

  #sample(): Sample {
    const lags = this.#lags.sort((a, b) => b - a)
    this.#lags = []
    // the second worst: one long turn alone is no overload
    return this.#parts.sample?.() ?? { rss: this.#rss(), lagMs: lags[1] ?? 0 }
  }

  /** The last known where there is no descriptor left to ask with. */
  #rss(): number {
    try {
      return process.memoryUsage.rss()
    } catch (error) {
      asOsError(error) // counted
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

  /** The level that bounds times `margin` ask for. */
  #judge(margin: number): { level: number; reason: string } {
    const { rss, lagMs } = this.#last
    const memory = this.#parts.memoryLimit()
    const lag = this.#parts.lagLimit()
    const passed = (value: number, limit: number, steps: readonly number[]): number =>
      limit > 0 ? steps.filter(step => value > limit * step * margin).length : 0
    const byMemory = passed(rss, memory, MEMORY)
    const byLag = passed(lagMs, lag, LAG)
    const reasons = [
      ...(byMemory > 0 ? [`memory ${Math.round(rss / 1_048_576)} of ${Math.round(memory / 1_048_576)} MB`] : []),
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
