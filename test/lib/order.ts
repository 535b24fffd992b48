// Compares series of logged readings with what the devices did: no values that did not exist, and the same order.
import assert from 'node:assert/strict'

/** The values without repetitions and nulls. */
export function runs(values: readonly (number | null)[]): number[] {
  const found: number[] = []
  for (const value of values)
    if (value !== null && (found.length === 0 || Math.abs(found.at(-1)! - value) > 1e-9)) found.push(value)
  return found
}

/** Asserts strictly rising values. */
export function assertRising(values: readonly number[]): void {
  values.forEach((value, k) => {
    if (k > 0) assert.ok(value > values[k - 1]!, `${value} after ${values[k - 1]}`)
  })
}

/** Asserts that `part` is a subsequence of `all`, and that both end with the same value. */
export function assertPart(part: readonly number[], all: readonly number[], what: string): void {
  let at = 0
  for (const value of part) {
    while (at < all.length && Math.abs(all[at]! - value) > 1e-6) at++
    assert.ok(at < all.length, `${what}: ${value} was never sent, or earlier`)
  }
  assert.ok(Math.abs(part.at(-1)! - all.at(-1)!) < 1e-6, `${what} ends with ${part.at(-1)}, not ${all.at(-1)}`)
}
