// What the log stores besides its records, as written to the header of each segment.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Segment } from '../../../src/log/segments'
import { LogState } from '../../../src/log/state'

test('a header names the 400 oldest segments, which are dropped next', () => {
  const segment = (k: number) => ({ base: 10 * k, last: 10 * k + 9, facts: 7, created: 1000 + k, size: 512 }) as Segment
  const state = new LogState()
  for (const [count, listed] of [
    [0, 0],
    [1, 1],
    [400, 400],
    [401, 400],
  ] as const) {
    const { segments } = state.snapshot(Array.from({ length: count }, (_, k) => segment(k)))
    assert.equal(segments.length, listed)
    assert.deepEqual(
      segments.at(-1),
      listed === 0 ? undefined : [10 * listed - 10, 10 * listed - 1, 7, 999 + listed, 512],
    )
  }
})

test('a cursor counts as stored when its record is on the medium; 0 removes it', () => {
  const state = new LogState()
  state.moveCursor('a', 5, 10)
  state.moveCursor('b', 6, 11)
  assert.deepEqual([state.cursors.get('a'), state.kept.get('a')], [5, undefined])
  state.committed(9)
  assert.equal(state.kept.size, 0)
  state.committed(10)
  assert.deepEqual([...state.kept], [['a', 5]])
  state.moveCursor('a', 0, 12)
  assert.deepEqual([state.cursors.has('a'), state.kept.get('a')], [false, 5])
  state.committed(12)
  assert.deepEqual([...state.kept], [['b', 6]])
})

test('while nothing can be committed, only the newest position of a cursor is kept', () => {
  const state = new LogState()
  state.moveCursor('b', 1, 1)
  for (let k = 1; k <= 1000; k++) state.moveCursor('a', k, 1 + k)
  state.committed(500)
  assert.deepEqual([...state.kept], [['b', 1]], 'what was moved since has not come')
  state.committed(1001)
  assert.deepEqual(
    [...state.kept],
    [
      ['b', 1],
      ['a', 1000],
    ],
  )
})
