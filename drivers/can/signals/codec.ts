// A message of a DBC file, compiled to a plan that extracts the chosen signals from a frame: flat loops over prepared
// arrays, without heap allocation, because it runs for every frame. Errors: a frame that is too short for a signal
// skips that signal (counted); a multiplexed signal is present only if its switch has the right value. A skipped signal
// keeps its value, which ages.
import type { Take } from '../../kit/latest-source'
import { type BitField, bytesOf, field, float32, float64, signed, unsigned } from './bits'
import { indicators } from './j1939'
import type { DbcMessage, DbcSignal, NumberFormat } from './model'

interface DecoderOptions {
  /** raw values that J1939 reserves for "error" and "not available" give no number */
  j1939?: boolean
  /** a value outside the limits of the file is reported as an error */
  checkRange?: boolean
}

interface Step {
  readonly field: BitField
  readonly bytes: number
  readonly format: NumberFormat
  /** index of its channel; -1: used only as a switch */
  readonly channel: number
  /** the step of its switch; -1: always present */
  readonly parent: number
  /** ranges of switch values: from, to, from, to … */
  readonly ranges: Float64Array
  /** raw values from here on mean error or not available */
  readonly error: number
  readonly missing: number
  readonly least: number
  readonly most: number
  /** tolerance for the limits: one raw step */
  readonly slack: number
  readonly factor: number
  readonly offset: number
}

export class MessageDecoder {
  /** signals skipped because the frame was too short */
  short = 0
  readonly #steps: readonly Step[]
  /** raw values of this frame's switches, NaN for an absent one */
  readonly #switches: Float64Array

  /** `channels`: channel index of each chosen signal, by its name. */
  constructor(message: DbcMessage, channels: ReadonlyMap<string, number>, options: DecoderOptions = {}) {
    const order = inOrder(message, channels)
    this.#switches = new Float64Array(order.length)
    this.#steps = order.map(signal => {
      const parent = order.findIndex(other => other.name === signal.when?.of)
      return step(signal, parent, channels.get(signal.name) ?? -1, options)
    })
  }

  /** Passes the signals of a frame to `take` as raw values, before factor and offset. */
  decode(data: Uint8Array, take: Take): void {
    const steps = this.#steps
    const switches = this.#switches
    for (let k = 0; k < steps.length; k++) {
      const s = steps[k]!
      switches[k] = Number.NaN
      if (s.parent >= 0 && !inRanges(s.ranges, switches[s.parent]!)) continue
      if (data.length < s.bytes) {
        this.short++
        continue
      }
      const plain = unsigned(data, s.field)
      switches[k] = plain
      if (s.channel < 0) continue
      if (plain >= s.error) {
        take(s.channel, null, plain >= s.missing ? NOT_AVAILABLE : SAYS_ERROR)
        continue
      }
      const raw = s.format === 'unsigned' ? plain : formatted(data, s)
      const value = raw * s.factor + s.offset
      if (value < s.least - s.slack || value > s.most + s.slack) take(s.channel, null, OUT_OF_RANGE)
      else take(s.channel, raw)
    }
  }
}

export const NOT_AVAILABLE = 'reported as not available'
export const SAYS_ERROR = 'reported as an error'
export const OUT_OF_RANGE = 'is outside the limits of the DBC file'

function formatted(data: Uint8Array, { format, field: place }: Step): number {
  if (format === 'signed') return signed(data, place)
  return format === 'float' ? float32(data, place) : float64(data, place)
}

/** NaN is in no range. */
function inRanges(ranges: Float64Array, value: number): boolean {
  for (let k = 0; k < ranges.length; k += 2) if (value >= ranges[k]! && value <= ranges[k + 1]!) return true
  return false
}

/** The chosen signals and the switches they depend on, each after its switch. */
function inOrder(message: DbcMessage, channels: ReadonlyMap<string, number>): DbcSignal[] {
  const byName = new Map(message.signals.map(signal => [signal.name, signal]))
  const order = new Set<DbcSignal>()
  const add = (signal: DbcSignal | undefined): void => {
    if (!signal || order.has(signal)) return
    if (signal.when) add(byName.get(signal.when.of))
    order.add(signal)
  }
  for (const signal of message.signals) if (channels.has(signal.name)) add(signal)
  return [...order]
}

function step(signal: DbcSignal, parent: number, channel: number, { j1939, checkRange }: DecoderOptions): Step {
  const place = field(signal.start, signal.length, signal.bigEndian)
  const never = Number.POSITIVE_INFINITY
  const none = { error: never, missing: never }
  const bounded = checkRange === true && signal.min < signal.max
  return {
    field: place,
    bytes: bytesOf(place),
    format: signal.format,
    channel,
    parent,
    ranges: Float64Array.from(signal.when?.ranges.flat() ?? []),
    ...(j1939 && signal.format === 'unsigned' ? indicators(signal.length) : none),
    least: bounded ? signal.min : -never,
    most: bounded ? signal.max : never,
    slack: Math.abs(signal.factor) / 2,
    factor: signal.factor,
    offset: signal.offset,
  }
}
