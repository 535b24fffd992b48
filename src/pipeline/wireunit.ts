// The unit in which a value is sent (decision 0006): fixed point with few decimals must not lose small values. The canonical unit
// is used while it keeps the relative error ≤ 1e-3, else the coarsest SI-prefixed one that does. Only the magnitude,
// never the history, decides to which grid a value is rounded: a fact that is encoded again after a restart decodes to
// the same number, so that duplicates are still recognized. The written unit stays the same (X35, plan.ts): a finer one
// represents a coarser grid exactly. A value that fits nowhere is refused, never rounded.
import type { WireUnits } from '../units/wire'
import { POW10, roundHalfEven, unscale } from '../wire/base62'

export type { WireUnits }

/** Any UCUM expression or common spelling → canonical unit; canonical value = value × factor + offset. */
export interface UnitResolver {
  resolve(unit: string): { canonical: string; factor: number; offset: number } | null
  /** for readings whose unit is a list; without this such rows are refused */
  resolveList?(units: readonly string[]): { canonical: string; factor: number; offset: number } | null
}

/** The conversion of a reading's unit, in text or as a list. */
export function resolveUnit(resolver: UnitResolver, unit: unknown): ReturnType<UnitResolver['resolve']> {
  if (typeof unit === 'string') return resolver.resolve(unit)
  const list = Array.isArray(unit) && unit.length > 0 && unit.every(part => typeof part === 'string')
  return list ? (resolver.resolveList?.(unit as string[]) ?? null) : null
}

export type UnitDialect = 'ucum' | 'attribute'

/** decoders round to this many decimals, whatever the precision */
export const DECODED_DECIMALS = 8
const MOST = 2 ** 63
const LEAST_ERROR = 1e-3

export interface WireChoice {
  /** the unit's text on the wire */
  readonly token: string
  /** wire value = canonical value × perUnit */
  readonly perUnit: number
  /** canonical magnitudes for which this choice applies: low ≤ |x| < high */
  readonly low: number
  readonly high: number
}

/**
 * Steps of the last decoded decimal from which on the error is at most 1e-3: half a step, plus half a step of the
 * encoder's own at precisions that the decoder does not follow.
 */
const keptSteps = (precision: number): number =>
  precision > DECODED_DECIMALS ? 500 * (1 + POW10[DECODED_DECIMALS]! / POW10[precision]!) : 500

/** Whether a non-zero wire value is decoded within the bound of decision 0006 by every decoder. */
export function survives(x: number, precision: number): boolean {
  const n = roundHalfEven(x * POW10[precision]!)
  const back = unscale(n, precision)
  return Math.abs(n) < MOST && back !== 0 && Math.abs(back - x) <= LEAST_ERROR * Math.abs(x)
}

/** The whole number whose inverse is the factor; 0 if there is none. */
export function divisorOf(factor: number): number {
  const inverse = Math.round(1 / factor)
  return factor < 1 && factor * inverse === 1 ? inverse : 0
}

/** All choices of one canonical unit, coarsest range first; `canonical` is one of them. */
export class WirePicker {
  readonly canonical: WireChoice
  readonly #choices: readonly WireChoice[]

  constructor(
    units: WireUnits,
    readonly unit: string,
    readonly precision: number,
  ) {
    const pow = POW10[precision]!
    const seen = POW10[Math.min(precision, DECODED_DECIMALS)]!
    const keeps = keptSteps(precision)
    const spellings = [{ code: unit, scale: 1 }, ...units.prefixed(unit)].sort((a, b) => b.scale - a.scale)
    const choices: WireChoice[] = []
    const at = spellings.findIndex(s => s.scale === 1)
    const limits = spellings.map(s => {
      // exact if the scale is a negative power of ten
      const per = divisorOf(s.scale) || 1 / s.scale
      return { per, low: keeps / (per * seen), high: MOST / (per * pow) }
    })
    spellings.forEach((s, k) => {
      const { per, low, high } = limits[k]!
      // units larger than canonical are used only above the canonical range, smaller ones only below the next coarser
      const from = k < at ? Math.max(low, limits[k + 1]!.high) : low
      const to = k > at ? Math.min(high, limits[k - 1]!.low) : high
      choices.push({ token: units.toToken(s.code), perUnit: per, low: from, high: to })
    })
    this.#choices = choices
    this.canonical = choices[at]!
  }

  /** every token that a value of this unit may have */
  get tokens(): string[] {
    return this.#choices.map(choice => choice.token)
  }

  /** The choice for a canonical value; null if none preserves it. Zero stays canonical. */
  pick(x: number): WireChoice | null {
    if (x === 0) return this.canonical
    const size = Math.abs(x)
    for (const choice of this.#choices) if (size >= choice.low && size < choice.high) return choice
    // below every range only values that are on the grid by chance survive
    for (const choice of this.#choices) if (survives(x * choice.perUnit, this.precision)) return choice
    return null
  }
}

/** Pickers by unit, made on first use; bounded, because units may come from peers. */
export class WirePickers {
  readonly #byUnit = new Map<string, WirePicker>()
  constructor(
    readonly units: WireUnits,
    readonly precision: number,
  ) {}

  get(unit: string): WirePicker {
    let picker = this.#byUnit.get(unit)
    if (!picker) {
      if (this.#byUnit.size >= 4096) this.#byUnit.clear()
      picker = new WirePicker(this.units, unit, this.precision)
      this.#byUnit.set(unit, picker)
    }
    return picker
  }

  /** True when a canonical value can be sent at this precision without a visible loss. */
  fits(unit: string, value: number): boolean {
    return Number.isFinite(value) && this.get(unit).pick(value) !== null
  }
}

/** Passes tokens on unchanged: for text whose units are in wire form already. */
export const literalUnits: WireUnits = {
  toToken: unit => unit,
  fromToken: token => ({ unit: token, factor: 1, offset: 0, ambiguous: false }),
  fromPlain: token => ({ unit: token, factor: 1, offset: 0, ambiguous: false }),
  prefixed: () => [],
}
