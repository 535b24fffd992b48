import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdAllocator, type IdAllocatorOptions } from '../../../../src/protocol/ids/allocator'
import { deviceKey } from '../../../../src/protocol/ids/devicekey'
import { LeaseMeter, leasePolicy } from '../../../../src/protocol/ids/lease'
import { memoryIdStore } from '../../../lib/manual'

class Bench {
  now = 1_710_000_000
  readonly ids: IdAllocator
  constructor(options: IdAllocatorOptions = {}) {
    this.ids = new IdAllocator(options, { store: memoryIdStore(), now: () => this.now })
  }
  at(now: number): IdAllocator {
    this.now = now
    return this.ids
  }
}

test('a device keeps its id, whichever of its keys is stable', () => {
  const { ids } = new Bench({ startId: 1, endId: 5 })
  const given = [
    { device_id: 'a' },
    { device_id: 'b' },
    { device_id: 'a' },
    { mac: '00:11' },
    { device_meta: { serial: 'S1' } },
    { device_meta: { x: 1 } },
  ].map(meta => ids.allocateId(meta))
  assert.deepEqual(given, [1, 2, 1, 3, 4, 5])
  for (const meta of [{ device_meta: { x: 2 } }, { device_id: 'c' }])
    assert.throws(() => ids.allocateId(meta), {
      code: 'ID_POOL_EXHAUSTED',
      message: '[IDAllocator] ID pool exhausted (1-5)',
    })
  const dump = ids.dump() as { allocated: Record<string, unknown>; next_candidate: number }
  assert.deepEqual(dump.allocated['5'], {
    meta: { device_meta: { x: 1 } },
    ts: 1_710_000_000,
    last_seen: 1_710_000_000,
    lease_expires_at: 1_712_592_000,
    device_key: 'meta:{"x": 1}',
    state: 'active',
    offline_since: 0,
  })
  assert.equal(dump.next_candidate, 6)
  assert.equal(ids.stats().lease_metrics.new_device_rate_per_hour, 5)
})

test('the stable key follows the order of the protocol', () => {
  assert.equal(deviceKey(null), '')
  assert.equal(deviceKey({}), '')
  assert.equal(deviceKey({ device_key: ' k ', device_id: 'a' }), 'k')
  assert.equal(deviceKey({ mac: 'm', device_meta: { device_id: 'inner' } }), 'device_id:inner')
  assert.equal(deviceKey({ uuid: 'u', device_id: '  ' }), 'uuid:u')
  assert.equal(deviceKey({ device_meta: { b: 1, a: [1, 2] } }), 'meta:{"a": [1, 2], "b": 1}')
  assert.equal(deviceKey({ z: 'ä', a: { y: 1, x: null } }), 'request:{"a": {"x": null, "y": 1}, "z": "ä"}')
})

test('requests without any key of their device each get a separate id', () => {
  const { ids } = new Bench()
  assert.deepEqual([ids.allocateId(), ids.allocateId({}), ids.allocateId(null)], [1, 2, 3])
})

test('0 and 4294967295 are never assigned', () => {
  const low = new Bench({ startId: 0, endId: 1 }).ids
  assert.equal(low.allocateId(), 1)
  assert.throws(() => low.allocateId(), { message: '[IDAllocator] ID pool exhausted (0-1)' })
  const high = new Bench({ startId: 4294967294 }).ids
  assert.equal(high.allocateId(), 4294967294)
  assert.throws(() => high.allocateId(), { message: '[IDAllocator] ID pool exhausted (4294967294-4294967295)' })
})

test('released ids are reserved for their device until the lease ends, and the smallest is assigned first', () => {
  const { ids } = new Bench({ startId: 10, endId: 14 })
  for (const device_id of ['a', 'b', 'c']) ids.allocateId({ device_id })
  assert.equal(ids.releaseId(11, true), true)
  assert.equal(ids.releaseId(10), true)
  assert.equal(ids.releaseId(99), false)
  assert.equal(ids.isAllocated(10), true)
  assert.equal(ids.isAllocated(11), false)
  assert.deepEqual(ids.getMeta(12), { device_id: 'c' })
  assert.deepEqual(ids.getMeta(99), {})
  assert.equal(ids.allocateId({ device_id: 'd' }), 11)
  assert.equal(ids.allocateId({ device_id: 'a' }), 10)
  assert.equal(ids.releasePool([12, 13, 10], true), 2)
  const { total_allocated, total_released, lease_metrics } = ids.stats()
  assert.deepEqual([total_allocated, total_released], [1, 2])
  assert.deepEqual([lease_metrics.last_reclaim_count, lease_metrics.total_reclaimed], [1, 3])
})

