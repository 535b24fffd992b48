// Engine: fact dict ↔ compressed text. Works alone: `new Engine()`. In dialect `attribute` text and facts equal the
// reference's to the byte. In dialect `ucum` units are canonical UCUM, a value is sent in the unit that preserves it
// (decision 0006), and state `E` with value `00` is a failed sensor without a value (X34). compress throws BAD_TEXT for a fact
// without id or with a negative time, E_PRECISION and BAD_READING for a value that cannot be preserved; decompress
// throws BAD_TEXT.

import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { decodeBase62, decodeInteger, encodeBase62, NO_VALUE_TEXT, POW10, unscale } from '../wire/base62'
import { pyFloat } from '../wire/number'
import { stateName, stateToken } from '../wire/symbols'
import type { FactDict } from './fact'
import { checkPrecision, readSettings } from './settings'
import { fromBase64, msToken, sensorOf, splitText, toBase64, tokenMs } from './text'
import { decodeUnit, encodeUnit } from './unittext'
import type { UnitDialect, WireUnits } from './wireunit'
import { DECODED_DECIMALS, divisorOf, literalUnits, WirePickers } from './wireunit'

export interface EngineOptions {
  precision?: number
  unitDialect?: UnitDialect
  /** units of dialect `ucum`; without them tokens are used literally */
  units?: WireUnits
  clock?: Clock
}

/** Result of decompress for an empty text, as in the reference. */
const EMPTY_TEXT = { error: { mid: 'ENG', eid: 'DEC' } } as const

export class Engine {
  readonly precision: number
  readonly unitDialect: UnitDialect
  readonly units: WireUnits
  readonly pickers: WirePickers
  /** tokens with an ambiguous unit so far (X1) */
  unitAmbiguous = 0
  readonly #clock: Clock

  constructor(configPath: string | null = null, options: EngineOptions = {}) {
    const settings = readSettings(configPath)
    this.precision = checkPrecision(options.precision ?? settings.precision)
    this.unitDialect = options.unitDialect ?? settings.unitDialect
    this.units = options.units ?? literalUnits
    this.pickers = new WirePickers(this.units, this.precision)
    this.#clock = options.clock ?? systemClock
  }

  /** Fact dict → text. `useMs` false writes `t` unchanged. */
  compress(fact: Record<string, unknown>, useMs = true): string {
    if (fact.id === undefined) throw new OsError('BAD_TEXT', 'a fact needs an id')
    let text = `${pyStr(fact.id)}.${this.#state(fact.s)}.${msToken(this.#time(fact, useMs))}|`
    for (let n = 1; fact[`s${n}_id`] !== undefined && fact[`s${n}_id`] !== null; n++) {
      text += `${String(fact[`s${n}_id`])}>${this.#sensor(fact[`s${n}_s`], fact[`s${n}_u`], fact[`s${n}_v`])}|`
    }
    if (fact.geohash !== undefined) text += `&${String(fact.geohash)}|`
    if (fact.url !== undefined) text += `#${toBase64(String(fact.url).replaceAll('https://', ''))}|`
    if (fact.msg !== undefined) text += `@${toBase64(String(fact.msg))}`
    return text
  }

