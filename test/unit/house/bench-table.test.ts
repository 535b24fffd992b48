// `npm run bench -- --only peer`: which figures of ours are measured with those of a peer.
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
