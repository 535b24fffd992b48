// The node's own time (decisions 0018 and 0044): the operating system's clock plus an offset, a quality for every reading, and stamps that
// strictly increase per device. The OS clock is never set. The time never starts before the build time of the program or, if
// the owner provides it, before the last correct time: a board without an RTC starts there.
//
// Errors: an invalid server time is refused. A valid one that differs from the node's time steps it without limit until the
// first sync, later by at most max_time_step_seconds an hour (later answers correct the remaining difference, and the state
// shows it). The caller only passes valid answers: from the configured server, with the seq of an open request. If the OS
// clock jumps, a correct time continues on the monotonic clock, and one that no time source confirmed follows the jump; in
// both cases the quality is lowered until a time source confirms it again.

import type { Clock } from '../lib/clock'
import { LruMap } from '../lib/lru-map'

/**
 * 'server': set by a server in this run; 'ntp': the OS clock, synchronised by NTP; 'system': the OS clock, set from an RTC,
 * or plausible without a readable time source; 'saved': no time source confirms it, the OS clock was behind the last known
 * time, and that time continues; 'unsynced': no time source confirms it.
 */
export type TimeQuality = 'unsynced' | 'saved' | 'system' | 'ntp' | 'server'

/** The time source that confirms the OS clock. */
export type TimeSource = 'ntp' | 'system'

export interface NodeClockOptions {
  /** UNIX ms of the build: an OS clock before it is wrong */
  buildMs?: number
  /** server times up to this are invalid (`security_settings.time_sync_threshold`, seconds) */
  thresholdSeconds?: number
  /** `security_settings.max_time_step_seconds`: maximum step per hour after the first sync */
  maxStepSeconds?: number
  /** maximum of devices whose last stamp is kept */
  maxDevices?: number
  /** the time source of the OS clock (see confirmTime()); default: none, and a plausible OS clock is trusted */
  timeSource?: TimeSource | null
  /** called at every change of the node's time and at every sync: the log writes its clock record */
  onStep?: (step: TimeStep) => void
}

export interface TimeStep {
  /** the step of the node's time, ms; earlier times with the quality 'unsynced' or 'saved' are off by that much */
  readonly movedMs: number
  readonly offsetMs: number
  /** correction requested by the server that the hourly limit did not allow, ms */
  readonly heldBackMs: number
  readonly first: boolean
  readonly source: 'server' | 'ntp' | 'system' | 'jump'
  /** a time source confirms the time now */
  readonly synced: boolean
}

