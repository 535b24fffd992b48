// `npm run bench`: which figures of ours are measured with those of a peer, and which ratios to others fail a run.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

test('the figures of a peer bring ours, and Node-RED at 40 readings/s the bytes of a reading over MQTT', async () => {
  const { partners } = (await import(pathToFileURL('bench/table.mjs').href)) as {
    partners(prefixes: readonly string[]): string[]
  }
  const all = partners(['peer'])
  for (const key of ['gateway/cpu_ms_per_reading/40', 'bytes_per_reading/mqtt/40', 'decode/diff/4/rscore'])
    assert.ok(all.includes(key), key)
  assert.deepEqual(partners(['peer/node-red/readings_per_s']), ['gateway/readings_per_s/max'])
  assert.deepEqual(partners(['encode/']), [])
})

test('a ratio of the codec under its mark is a problem where one run has both figures', async () => {
  const { ratioProblems } = (await import(pathToFileURL('bench/ratios.mjs').href)) as {
    ratioProblems(results: Record<string, number>, notes: Map<string, string>): string[]
  }
  const notes = new Map([['decode/diff/16/rscore', 'mark above both']])
  const good = { 'decode/diff/16/rscore': 50, 'peer/msgpackr/decode/16': 50, 'decode/full/1/rscore': 1 }
  assert.deepEqual(ratioProblems(good, notes), [])
  assert.deepEqual(Object.fromEntries(notes), {
    'decode/diff/16/rscore': 'mark above both, gate ≥ 1 × peer/msgpackr/decode/16',
  })
  const slow = { ...good, 'peer/cbor-x/decode/16': 51, 'encode/full/1/pycore': 2.1 }
  assert.deepEqual(ratioProblems(slow, notes), [
    'decode/full/1/rscore: 1 is under 0.5 × encode/full/1/pycore, which is 2.1',
    'decode/diff/16/rscore: 50 is under 1 × peer/cbor-x/decode/16, which is 51',
  ])
})
