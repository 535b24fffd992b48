// When the worker's thread runs the garbage collector.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tidied } from '../../../src/storage/garbage-collection'

test('garbage is collected when more than 6 MiB accumulated since the last time', () => {
  const MB = 1024 * 1024
  let used = 0
  let collections = 0
  const heap = tidied(
    () => used,
    () => {
      collections++
      used -= 2 * MB
    },
  )
  for (const [now, said, collected] of [
    [10 * MB, 10 * MB, 0],
    [16 * MB, 16 * MB, 0],
    [16 * MB + 1, 14 * MB + 1, 1],
    [20 * MB + 1, 20 * MB + 1, 1],
    [20 * MB + 2, 18 * MB + 2, 2],
    // garbage collected otherwise counts too
    [3 * MB, 3 * MB, 2],
    [9 * MB + 1, 7 * MB + 1, 3],
  ] as const) {
    used = now
    assert.deepEqual([heap(), collections], [said, collected])
  }
})
