// Series of readings in a log, compared with the actions of the devices: no other values, in no other order.
import assert from 'node:assert/strict'

/** Without repeated values and without missing ones. */
export function runs(values: readonly (number | null)[]): number[] {
  const found: number[] = []
  for (const value of values)
    if (value !== null && (found.length === 0 || Math.abs(found.at(-1)! - value) > 1e-9)) found.push(value)
  return found
}

/** Each is larger than the one before. */
export function assertRising(values: readonly number[]): void {
  values.forEach((value, k) => {
    if (k > 0) assert.ok(value > values[k - 1]!, `${value} after ${values[k - 1]}`)
  })
}

/** Every value of `part` is one of `all`, in that order, and both end with the same. */
export function assertPart(part: readonly number[], all: readonly number[], what: string): void {
  let at = 0
  for (const value of part) {
    while (at < all.length && Math.abs(all[at]! - value) > 1e-6) at++
    assert.ok(at < all.length, `${what}: ${value} was never sent, or earlier`)
  }
  assert.ok(Math.abs(part.at(-1)! - all.at(-1)!) < 1e-6, `${what} ends with ${part.at(-1)}, not ${all.at(-1)}`)
}
