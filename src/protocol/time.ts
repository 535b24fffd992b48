// The node's own time (D16, D18): the operating system's clock plus an offset, a quality that every reading carries, and
// stamps that strictly increase per device. The OS clock is never set. Time never begins before the program was built or,
// where the owner tells it, before the last time that was known to be right: a board without an RTC starts there.
//
// What fails: a server time that is no time is refused; one far from the node's time steps it freely until the first
// sync, afterwards by at most max_time_step_seconds an hour (the rest is left for later answers, and the state says so). The
// caller only passes answers that count: from the configured server, with the seq of an open request. When the OS clock
// jumps, a time that was right goes on by the monotonic clock, one that no time source confirmed follows; either way the quality
// falls until a time source confirms it again.

import type { Clock } from '../lib/clock'
import { LruMap } from '../lib/lru-map'

/**
 * 'server': set by a server in this run; 'ntp': the OS clock, which NTP keeps; 'system': the OS clock, which an RTC
 * keeps, or which is plausible where no time source is read; 'saved': no time source confirms it, and the OS clock was behind the last known time,
 * which goes on; 'unsynced': no time source confirms it.
 */
export type TimeQuality = 'unsynced' | 'saved' | 'system' | 'ntp' | 'server'

/** Who says that the OS clock is right. */
export type TimeSource = 'ntp' | 'system'

export interface NodeClockOptions {
  /** UNIX ms of the build: an OS clock before it is wrong */
  buildMs?: number
  /** server times at or below are no times (`security_settings.time_sync_threshold`, seconds) */
  thresholdSeconds?: number
  /** `security_settings.max_time_step_seconds`: movement per hour after the first sync */
  maxStepSeconds?: number
  /** devices whose last stamp is kept */
  maxDevices?: number
  /** which time source keeps the OS clock (see confirmTime()); left out: there is none, and a plausible OS clock is believed */
  timeSource?: TimeSource | null
  /** called at every change of the node's time and at every sync: the log writes its clock record */
  onStep?: (step: TimeStep) => void
}

export interface TimeStep {
  /** by how much the node's time moved, ms; times taken before, with a quality of 'unsynced' or 'saved', are off by that much */
  readonly movedMs: number
  readonly offsetMs: number
  /** what the server requested and the hourly bound did not allow, ms */
  readonly heldBackMs: number
  readonly first: boolean
  readonly source: 'server' | 'ntp' | 'system' | 'jump'
  /** the time is right now, as far as anybody knows */
  readonly synced: boolean
}

/** a server tells whole seconds: within this the clocks agree, and the offset stays as it is */
const AGREEMENT_MS = 1500
/** more than any slewing of the OS clock between two looks at it */
const JUMP_MS = 2000
const HOUR_MS = 3_600_000
/** a last stamp so far ahead was taken from a clock that was wrong: later ones do not wait for it */
const AHEAD_MS = 24 * HOUR_MS
/** 9999-12-31: above it nothing is a time */
export const LAST_SECOND = 253_402_300_799

export class NodeClock implements Clock {
  readonly #clock: Clock
  readonly #buildMs: number
  readonly #threshold: number
  readonly #maxStepMs: number
  readonly #onStep: (step: TimeStep) => void
  readonly #asks: boolean
  readonly #doubted = new Set<() => void>()
  #timeSource: TimeSource | null
  #offsetMs = 0
  /** a server set the time; it goes on by the monotonic clock over jumps of the OS clock */
  #synced = false
  /** the time goes on from a last known one, since the OS clock is behind it */
  #lifted: 'build' | 'saved' | null = null
  #savedMs = 0
  /** the OS clock jumped since a time source confirmed the time */
  #doubt = false
  /** the time was right at the first jump of the OS clock and goes on without it, over further ones too */
  #held = false
  /** mono ms since when no time source confirms the time */
  #badSince: number
  #lastSync: number | null = null
  /** steps of the last hour, by the monotonic clock */
  #steps: { at: number; ms: number }[] = []
  /** the next answer steps freely, as the first does */
  #free = false
  /** OS clock minus monotonic clock when last looked at: tells a jump of the OS clock */
  #anchor: number
  readonly #stamps: LruMap<string | number, number>

  constructor(
    clock: Clock,
    {
      buildMs = 0,
      thresholdSeconds = 1_000_000,
      maxStepSeconds = 300,
      maxDevices = 65_536,
      timeSource,
      onStep = () => undefined,
    }: NodeClockOptions = {},
  ) {
    this.#clock = clock
    this.#anchor = clock.wall() - clock.mono()
    this.#badSince = clock.mono()
    this.#buildMs = Math.ceil(buildMs)
    this.#threshold = thresholdSeconds
    this.#maxStepMs = Math.max(0, maxStepSeconds) * 1000
    this.#stamps = new LruMap(Math.max(1, maxDevices))
    this.#onStep = onStep
    this.#asks = timeSource !== undefined
    this.#timeSource = timeSource ?? null
    this.#lift()
  }

