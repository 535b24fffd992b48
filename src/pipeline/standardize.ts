// Readings → fact: every unit to its canonical UCUM code, every value by value × factor + offset (decision 0005). A bad row is
// dropped with its reason and the others are sent (decision 0006); a bad device id, status or time throws, because then nothing
// can be sent. In dialect `attribute` standardize() is the reference's (standardize-attribute.ts), and the record form
// is the same fact, checked for sending. Values stay float64: the range of the wire is checked here, but the wire code
// does the rounding. Conversion of one row on the hot path: one map lookup and one multiply-add; conversions are
// cached, bounded.
import { UNASSIGNED } from '../lib/assigned-id'
import { checkArgument, checkNames, namesOf } from '../lib/checked'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { resolve, resolveList } from '../units/canonical'
import { wireUnits } from '../units/wire'
import { isGoodName, isGoodStatus } from '../wire/names'
import { pyFloat } from '../wire/number'
import { type RejectedRow as RefusedRow, toMillis } from './core'
import type { Fact, FactDict, SensorFact } from './fact'
import { checkPrecision, readConfig, record } from './settings'
import { attributeConversion, attributeFact, standardValue } from './standardize-attribute'
import { resolveUnit, survives, type UnitDialect } from './wireunit'

/** A row that was dropped, with the row itself. */
export interface RefusedAttributeRow extends RefusedRow {
  readonly row: unknown
}

/** `t` in UNIX seconds (from 1e11 on: milliseconds), `t_raw` in milliseconds; every other key is copied to the fact. */
export interface StandardizeArguments {
  t?: number
  t_raw?: number
  [key: string]: unknown
}

export interface StandardizerSettings {
  precision?: number
  unit_dialect?: string
  /** `SensorId` decides in dialect `attribute` whether sensors keep their ids; left out: they do (X24) */
  payload_switches?: Record<string, unknown>
}

export interface StandardizerOptions {
  clock?: Clock
  /** settings passed in: the file is not read */
  settings?: StandardizerSettings
}

interface Stamp {
  readonly t: number
  /** set only if the dict form has it */
  readonly tRaw: number | undefined
  readonly ms: number
}

const CANONICAL = { resolve, resolveList }
const DEFAULT_PRECISION = 4
const LARGEST_WIRE_TIME = 2 ** 48
const FIXED_POINT_LIMIT = 2 ** 63
const NONE: readonly RefusedAttributeRow[] = Object.freeze([])
const EXTRA_TEXTS = ['geohash', 'url', 'msg'] as const

/** The fault of a device id, state or sensor id, '' if there is none (X16). */
const nameProblem = (name: unknown): string =>
  isGoodName(name) ? '' : `must be text without . | ; > : @ and control characters, not ${shown(name)}`

/** The same for a status, which is between the first `>` and the last `:` of its segment. */
const statusProblem = (status: unknown): string =>
  isGoodStatus(status) ? '' : `must be text without . | @ and control characters, not ${shown(status)}`

/** `engine_settings` and `payload_switches` of a configuration file. A missing file means defaults. Throws CONFIG_SYNTAX, CONFIG_INVALID. */
function readStandardizerSettings(configPath: string): StandardizerSettings {
  const config = readConfig(configPath)
  if (!config) return {}
  return {
    ...record(config.engine_settings),
    payload_switches: { SensorId: true, ...record(config.payload_switches) },
  }
}

/** Whether a value is in the range of 64-bit fixed point with this precision. */
const inFixedPoint = (value: number, precision: number): boolean =>
  Math.abs(value) * 10 ** precision < FIXED_POINT_LIMIT

/** Whether fixed point with this precision preserves a value: in range, and with no larger error than decision 0006 allows. */
const fitsFixedPoint = (value: number, precision: number): boolean => value === 0 || survives(value, precision)

/** The same, also trying the prefixed units that the wire may use instead. */
export function fitsWire(value: number, unit: string, precision: number): boolean {
  if (fitsFixedPoint(value, precision)) return true
  return wireUnits()
    .prefixed(unit)
    .some(({ scale }) => fitsFixedPoint(value / scale, precision))
}

const OPTIONS = namesOf<StandardizerOptions>()('clock settings')

/**
 * The standardizer of the specification; works alone. The configuration is read once, here. Throws CONFIG_SYNTAX,
 * CONFIG_INVALID.
 */
