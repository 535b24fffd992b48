// Count, minimum, maximum and mean of numbers, added as SQLite does (Kahan, Babuska and Neumaier).

/** count, min, max, mean */
export type Values = readonly [count: number, min: number | null, max: number | null, mean: number | null]

export interface Numbers {
  values: number
  min: number
  max: number
  sum: number
  /** rounding error of the sum */
  remaining: number
}

export const noNumbers = (): Numbers => ({
  values: 0,
  min: Number.POSITIVE_INFINITY,
  max: Number.NEGATIVE_INFINITY,
  sum: 0,
  remaining: 0,
})

/** Adds a number; NaN is ignored, as in SQLite. */
export function addNumber(to: Numbers, value: number): void {
  if (Number.isNaN(value)) return
  to.values++
  if (value < to.min) to.min = value
  if (value > to.max) to.max = value
  const sum = to.sum + value
  to.remaining += Math.abs(to.sum) > Math.abs(value) ? to.sum - sum + value : value - sum + to.sum
  to.sum = sum
}

export function valuesOf({ values, min, max, sum, remaining }: Numbers): Values {
  if (values === 0) return [0, null, null, null]
  return [values, min, max, (Number.isFinite(sum) ? sum + remaining : sum) / values]
}
