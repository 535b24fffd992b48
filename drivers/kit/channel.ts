// One channel of a source: raw value → scale and offset → status → reading. Pure. A value that is none, or that a rule calls
// ERROR, keeps its place without a value (D7).
import { OsError } from '../../src/lib/errors'
import type { RawReading, SourceReading } from '../../src/links/contracts'
import type { FixedChannel, StatusRule } from './common-options'
import { statusOf } from './status'

interface ChannelOptions {
  id: string
  /** UCUM */
  unit: string
  scale?: number | undefined
  offset?: number | undefined
  status?: readonly StatusRule[] | undefined
}

/** What a driver gives for one channel; `value` before scale and offset. */
export interface Sample {
  readonly value: number | null
  /** as it came from the bus: bytes in hex, or text */
  readonly raw: string
  /** why there is no value */
  readonly error?: string
}

export class ValueChannel {
  readonly id: string
  readonly unit: string
  readonly #multiply: number
  readonly #divide: number
  readonly #offset: number
  readonly #rules: readonly StatusRule[]

  constructor({ id, unit, scale = 1, offset = 0, status = [] }: ChannelOptions) {
    this.id = id
    this.unit = unit
    // 234 / 10 is 23.4 and 234 * 0.1 is not
    const inverse = Math.round(1 / scale)
    const exact = Math.abs(scale) < 1 && Math.abs(inverse * scale - 1) < 1e-12
    this.#multiply = exact ? 1 : scale
    this.#divide = exact ? inverse : 1
    this.#offset = offset
    this.#rules = status
  }

  /** The reading of a raw value; null, NaN and infinities are an ERROR. */
  reading(raw: number | null): SourceReading {
    const value = raw === null ? Number.NaN : (raw * this.#multiply) / this.#divide + this.#offset
    const status = Number.isFinite(value) ? statusOf(this.#rules, value) : 'ERROR'
    return [this.id, status, status === 'ERROR' ? null : value, this.unit]
  }

  /** reading() with what the bus gave. */
  raw({ value, raw, error }: Sample): RawReading {
    const [sensor_id, status, scaled, unit] = this.reading(value)
    const why = error ?? (scaled === null ? (value === null ? 'no value' : `${value} counts as an error`) : undefined)
    return { sensor_id, raw, status, value: scaled, unit: String(unit), ...(why !== undefined && { error: why }) }
  }

  /** What makes a raw value a reading: another text, another meaning of the raw value. */
  get conversion(): string {
    return `${this.unit} ${this.#multiply}/${this.#divide}+${this.#offset}`
  }

  /** The raw value of a reading: scale and offset undone. */
  rawOf(value: number): number {
    return ((value - this.#offset) * this.#divide) / this.#multiply
  }
}

/** Throws CONFIG_INVALID when two channels have one id: readings of two sensors must never mix under one name. */
export function distinctIds(channels: readonly { readonly id: string }[], source: string): void {
  const seen = new Set<string>()
  for (const { id } of channels) {
    if (seen.has(id)) throw new OsError('CONFIG_INVALID', `options of ${source}: two channels have the id ${id}`)
    seen.add(id)
  }
}

export interface ChannelSpec {
  readonly key: string
  readonly unit: string
}

/**
 * The channels of a device that has these ones, as its options want them, each with its place in `specs`. Without an id of
 * its own a channel is called `<source>_<key>`, or as the source where it is the only one. Throws CONFIG_INVALID.
 */
export function chooseChannels(
  source: string,
  specs: readonly ChannelSpec[],
  options: Readonly<Record<string, FixedChannel | undefined>> = {},
): { channels: ValueChannel[]; places: number[] } {
  const channels: ValueChannel[] = []
  const places: number[] = []
  for (const [place, { key, unit }] of specs.entries()) {
    const chosen = options[key]
    if (chosen?.enabled === false) continue
    const id = chosen?.id ?? (specs.length === 1 ? source : `${source}_${key}`)
    channels.push(new ValueChannel({ ...chosen, id, unit: chosen?.unit ?? unit }))
    places.push(place)
  }
  if (channels.length === 0) throw new OsError('CONFIG_INVALID', `options of ${source}: no channel is enabled`)
  distinctIds(channels, source)
  return { channels, places }
}