export class Standardizer {
  readonly precision: number
  readonly dialect: UnitDialect
  /** false: in dialect `attribute` sensors lose their ids in the dict form, so none is sent */
  readonly sensorIds: boolean
  /** rows dropped by the last call */
  lastRejected: readonly RefusedAttributeRow[] = NONE
  readonly #clock: Clock
  #rejected: RefusedAttributeRow[] | undefined

  constructor(configPath = 'Config.json', options: StandardizerOptions = {}) {
    checkNames('new Standardizer', options, OPTIONS)
    const { clock = systemClock, settings } = options
    checkArgument('new Standardizer', 'configPath text', configPath)
    const {
      precision = DEFAULT_PRECISION,
      unit_dialect = 'ucum',
      payload_switches,
    } = settings ?? readStandardizerSettings(configPath)
    if (unit_dialect !== 'ucum' && unit_dialect !== 'attribute')
      throw new OsError(
        'CONFIG_INVALID',
        `engine_settings.unit_dialect must be "ucum" or "attribute": ${JSON.stringify(unit_dialect)}`,
      )
    this.dialect = unit_dialect
    this.sensorIds = unit_dialect === 'ucum' || payload_switches === undefined || Boolean(payload_switches['SensorId'])
    this.precision = checkPrecision(precision)
    this.#clock = clock
  }

  /**
   * Readings → fact dict `{id, s, t, t_raw?, …extras, s1_v, s1_u, s1_id, s1_s, …}`; N counts accepted rows. Without an
   * explicit time `t_raw` is the clock's and `t` its seconds (decision 0044). In dialect `attribute`: the reference's fact, with
   * only `t`. Throws BAD_ID, BAD_TIME, BAD_READING (no list).
   */
  standardize(
    deviceId: string,
    deviceStatus: string,
    sensors: readonly unknown[],
    kwargs: StandardizeArguments = {},
  ): FactDict {
    if (this.dialect === 'attribute') return this.#reference(deviceId, deviceStatus, sensors, kwargs)
    const { t, tRaw } = this.#head(deviceId, deviceStatus, sensors, kwargs)
    const dict: FactDict = { id: deviceId, s: deviceStatus, t }
    if (tRaw !== undefined) dict.t_raw = tRaw
    for (const key of Object.keys(kwargs)) if (key !== 't' && key !== 't_raw') dict[key] = kwargs[key]
    let n = 0
    for (let k = 0; k < sensors.length; k++) {
      const sensor = this.#row(sensors[k], k, false)
      if (!sensor) continue
      n++
      dict[`s${n}_v`] = sensor.value
      dict[`s${n}_u`] = sensor.unit
      dict[`s${n}_id`] = sensor.id
      dict[`s${n}_s`] = sensor.status
    }
    this.#settle()
    return dict
  }

  /**
   * The same in record form. A row may have a null value if its status is ERROR: the sensor failed and keeps its place
   * (decision 0045). Throws BAD_ID, BAD_TIME, BAD_READING (no list).
   */
  standardizeToFact(
    device_id: string,
    device_status: string,
    sensors: readonly unknown[],
    kwargs: StandardizeArguments = {},
    aid: number = UNASSIGNED,
  ): Fact {
    const { ms } = this.#head(device_id, device_status, sensors, kwargs)
    const fact: Fact = { id: device_id, state: device_status, tRaw: ms, aid, sensors: [] }
    for (let k = 0; k < sensors.length; k++) {
      const sensor = this.#row(sensors[k], k, true)
      if (sensor) fact.sensors.push(sensor)
    }
    for (const key of EXTRA_TEXTS) {
      const text = kwargs[key]
      if (typeof text === 'string') (fact.extras ??= {})[key] = text
    }
    this.#settle()
    return fact
  }