test('an exhausted range assigns the id of the only ended lease', () => {
  const bench = new Bench({ startId: 1, endId: 2, leasePolicy: { base_lease_seconds: 100, adaptive_enabled: false } })
  bench.at(1000).allocateId({ device_id: 'a' })
  bench.at(1050).allocateId({ device_id: 'b' })
  assert.throws(() => bench.at(1099).allocateId({ device_id: 'c' }), { code: 'ID_POOL_EXHAUSTED' })
  assert.equal(bench.at(1101).allocateId({ device_id: 'c' }), 1)
})

test('a lease ends to the second, and a packet of the device renews it', () => {
  const bench = new Bench({
    startId: 1,
    endId: 3,
    leasePolicy: { base_lease_seconds: 100, adaptive_enabled: false },
  })
  assert.equal(bench.at(1000).allocateId({ device_id: 'a' }), 1)
  assert.equal(bench.at(1050).allocateId({ device_id: 'b' }), 2)
  assert.equal(bench.at(1099).reclaimExpired(), 0)
  assert.equal(bench.at(1100).reclaimExpired(), 1)
  assert.equal(bench.at(1120).touch(2, '10.0.0.1:5'), true)
  assert.equal(bench.at(1120).touch(77), false)
  assert.equal(bench.at(1160).reclaimExpired(), 0)
  assert.equal(bench.at(1161).allocateId({ device_id: 'c' }), 1)
  assert.equal(bench.at(1162).allocateId({ device_id: 'a' }), 3)
  assert.throws(() => bench.at(1163).allocateId({ device_id: 'd' }), { code: 'ID_POOL_EXHAUSTED' })
  const { allocated } = bench.ids.dump() as { allocated: Record<string, Record<string, unknown>> }
  assert.deepEqual(
    [allocated['2']!['device_key'], allocated['2']!['lease_expires_at'], allocated['2']!['addr']],
    ['device_id:b', 1220, '10.0.0.1:5'],
  )
})

test('id 0 is never granted, whatever the range and the file contain', () => {
  assert.deepEqual(new Bench({ startId: 0, endId: 2 }).ids.allocatePool(5), [1, 2])
})

test('a device that is heard again is no longer offline and keeps its identity', () => {
  const { ids } = new Bench()
  const id = ids.allocateId({ device_id: 'a' })
  ids.releaseId(id)
  ids.touch(id)
  const { allocated } = ids.dump() as { allocated: Record<string, Record<string, unknown>> }
  assert.equal(allocated[id]!['state'], 'active')
  assert.equal(ids.allocateId({ device_id: 'a' }), id)
})

test('a pool contains distinct ids, as many as are left', () => {
  const { ids } = new Bench({ startId: 1, endId: 5 })
  assert.deepEqual(ids.allocatePool(3, { device_id: 'a' }), [1, 2, 3])
  assert.equal(ids.allocateId({ device_id: 'a' }), 4)
  assert.deepEqual(ids.allocatePool(3), [5])
  assert.throws(() => ids.allocatePool(1), { code: 'ID_POOL_EXHAUSTED' })
  assert.deepEqual(ids.allocatePool(0), [])
})

test('many new devices shorten the lease, a flood ends that of every offline device', () => {
  const bench = new Bench({
    leasePolicy: { base_lease_seconds: 36_000, rate_window_seconds: 600, ultra_rate_sustain_seconds: 60 },
  })
  const metrics = (now: number) => {
    const { total_allocated, total_released, lease_metrics: m } = bench.at(now).stats()
    return [total_allocated, total_released, m.effective_lease_seconds, m.new_device_rate_per_hour, m.total_reclaimed]
  }
  bench.at(5000).allocatePool(40)
  bench.at(5010).allocatePool(40)
  bench.at(5015).releaseId(3)
  assert.deepEqual(metrics(5016), [80, 0, 7200, 480, 0])
  bench.at(5080).releaseId(4)
  assert.deepEqual(metrics(5081), [79, 1, 0, 480, 1])
  assert.equal(bench.at(5082).allocateId({ device_id: 'zz' }), 3)
  assert.deepEqual(metrics(5083), [79, 1, 0, 486, 2])
  bench.at(9000).releaseId(7)
  assert.deepEqual(metrics(9001), [79, 1, 36_000, 0, 2])
})

