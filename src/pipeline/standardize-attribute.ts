// The standardizer's rules in dialect `attribute`: bit-identical to the reference. A value is rounded to `precision`
// decimals, a unit becomes the name of a physical attribute, and everything that float() accepts is a number. As in the
// reference, names are not checked and infinities are accepted; the sender decides what may be sent (decision 0006, X16).

import { resolveAttribute, resolveAttributeList } from '../units/attribute'
import type { Resolved } from '../units/canonical'
import { POW10, roundDecimals, roundHalfEven } from '../wire/base62'
import { pyFloat } from '../wire/number'
import type { RejectedRow } from './core'
import type { FactDict } from './fact'

/** below this, rounding errors of value × power of ten cannot change which side of a half it is on */
const SURE = 2 ** 40
const NEAR_HALF = 2 ** -12

type Refuse = (index: number, row: unknown, code: RejectedRow['code'], reason: string) => null

/** A standard value as in the fact: whole numbers stay, others are rounded like Python's round(). */
export function standardValue(raw: number, precision: number): number {
  const value = Number.isInteger(raw) ? raw : roundDecimals(raw, precision)
  return value === 0 ? 0 : value
}

/** The fixed-point number of that value on the wire. */
export function standardNumber(raw: number, precision: number): number {
  const pow = POW10[precision]!
  const scaled = raw * pow
  const size = Math.abs(scaled)
  const fraction = size - Math.floor(size)
  if (size < SURE && Math.abs(fraction - 0.5) > NEAR_HALF) return Math.round(scaled)
  return roundHalfEven(standardValue(raw, precision) * pow)
}

/** The conversion of a reading's unit: text, or anything iterable as a list. */
export function attributeConversion(unit: unknown): Resolved | null {
  if (typeof unit === 'string') return resolveAttribute(unit)
  return Array.isArray(unit) && unit.length > 0 ? resolveAttributeList(unit.map(String)) : null
}

/**
 * Readings → fact dict `{id, s, t, …extras}`, then for each accepted row v, u, id (only with the switch SensorId) and
 * s. `refuse` gets dropped rows.
 */
export function attributeFact(
  head: FactDict,
  sensors: readonly unknown[],
  { precision, sensorIds }: { precision: number; sensorIds: boolean },
  refuse: Refuse,
): FactDict {
  let n = 0
  for (let k = 0; k < sensors.length; k++) {
    const reading = readRow(sensors[k], k, precision, refuse)
    if (!reading) continue
    n++
    head[`s${n}_v`] = reading.value
    head[`s${n}_u`] = reading.unit
    if (sensorIds) head[`s${n}_id`] = reading.id
    head[`s${n}_s`] = reading.status
  }
  return head
}

interface AttributeRow {
  readonly id: unknown
  readonly status: unknown
  readonly value: number
  readonly unit: string
}

function readRow(row: unknown, index: number, precision: number, refuse: Refuse): AttributeRow | null {
  if (!Array.isArray(row) || row.length !== 4)
    return refuse(index, row, 'BAD_READING', 'a reading is [sensor_id, status, value, unit]')
  const [id, status, value, unit] = row as unknown[]
  const conversion = attributeConversion(unit)
  if (!conversion) return refuse(index, row, 'UNKNOWN_UNIT', `unit ${JSON.stringify(unit)} is not understood`)
  const x = pyFloat(value)
  if (x === undefined) return refuse(index, row, 'BAD_READING', `value ${JSON.stringify(value)} is no number`)
  return {
    id,
    status,
    value: standardValue(x * conversion.factor + conversion.offset, precision),
    unit: conversion.canonical,
  }
}
