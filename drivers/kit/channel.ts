// One channel of a source: raw value → scale and offset → status → reading. Pure. A missing value, or one that a rule
// calls ERROR, keeps its place without a value (decision 0025).
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

/** A driver's result for one channel; `value` before scale and offset. */
export interface Sample {
  readonly value: number | null
  /** as received from the bus: bytes in hex, or text */
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
    // exact decimals: 234 / 10 is 23.4, but 234 * 0.1 is not
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

  /** reading() plus the raw data of the bus. */
  raw({ value, raw, error }: Sample): RawReading {
    const [sensor_id, status, scaled, unit] = this.reading(value)
    const why = error ?? (scaled === null ? (value === null ? 'no value' : `${value} counts as an error`) : undefined)
    return { sensor_id, raw, status, value: scaled, unit: String(unit), ...(why !== undefined && { error: why }) }
  }

  /** Everything that determines how a raw value becomes a reading; it changes whenever raw values get another meaning. */
  get conversion(): string {
    return `${this.unit} ${this.#multiply}/${this.#divide}+${this.#offset}`
  }

  /** The raw value of a reading: reverses scale and offset. */
  rawOf(value: number): number {
    return ((value - this.#offset) * this.#divide) / this.#multiply
  }
}

/** Throws CONFIG_INVALID when two channels have the same id: readings of two sensors must never mix under one name. */
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
 * Selects the channels of a device according to its options, each with its index in `specs`. A channel without a
 * configured id is named `<source>_<key>`, or like the source if it is the only one. Throws CONFIG_INVALID.
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