test('a flood counts as one when it has lasted as long as the policy requires, to the second', () => {
  const meter = new LeaseMeter(leasePolicy({ ultra_rate_sustain_seconds: 60, rate_window_seconds: 600 }), 0)
  for (let k = 0; k < 80; k++) meter.arrived(5000)
  for (const [now, zero] of [
    [5000, false],
    [5059, false],
    [5060, true],
  ] as const)
    assert.equal(meter.effective(now) === 0, zero, `${now}`)
})

test('stop closes the store, whether or not it was used', () => {
  for (const used of [true, false]) {
    let closed = 0
    const store = { ...memoryIdStore(), close: () => void closed++ }
    const ids = new IdAllocator({}, { store, now: () => 1 })
    if (used) ids.allocateId()
    ids.stop()
    assert.equal(closed, 1)
  }
})

test('a commit before the first request reads and writes nothing', async () => {
  const never = (): never => assert.fail('the store was used')
  await new IdAllocator({}, { store: { ...memoryIdStore(), load: never, commit: never }, now: () => 1 }).commit()
})

test('an unknown option or dependency is refused by its name', () => {
  assert.throws(() => new IdAllocator({ startID: 1 } as never), { code: 'BAD_ARGUMENT', message: /startID/ })
  assert.throws(() => new IdAllocator({}, { clock: 1 } as never), {
    code: 'BAD_ARGUMENT',
    message: /"clock".*store, now, mono/,
  })
})

test('the policy accepts days and seconds, and corrects wrong values', () => {
  assert.equal(leasePolicy(null).base_lease_seconds, 2_592_000)
  assert.equal(leasePolicy({ offline_hold_days: 2 }).base_lease_seconds, 172_800)
  assert.equal(leasePolicy({ base_lease_seconds: 0 }).base_lease_seconds, 2_592_000)
  assert.equal(leasePolicy({ min_lease_seconds: 50, base_lease_seconds: 20 }).base_lease_seconds, 50)
  const odd = leasePolicy({ high_rate_min_factor: 3, rate_window_seconds: 5, ultra_rate_sustain_seconds: 'x' })
  assert.deepEqual([odd.high_rate_min_factor, odd.rate_window_seconds, odd.ultra_rate_sustain_seconds], [1, 300, 600])
  assert.equal(leasePolicy({ metrics_flush_seconds: 30 }).metrics_emit_interval_seconds, 30)
})

test('the metrics are reported at most once per interval', () => {
  const told: number[] = []
  const bench = new Bench({ metricsSink: m => told.push(m.updated_at) })
  for (let now = 1_710_000_000; now < 1_710_000_012; now++) bench.at(now).allocateId({ device_id: `d${now}` })
  assert.deepEqual(told, [1_710_000_005, 1_710_000_010])
})

test('freed ids beyond max_released are counted, and assigned when the range is exhausted', () => {
  const { ids } = new Bench({ startId: 1, endId: 300, maxReleased: 256 })
  const all = ids.allocatePool(300)
  assert.equal(ids.releasePool(all, true), 300)
  assert.equal(ids.stats().total_released, 300)
  assert.equal((ids.dump() as { released: number[] }).released.length, 256)
  assert.deepEqual(ids.allocatePool(400), all)
  assert.equal(ids.stats().total_released, 0)
})

test('a jump of the clock neither ends leases nor makes them endless', () => {
  let now = 100
  let mono = 0
  const ids = new IdAllocator(
    { leasePolicy: { base_lease_seconds: 1000, adaptive_enabled: false } },
    { store: memoryIdStore(), now: () => now, mono: () => mono },
  )
  const step = (seconds: number, jump = 0): void => {
    now += seconds + jump
    mono += seconds * 1000
  }
  assert.equal(ids.allocateId({ device_id: 'a' }), 1)
  step(10, 1_800_000_000)
  assert.equal(ids.reclaimExpired(), 0)
  step(980)
  assert.equal(ids.reclaimExpired(), 0)
  step(10, -900_000)
  assert.equal(ids.reclaimExpired(), 1)
})