  #state(state: unknown): string {
    return state === undefined ? 'U' : state === null ? 'None' : stateToken(String(state))
  }

  #time(fact: Record<string, unknown>, useMs: boolean): number {
    const raw = fact.t_raw ?? fact.t
    const t = raw === undefined || raw === null ? this.#clock.wall() / 1000 : pyFloat(raw)
    if (t === undefined || !(t >= 0) || t >= 2 ** 63) throw new OsError('BAD_TEXT', `bad time ${String(raw)}`)
    return !useMs || t >= 1e11 ? Math.trunc(t) : Math.trunc(t * 1000)
  }

  /** `state.unit:value` */
  #sensor(status: unknown, unit: unknown, value: unknown): string {
    const state = this.#state(status)
    if (this.unitDialect === 'attribute')
      return `${state}.${this.encodeUnitToken(unit)}:${encodeBase62(value ?? 0, true, this.precision)}`
    if (value === null) return `E.${this.encodeUnitToken(unit)}:${NO_VALUE_TEXT}`
    const x = value === undefined ? 0 : pyFloat(value)
    if (x === undefined || !Number.isFinite(x))
      throw new OsError('BAD_READING', `value ${String(value)} cannot be sent`)
    if (unit === undefined || unit === null || unit === '' || unit === 'unknown')
      return `${state}.Z:${encodeBase62(x, true, this.precision)}`
    const choice = this.pickers.get(String(unit)).pick(x)
    if (!choice) throw precisionError(x, String(unit), this.precision)
    return `${state}.${choice.token}:${encodeBase62(x * choice.perUnit, true, this.precision)}`
  }

  /** The token of one unit in the text. */
  encodeUnitToken(unit: unknown): string {
    if (unit === undefined || unit === null || unit === '' || unit === 'unknown') return 'Z'
    return this.unitDialect === 'attribute'
      ? encodeUnit(String(unit), this.precision)
      : this.units.toToken(String(unit))
  }

  /**
   * Text → fact dict with id, s, t_raw (ms), t (s), then s<N>_id, _s, _u, _v. An empty text gives the error object.
   * `plain`: text of C firmware, whose units are plain UCUM.
   */
  decompress(b62Str: string, plain = false): FactDict {
    if (b62Str === '') return structuredClone(EMPTY_TEXT) as unknown as FactDict
    const at = b62Str.indexOf('@')
    const { id, state, token, segments } = splitText(at < 0 ? b62Str : b62Str.slice(0, at))
    const ms = tokenMs(token)
    const fact: FactDict = { id, s: stateName(state), t_raw: ms, t: Math.floor(ms / 1000) }
    let n = 0
    for (const segment of segments) {
      if (segment.startsWith('&')) fact.geohash = segment.slice(1)
      else if (segment.startsWith('#')) fact.url = `https://${fromBase64(segment.slice(1))}`
      else {
        const sensor = sensorOf(segment)
        if (sensor) this.#read(fact, ++n, sensor.id, sensor.meta, sensor.value, plain)
      }
    }
    if (at >= 0) fact.msg = fromBase64(b62Str.slice(at + 1))
    return fact
  }

  #read(fact: FactDict, k: number, id: string, meta: string, value: string, plain: boolean): void {
    const { state, unit } = splitMeta(meta)
    const status = stateName(state)
    const failed = state === 'E' && value === NO_VALUE_TEXT
    let x: number | null = null
    let name: string
    if (this.unitDialect === 'attribute') {
      name = decodeUnit(unit)
      if (!failed) x = decodeBase62(value, true, this.precision)
    } else {
      const { unit: canonical, factor, offset, ambiguous } = this.units[plain ? 'fromPlain' : 'fromToken'](unit)
      if (ambiguous) this.unitAmbiguous++
      name = canonical
      const n = value === '' ? 0 : Number(decodeInteger(value))
      if (!failed) x = fromWire(n, this.precision, { factor, divisor: divisorOf(factor), offset })
    }
    fact[`s${k}_id`] = id
    fact[`s${k}_s`] = status
    fact[`s${k}_u`] = name
    fact[`s${k}_v`] = x
  }
}

const pyStr = (value: unknown): string => (value === null ? 'None' : String(value))

/** `state.unit`, split at the first dot; without a dot all of it is the unit. */
export function splitMeta(meta: string): { state: string; unit: string } {
  const dot = meta.indexOf('.')
  return dot < 0 ? { state: 'U', unit: meta } : { state: meta.slice(0, dot), unit: meta.slice(dot + 1) }
}

/** Converts a wire value to its canonical unit: value × factor + offset. */
export interface LinearConversion {
  readonly factor: number
  /** the whole number whose inverse is the factor, to divide by it: 12.3 uA is 1.23e-5 A; 0 if there is none */
  readonly divisor: number
  readonly offset: number
}

/**
 * Fixed point → canonical value. With a single division, so that a value is bit-identical in whichever unit it was sent
 * (X35).
 */
export function fromWire(n: number, precision: number, { factor, divisor, offset }: LinearConversion): number {
  if (divisor === 0) return unscale(n, precision) * factor + offset
  if (precision <= DECODED_DECIMALS) return n / (POW10[precision]! * divisor) + offset
  const pow = POW10[DECODED_DECIMALS]!
  return Math.round(unscale(n, precision) * pow) / (pow * divisor) + offset
}

const precisionError = (x: number, unit: string, precision: number): OsError =>
  new OsError('E_PRECISION', `${x} ${unit} cannot be sent with ${precision} decimals`, { details: { value: x, unit } })
