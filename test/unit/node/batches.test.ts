// Batches of a node: the bytes equal those of single packets, and enqueue collects until the window ends or the batch is
// full.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import type { Node } from '../../../src/index'
import type { Reading } from '../../../src/pipeline/fact'
import { Bench, ROWS } from './helper'

const bench = new Bench()
let made = 0
const nodeOn = (core_backend: string, settings: object = {}, config: object = {}): Node =>
  bench.node(`batches-${made++}`, {
    ...{ assigned_id: 7, device_id: 'D', engine_settings: { core_backend, ...settings } },
    ...config,
  })
const native = (settings: object = {}): Node => nodeOn('rscore', { tx_batch_enabled: true, ...settings })
const row = (value: number): Reading[] => [['T1', 'OK', value, 'Cel']]
const items = (count: number): { sensors: Reading[]; device_id?: string; msg?: string; t?: number }[] =>
  Array.from({ length: count }, (_, k) => ({
    sensors: k % 5 === 4 ? [...row(k), ...row(Number.NaN)] : row(k >> 1),
    ...(k % 7 === 3 && { device_id: 'OTHER' }),
    ...(k % 11 === 5 && { msg: `m${k}` }),
    ...(k % 3 === 0 && { t: 1_710_000_000 + k }),
  }))

test('transmitBatch: packets, ids and strategies equal those of the pure core, in parts of any size', () => {
  const want = nodeOn('pycore').transmitBatch(items(100), { device_status: 'WARN' })
  for (const settings of [{}, { tx_batch_window_ms: 0 }, { tx_batch_max_items: 7 }, { tx_batch_enabled: false }]) {
    const node = native(settings)
    assert.deepEqual(node.transmitBatch(items(100), { device_status: 'WARN' }), want, JSON.stringify(settings))
    assert.deepEqual(node.transmitBatch(null), [])
  }
})

test('metrics of the last batch: its packets, and the time of each stage; null on the pure core', () => {
  const last = (node: Node): unknown => {
    node.transmitBatch(items(10))
    return node.getLastBatchMetrics()?.count ?? null
  }
  assert.deepEqual(
    [
      last(native({ tx_batch_window_ms: 1000 })),
      last(native({ tx_batch_window_ms: 0 })),
      last(native({ tx_batch_max_items: 4 })),
      last(native({ tx_batch_enabled: false })),
      last(nodeOn('pycore', { tx_batch_enabled: true })),
    ],
    [10, 1, 2, null, null],
  )
  const node = native()
  assert.equal(node.getLastBatchMetrics(), null)
  node.transmitBatch(items(3))
  const { stage_timing_ms } = node.getLastBatchMetrics()!
  assert.deepEqual(Object.keys(stage_timing_ms), ['plan', 'encode'])
  for (const ms of Object.values(stage_timing_ms)) assert.ok(ms >= 0)
})

test('an item of transmitBatch that cannot be sent throws, and the next batch is complete', () => {
  for (const node of [nodeOn('pycore'), native()]) {
    assert.throws(() => node.transmitBatch([row(1), [['a|b', 'OK', 1, 'Cel']], row(2)]), {
      code: 'ALL_READINGS_REFUSED',
    })
    const [first, second] = node.transmitBatch([row(3), row(4)]).map(([packet]) => packet) as [Buffer, Buffer]
    assert.deepEqual([node.receive(first).s1_v, node.receive(second).s1_v], [276.15, 277.15])
  }
})

test('enqueue collects until the window ends; each promise gets the packet of its own readings', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const node = native({ tx_batch_window_ms: 50 })
    const promises = [
      node.enqueue(['T1', 'OK', 1, 'Cel']),
      node.enqueue([['T1', 'OK', 2, 'Cel']]),
      node.enqueue({ sensors: ROWS, device_id: 'OTHER' }),
      node.enqueue([['T1', 'OK', 3, 'bogus']]),
    ]
    const settled = Promise.allSettled(promises)
    mock.timers.tick(49)
    assert.equal(node.getLastBatchMetrics(), null)
    mock.timers.tick(1)
    assert.equal(node.getLastBatchMetrics()!.count, 3)
    const results = await settled
    const facts = results.map(result =>
      result.status === 'fulfilled' ? node.receive(result.value[0]) : result.reason.code,
    )
    assert.deepEqual(
      [facts[0].s1_v, facts[1].s1_v, facts[2].id, facts[2].s2_v, facts[3]],
      [274.15, 275.15, 'OTHER', 101_300, 'ALL_READINGS_REFUSED'],
    )
  } finally {
    mock.timers.reset()
  }
})

test('enqueue: a full batch is sent immediately, close sends what waits, and without batches each is sent immediately', async () => {
  const full = native({ tx_batch_window_ms: 60_000, tx_batch_max_items: 2 })
  const [first] = await Promise.all([full.enqueue(row(1)), full.enqueue(row(2))])
  assert.equal(full.getLastBatchMetrics()!.count, 2)
  const last = full.enqueue(row(3))
  await full.close()
  assert.deepEqual([first[2], (await last)[2]], ['FULL_PACKET', 'FULL_PACKET'])
  for (const node of [nodeOn('pycore', { tx_batch_enabled: true }), native({ tx_batch_enabled: false })]) {
    assert.equal((await node.enqueue(row(1)))[1], 7)
    assert.equal(node.getLastBatchMetrics(), null)
    await assert.rejects(node.enqueue([['T1', 'OK', 1, 'bogus']]), { code: 'ALL_READINGS_REFUSED' })
  }
  await assert.rejects(nodeOn('rscore', { tx_batch_enabled: true }, { assigned_id: 0 }).enqueue(row(1)), {
    code: 'NO_ASSIGNED_ID',
  })
})

test('the time of an enqueued packet is that of the call, and a packet made meanwhile is sent before it', async () => {
  const node = native({ tx_batch_window_ms: 60_000, tx_batch_max_items: 2 })
  const before = bench.clock.wall()
  const waiting = node.enqueue(row(1))
  bench.clock.advance(5000)
  const between = node.transmitFast(row(2))
  const next = node.enqueue(row(3))
  const [[one], [two]] = await Promise.all([waiting, next])
  assert.deepEqual(
    [between[0], one, two].map(packet => node.receive(packet).t_raw),
    [before + 5000, before, before + 5000],
  )
})

test('the dispatch path: `none` before a packet was sent and when none was, `driver` when its medium accepted it', async () => {
  const node = nodeOn('rscore')
  assert.equal(node.getLastDispatchPath(), 'none')
  assert.equal(await node.dispatch('x', 'Pigeon'), false)
  assert.equal(node.getLastDispatchPath(), 'none')
})
