// The pool of ids for a gateway's own nodes: requested in time, with the same bytes until it arrives, acknowledged when it
// is on flash, never used after it expires.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { Identity } from '../../../src/gateway/identity'
import { GatewayIds, type PoolWish } from '../../../src/gateway/ids'
import { UpstreamRequests } from '../../../src/gateway/uplink/requests'
import { realFiles } from '../../../src/lib/files'
import { createLogger, type Logger } from '../../../src/lib/logger'
import {
  buildIdPoolResponse,
  buildNack,
  controlSeq,
  parsePoolCount,
  SequenceCounter,
} from '../../../src/protocol/control'
import { HandshakeManager } from '../../../src/protocol/handshake/manager'
import { IdAllocator } from '../../../src/protocol/ids/allocator'
import { NodeClock } from '../../../src/protocol/time'
import { COMMAND } from '../../../src/wire/commands'
import { ManualClock, memoryIdStore } from '../../lib/manual'

const folders: string[] = []
const running: UpstreamRequests[] = []
afterEach(() => {
  for (const requests of running.splice(0)) requests.stop()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const quiet = (): Logger => createLogger({ write: () => undefined })

function config(settings: object = {}): ConfigStore {
  const cwd = mkdtempSync(join(tmpdir(), 'os-node-pool-'))
  folders.push(cwd)
  const file = { device_id: 'GW', assigned_id: 9, security_settings: { id_pool: { size: 8, ...settings } } }
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify(file))
  return ConfigStore.load({ env: {}, cwd, logger: quiet() })
}

function requests(pool: PoolWish): { asked: Uint8Array[]; made: UpstreamRequests; clock: ManualClock } {
  const asked: Uint8Array[] = []
  const clock = new ManualClock()
  const sequence = new SequenceCounter()
  const made = new UpstreamRequests({
    send: async packet => {
      if (packet[0] !== COMMAND.TIME_REQUEST) asked.push(Uint8Array.from(packet))
      return true
    },
    nextSeq: () => sequence.next(),
    clock,
    time: new NodeClock(clock),
    identity: new Identity(config(), quiet()),
    logger: quiet(),
    changed: () => undefined,
    pool: () => pool,
  })
  running.push(made)
  return { asked, made, clock }
}

const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

const clockOf = (mono: () => number) => ({ mono, wall: mono })

test('a pool is requested with the same bytes until it arrives, and the upstream gives the same ids for them', async () => {
  const got: number[][] = []
  const { asked, made, clock } = requests({ wanted: () => 8, granted: async ids => void got.push([...ids]) })
  made.start()
  clock.advance(5000)
  made.start()
  assert.equal(asked.length, 2)
  assert.deepEqual(asked[0], asked[1])
  assert.equal(parsePoolCount(asked[0]!), 8)
  const upstream = new HandshakeManager({}, { clock, allocator: new IdAllocator({}, { store: memoryIdStore() }) })
  const lost = await upstream.dispatch(asked[0]!, '10.0.0.1:5')
  const answer = await upstream.dispatch(asked[1]!, '10.0.0.1:5')
  assert.deepEqual(answer.result['pool'], lost.result['pool'])
  assert.equal(new Set(answer.result['pool'] as number[]).size, 8)
  made.received(answer.response!)
  made.received(answer.response!)
  await turn()
  assert.deepEqual(got, [answer.result['pool']], 'taken once')
  assert.equal(asked[2]![0], COMMAND.HANDSHAKE_ACK)
  assert.equal(controlSeq(asked[2]!), controlSeq(asked[0]!))
})

test('ids that could not be stored are not acknowledged; a refusal is not retried immediately; packets of other senders are ignored', async () => {
  const { asked, made, clock } = requests({ wanted: () => 3, granted: () => Promise.reject(new Error('disk full')) })
  made.start()
  made.received(buildIdPoolResponse(controlSeq(asked[0]!) + 1, [77]))
  made.received(buildIdPoolResponse(controlSeq(asked[0]!), [5, 6, 7]))
  await turn()
  assert.equal(asked.length, 1, 'no acknowledgement')
  made.start()
  assert.equal(asked.length, 2)
  made.received(buildNack(controlSeq(asked[1]!), 'POOL_ALLOC_FAILED'))
  made.start()
  assert.equal(asked.length, 2)
  clock.advance(61_000)
  made.start()
  assert.equal(asked.length, 3)
})

test('a pool is refilled below a quarter, remembers which device has an id, and is not used after it expires', async () => {
  const store = config({ use_within_days: 1 })
  let now = 1_710_000_000
  const open = (): GatewayIds =>
    new GatewayIds({
      config: store,
      files: realFiles,
      logger: quiet(),
      source: 'pool',
      now: () => now,
      clock: clockOf(() => now * 1000),
    })
  const ids = open()
  assert.equal(ids.wanted(), 8)
  assert.throws(() => ids.allocator.allocateId({ device_id: 'early' }), { code: 'ID_POOL_EXHAUSTED' })
  await ids.granted([40, 41, 42, 43, 44, 45, 46, 47])
  for (let k = 0; k < 6; k++) assert.equal(ids.allocator.allocateId({ device_id: `n${k}` }), 40 + k)
  assert.equal(ids.wanted(), 0, 'two of eight are left')
  assert.equal(ids.allocator.allocateId({ device_id: 'n6' }), 46)
  assert.equal(ids.wanted(), 7)
  await ids.granted([7, 8, 9, 10, 11, 12, 13])
  assert.equal(ids.wanted(), 0)
  assert.deepEqual([ids.status().source, ids.status().allocated, ids.status().released], ['pool', 7, 8])

  // killed: none of it is lost
  const again = open()
  assert.equal(again.allocator.allocateId({ device_id: 'n3' }), 43)
  assert.equal(again.allocator.allocateId({ device_id: 'n7' }), 7)
  await again.allocator.commit()

  // the id of a removed device returns to the upstream
  again.allocator.releaseId(7, true)
  assert.equal(again.allocator.allocateId({ device_id: 'n8' }), 8)
  now += 86_400
  assert.equal(again.wanted(), 8)
  assert.throws(() => again.allocator.allocateId({ device_id: 'n9' }), { code: 'ID_POOL_EXHAUSTED' })
  assert.equal(again.allocator.allocateId({ device_id: 'n8' }), 8)
  await again.granted([100])
  assert.equal(again.allocator.allocateId({ device_id: 'n9' }), 100, 'those of before are forgotten')
  again.stop()
  const json = JSON.parse(readFileSync(join(store.dataDir, 'id_pool.json'), 'utf8'))
  assert.equal(json.granted_until, now + 86_400)
})

test('checkpoints and metrics that cannot be written are counted in the status', async () => {
  const store = config()
  realFiles.mkdir(join(store.dataDir, 'id_lease_metrics.json.tmp'))
  let now = 1_710_000_000
  const ids = new GatewayIds({
    config: store,
    files: realFiles,
    logger: quiet(),
    source: 'range',
    now: () => now,
    clock: clockOf(() => now),
  })
  await ids.start()
  assert.deepEqual(
    Object.keys(ids.status()).filter(key => key.endsWith('_failures')),
    [],
  )
  now += 600
  ids.allocator.allocateId({ device_id: 'a' })
  Object.defineProperty(ids.allocator, 'checkpointFailures', { value: 2 })
  const { checkpoint_failures, metrics_failures = 0 } = ids.status()
  assert.equal(checkpoint_failures, 2)
  assert.ok(metrics_failures > 0)
  assert.equal(metrics_failures, ids.allocator.metricsFailures)
  ids.stop()
})

test('the first time sync of a gateway does not remove the pool', async () => {
  const store = config()
  let now = 1000
  let mono = 0
  const ids = new GatewayIds({
    config: store,
    files: realFiles,
    logger: quiet(),
    source: 'pool',
    now: () => now,
    clock: clockOf(() => mono),
  })
  await ids.granted([1, 2, 3])
  mono += 1000
  now = 1_710_000_000
  assert.equal(ids.allocator.allocateId({ device_id: 'a' }), 1)
  ids.stop()
})

test('an unreadable allocator file is a state, logged once, and no packet is affected', async () => {
  const store = config()
  realFiles.mkdir(store.dataDir)
  writeFileSync(join(store.dataDir, 'id_allocation.json'), '{"allocated": {"1": {')
  const lines: string[] = []
  const ids = new GatewayIds({
    config: store,
    files: realFiles,
    logger: createLogger({ write: line => void lines.push(line) }),
    source: 'range',
    now: () => 1,
    clock: clockOf(() => 1),
  })
  const started = ids.start()
  assert.match(ids.status().problem ?? '', /being read/)
  assert.equal(ids.has(4), false)
  await started
  ids.heard(4, '10.0.0.1:5')
  ids.heard(4, '10.0.0.1:5')
  assert.match(ids.status().problem ?? '', /id_allocation\.json cannot be read: no ids are assigned/)
  assert.equal(lines.length, 1)
  ids.stop()
})
