// Which uplink is active: takeover after a period of silence, handback after a period of stability (decision 0019, R12).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Candidate, choose } from '../../../../src/gateway/uplink/choice'

const times = { afterMs: 5000, backMs: 60_000 }
const up = (name: string, since: number): Candidate => ({ name, usable: true, since })
const down = (name: string, since: number): Candidate => ({ name, usable: false, since })
const never = Number.POSITIVE_INFINITY

test('the first usable uplink becomes active; a lower one waits until those above it had their time', () => {
  assert.deepEqual(choose([], null, 0, times), { name: null, next: never })
  assert.deepEqual(choose([up('a', 10), up('b', 5)], null, 10, times), { name: 'a', next: never })
  assert.deepEqual(choose([down('a', 0), up('b', 5)], null, 10, times), { name: null, next: 5000 })
  assert.deepEqual(choose([down('a', 0), up('b', 5)], null, 5000, times), { name: 'b', next: never })
  assert.deepEqual(choose([down('a', 0), down('b', 0)], null, 9e9, times), { name: null, next: never })
})

test('a short loss changes nothing; a long one moves to the next uplink of the list', () => {
  const list = [down('a', 100_000), up('b', 0)]
  assert.deepEqual(choose(list, 'a', 104_999, times), { name: 'a', next: 105_000 })
  assert.deepEqual(choose(list, 'a', 105_000, times), { name: 'b', next: never })
  const three = [down('a', 100_000), down('b', 103_000), up('c', 0)]
  assert.deepEqual(choose(three, 'a', 105_000, times), { name: 'a', next: 108_000 })
  assert.deepEqual(choose(three, 'a', 108_000, times), { name: 'c', next: never })
})

test('a higher uplink becomes active again after it was stable, or immediately when the other is down', () => {
  const list = [up('a', 200_000), up('b', 0)]
  assert.deepEqual(choose(list, 'b', 200_001, times), { name: 'b', next: 260_000 })
  assert.deepEqual(choose(list, 'b', 260_000, times), { name: 'a', next: never })
  assert.deepEqual(choose([up('a', 200_000), down('b', 200_001)], 'b', 200_001, times), { name: 'a', next: never })
  assert.deepEqual(choose([up('a', 0), up('b', 0)], 'a', 9e9, times), { name: 'a', next: never })
})

test('an uplink removed from the list is no longer active', () => {
  assert.deepEqual(choose([up('a', 0), up('b', 0)], 'gone', 1, times), { name: 'a', next: never })
  assert.deepEqual(choose([down('a', 0)], 'gone', 1, times), { name: null, next: never })
})
