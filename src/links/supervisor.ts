// The owner of every medium, source and line (decision 0045): it opens and retries them, reads the sources and reports the states.
// Links fail independently: each has its own state machine (link.ts) and schedule (schedule.ts). Nothing a driver does
// ends the program; an error of a listener is logged.

import type { BackoffOptions } from '../lib/backoff'
import { type Clock, systemClock } from '../lib/clock'
import { within } from '../lib/deadline'
import { asOsError, OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers, type Timers } from '../lib/timers'
import type { LinkCounters, LinkState, Medium, Openable, Source } from './contracts'
import { Link, type LinkOptions } from './link'
import { isSafeName } from './names'
import { isLocalHost, networkState } from './network'
import { type ReadingsHandler, Schedule } from './schedule'

export interface SupervisorOptions extends Pick<LinkOptions, 'openTimeoutMs' | 'closeTimeoutMs' | 'rareMs'> {
  clock?: Clock
  logger?: Logger
  timers?: Timers
  backoff?: BackoffOptions
  /** fingerprint of the network; default: its addresses */
  network?: () => string
  /** gets the readings of every source */
  onReadings?: ReadingsHandler
}

interface AddOptions {
  /** default true */
  enabled?: boolean
  /** retry delays of this link alone, for example {maxMs: 1500} for a plug that must reconnect within two seconds */
  backoff?: BackoffOptions
  /** the host of its peer: on this machine delays stay short, elsewhere a change of the network ends them */
  host?: string
  /** it is not configured: if this machine lacks it, that is no fault */
  optional?: boolean
  /** see ScheduleOptions */
  readDeadlineMs?: number
}

type LinkKind = 'medium' | 'source' | 'line'

/** A link's state and counters as every client shows them. Times are UNIX ms. */
export interface LinkReport extends LinkCounters {
  kind: LinkKind
  /** medium or source type, for example 'UDP' or 'hwmon' */
  type?: string
  state: LinkState['state']
  since?: number
  reason?: string
  retry_at?: number
  opens: number
  /** if down: what to do about it */
  hint?: string
  /** the last error, also after recovery; absent: there was none */
  last_error?: string
  last_error_at?: number
  /** sources: completed reads, skipped intervals, and the interval */
  reads?: number
  skipped?: number
  interval_ms?: number
}

type LinkListener = (name: string, state: LinkState, before: LinkState) => void

interface Managed {
  link: Link
  kind: LinkKind
  type?: string
  schedule?: Schedule
  /** the reason of being down that is logged already */
  reportedReason?: string
  /** logged problems since it was last up */
  readonly warned: Set<string>
}

const isSource = (thing: Openable): thing is Source => 'read' in thing && 'intervalMs' in thing
const isMedium = (thing: Openable): thing is Medium => 'medium' in thing && 'send' in thing

/** Delays after a loss: a plug often returns soon; a server that is down is contacted at most once a minute. */
const BACKOFF: BackoffOptions = { minMs: 1000, maxMs: 60_000, stableMs: 60_000 }

export class Supervisor {
  readonly #options: SupervisorOptions & { clock: Clock; logger: Logger; timers: Timers }
  readonly #managed = new Map<string, Managed>()
  readonly #listeners = new Set<LinkListener>()
  #onReadings: ReadingsHandler
  #stopped: Promise<void> | undefined

  constructor(options: SupervisorOptions = {}) {
    this.#options = { clock: systemClock, logger: silentLogger, timers: systemTimers, ...options }
    this.#onReadings = options.onReadings ?? (() => undefined)
  }

  /** Sets the receiver of the readings of every source. */
  onReadings(handler: ReadingsHandler): void {
    this.#onReadings = handler
  }

