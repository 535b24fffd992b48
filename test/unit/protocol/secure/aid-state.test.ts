// The keys of a device beside its session's own, as they are kept with the session.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { candidateOf, due, keysOf, NAMED, othersOf, REPLACED_MS } from '../../../../src/protocol/secure/aid-state'

test('named keys and a replaced one are the same after a start; the replaced one is good for a minute from then on', () => {
  const kept = [
    [2_000_000, 'a'],
    [1_000_001, ''],
  ] as const
  const recent = kept.map(other => candidateOf(5, other, 700))
  assert.deepEqual(
    recent.map(({ until }) => until),
    [NAMED, 700 + REPLACED_MS],
  )
  assert.deepEqual(othersOf({ recent } as never), kept)
})

test('the pauses are of each address, the newest four', () => {
  const answers = { named: [], refused: [] }
  assert.equal(due(answers, 'named', 'a', 0, 1000), true)
  assert.equal(due(answers, 'named', 'a', 999, 1000), false)
  assert.equal(due(answers, 'named', 'b', 999, 1000), true)
  for (const other of ['c', 'd', 'e']) due(answers, 'named', other, 999, 1000)
  assert.equal(due(answers, 'named', 'a', 999, 1000), true)
})

test('each key is tried once, however often it was named: as that of the session, as a replaced one, to another address', () => {
  const recent = ([[2, 'a'], [1, 'a'], [2, 'b'], [1, '']] as const).map(other => candidateOf(5, other, 0)) // biome-ignore format: a table
  const sessionKey = candidateOf(5, [1, 'b'], 0).key
  assert.deepEqual(keysOf({ sessionKey, recent } as never), [sessionKey, recent[0]!.key])
})
