// One thread for one thing that can block: calls run on the thread in order, at most 64 pending, each with a deadline
// counted from the call. Errors: a call that misses its deadline rejects with TIMEOUT. If it had not started, it has no
// effect; if it had, the bus is stuck (BUS_STUCK for every call) until the kernel returns, because a kernel call cannot
// be cancelled. Late results are discarded. close() never waits: a stuck thread ends when its call returns,
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

/** A pending job. */
interface Call {
  resolve: (result: number) => void
  reject: (error: OsError) => void
  what: string
  deadlineAt: number
  deadlineMs: number
  answer: Uint8Array | null
  explain: ((error: OsError) => OsError) | null
  opened: ((file: Descriptor) => void) | null
}

type Waiting = [
  what: string,
  deadlineMs: number,
  answer?: Call['answer'],
  explain?: Call['explain'],
  opened?: Call['opened'],
]

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
  readonly #clock: Clock
  readonly #events: Descriptor
  readonly #onStuck: (stuck: boolean) => void
  /** by job number */
  readonly #calls = new Map<number, Call>()
  #open = true
  #stuck = false
  #timer: NodeJS.Timeout | undefined
  #timerAt = Number.POSITIVE_INFINITY

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

  /** Why no call can start now, or null. */
  refusal(): OsError | null {
    if (!this.#open) return new OsError('LINK_DOWN', `${this.path}: closed`)
    return this.#stuck ? this.#stuckError() : null
  }

  /** Starts a job by `start`, if a call can start now, and waits for it like finish(). */
  call(start: (addon: Addon, handle: BusHandle) => number, ...waiting: Waiting): Promise<number> {
    const refusal = this.refusal()
    return refusal ? Promise.reject(refusal) : this.finish(start(this.addon, this.handle), ...waiting)
  }

  /**
   * Waits for job number `job` of the addon (an error of the addon rejects). Its answer is in `answer` when the promise
   * resolves with the result. `what` names the call in messages, `explain` may replace the kernel's error by a more
   * specific one. `opened` gets the file of a job that opens one, before the promise resolves; a file that arrives late
   * is closed.
   */
  finish(job: number, ...[what, deadlineMs, answer = null, explain = null, opened = null]: Waiting): Promise<number> {
    if (job === AGAIN) return Promise.reject(new OsError('BUS_BUSY', `${this.path}: ${BUS_JOBS} calls are waiting`))
    if (job < 0) return Promise.reject(this.#error(job, what, null))
    const deadlineAt = this.#clock.mono() + deadlineMs
    this.#arm(deadlineAt)
    if (this.#calls.size === 0) this.#timer?.ref()
    return new Promise<number>((resolve, reject) => {
      this.#calls.set(job, { resolve, reject, what, deadlineAt, deadlineMs, answer, explain, opened })
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
      const last = Math.max(now + CLOSING_MS, ...[...this.#calls.values()].map(({ deadlineAt }) => deadlineAt))
      const left = { bus: this.handle, dueAt: this.#stuck ? now : last }
      leftBehind.set(this.path, [...(leftBehind.get(this.path) ?? []), left])
    }
    for (const [job, { what }] of this.#calls)
      this.#reject(job, new OsError('LINK_DOWN', `${this.path}: closed during ${what}`))
  }

  #collect(): void {
    for (;;) {
      if (!this.#open) return
      const job = this.addon.busDone(this.handle)
      if (job < 0) return
      const call = this.#calls.get(job)
      const file = call?.opened ? this.addon.busFile(this.handle, job) : null
      const result = this.addon.busResult(this.handle, job, call?.answer ?? null)
      if (!call) {
        // a late result: the thread has returned
        if (this.#stuck) this.#moveTo(false)
      } else if (result < 0) this.#reject(job, this.#error(result, call.what, call.explain))
      else {
        if (file !== null && typeof file !== 'number') call.opened?.(file)
        this.#forget(job)
        call.resolve(result)
      }
    }
  }

  #reject(job: number, error: OsError): void {
    const { reject } = this.#calls.get(job)!
    this.#forget(job)
    reject(error)
  }

  #forget(job: number): void {
    this.#calls.delete(job)
    if (this.#calls.size === 0) this.#timer?.unref()
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
    const notBegun: number[] = []
    for (const [job, { deadlineAt }] of this.#calls)
      if (deadlineAt > now) next = Math.min(next, deadlineAt)
      else if (this.addon.busCancel(this.handle, job) === 0) notBegun.push(job)
      else {
        stuck = true
        this.#miss(job)
      }
    for (const job of notBegun)
      if (stuck) this.#reject(job, this.#stuckError())
      else this.#miss(job)
    if (!stuck) {
      if (next < Number.POSITIVE_INFINITY) this.#arm(next)
      return
    }
    // calls queued after one that does not return would wait forever
    for (const job of this.#calls.keys())
      if (this.addon.busCancel(this.handle, job) === 0) this.#reject(job, this.#stuckError())
    this.#moveTo(true)
  }

  #miss(job: number): void {
    const { what, deadlineMs } = this.#calls.get(job)!
    this.#reject(job, new OsError('TIMEOUT', `${this.path}: no end of ${what} in ${deadlineMs} ms`))
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