  /** Calls `listener` at every change of state. Returns the function that ends it. */
  onChange(listener: LinkListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Adds a medium, source or line and, unless `enabled` is false, starts to open it. Throws CONFIG_INVALID if the name
   * is in use or is not of [A-Za-z0-9_-], LINK_DOWN after stop().
   */
  add(thing: Openable, { enabled = true, backoff, host, optional = false, readDeadlineMs }: AddOptions = {}): Link {
    const { name } = thing
    if (this.#stopped) throw new OsError('LINK_DOWN', `${name} was added after the stop`)
    if (!isSafeName(name))
      throw new OsError('CONFIG_INVALID', `the link name ${JSON.stringify(name)} may hold only A-Z a-z 0-9 _ -`)
    if (this.#managed.has(name)) throw new OsError('CONFIG_INVALID', `two links are named ${name}`)
    const { clock, timers, openTimeoutMs, closeTimeoutMs, rareMs } = this.#options
    const logger = this.#options.logger.child(name)
    const link = new Link(thing, {
      clock,
      timers,
      logger,
      backoff: { ...BACKOFF, ...this.#options.backoff, ...(host && { local: isLocalHost(host) }), ...backoff },
      optional,
      ...(host !== undefined && { network: this.#options.network ?? networkState }),
      ...(openTimeoutMs !== undefined && { openTimeoutMs }),
      ...(closeTimeoutMs !== undefined && { closeTimeoutMs }),
      ...(rareMs !== undefined && { rareMs }),
      onState: (state, before) => this.#changed(managed, logger, state, before),
      onDue: () => managed.schedule?.now(),
    })
    const managed: Managed = { link, kind: 'line', warned: new Set() }
    if (isSource(thing)) {
      managed.kind = 'source'
      managed.type = thing.type
      managed.schedule = new Schedule(thing, {
        clock,
        timers,
        logger,
        onReadings: (source, readings, at) => this.#onReadings(source, readings, at),
        complain: reason => link.complain('schedule', reason),
        lost: reason => link.lost(reason),
        ...(readDeadlineMs !== undefined && { deadlineMs: readDeadlineMs }),
      })
    } else if (isMedium(thing)) {
      managed.kind = 'medium'
      managed.type = thing.medium
    }
    this.#managed.set(name, managed)
    if (enabled) link.enable()
    return link
  }

  /** The link of that name, or undefined. */
  get(name: string): Link | undefined {
    return this.#managed.get(name)?.link
  }

  /** Closes and removes it. Resolves when closed; an unknown name is no error. */
  async remove(name: string): Promise<void> {
    const managed = this.#managed.get(name)
    if (!managed) return
    const closed = managed.link.disable()
    this.#managed.delete(name)
    await closed
  }

  /** Throws NOT_FOUND for an unknown name, like disable and reopen. */
  enable(name: string): void {
    this.#known(name).enable()
  }

  /** Closes it and keeps it disabled. Resolves when closed. */
  disable(name: string): Promise<void> {
    return this.#known(name).disable()
  }

  /** Closes and opens it immediately; a pending retry runs now. */
  reopen(name: string): void {
    this.#known(name).reopen()
  }

  /** Resolves when every current link was tried once, or after `limitMs` (R24). */
  async tried(limitMs = 10_000): Promise<void> {
    const all = [...this.#managed.values()].filter(m => m.link.state.state === 'opening').map(m => m.link.tried)
    await within(this.#options.timers, limitMs, Promise.all(all), () => undefined)
  }

  /** Every link's state and counters, in the order they were added. */
  links(): Record<string, LinkReport> {
    return Object.fromEntries([...this.#managed].map(([name, managed]) => [name, report(managed)]))
  }

  /** Closes everything. Resolves when all is closed or abandoned; a second call returns the same promise. */
  stop(): Promise<void> {
    this.#stopped ??= Promise.all([...this.#managed.values()].map(m => m.link.disable())).then(() => undefined)
    return this.#stopped
  }

  #known(name: string): Link {
    const link = this.get(name)
    if (!link) throw new OsError('NOT_FOUND', `no link is named ${name}`)
    return link
  }

  #changed(managed: Managed, logger: Logger, state: LinkState, before: LinkState): void {
    const { link, schedule } = managed
    const was = before.state === 'up' || before.state === 'degraded'
    if (schedule && link.usable !== was) {
      if (link.usable) schedule.start()
      else schedule.stop()
    }
    if (state.state === 'down' || state.state === 'absent') {
      // a permanent failure is logged once, not at every attempt
      if (state.reason !== managed.reportedReason && state.state === 'down') logger.warn(`down: ${state.reason}`)
      else if (state.reason !== managed.reportedReason) logger.info(`not present: ${state.reason}`)
      managed.reportedReason = state.reason
    } else if (state.state === 'degraded') {
      // when one of several reasons disappears, that is not logged
      const { size } = managed.warned
      for (const part of state.reason.split('; ')) managed.warned.add(part)
      if (managed.warned.size > size) logger.warn(`degraded: ${state.reason}`)
    } else if (state.state === 'up') {
      managed.reportedReason = undefined
      managed.warned.clear()
      logger.info('up')
    } else logger.debug(state.state)
    for (const listener of this.#listeners) {
      try {
        listener(link.name, state, before)
      } catch (error) {
        logger.error(`a listener of link states failed: ${asOsError(error).message}`)
      }
    }
  }
}

function report({ link, kind, type, schedule }: Managed): LinkReport {
  const { rx, tx, errors, dropped, detail } = link.thing.counters
  const { opens, failures } = link.tally
  return {
    kind,
    ...(type !== undefined && { type }),
    ...link.state,
    rx,
    tx,
    errors: errors + failures + (schedule?.tally.errors ?? 0),
    ...(dropped !== undefined && { dropped }),
    ...(detail && { detail: { ...detail } }),
    opens,
    ...(link.state.state === 'down' && link.hint && { hint: link.hint }),
    ...(link.lastError && { last_error: link.lastError.message, last_error_at: link.lastError.at }),
    ...(schedule && {
      reads: schedule.tally.reads,
      skipped: schedule.tally.skipped,
      interval_ms: (link.thing as Source).intervalMs,
    }),
  }
}
