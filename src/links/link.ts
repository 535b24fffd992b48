// One link: the state machine around something that can be opened and lost (decision 0045, R11). It opens, retries with growing
// delays, and ignores events of a previous opening. Opening and closing never overlap: both use one chain. Errors: open
// fails (→ down, retried); close fails (logged, counted); open hangs (closed after a deadline); close hangs (abandoned
// after a deadline). None of them throws to the outside.

import { Backoff, type BackoffOptions } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import { within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { SerialQueue } from '../lib/serial-queue'
import type { Timers } from '../lib/timers'
import type { LinkState, Openable } from './contracts'
import { SILENT } from './schedule'

export interface LinkOptions {
  clock: Clock
  timers: Timers
  logger: Logger
  backoff?: BackoffOptions
  /** time limit of an open; name look-ups and radios need seconds */
  openTimeoutMs?: number
  /** time limit of a close, after which it is abandoned, so that one driver cannot delay a stop */
  closeTimeoutMs?: number
  /** mean delay after an error that an early retry cannot fix (no such sensor, no driver) */
  rareMs?: number
  /** NOT_FOUND is no fault: this machine need not have it */
  optional?: boolean
  /** fingerprint of the network, for a peer behind it: a change ends the backoff */
  network?: () => string
  onState?: (state: LinkState, before: LinkState) => void
  /** the open thing has a reading to be taken */
  onDue?: () => void
}

/** how often the network is checked during a backoff */
const LOOK_MS = 5000

/**
 * The origins of a complaint about a link: its driver, the scheduler that reads it, the secure session without a key,
 * or the intake that refuses its readings.
 */
type Complainer = 'driver' | 'schedule' | 'session' | 'intake'

const NO_REASONS: Record<Complainer, string> = { driver: '', schedule: '', session: '', intake: '' }

export class Link {
  readonly name: string
  readonly thing: Openable
  /** successful openings, and failures of open, close and the line itself */
  readonly tally = { opens: 0, failures: 0 }
  /** advice about the last opening that failed */
  hint: string | undefined
  /** the last error, kept after recovery */
  lastError: { readonly at: number; readonly message: string } | undefined
  #state: LinkState = { state: 'disabled' }
  /** counts openings; events with an older number are ignored */
  #run = 0
  readonly #turns = new SerialQueue()
  #interrupt: ((reason: OsError) => void) | undefined
  /** lost was called before the opening was complete */
  #early: OsError | undefined
  #cancelRetry: (() => void) | undefined
  #reasons = { ...NO_REASONS }
  /** when it went down, kept over the attempts since */
  #downSince: number | undefined
  #tried: () => void = () => undefined
  /** resolves when the link was enabled and its first opening ended, successful or not */
  readonly tried: Promise<void>
  readonly #backoff: Backoff
  readonly #options: Required<Omit<LinkOptions, 'backoff'>>
  readonly #random: () => number

  constructor(thing: Openable, { backoff = {}, ...options }: LinkOptions) {
    this.thing = thing
    this.name = thing.name
    this.#options = {
      openTimeoutMs: 30_000,
      closeTimeoutMs: 5_000,
      rareMs: 300_000,
      optional: false,
      network: () => '',
      onState: () => undefined,
      onDue: () => undefined,
      ...options,
    }
    this.#backoff = new Backoff(backoff)
    this.#random = backoff.random ?? Math.random
    this.tried = new Promise(resolve => {
      this.#tried = resolve
    })
  }

  get state(): LinkState {
    return this.#state
  }

  /** up, or up but degraded */
  get usable(): boolean {
    return this.#state.state === 'up' || this.#state.state === 'degraded'
  }

  /** Starts opening; does nothing if the link is enabled already. */
  enable(): void {
    if (this.#state.state === 'disabled') this.#open()
  }

  /** Stops retrying and closes. Resolves when closed. */
  disable(): Promise<void> {
    if (this.#state.state !== 'disabled') {
      this.#downSince = undefined
      this.#leave({ state: 'disabled' }, 'disabled')
    }
    this.#tried()
    return this.#turns.idle
  }

  /** Closes and opens immediately, without a delay; also ends a backoff. A disabled link stays disabled. */
  reopen(): void {
    if (this.#state.state === 'disabled') return
    this.#cut('reopened')
    void this.#turns.run(() => this.#close())
    this.#open()
  }

  /** The link works, but badly: `why`; empty means it has recovered. Ignored unless it is usable. */
  complain(who: Complainer, why: string): void {
    // a driver's reason makes this one redundant
    const reason = why === SILENT && this.#reasons.driver !== '' ? '' : why
    if (this.#reasons[who] === reason) return
    this.#reasons[who] = reason
    if (reason !== '') this.#failed(reason)
    if (this.usable) this.#settleUp()
  }

  /** The link is lost: closes it and retries after a delay. */
  lost(reason: string): void {
    if (!this.usable) return
    this.tally.failures++
    this.#failed(reason)
    this.#leave(this.#downState(new OsError('LINK_DOWN', reason)), reason)
    this.#retry()
  }

  #open(): void {
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    const run = ++this.#run
    this.#reasons = { ...NO_REASONS }
    this.#to({ state: 'opening', since: this.#options.clock.wall() })
    void this.#turns.run(() => this.#attempt(run))
  }

  async #attempt(run: number): Promise<void> {
    if (run !== this.#run) return
    this.#early = undefined
    const failure = (await this.#tryOpen(run)) ?? this.#early
    if (failure) await this.#close()
    if (run !== this.#run) return // the caller that interrupted has queued the close
    this.hint = failure && failure.code !== 'LINK_DOWN' ? failure.hint : undefined
    if (failure) {
      const absent = this.#options.optional && failure.code === 'NOT_FOUND'
      if (!absent) {
        this.tally.failures++
        this.#failed(failure.message)
      }
      this.#to(this.#downState(failure, absent ? 'absent' : 'down'))
      this.#retry()
    } else {
      this.tally.opens++
      this.#backoff.up(this.#options.clock.mono())
      this.#downSince = undefined
      this.#settleUp()
    }
    this.#tried()
  }

  /** Opens, limited by deadline, interruption and loss. Returns why it failed, or undefined. */
  async #tryOpen(run: number): Promise<OsError | undefined> {
    const { timers, openTimeoutMs } = this.#options
    let cancel = (): void => undefined
    const stopped = new Promise<OsError>(resolve => {
      this.#interrupt = resolve
      cancel = timers.after(openTimeoutMs, () =>
        resolve(new OsError('TIMEOUT', `did not open within ${openTimeoutMs / 1000} s`)),
      )
    })
    const opened = (async () => {
      await this.thing.open({
        lost: (reason, wanted) => {
          if (run !== this.#run) return
          if (wanted && this.usable) {
            this.#options.logger.info(reason)
            this.reopen()
            return
          }
          if (this.#state.state !== 'opening') return this.lost(reason)
          this.#early = new OsError('LINK_DOWN', reason)
          this.#interrupt?.(this.#early)
        },
        degraded: reason => {
          if (run === this.#run) this.complain('driver', reason)
        },
        due: () => {
          if (run === this.#run && this.usable) this.#options.onDue()
        },
      })
    })()
    try {
      // not `within`, which ends only by time: an interruption ends this one too
      return await Promise.race([stopped, opened.then(() => undefined)])
    } catch (error) {
      return asOsError(error, 'LINK_DOWN')
    } finally {
      cancel()
      this.#interrupt = undefined
    }
  }

  async #close(): Promise<void> {
    const { timers, closeTimeoutMs, logger } = this.#options
    try {
      const closed = (async () => this.thing.close())()
      if ((await within(timers, closeTimeoutMs, closed, () => 'late')) !== 'late') return
      this.tally.failures++
      this.#failed(`did not close within ${closeTimeoutMs / 1000} s`)
      logger.warn(`did not close within ${closeTimeoutMs / 1000} s and was abandoned`)
    } catch (error) {
      this.tally.failures++
      this.#failed(`close failed: ${asOsError(error).message}`)
      logger.warn(`close failed: ${asOsError(error).message}`)
    }
  }

  #failed(message: string): void {
    this.lastError = { at: this.#options.clock.wall(), message }
  }

  /** Ends the current opening, so that its later events are ignored. */
  #cut(why: string): void {
    this.#run++
    this.#cancelRetry?.()
    this.#cancelRetry = undefined
    this.#interrupt?.(new OsError('LINK_DOWN', why))
  }

  #leave(state: LinkState, why: string): void {
    this.#cut(why)
    void this.#turns.run(() => this.#close())
    this.#to(state)
  }

  #downState({ message, retryable }: OsError, state: 'down' | 'absent' = 'down'): LinkState {
    const { clock, rareMs } = this.#options
    const delayMs = retryable ? this.#backoff.next(clock.mono()) : Math.round(rareMs * (0.5 + this.#random()))
    this.#downSince ??= clock.wall()
    return { state, since: this.#downSince, reason: message, retry_at: clock.wall() + delayMs }
  }

  #retry(): void {
    if (this.#state.state !== 'down' && this.#state.state !== 'absent') return
    const { retry_at: at = 0 } = this.#state
    const { clock, timers, network } = this.#options
    const before = network()
    let cancelWait = (): void => undefined
    const wait = (left: number): void => {
      const part = before === '' ? left : Math.min(left, LOOK_MS)
      cancelWait = timers.after(part, () => {
        if (part < left && network() !== before) this.back()
        else if (part < left) wait(left - part)
        else this.#open()
      })
    }
    wait(Math.max(0, at - clock.wall()))
    // a device that was replugged meanwhile is retried immediately
    const run = this.#run
    const endWatch = this.thing.onReturn?.(() => run === this.#run && this.back())
    this.#cancelRetry = () => {
      cancelWait()
      endWatch?.()
    }
  }

  /** The peer or its network has returned: ends the backoff. */
  back(): void {
    if (this.#state.state !== 'down' && this.#state.state !== 'absent') return
    this.#backoff.reset()
    this.#open()
  }

  /** up or degraded, depending on the reasons */
  #settleUp(): void {
    const since = this.#options.clock.wall()
    const reason = Object.values(this.#reasons).filter(Boolean).join('; ')
    if (reason !== '') this.#to({ state: 'degraded', since, reason })
    else if (this.#state.state !== 'up') this.#to({ state: 'up', since })
  }

  #to(state: LinkState): void {
    const before = this.#state
    this.#state = state
    this.#options.onState(state, before)
  }
}
