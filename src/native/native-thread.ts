// One thread for one thing that can block: calls run on the thread in order, at most 64 pending, each with a deadline
// counted from the call. Errors: a call that misses its deadline rejects with TIMEOUT. If it had not started, it has no
// effect; if it had, the bus is stuck (BUS_STUCK for every call) until the kernel returns, because a kernel call cannot
// be cancelled. Late results are discarded and counted. close() never waits: a stuck thread ends when its call returns,
// and until then the same path cannot be reopened (BUS_STUCK), so that retries do not accumulate threads.
import { constants } from 'node:os'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import type { Addon, BusHandle, Descriptor } from './addon'
import { nativeError } from './errors'
import { native } from './index'

export interface BusOptions {
  clock?: Clock
  /** called when the bus gets stuck, and when its call has returned */
  onStuck?: (stuck: boolean) => void
}

/** limit of pending jobs */
export const BUS_JOBS = 64
export const DEFAULT_DEADLINE_MS = 1000
/** time for closing a device, after which it counts as stuck */
const CLOSING_MS = 1000
const READABLE = 1
const AGAIN = -constants.errno.EAGAIN

/** A pending job; one object per job number, reused. */
interface Call {
  resolve: ((result: number) => void) | null
  reject: ((error: OsError) => void) | null
  what: string
  deadlineAt: number
  deadlineMs: number
  answer: Uint8Array | null
  opened: ((file: Descriptor) => void) | null
  explain: ((error: OsError) => OsError) | null
  busy: boolean
}

/** A closed bus whose thread may still be in a call. */
interface Left {
  bus: BusHandle
  /** deadline of that call */
  dueAt: number
}

const leftBehind = new Map<string, Left[]>()

/** The number of threads of closed buses at `path` whose kernel call is overdue. `now`: monotonic ms. */
export function stuckThreads(path: string, now = systemClock.mono()): number {
  const { addon } = native()
  const still = (leftBehind.get(path) ?? []).filter(({ bus }) => addon.busClose(bus) === 0)
  if (still.length > 0) leftBehind.set(path, still)
  else leftBehind.delete(path)
  return still.filter(({ dueAt }) => dueAt <= now).length
}

export class NativeThread {
  readonly addon: Addon
  readonly handle: BusHandle
  /** results after their deadline */
  late = 0
  timeouts = 0
  readonly #clock: Clock
  readonly #events: Descriptor
  readonly #onStuck: (stuck: boolean) => void
  readonly #calls: Call[] = []
  #open = true
  #stuck = false
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #pending = 0

