// Specification, "Configuration keys": engine_settings, security_settings, and the identity of the node.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import type { Row } from '../rows'
import { newNode, ROWS, T } from '../world'
import { type Key, keyRow, nested } from './key'
import { fakeMedia } from './media'

const later = async (): Promise<void> => {
  for (let k = 0; k < 20; k++) await new Promise(setImmediate)
}

/** How often a medium that accepts nothing was called. */
async function tries(retry: object): Promise<number> {
  const { node, sent } = fakeMedia({ engine_settings: { network_retry: retry } }, () => false)
  assert.equal(await node.dispatch('x'), false)
  return sent.length
}

const ENGINE: readonly Key[] = [
  {
    key: 'engine_settings.precision',
    standard: 4,
    value: 2,
    bad: 11,
    range: /whole number 0–10/,
    effect: () => {
      const through = (precision: number): unknown => {
        const node = newNode({ engine_settings: { precision } })
        return node.receive(node.transmit([['H1', 'OK', 1234.56789, '%']])[0]).s1_v
      }
      assert.deepEqual([1, 2, 4].map(through), [1234.6, 1234.57, 1234.5679])
    },
  },
  {
    key: 'engine_settings.network_retry.enabled',
    standard: true,
    value: false,
    bad: 1,
    range: /true or false/,
    effect: async () => {
      assert.equal(await tries({ enabled: true, interval_seconds: 0 }), 3)
      assert.equal(await tries({ enabled: false, interval_seconds: 0 }), 1)
    },
  },
  {
    key: 'engine_settings.network_retry.max_retries',
    standard: 2,
    value: 5,
    bad: -1,
    range: /whole number 0–100/,
    effect: async () => {
      for (const max_retries of [0, 2, 5])
        assert.equal(await tries({ max_retries, interval_seconds: 0 }), 1 + max_retries)
    },
  },
  {
    key: 'engine_settings.network_retry.interval_seconds',
    standard: 1,
    value: 0.5,
    bad: -0.5,
    range: /number 0–3600/,
    effect: async () => {
      assert.equal(await tries({ interval_seconds: 0 }), 3, 'one after the other')
      const { node, sent } = fakeMedia({ engine_settings: { network_retry: { interval_seconds: 3600 } } }, () => false)
      const dispatched = node.dispatch('x')
      await later()
      assert.equal(sent.length, 1, 'the second waits an hour')
      await node.close()
      assert.equal(await dispatched, false)
    },
  },
  {
    key: 'engine_settings.zero_copy_transport',
    standard: true,
    value: false,
    bad: 'fast',
    range: /true or false/,
    effect: async () => {
      const same = async (zero_copy_transport: boolean): Promise<boolean> => {
        const { node, sent } = fakeMedia({ engine_settings: { zero_copy_transport } })
        const [packet] = node.transmit(ROWS)
        assert.equal(await node.dispatch(packet), true)
        assert.deepEqual(Buffer.from(sent[0]!), packet, 'the bytes are equal')
        return sent[0]!.buffer === packet.buffer && sent[0]!.byteOffset === packet.byteOffset
      }
      assert.equal(await same(true), true, 'the medium has the memory of the packet')
      assert.equal(await same(false), false, 'the medium has a copy')
    },
  },
]

/** tx_batch_*: of the native core, observed by the metrics of its last batch. */
const batch = (settings: object): { count: number } => {
  const node = newNode({ engine_settings: { core_backend: 'rscore', tx_batch_enabled: true, ...settings } })
  node.transmitBatch(Array.from({ length: 10 }, () => ({ sensors: ROWS })))
  const metrics = node.getLastBatchMetrics()
  assert.ok(metrics, 'there was a batch')
  return metrics
}

const BATCH: readonly Key[] = [
  {
    key: 'engine_settings.tx_batch_enabled',
    standard: false,
    value: true,
    bad: 'yes',
    range: /true or false/,
    effect: () => assert.ok(batch({}).count > 1),
  },
  {
    key: 'engine_settings.tx_batch_window_ms',
    value: 50,
    bad: -1,
    range: /number 0–60000/,
    effect: () => assert.ok(batch({ tx_batch_window_ms: 0 }).count < batch({ tx_batch_window_ms: 1000 }).count),
  },
  {
    key: 'engine_settings.tx_batch_max_items',
    value: 4,
    bad: 0,
    range: /whole number 1–65536/,
    effect: () => assert.ok(batch({ tx_batch_max_items: 4 }).count <= 4),
  },
]

const HOUR = 3600

