// The delays of a backoff by themselves; what the supervisor makes of them is in test/unit/links/supervisor-backoff.test.ts (R11).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'

const MINUTE = 60_000
/** the longest delay each time */
const random = () => 1
const delays = (backoff: Backoff, count: number, at: number): number[] =>
  Array.from({ length: count }, () => backoff.next(at))

test('delays double up to five seconds while the peer worked recently, up to a minute later, and always stay short for a local one', () => {
  const far = new Backoff({ random })
  assert.deepEqual(delays(far, 4, 0), [1000, 2000, 4000, 5000])
  assert.deepEqual(delays(far, 2, 10 * MINUTE - 1), [5000, 5000])
  assert.deepEqual(delays(far, 2, 10 * MINUTE), [60_000, 60_000])
  const near = new Backoff({ random, local: true })
  near.next(0)
  assert.equal(delays(near, 9, 60 * MINUTE).at(-1), 5000)
})

test('the jitter spreads a delay from half the shortest to the whole', () => {
  const of = (value: number): number[] => delays(new Backoff({ random: () => value }), 3, 0)
  assert.deepEqual(of(0), [500, 500, 500])
  assert.deepEqual(of(0.5), [750, 1250, 2250])
})

test('only a stable minute or a reset begins again with the shortest delay; five seconds count as a peer that worked', () => {
  const backoff = new Backoff({ random })
  const upFor = (from: number, ms: number): number => {
    backoff.up(from)
    return backoff.next(from + ms)
  }
  delays(backoff, 3, 0)
  assert.equal(upFor(1000, MINUTE - 1), 5000)
  assert.equal(upFor(100_000, MINUTE), 1000)
  delays(backoff, 8, 100_000)
  assert.equal(upFor(30 * MINUTE, 4999), 60_000)
  assert.equal(upFor(30 * MINUTE, 5000), 5000)
  backoff.reset()
  assert.equal(backoff.next(30 * MINUTE), 1000)
})