  /**
   * Starts the thread; its first call opens the device. Throws E_NO_ADDON, BUS_STUCK when an earlier bus at this path
   * is still in a call, or the error of the kernel.
   */
  constructor(
    readonly path: string,
    { clock = systemClock, onStuck = () => undefined }: BusOptions = {},
  ) {
    this.addon = native().addon
    this.#clock = clock
    this.#onStuck = onStuck
    if (stuckThreads(path, clock.mono()) > 0) throw this.#stuckError()
    const started = this.addon.busStart()
    if (typeof started === 'number') throw nativeError(started, 'thread', path)
    const events = this.addon.busEvents(started)
    if (typeof events === 'number') throw nativeError(events, 'eventfd', path)
    this.handle = started
    this.#events = events
    const watched = this.addon.watch(events, READABLE, () => this.#collect())
    if (watched < 0) {
      this.close()
      throw nativeError(watched, 'poll', path)
    }
    // an idle bus does not keep the process alive; pending calls do, by their timer
    this.addon.unref(events)
  }

  /** A call has missed its deadline and is still in the kernel. */
  get stuck(): boolean {
    return this.#stuck
  }

  /** Why no call can start now, or null; check it before passing a call to the addon, or use call(). */
  refusal(): OsError | null {
    if (!this.#open) return new OsError('LINK_DOWN', `${this.path}: closed`)
    return this.#stuck ? this.#stuckError() : null
  }

  /** Starts a job by `start`, if a call can start now, and waits for it like finish(). */
  call(
    start: (addon: Addon, handle: BusHandle) => number,
    what: string,
    deadlineMs: number,
    answer: Uint8Array | null = null,
    explain: ((error: OsError) => OsError) | null = null,
    opened: ((file: Descriptor) => void) | null = null,
  ): Promise<number> {
    const refusal = this.refusal()
    if (refusal) return Promise.reject(refusal)
    return this.finish(start(this.addon, this.handle), what, deadlineMs, answer, explain, opened)
  }

  /**
   * Waits for job number `job` of the addon (an error of the addon rejects). Its answer is in `answer` when the promise
   * resolves with the result. `what` names the call in messages, `explain` may replace the kernel's error by a more
   * specific one. `opened` gets the file of a job that opens one, before the promise resolves; a file that arrives late
   * is closed.
   */
  finish(
    job: number,
    what: string,
    deadlineMs: number,
    answer: Uint8Array | null = null,
    explain: ((error: OsError) => OsError) | null = null,
    opened: ((file: Descriptor) => void) | null = null,
  ): Promise<number> {
    if (job === AGAIN) return Promise.reject(new OsError('BUS_BUSY', `${this.path}: ${BUS_JOBS} calls are waiting`))
    if (job < 0) return Promise.reject(this.#error(job, what, null))
    const call = (this.#calls[job] ??= {
      resolve: null,
      reject: null,
      what,
      deadlineAt: 0,
      deadlineMs,
      answer,
      opened,
      explain,
      busy: false,
    })
    call.what = what
    call.deadlineMs = deadlineMs
    call.deadlineAt = this.#clock.mono() + deadlineMs
    call.answer = answer
    call.explain = explain
    call.opened = opened
    call.busy = true
    this.#arm(call.deadlineAt)
    if (this.#pending++ === 0) this.#timer?.ref()
    return new Promise<number>((resolve, reject) => {
      call.resolve = resolve
      call.reject = reject
    })
  }

  /** Rejects pending calls with LINK_DOWN and abandons the thread; safe to call twice, and while stuck. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    clearTimeout(this.#timer)
    this.addon.close(this.#events)
    if (this.addon.busClose(this.handle) === 0) {
      const now = this.#clock.mono()
      const last = this.#calls.reduce((at, call) => (call?.busy ? Math.max(at, call.deadlineAt) : at), now + CLOSING_MS)
      const left = { bus: this.handle, dueAt: this.#stuck ? now : last }
      leftBehind.set(this.path, [...(leftBehind.get(this.path) ?? []), left])
    }
    for (const call of this.#calls)
      if (call?.busy) this.#settle(call, new OsError('LINK_DOWN', `${this.path}: closed during ${call.what}`), 0)
  }

  #collect(): void {
    for (;;) {
      if (!this.#open) return
      const job = this.addon.busDone(this.handle)
      if (job < 0) return
      const call = this.#calls[job]
      const file = call?.busy && call.opened ? this.addon.busFile(this.handle, job) : null
      const result = this.addon.busResult(this.handle, job, call?.busy ? call.answer : null)
      if (!call?.busy) {
        this.late++
        if (this.#stuck) this.#moveTo(false)
      } else if (result < 0) this.#settle(call, this.#error(result, call.what, call.explain), 0)
      else {
        if (file !== null && typeof file !== 'number') call.opened?.(file)
        this.#settle(call, null, result)
      }
    }
  }

  #settle(call: Call, error: OsError | null, result: number): void {
    const { resolve, reject } = call
    call.busy = false
    call.resolve = call.reject = call.answer = call.opened = call.explain = null
    if (--this.#pending === 0) this.#timer?.unref()
    if (error) reject?.(error)
    else resolve?.(result)
  }

  /** One timer for all calls: it is moved only for an earlier deadline, and checks all calls when it fires. */
  #arm(at: number): void {
    if (at >= this.#timerAt) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => this.#ring(), Math.max(0, at - this.#clock.mono()) + 1)
  }

  #ring(): void {
    this.#timerAt = Number.POSITIVE_INFINITY
    // the loop may have been busy: results that are ready now count as in time
    this.#collect()
    if (!this.#open) return
    const now = this.#clock.mono()
    let next = Number.POSITIVE_INFINITY
    let stuck = false
    const notBegun: Call[] = []
    this.#calls.forEach((call, job) => {
      if (!call.busy) return
      if (call.deadlineAt > now) next = Math.min(next, call.deadlineAt)
      else if (this.addon.busCancel(this.handle, job) === 0) notBegun.push(call)
      else {
        stuck = true
        this.#miss(call)
      }
    })
    for (const call of notBegun)
      if (stuck) this.#settle(call, this.#stuckError(), 0)
      else this.#miss(call)
    if (!stuck) {
      if (next < Number.POSITIVE_INFINITY) this.#arm(next)
      return
    }
    // calls queued after one that does not return would wait forever
    this.#calls.forEach((call, job) => {
      if (call.busy && this.addon.busCancel(this.handle, job) === 0) this.#settle(call, this.#stuckError(), 0)
    })
    this.#moveTo(true)
  }

  #miss(call: Call): void {
    this.timeouts++
    this.#settle(call, new OsError('TIMEOUT', `${this.path}: no end of ${call.what} in ${call.deadlineMs} ms`), 0)
  }

  #moveTo(stuck: boolean): void {
    this.#stuck = stuck
    this.#onStuck(stuck)
  }

  #stuckError(): OsError {
    return new OsError('BUS_STUCK', `${this.path}: a call into the kernel has not come back`)
  }

  #error(result: number, what: string, explain: Call['explain']): OsError {
    const error = nativeError(result, what, this.path)
    return explain ? explain(error) : error
  }
}