/** For how long a device that went away keeps its id, after `devices` arrived. */
function lease(policy: object, devices = 1): number {
  const { idAllocator } = newNode({ security_settings: { id_lease: policy } })
  const ids = Array.from({ length: devices }, (_, k) => idAllocator!.allocateId({ device_id: `d${k}` }))
  idAllocator!.releaseId(ids[0]!)
  const { allocated } = idAllocator!.dump() as {
    allocated: Record<string, { offline_since: number; lease_expires_at: number }>
  }
  const { offline_since, lease_expires_at } = allocated[String(ids[0])]!
  return lease_expires_at - offline_since
}

/** The file of the metrics, 5 s after a first write and another device. */
function metricsAfter(metrics_flush_seconds: number): number {
  mock.timers.enable({ apis: ['Date'], now: T * 1000 })
  try {
    const policy = { metrics_emit_interval_seconds: 1, metrics_flush_seconds }
    const { idAllocator, store } = newNode({ security_settings: { id_lease: policy } })
    for (const name of ['a', 'b']) {
      idAllocator!.allocateId({ device_id: name })
      mock.timers.tick(5000)
      idAllocator!.stats()
    }
    const file = JSON.parse(readFileSync(join(store.dataDir, 'id_lease_metrics.json'), 'utf8'))
    return file.metrics.new_device_rate_per_hour
  } finally {
    mock.timers.reset()
  }
}

const SECURITY: readonly Key[] = [
  {
    key: 'security_settings.secure_session_expire_seconds',
    standard: 86_400,
    value: 600,
    bad: 0,
    range: /number of at least 1/,
    effect: () => {
      const alive = (secure_session_expire_seconds: number): boolean => {
        let now = T * 1000
        const clock = { wall: () => now, mono: () => now }
        const node = newNode({ security_settings: { secure_session_expire_seconds } }, { clock })
        node.protocol.noteLocalPlaintextSent(7, now)
        node.protocol.confirmSecureDict(7, now)
        assert.equal(node.protocol.hasSecureDict(7), true)
        now += 2 * HOUR * 1000
        return node.protocol.hasSecureDict(7)
      }
      assert.deepEqual([alive(86_400), alive(HOUR)], [true, false])
    },
  },
  {
    key: 'security_settings.id_lease.offline_hold_days',
    standard: 30,
    value: 2,
    bad: -1,
    range: /number 0–36500/,
    effect: () => assert.equal(lease({ base_lease_seconds: 0, offline_hold_days: 2 }), 2 * 24 * HOUR),
  },
  {
    key: 'security_settings.id_lease.base_lease_seconds',
    standard: 2_592_000,
    value: 600,
    bad: -600,
    range: /number of at least 0/,
    effect: () => {
      assert.equal(lease({}), 2_592_000)
      assert.equal(lease({ base_lease_seconds: 600 }), 600)
    },
  },
  {
    key: 'security_settings.id_lease.adaptive_enabled',
    standard: true,
    value: false,
    bad: 'off',
    range: /true or false/,
    effect: () => {
      assert.ok(lease({ adaptive_enabled: true }, 120) < 2_592_000, 'many arrive: the lease is shorter')
      assert.equal(lease({ adaptive_enabled: false }, 120), 2_592_000)
    },
  },
  {
    key: 'security_settings.id_lease.metrics_flush_seconds',
    standard: 10,
    value: 60,
    bad: 0,
    range: /number of at least 1/,
    effect: () => assert.deepEqual([metricsAfter(2), metricsAfter(60)], [2, 1]),
  },
]

const NODE: readonly Key[] = [
  {
    key: 'device_id',
    value: 'other',
    bad: 7,
    range: /a text/,
    effect: () => {
      const node = newNode({ device_id: 'other' })
      assert.equal(node.receive(node.transmit(ROWS)[0]).id, 'other')
    },
  },
  {
    key: 'assigned_id',
    value: 12,
    bad: 4_294_967_296,
    range: /whole number 0–4294967295/,
    effect: () => assert.equal(newNode({ assigned_id: 12 }).transmit(ROWS)[1], 12),
  },
  ...(['server_host', 'server_port'] as const).map(name => ({
    key: `Client_Core.${name}`,
    value: name === 'server_host' ? '192.0.2.9' : 4100,
    bad: name === 'server_host' ? 9 : 65_536,
    range: name === 'server_host' ? /a text/ : /whole number 0–65535/,
    effect: async () => {
      const asked: unknown[] = []
      const request = async (host: string, port: number): Promise<null> => {
        asked.push(host, port)
        return null
      }
      const value = name === 'server_host' ? '192.0.2.9' : 4100
      await newNode(nested(`Client_Core.${name}`, value), { request }).dispatchWithReply(Buffer.of(9, 0, 1))
      assert.ok(asked.includes(value))
    },
  })),
]

export const engineRows: readonly Row[] = [...NODE, ...ENGINE, ...BATCH, ...SECURITY].map(keyRow)
