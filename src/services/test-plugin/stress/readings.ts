// The data of a stress run: a ring of readings per device, created before the measurement, in which every value differs from
// the previous one. The same numbers give the same packets, so that two cores can be compared byte by byte.
import type { Reading } from '../../../pipeline/fact'

const RING = 64
/** sensor, unit as received, canonical value = value × factor + offset */
const SENSORS = [
  { id: 'T1', unit: 'Cel', factor: 1, offset: 273.15, low: -20, span: 60 },
  { id: 'P1', unit: 'kPa', factor: 1000, offset: 0, low: 95, span: 10 },
  { id: 'H1', unit: '%', factor: 1, offset: 0, low: 5, span: 90 },
] as const

export interface StressReadings {
  readonly readings: readonly Reading[]
  /** the values a receiver must decode, in canonical units */
  readonly expected: readonly number[]
}

/**
 * Readings of one device, repeated after 64, with no more decimals than the wire format has: a core refuses values it cannot
 * represent.
 */
export function ringOf(device: number, precision: number): readonly StressReadings[] {
  const per = 10 ** Math.min(precision, 3)
  let seed = (device + 1) * 2_654_435_761
  const random = (): number => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed / 2 ** 32
  }
  return Array.from({ length: RING }, (_, k) => {
    const values = SENSORS.map(({ low, span }) => Math.round((low + span * random()) * per + (k & 1)) / per)
    return {
      readings: SENSORS.map(({ id, unit }, n) => [id, 'OK', values[n]!, unit] as const),
      expected: SENSORS.map(({ factor, offset }, n) => values[n]! * factor + offset),
    }
  })
}

/** True if decoded values match the sent ones, within the precision of that many decimals. */
export const isSame = (
  got: readonly { value: number | null }[],
  expected: readonly number[],
  precision: number,
): boolean => {
  const most = Math.max(1e-3, 10 ** -precision)
  return (
    got.length === expected.length &&
    expected.every((value, n) => Math.abs((got[n]!.value ?? Number.NaN) - value) < most)
  )
}