  /** UNIX ms, whole */
  now(): number {
    this.#followJumps()
    return Math.floor(this.#clock.wall() + this.#offsetMs)
  }

  wall(): number {
    return this.now()
  }

  /** The same for a caller that must not see a jump in the middle of its work: the log, which keeps the clock records. */
  readonly quiet: Clock = {
    wall: () => Math.floor(this.#clock.wall() + this.#offsetMs),
    mono: () => this.#clock.mono(),
  }

  mono(): number {
    return this.#clock.mono()
  }

  get offsetMs(): number {
    return this.#offsetMs
  }

  get quality(): TimeQuality {
    this.#followJumps()
    if (this.#doubt) return 'unsynced'
    if (this.#synced) return 'server'
    if (this.#lifted) return this.#lifted === 'saved' ? 'saved' : 'unsynced'
    if (!this.#plausible) return 'unsynced'
    return this.#asks ? (this.#timeSource ?? 'unsynced') : 'system'
  }

  /** A time source confirms the time. */
  get synced(): boolean {
    const { quality } = this
    return quality !== 'unsynced' && quality !== 'saved'
  }

  /** For how long no time source has confirmed the time, ms; 0 when one does. */
  get unsyncedMs(): number {
    return this.synced ? 0 : this.#clock.mono() - this.#badSince
  }

  /** UNIX ms when a time source confirmed the time last, null: never in this run */
  get lastSync(): number | null {
    return this.#lastSync
  }

  /** Called when the quality fell: time for a request of the time. Returns the function that ends it. */
  onDoubt(listener: () => void): () => void {
    this.#doubted.add(listener)
    return () => this.#doubted.delete(listener)
  }

  /** A time that was right in an earlier run: this one does not begin before it. */
  noteSaved(ms: number): void {
    if (this.#synced || this.#timeSource !== null || ms > LAST_SECOND * 1000) return
    this.#savedMs = Math.max(this.#savedMs, ms)
    this.#lift()
  }

  /** Which time source keeps the OS clock now; null: none. A server's time of this run comes first, until the OS clock jumps. */
  confirmTime(timeSource: TimeSource | null): void {
    this.#followJumps()
    const before = this.synced
    this.#timeSource = timeSource
    if (timeSource === null || !this.#plausible || (this.#synced && !this.#doubt)) {
      if (before && !this.synced) this.#fell()
      return
    }
    this.#lastSync = this.#clock.wall()
    if (before) return
    const movedMs = -this.#offsetMs
    this.#offsetMs = 0
    this.#synced = false
    this.#lifted = null
    this.#doubt = false
    this.#held = false
    this.#moved(movedMs)
    this.#onStep({ movedMs, offsetMs: 0, heldBackMs: 0, first: false, source: timeSource, synced: true })
  }

  /**
   * A time from a server: UNIX seconds, and how long its answer took. Returns whether it is taken as a time at all; how far
   * the node's time moved is in onStep and `offsetMs`.
   */
  noteServerTime(seconds: number, rttMs = 0): boolean {
    if (!Number.isFinite(seconds) || seconds <= this.#threshold || seconds > LAST_SECOND) return false
    // the answer left the server about half a round trip ago, somewhere within its second
    const server = seconds * 1000 + 500 + Math.max(0, rttMs) / 2
    this.#followJumps()
    const error = server - (this.#clock.wall() + this.#offsetMs)
    const agree = Math.abs(error) <= AGREEMENT_MS + Math.max(0, rttMs) / 2
    const first = !this.#synced
    const before = this.synced
    const wanted = agree ? 0 : error
    const moved = first || this.#free ? wanted : this.#allowed(wanted)
    const bounded = !first && !this.#free
    this.#synced = true
    this.#free = false
    this.#lifted = null
    this.#doubt = false
    this.#held = false
    this.#offsetMs = Math.round(this.#offsetMs + moved)
    this.#lastSync = Math.floor(this.#clock.wall() + this.#offsetMs)
    if (moved !== 0 && bounded) this.#steps.push({ at: this.#clock.mono(), ms: Math.abs(moved) })
    if (!before) this.#moved(moved)
    if (moved !== 0 || wanted !== 0 || first || !before) {
      const heldBackMs = wanted - moved
      this.#onStep({ movedMs: moved, offsetMs: this.#offsetMs, heldBackMs, first, source: 'server', synced: true })
    }
    return true
  }

  /** False for a time (UNIX seconds) so small that its sender had no clock. */
  believable(seconds: number): boolean {
    return seconds >= this.#threshold
  }

  /** A time in ms for a fact of that device: now, but later than the last one it got (D18). */
  stamp(device: string | number): number {
    const now = this.now()
    const last = this.#stamps.get(device) ?? Number.NEGATIVE_INFINITY
    const stamp = now > last || last - now > AHEAD_MS ? now : last + 1
    this.#keepStamp(device, stamp)
    return stamp
  }

  /** After a start: the last stamp of a device, as its records have it. */
  noteStamp(device: string | number, stamp: number): void {
    this.#keepStamp(device, Math.max(this.#stamps.get(device) ?? Number.NEGATIVE_INFINITY, stamp))
  }

  #keepStamp(device: string | number, stamp: number): void {
    this.#stamps.set(device, stamp)
  }

  get #plausible(): boolean {
    const wall = this.#clock.wall()
    return wall >= this.#buildMs && wall > this.#threshold * 1000
  }

  /** The time goes on from the last known one, where it would be before it. */
  #lift(): void {
    const behind = Math.max(this.#buildMs, this.#savedMs) - (this.#clock.wall() + this.#offsetMs)
    if (!(behind > 0)) return
    this.#offsetMs = Math.ceil(this.#offsetMs + behind)
    this.#lifted = this.#savedMs > this.#buildMs ? 'saved' : 'build'
  }

  /**
   * The node's time moved, and what was stamped before with a bad quality is corrected by as much (D18), so the last stamps are
   * too. Else a clock that ran ahead would hold every later stamp.
   */
  #moved(ms: number): void {
    if (ms !== 0) for (const [device, stamp] of [...this.#stamps]) this.#stamps.set(device, Math.ceil(stamp + ms))
  }

  #fell(): void {
    this.#badSince = this.#clock.mono()
    for (const listener of this.#doubted) listener()
  }

  /** Looks whether the OS clock was set since the last look (NTP came up, a person set it, the machine slept). */
  #followJumps(): void {
    const anchor = this.#clock.wall() - this.#clock.mono()
    const jump = anchor - this.#anchor
    this.#anchor = anchor
    if (Math.abs(jump) <= JUMP_MS) return
    const confirmed = this.#asks && this.#timeSource !== null && !this.#doubt && !this.#lifted
    const trusted = this.#synced || this.#held || confirmed
    if (trusted) this.#holdOver(jump)
    else this.#goAlong(jump)
  }

  /**
   * The time was right, so it goes on by the monotonic clock. When the jump brought the OS clock to it, the offset ends; else the
   * quality falls, and the next server answer may step freely again, for the monotonic clock also stands still while a
   * machine sleeps.
   */
  #holdOver(jump: number): void {
    const before = this.#offsetMs
    this.#held = true
    this.#offsetMs = Math.round(before - jump)
    const agrees = Math.abs(this.#offsetMs) <= AGREEMENT_MS
    if (agrees) this.#offsetMs = 0
    else this.#free = true
    const fell = !agrees && !this.#doubt
    this.#doubt ||= !agrees
    if (!this.#synced) this.#timeSource = null
    const movedMs = this.#offsetMs - before + jump
    const synced = !this.#doubt
    this.#onStep({ movedMs, offsetMs: this.#offsetMs, heldBackMs: 0, first: false, source: 'jump', synced })
    if (fell) this.#fell()
  }

  /** No time source had confirmed the time: what the OS clock was set to is the better guess, but not before the build or what was saved. */
  #goAlong(jump: number): void {
    const lifted = this.#lifted
    const before = this.#clock.wall() - jump + this.#offsetMs
    if (lifted) {
      // by the OS clock again when it has passed the time that went on without it
      this.#offsetMs = Math.max(0, Math.round(this.#offsetMs - jump))
      if (this.#offsetMs === 0) this.#lifted = null
    }
    this.#lift()
    const movedMs = Math.round(this.#clock.wall() + this.#offsetMs - before)
    if (!this.#asks && this.#plausible) return
    this.#moved(movedMs)
    if (movedMs !== 0)
      this.#onStep({ movedMs, offsetMs: this.#offsetMs, heldBackMs: 0, first: false, source: 'jump', synced: false })
    for (const listener of this.#doubted) listener()
  }

  /** The part of a step the hourly bound leaves room for. */
  #allowed(wanted: number): number {
    const since = this.#clock.mono() - HOUR_MS
    this.#steps = this.#steps.filter(step => step.at > since)
    const used = this.#steps.reduce((sum, step) => sum + step.ms, 0)
    const room = Math.max(0, this.#maxStepMs - used)
    return Math.sign(wanted) * Math.min(Math.abs(wanted), room)
  }
}