/** a server sends whole seconds: within this the clocks agree, and the offset stays unchanged */
export const AGREEMENT_MS = 1500
/** more than any slewing of the OS clock between two checks */
const JUMP_MS = 2000
const HOUR_MS = 3_600_000
/** a last stamp this far ahead came from a wrong clock: later stamps do not wait for it */
const AHEAD_MS = 24 * HOUR_MS
/** 9999-12-31: later values are no valid time */
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
  /** a server set the time; it continues on the monotonic clock over jumps of the OS clock */
  #synced = false
  /** the time continues from a last known one, since the OS clock is behind it */
  #lifted: 'build' | 'saved' | null = null
  #savedMs = 0
  /** the OS clock jumped since a time source confirmed the time */
  #doubt = false
  /** the time was correct at the first jump of the OS clock and continues without it, over further jumps too */
  #held = false
  /** mono ms since no time source confirms the time */
  #badSince: number
  #lastSync: number | null = null
  /** steps of the last hour, by the monotonic clock */
  #steps: { at: number; ms: number }[] = []
  /** the next answer may step without limit, as the first one */
  #free = false
  /** OS clock minus monotonic clock at the last check: detects a jump of the OS clock */
  #anchor: number
  readonly #stamps: LruMap<string | number, number>
  /** devices whose last stamp the next step corrects (of this run, and no time source confirmed it), and their last stamp before those */
  readonly #open: LruMap<string | number, number>

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
    this.#open = new LruMap(this.#stamps.limit)
    this.#onStep = onStep
    this.#asks = timeSource !== undefined
    this.#timeSource = timeSource ?? null
    this.#lift()
  }

  /** UNIX ms, integer */
  now(): number {
    this.#followJumps()
    return Math.floor(this.#clock.wall() + this.#offsetMs)
  }

  wall(): number {
    return this.now()
  }

  /**
   * Like this clock, for a caller that must not see a jump in the middle of its work: the log, which writes the clock
   * records.
   */
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

  /** How long no time source has confirmed the time, ms; 0 if one does. */
  get unsyncedMs(): number {
    return this.synced ? 0 : this.#clock.mono() - this.#badSince
  }

  /** UNIX ms when a time source last confirmed the time, null: never in this run */
  get lastSync(): number | null {
    return this.#lastSync
  }

  /** Called when the quality is lowered, so that the time can be requested. Returns the function that unsubscribes. */
  onDoubt(listener: () => void): () => void {
    this.#doubted.add(listener)
    return () => this.#doubted.delete(listener)
  }

  /** A correct time of an earlier run: this run does not start before it. */
  noteSaved(ms: number): void {
    if (this.#synced || this.#timeSource !== null || ms > LAST_SECOND * 1000) return
    this.#savedMs = Math.max(this.#savedMs, ms)
    this.#lift()
  }

  /**
   * The current time source of the OS clock; null: none. A server's time of this run takes precedence until the OS clock
   * jumps.
   */
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
    this.#moved(movedMs, true)
    this.#onStep({ movedMs, offsetMs: 0, heldBackMs: 0, first: false, source: timeSource, synced: true })
  }

  /**
   * A time from a server: UNIX seconds, and the round trip of its answer. Returns whether it is a valid time; onStep and
   * `offsetMs` show how far the node's time moved.
   */
  noteServerTime(seconds: number, rttMs = 0): boolean {
    if (!Number.isFinite(seconds) || seconds <= this.#threshold || seconds > LAST_SECOND) return false
    // the server sent the answer about half a round trip ago, somewhere within its second
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
    if (!before) this.#moved(moved, true)
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

  /** A time in ms for a fact of that device: now, but later than its last stamp (decision 0044). */
  stamp(device: string | number): number {
    const now = this.now()
    const last = this.#stamps.get(device) ?? Number.NEGATIVE_INFINITY
    const stamp = now > last || last - now > AHEAD_MS ? now : last + 1
    this.#stamps.set(device, stamp)
    if (this.synced) this.#open.delete(device)
    else if (!this.#open.has(device)) this.#open.set(device, last)
    return stamp
  }

  /** After a start: the last stamp of a device, from its records; a correction may have made it a fraction. */
  noteStamp(device: string | number, stamp: number): void {
    this.#stamps.set(device, Math.max(this.#stamps.get(device) ?? Number.NEGATIVE_INFINITY, Math.ceil(stamp)))
  }

  get #plausible(): boolean {
    const wall = this.#clock.wall()
    return wall >= this.#buildMs && wall > this.#threshold * 1000
  }

  /** Continues from the last known time if the clock is before it. */
  #lift(): void {
    const behind = Math.max(this.#buildMs, this.#savedMs) - (this.#clock.wall() + this.#offsetMs)
    if (!(behind > 0)) return
    this.#offsetMs = Math.ceil(this.#offsetMs + behind)
    this.#lifted = this.#savedMs > this.#buildMs ? 'saved' : 'build'
  }

  /**
   * The node's time moved: stamps of this run with a bad quality are corrected by as much (decision 0044), so the last ones are too.
   * Otherwise a clock that was ahead would delay every later stamp. Other stamps stay: `synced` ends the corrections.
   */
  #moved(ms: number, synced: boolean): void {
    for (const [device, before] of this.#open) {
      const stamp = this.#stamps.get(device)
      if (stamp !== undefined) this.#stamps.set(device, Math.max(before, Math.ceil(stamp + ms)))
    }
    if (synced) this.#open.clear()
  }

  #fell(): void {
    this.#badSince = this.#clock.mono()
    for (const listener of this.#doubted) listener()
  }

  /** Detects whether the OS clock was set since the last check (NTP started, a user set it, the machine slept). */
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
   * The time was correct, so it continues on the monotonic clock. If the jump brought the OS clock to it, the offset ends;
   * otherwise the quality is lowered, and the next server answer may step without limit, since the monotonic clock stops
   * while a machine sleeps.
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

  /**
   * No time source had confirmed the time: the new OS clock is the better estimate, but not before the build or the saved
   * time.
   */
  #goAlong(jump: number): void {
    const lifted = this.#lifted
    const before = this.#clock.wall() - jump + this.#offsetMs
    if (lifted) {
      // follow the OS clock again when it has passed the time that continued without it
      this.#offsetMs = Math.max(0, Math.round(this.#offsetMs - jump))
      if (this.#offsetMs === 0) this.#lifted = null
    }
    this.#lift()
    const movedMs = Math.round(this.#clock.wall() + this.#offsetMs - before)
    if (!this.#asks && this.#plausible) return
    this.#moved(movedMs, false)
    if (movedMs !== 0)
      this.#onStep({ movedMs, offsetMs: this.#offsetMs, heldBackMs: 0, first: false, source: 'jump', synced: false })
    for (const listener of this.#doubted) listener()
  }

  /** The part of a step that the hourly limit allows. */
  #allowed(wanted: number): number {
    const since = this.#clock.mono() - HOUR_MS
    this.#steps = this.#steps.filter(step => step.at > since)
    const used = this.#steps.reduce((sum, step) => sum + step.ms, 0)
    const room = Math.max(0, this.#maxStepMs - used)
    return Math.sign(wanted) * Math.min(Math.abs(wanted), room)
  }
}
