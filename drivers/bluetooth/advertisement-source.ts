// A source that reads the advertisements of one device: the newest values of the channels in its options. A test also
// shows the other values that the device sends, so that the user can choose channels. Errors: see feed.ts. A source
// without channels opens, so that it can be tested, and its reads say which channels exist.

import type { Clock } from '../../src/lib/clock'
import { within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, RawReading, SourceReading } from '../../src/links/contracts'
import { ValueChannel } from '../kit/channel'
import type { FixedChannel } from '../kit/common-options'
import { LatestSource } from '../kit/latest-source'
import type { Adapter } from './adapter'
import { sharedAdapter } from './adapters'
import { COMMON_CHANNELS, type Decoder } from './codec'
import { AdvertisementFeed } from './feed'
import type { CommonOptions } from './source-options'

/** for all channels together: a test of a source times out after 15 s */
const TEST_WAIT_MS = 12_000

/** The parts of a source; tests pass their own. */
export interface SourceParts {
  adapter?: Adapter
  timers?: Timers
  testWaitMs?: number
}

export interface AdvertisedOptions {
  type: string
  options: CommonOptions
  address: string | null
  decoder: () => Decoder
  /** unit of a channel by name; undefined: no such channel */
  unitOf: (key: string) => string | undefined
  /** by name, in the order of the readings */
  channels: Readonly<Record<string, FixedChannel | undefined>>
}

const COMMON_UNITS = new Map<string, string>(COMMON_CHANNELS.map(({ key, unit }) => [key, unit]))

export class AdvertisedSource extends LatestSource {
  readonly #adapter: Adapter
  readonly #feed: AdvertisementFeed
  readonly #keys: readonly string[]
  readonly #unitOf: (key: string) => string
  readonly #timers: Timers
  readonly #waitMs: number
  readonly #clock: Clock

  constructor(name: string, made: AdvertisedOptions, context: DriverContext, parts: SourceParts = {}) {
    const { options } = made
    const { timers = systemTimers, testWaitMs = TEST_WAIT_MS } = parts
    const adapter = parts.adapter ?? sharedAdapter(options.adapter, options.extended_scan, context)
    const unitOf = (key: string): string => COMMON_UNITS.get(key) ?? made.unitOf(key) ?? '1'
    const keys = Object.keys(made.channels).filter(key => made.channels[key] && made.channels[key]?.enabled !== false)
    const channels = keys.map(key => {
      const { enabled: _, ...chosen } = made.channels[key]!
      return new ValueChannel({ ...chosen, id: chosen.id ?? `${name}_${key}`, unit: chosen.unit ?? unitOf(key) })
    })
    const feed = new AdvertisementFeed({
      adapter,
      address: made.address,
      decoder: made.decoder,
      keys,
      awayMs: options.away_ms,
      silenceMs: options.silence_ms,
      clock: context.clock,
      timers,
    })
    super(
      name,
      {
        type: made.type,
        intervalMs: options.interval_ms,
        maxAgeMs: options.max_age_ms,
        channels,
        clock: context.clock,
        timers,
        testWaitMs,
      },
      feed,
    )
    this.#adapter = adapter
    this.#feed = feed
    this.#keys = keys
    this.#unitOf = unitOf
    this.#timers = timers
    this.#waitMs = testWaitMs
    this.#clock = context.clock
    Object.defineProperty(this.counters, 'detail', { get: () => feed.detail, enumerable: true })
  }

  /** An adapter that is plugged in again is used immediately. */
  override onReturn(back: () => void): () => void {
    return this.#adapter.onReturn(back)
  }

  override async read(): Promise<readonly SourceReading[]> {
    if (this.#keys.length > 0) return super.read()
    const sent = [...this.#feed.heard.keys()].join(', ')
    throw new OsError('CONFIG_INVALID', `${this.name} names no channels${sent === '' ? '' : `; it sends ${sent}`}`, {
      hint: `os-node source test ${this.name} shows what it sends`,
    })
  }

  /** Includes values that the device sends and no channel uses; their `error` says so. */
  override async readRaw(): Promise<readonly RawReading[]> {
    const until = this.#clock.mono() + this.#waitMs
    if (this.#feed.heard.size === 0) await this.#untilHeard()
    const chosen = await super.readRaw(Math.max(0, until - this.#clock.mono()))
    const { refusal } = this.#feed
    const others = [...this.#feed.heard].filter(([key]) => !this.#keys.includes(key))
    return [
      ...chosen.map(row => (row.value === null && refusal !== '' ? { ...row, error: refusal } : row)),
      ...others.map(([key, { value, raw }]) => ({
        sensor_id: key,
        raw,
        status: value === null ? 'ERROR' : 'OK',
        value,
        unit: this.#unitOf(key),
        error: refusal || 'no channel of the options uses it',
      })),
    ]
  }

  #untilHeard(): Promise<void> {
    const heard = new Promise<void>(resolve => this.#feed.onHeard(resolve))
    return within(this.#timers, this.#waitMs, heard, () => undefined)
  }
}
