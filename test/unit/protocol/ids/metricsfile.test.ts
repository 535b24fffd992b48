import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import { LeaseMetricsFile } from '../../../../src/protocol/ids/metricsfile'

const dir = mkdtempSync(join(tmpdir(), 'os-node-metrics-'))
after(() => rmSync(dir, { recursive: true, force: true }))

test('the lease metrics are written after a change, at most every metrics_flush_seconds, which may change meanwhile', () => {
  const path = join(dir, 'id_lease_metrics.json')
  let now = 1_710_000_000
  let flush = 60
  const ids = new IdAllocator(
    {
      baseDir: dir,
      leasePolicy: { metrics_emit_interval_seconds: 1 },
      metricsSink: new LeaseMetricsFile(path, () => flush).sink,
    },
    { now: () => now },
  )
  const read = () => JSON.parse(readFileSync(path, 'utf8'))
  ids.stats()
  assert.equal(existsSync(path), false, 'nothing was reported yet')
  now += 5
  ids.stats()
  assert.equal(read().metrics_updated_at, now)
  assert.equal(read().metrics.new_device_rate_per_hour, 0)
  ids.allocateId({ device_id: 'a' })
  now += 59
  ids.stats()
  assert.equal(read().metrics.new_device_rate_per_hour, 0, 'too soon')
  now += 1
  ids.stats()
  assert.equal(read().metrics.new_device_rate_per_hour, 1)
  const written = now
  now += 600
  ids.stats()
  assert.equal(read().metrics_updated_at, written, 'nothing changed')
  ids.allocateId({ device_id: 'b' })
  now += 2
  flush = 1
  ids.stats()
  assert.equal(read().metrics.new_device_rate_per_hour, 2)
  assert.deepEqual(Object.keys(read()), ['metrics', 'metrics_updated_at'])
})

test('a metrics file that cannot be written is counted and prevents no id', () => {
  let now = 1_710_000_000
  const sink = new LeaseMetricsFile(join(dir, 'no/such/folder.json'), () => 1).sink
  const ids = new IdAllocator({ baseDir: dir, persistFile: 'other.json', metricsSink: sink }, { now: () => now })
  now += 10
  assert.equal(ids.allocateId({ device_id: 'a' }), 1)
  ids.stats()
  assert.equal(ids.metricsFailures, 1)
})
