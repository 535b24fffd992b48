// The node's own time (D16, D18): the operating system's clock plus an offset learned from servers, a quality that every
// reading carries, and stamps that strictly increase per device. The OS clock is never set.
//
// What fails: a server time that is no time is refused; one far from the node's time steps it freely until the first
// sync, afterwards by at most max_time_step_seconds an hour (the rest is left for later answers, and the state says so). The
// caller only passes answers that count: from the configured server, with the seq of an open request.
import type { Clock } from '../lib/clock'

/** 'server': set by a server in this run; 'system': the OS clock is plausible; 'unsynced': it is not. */
export type TimeQuality = 'unsynced' | 'system' | 'server'

export interface NodeClockOptions {
  /** UNIX ms of the build: an OS clock before it is wrong */
  buildMs?: number
  /** server times at or below are no times (`security_settings.time_sync_threshold`, seconds) */
  thresholdSeconds?: number
  /** `security_settings.max_time_step_seconds`: movement per hour after the first sync */
  maxStepSeconds?: number
  /** devices whose last stamp is kept */
  maxDevices?: number
  /** told of every change of the offset: the log writes its clock record */
  onStep?: (step: TimeStep) => void
}

export interface TimeStep {
  /** by how much the node's time moved, ms */
  readonly movedMs: number
  readonly offsetMs: number
  /** what the server asked for and the hourly bound did not allow, ms */
  readonly heldBackMs: number
  readonly first: boolean
}

/** a server tells whole seconds: within this the clocks agree, and the offset stays as it is */
const AGREEMENT_MS = 1500
/** more than any slewing of the OS clock between two looks at it */
const JUMP_MS = 2000
const HOUR_MS = 3_600_000
/** 9999-12-31: above it nothing is a time */
const LAST_SECOND = 253_402_300_799

export class NodeClock implements Clock {
  readonly #clock: Clock
  readonly #buildMs: number
  readonly #threshold: number
  readonly #maxStepMs: number
  readonly #maxDevices: number
  readonly #onStep: (step: TimeStep) => void
  #offsetMs = 0
  #synced = false
  /** steps of the last hour, by the steady clock */
  #steps: { at: number; ms: number }[] = []
  /** the next answer steps freely, as the first does */
  #free = false
  /** OS clock minus steady clock when last looked at: tells a jump of the OS clock */
  #anchor: number
  readonly #stamps = new Map<string | number, number>()

  constructor(
    clock: Clock,
    {
      buildMs = 0,
      thresholdSeconds = 1_000_000,
      maxStepSeconds = 300,
      maxDevices = 4096,
      onStep = () => undefined,
    }: NodeClockOptions = {},
  ) {
    this.#clock = clock
    this.#anchor = clock.wall() - clock.mono()
    this.#buildMs = buildMs
    this.#threshold = thresholdSeconds
    this.#maxStepMs = Math.max(0, maxStepSeconds) * 1000
    this.#maxDevices = Math.max(1, maxDevices)
    this.#onStep = onStep
  }

  /** UNIX ms, whole */
  now(): number {
    this.#followJumps()
    return Math.floor(this.#clock.wall() + this.#offsetMs)
  }

  wall(): number {
    return this.now()
  }

  mono(): number {
    return this.#clock.mono()
  }

  get offsetMs(): number {
    return this.#offsetMs
  }

  get quality(): TimeQuality {
    if (this.#synced) return 'server'
    return this.#clock.wall() > this.#buildMs && this.#clock.wall() > this.#threshold * 1000 ? 'system' : 'unsynced'
  }

  /**
   * A server told its time: UNIX seconds, and how long its answer took. Returns whether it is taken as a time at all; how far
   * the node's time moved is told by onStep and `offsetMs`.
   */
  noteServerTime(seconds: number, rttMs = 0): boolean {
    if (!Number.isFinite(seconds) || seconds <= this.#threshold || seconds > LAST_SECOND) return false
    // the answer left the server about half a round trip ago, somewhere within its second
    const server = seconds * 1000 + 500 + Math.max(0, rttMs) / 2
    this.#followJumps()
    const error = server - (this.#clock.wall() + this.#offsetMs)
    const agree = Math.abs(error) <= AGREEMENT_MS + Math.max(0, rttMs) / 2
    const first = !this.#synced
    const wanted = agree ? 0 : error
    const moved = first || this.#free ? wanted : this.#allowed(wanted)
    const bounded = !first && !this.#free
    this.#synced = true
    this.#free = false
    this.#offsetMs = Math.round(this.#offsetMs + moved)
    if (moved !== 0 && bounded) this.#steps.push({ at: this.#clock.mono(), ms: Math.abs(moved) })
    if (moved !== 0 || wanted !== 0 || first)
      this.#onStep({ movedMs: moved, offsetMs: this.#offsetMs, heldBackMs: wanted - moved, first })
    return true
  }

  /** False for a given time (UNIX seconds) so small that whoever gave it had no clock. */
  believable(seconds: number): boolean {
    return seconds >= this.#threshold
  }

  /** A time in ms for a fact of that device: now, but later than the last one it got (D18). */
  stamp(device: string | number): number {
    const last = this.#stamps.get(device)
    const now = this.now()
    const stamp = last !== undefined && now <= last ? last + 1 : now
    // deleted first, so that the map keeps the devices in order of use
    this.#stamps.delete(device)
    this.#stamps.set(device, stamp)
    if (this.#stamps.size > this.#maxDevices) this.#stamps.delete(this.#stamps.keys().next().value!)
    return stamp
  }

  /** After a start: the last stamp of a device, as its records have it. */
  noteStamp(device: string | number, stamp: number): void {
    const last = this.#stamps.get(device) ?? Number.NEGATIVE_INFINITY
    this.#stamps.delete(device)
    this.#stamps.set(device, Math.max(last, stamp))
    if (this.#stamps.size > this.#maxDevices) this.#stamps.delete(this.#stamps.keys().next().value!)
  }

  /**
   * A jump of the OS clock after a sync (NTP came up, somebody set it) does not move the node's time. When it brought the OS clock
   * to the node's time, the offset ends; else the next server answer may step freely again, for the steady clock
   * also stands still while a machine sleeps.
   */
  #followJumps(): void {
    const anchor = this.#clock.wall() - this.#clock.mono()
    const jump = anchor - this.#anchor
    this.#anchor = anchor
    if (!this.#synced || Math.abs(jump) <= JUMP_MS) return
    const movedFrom = this.#offsetMs
    this.#offsetMs = Math.round(this.#offsetMs - jump)
    if (Math.abs(this.#offsetMs) <= AGREEMENT_MS) this.#offsetMs = 0
    else this.#free = true
    this.#onStep({ movedMs: this.#offsetMs - movedFrom + jump, offsetMs: this.#offsetMs, heldBackMs: 0, first: false })
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