  #reference(id: string, s: string, sensors: readonly unknown[], kwargs: StandardizeArguments): FactDict {
    this.#begin(sensors)
    const head: FactDict = { id, s, t: Math.floor(this.#clock.wall() / 1000), ...kwargs }
    const settings = { precision: this.precision, sensorIds: this.sensorIds }
    const fact = attributeFact(head, sensors, settings, (...refused) => this.#refuse(...refused))
    this.#settle()
    return fact
  }

  #begin(sensors: unknown): void {
    this.lastRejected = NONE
    this.#rejected = undefined
    if (!Array.isArray(sensors)) throw new OsError('BAD_READING', 'sensors must be a list of readings')
  }

  #head(device_id: string, device_status: string, sensors: readonly unknown[], kwargs: StandardizeArguments): Stamp {
    this.#begin(sensors)
    const problem = nameProblem(device_id)
    if (problem) throw new OsError('BAD_ID', `device_id ${problem}`)
    const wrong = nameProblem(device_status)
    if (wrong) throw new OsError('BAD_ID', `device_status ${wrong}`)
    for (const key of Object.keys(kwargs))
      if (key === 'id' || key === 's' || /^s\d+_/.test(key))
        throw new OsError('BAD_READING', `${key} is a key of the fact itself and not allowed as an extra key`)
    const { geohash } = kwargs
    if (typeof geohash === 'string' && /[|@]/.test(geohash))
      throw new OsError('BAD_ID', 'geohash must not contain | or @')
    return this.#stamp(kwargs)
  }

  #stamp({ t, t_raw }: StandardizeArguments): Stamp {
    if (t_raw !== undefined && t_raw !== null) {
      const ms = checkTime('t_raw', t_raw, t_raw)
      return { t: t ?? Math.floor(ms / 1000), tRaw: ms, ms }
    }
    if (t !== undefined && t !== null) {
      const ms = checkTime('t', t, toMillis(t))
      return { t, tRaw: undefined, ms }
    }
    const ms = Math.floor(this.#clock.wall())
    return { t: Math.floor(ms / 1000), tRaw: ms, ms }
  }

  #row(row: unknown, index: number, mayFail: boolean): SensorFact | null {
    if (!Array.isArray(row) || row.length !== 4)
      return this.#refuse(index, row, 'BAD_READING', 'a reading is [sensor_id, status, value, unit]')
    const [id, status, value, unit] = row
    const problem = nameProblem(id)
    if (problem) return this.#refuse(index, row, 'BAD_ID', `sensor_id ${problem}`)
    const wrong = statusProblem(status)
    if (wrong) return this.#refuse(index, row, 'BAD_ID', `status ${wrong}`)
    const failed = value === null && mayFail && status.toUpperCase() === 'ERROR'
    const attribute = this.dialect === 'attribute'
    const x = attribute ? pyFloat(value) : typeof value === 'number' ? value : undefined
    if (x === undefined && !failed)
      return this.#refuse(index, row, 'BAD_READING', `value must be a number, not ${typeName(value)}`)
    const conversion = attribute ? attributeConversion(unit) : resolveUnit(CANONICAL, unit)
    if (!conversion) return this.#refuse(index, row, 'UNKNOWN_UNIT', `unit ${shown(unit)} is not understood`)
    if (x === undefined) return { id, status, unit: conversion.canonical, value: null }
    if (!Number.isFinite(x)) return this.#refuse(index, row, 'E_PRECISION', `value ${x} cannot be sent`)
    const raw = x * conversion.factor + conversion.offset
    const fits = attribute ? inFixedPoint(raw, this.precision) : fitsWire(raw, conversion.canonical, this.precision)
    if (!fits) {
      const why = `${raw} ${conversion.canonical} cannot be sent with precision ${this.precision}`
      return this.#refuse(index, row, 'E_PRECISION', why)
    }
    return { id, status, unit: conversion.canonical, value: attribute ? standardValue(raw, this.precision) : raw }
  }

  #refuse(index: number, row: unknown, code: RefusedAttributeRow['code'], reason: string): null {
    this.#rejected ??= []
    this.#rejected.push({ index, row, code, reason })
    return null
  }

  #settle(): void {
    if (this.#rejected) this.lastRejected = Object.freeze(this.#rejected)
  }
}

/** `time`, if its milliseconds fit into the 48 bits of the wire. Throws BAD_TIME. */
function checkTime(name: string, time: unknown, ms: number): number {
  if (typeof time === 'number' && ms >= 0 && ms < LARGEST_WIRE_TIME) return ms
  throw new OsError('BAD_TIME', `${name} is not a UNIX time: ${shown(time)}`)
}

const typeName = (value: unknown): string => (value === null ? 'null' : typeof value)
const shown = (value: unknown): string => (JSON.stringify(value) ?? String(value)).slice(0, 80)
