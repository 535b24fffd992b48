// The base of every source whose values arrive unrequested (advertisements, CAN signals, lines of text): it stores the
// newest value of each channel, and a read returns those that are not too old. Errors: a channel not received within
// the age limit (ERROR, degraded with the reason); a lost feed (it reports `lost`, the link is reopened).
import type { Clock } from '../../src/lib/clock'
import { counted } from '../../src/lib/counted'
import { within } from '../../src/lib/deadline'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { OpenableEvents, RawReading, Source, SourceReading } from '../../src/links/contracts'
import { distinctIds, type ValueChannel } from './channel'

/**
 * Stores the newest raw value of the channel at `index`; null with a reason if the device reported no value. Runs for
 * every received value; no allocation.
 */
export type Take = (index: number, value: number | null, error?: string) => void

/** The origin of a latest-value source's values. */
export interface Feed {
  /** Starts receiving; values may arrive until close. Throws an OsError with a reason. */
  open(events: OpenableEvents, take: Take): Promise<void>
  close(): Promise<void>
  /** raw data of a channel's newest value: bytes in hex, or text; called only for channels that have been received */
  raw(index: number): string
  /** see Openable */
  onReturn?(back: () => void): () => void
  readonly detail?: Readonly<Record<string, number>>
}

export interface LatestOptions {
  type: string
  intervalMs: number
  maxAgeMs: number
  channels: readonly ValueChannel[]
  clock: Clock
  timers?: Timers
  /** how long a test waits for missing channels */
  testWaitMs?: number
}

/** a test of a source times out after 15 s */
const TEST_WAIT_MS = 10_000
const NEVER = Number.NEGATIVE_INFINITY

export class LatestSource implements Source {
  readonly type: string
  readonly intervalMs: number
  /** rx counts received values, errors counts channels without a value at a read */
  readonly counters: { rx: number; tx: number; errors: number; detail?: Readonly<Record<string, number>> }
  readonly #options: LatestOptions
  readonly #feed: Feed
  readonly #timers: Timers
  /** NaN: the device reported no value */
  readonly #values: Float64Array
  /** time of the value, on the monotonic clock */
  readonly #at: Float64Array
  readonly #errors: (string | undefined)[]
  readonly #take: Take
  #events: OpenableEvents | undefined
  /** the feed's own report, and the result of the last read */
  #complaint = ''
  #missing = ''
  #heard: (() => void) | undefined

  /** Throws CONFIG_INVALID when two channels have the same id. */
  constructor(
    readonly name: string,
    options: LatestOptions,
    feed: Feed,
  ) {
    distinctIds(options.channels, name)
    this.type = options.type
    this.intervalMs = options.intervalMs
    this.#options = options
    this.#feed = feed
    this.#timers = options.timers ?? systemTimers
    this.#values = new Float64Array(options.channels.length)
    this.#at = new Float64Array(options.channels.length).fill(NEVER)
    this.#errors = new Array(options.channels.length)
    this.counters = { rx: 0, tx: 0, errors: 0, ...(feed.detail && { detail: feed.detail }) }
    this.#take = (index, value, error) => {
      this.counters.rx++
      this.#values[index] = value ?? Number.NaN
      this.#errors[index] = error
      this.#at[index] = options.clock.mono()
      this.#heard?.()
    }
  }

  get sensors(): readonly ValueChannel[] {
    return this.#options.channels
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#events = events
    this.#at.fill(NEVER)
    this.#complaint = this.#missing = ''
    const degraded = (reason: string): void => {
      if (this.#events !== events) return
      this.#complaint = reason
      this.#say()
    }
    const due = events.due && { due: () => events.due!() }
    await this.#feed.open({ lost: reason => events.lost(reason), degraded, ...due }, this.#take)
  }

  async close(): Promise<void> {
    this.#events = undefined
    await this.#feed.close()
  }

  onReturn(back: () => void): () => void {
    return this.#feed.onReturn?.(back) ?? (() => undefined)
  }

  async read(): Promise<readonly SourceReading[]> {
    const { channels } = this.#options
    const missing = channels.filter((_, k) => this.#why(k) !== undefined)
    this.counters.errors += missing.length
    const [first] = missing
    const why = first && this.#why(channels.indexOf(first))
    this.#missing = first ? `${missing.length} of ${counted(channels.length, 'sensor')}: ${first.id} ${why}` : ''
    this.#say()
    return channels.map((channel, k) => channel.reading(this.#why(k) === undefined ? this.#values[k]! : null))
  }

  whyNot(id: string): string | undefined {
    const at = this.#options.channels.findIndex(channel => channel.id === id)
    if (at < 0) return undefined
    return this.#why(at) ?? this.#options.channels[at]!.raw({ value: this.#values[at]!, raw: '' }).error
  }

  /** Reports both reasons: one must not hide the other. */
  #say(): void {
    this.#events?.degraded([this.#complaint, this.#missing].filter(Boolean).join('; '))
  }

  /** Waits up to `waitMs` for channels that have not been received yet. */
  async readRaw(waitMs = this.#options.testWaitMs ?? TEST_WAIT_MS): Promise<readonly RawReading[]> {
    await this.#untilHeard(waitMs)
    return this.#options.channels.map((channel, k) => {
      const error = this.#why(k)
      const raw = this.#at[k] === NEVER ? '' : this.#feed.raw(k)
      return channel.raw({ value: error === undefined ? this.#values[k]! : null, raw, ...(error && { error }) })
    })
  }

  /** Why a channel has no value; undefined when it has one. */
  #why(index: number): string | undefined {
    const at = this.#at[index]!
    if (at === NEVER) return 'was not heard yet'
    const { clock, maxAgeMs } = this.#options
    if (clock.mono() - at > maxAgeMs) return `was not heard for ${maxAgeMs / 1000} s`
    return Number.isNaN(this.#values[index]!) ? (this.#errors[index] ?? 'has no value') : undefined
  }

  async #untilHeard(waitMs: number): Promise<void> {
    const all = (): boolean => this.#at.every(at => at !== NEVER)
    if (all()) return
    const { maxAgeMs } = this.#options
    const complete = new Promise<void>(resolve => {
      this.#heard = () => {
        if (all()) resolve()
      }
    })
    await within(this.#timers, Math.min(waitMs, maxAgeMs), complete, () => undefined)
    this.#heard = undefined
  }
}