test('ids of a pool are reserved for 30 days however short the lease, and a packet under one does not shorten that', () => {
  const DAY = 86_400
  const b = new Bench({ endId: 8, leasePolicy: { base_lease_seconds: DAY } })
  const start = b.now
  const pool = b.ids.allocatePool(4, { device_id: 'GW' })
  const device = b.ids.allocateId({ device_id: 'a' })
  assert.ok(b.ids.touch(pool[0]!, '192.0.2.9:1'), 'anybody can send a packet with that id')
  b.at(start + 2 * DAY).reclaimExpired()
  assert.ok(!b.ids.isAllocated(device))
  assert.ok(pool.every(id => b.ids.isAllocated(id)))
  b.at(start + 29 * DAY).reclaimExpired()
  assert.ok(
    pool.every(id => b.ids.isAllocated(id)),
    'its gateway may still hand them out',
  )
  b.at(start + 31 * DAY).reclaimExpired()
  assert.equal(b.ids.stats().total_allocated, 0)
})

test('unpaired surrogates in a name are valid: the name is recognized again, also by the next start', () => {
  const { ids } = new Bench()
  const names = ['\ud800', '\ud801', 'x\udc00y', '\u{1f600}']
  const given = names.map(device_id => ids.allocateId({ device_id }))
  assert.equal(new Set(given).size, names.length)
  assert.deepEqual(
    names.map(device_id => ids.allocateId({ device_id })),
    given,
  )
})

test('requests with much metadata fill their memory quota, not the machine: then new devices are refused and counted', () => {
  const MOST = 4 << 20
  const { ids } = new Bench({ maxBytes: MOST })
  const note = (k: number, size: number): string => String(k).padEnd(size, '.')
  let given = 0
  assert.throws(
    () => {
      for (; given < 100_000; given++) ids.allocateId({ device_id: `n${given}`, note: note(given, 4000) })
    },
    { code: 'ID_STORE_FULL' },
  )
  assert.ok(given > 500 && ids.stats().bytes <= MOST, `${given} devices in ${ids.stats().bytes} bytes`)
  assert.equal(ids.stats().refused, 1)
  // known devices are still served, but their new metadata is not stored
  assert.equal(ids.allocateId({ device_id: 'n5', note: note(5, 4090) }), 6)
  assert.equal((ids.getMeta(6)['note'] as string).length, 4000)
  assert.ok(ids.allocatePool(100_000).length < 10_000 && ids.stats().bytes <= MOST, 'a pool neither')
  // room returns with freed ids
  ids.releasePool(
    Array.from({ length: given - 10 }, (_, k) => k + 1),
    true,
  )
  assert.equal(typeof ids.allocateId({ device_id: 'late', note: note(1, 2000) }), 'number')
  assert.equal(ids.getMeta(given)['device_id'], `n${given - 1}`)
})

test('devices whose metadata grows with each request leak no memory', () => {
  const MOST = 6 << 20
  const { ids } = new Bench({ maxBytes: MOST })
  for (let size = 100; size < 4000; size += 8)
    for (let k = 0; k < 200; k++) ids.allocateId({ device_id: `n${k}`, note: 'x'.repeat(size) })
  const { bytes, total_allocated } = ids.stats()
  assert.equal(total_allocated, 200)
  assert.ok(bytes <= MOST, `${bytes} bytes`)
  assert.equal(String(ids.getMeta(7)['note']).length, 3996, 'the last thing it said')
})

test('an invalid range is refused, and one that ends at the reserved id assigns the ids in it', () => {
  for (const [startId, endId] of [
    [1.5, 9],
    [Number.NaN, 9],
    [1, 2 ** 32],
    [-1, 9],
    ['3' as never, 9],
  ] as const)
    assert.throws(() => new Bench({ startId, endId }), { code: 'BAD_REQUEST' }, `${startId}-${endId}`)
  assert.deepEqual(new Bench({ startId: 0, endId: 2 }).ids.allocatePool(5), [1, 2])
  assert.deepEqual(new Bench({ startId: 4294967294, endId: 4294967295 }).ids.allocatePool(5), [4294967294])
  assert.throws(() => new Bench({ startId: 4294967295 }).ids.allocateId(), { code: 'ID_POOL_EXHAUSTED' })
})

test('a metrics sink that throws does not prevent an id; a meta that is no JSON is refused by name', () => {
  const b = new Bench({
    metricsSink: () => {
      throw new Error('sink')
    },
  })
  assert.equal(b.at(b.now + 10).allocateId({ device_id: 'a' }), 1)
  assert.equal(b.at(b.now + 10).allocateId({ device_id: 'b' }), 2)
  assert.equal(b.ids.metricsFailures, 2)
  assert.throws(() => b.ids.allocateId({ device_id: 'c', n: 5n }), { code: 'BAD_REQUEST' })
  assert.equal(b.ids.stats().total_allocated, 2)
})
