// What a command learns about its readings: acknowledged, sent, kept, or refused, each with its reason.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import type { Gateway } from '../../../src/gateway/gateway'
import { transmitThrough } from '../../../src/gateway/transmit'
import { SentWatchers } from '../../../src/gateway/uplink/watchers'
import type { Delivery } from '../../../src/gateway/uplink/window'

/** what an uplink does with a record */
type Way = Delivery | 'answer'

const FULL = Uint8Array.of(0x3f, 1, 2)
const SENSORS = [['T', 'OK', 21.5, 'Cel']] as const

/** `states`: what the uplink does with the record, in order. */
function world({
  assigned = true,
  names = ['up'],
  safeMode = '',
  states = [] as Way[],
  takes = false,
  deviceRole = 'duplex',
  failure = undefined as Error | undefined,
} = {}) {
  const watchers = new SentWatchers()
  const kept: unknown[] = []
  const active = names.length > 0 ? { medium: 'UDP' } : null
  const gateway = {
    deviceRole,
    identity: { assigned, assignedId: assigned ? 5 : 4_294_967_295, deviceId: 'gw' },
    guard: { safeMode: safeMode || undefined },
    log: { committed: async () => undefined, failure },
    uplinks: {
      list: active ? [active] : [],
      names,
      active,
      watchers,
      forwarding: () => ({ reason: 'up is down' }),
    },
    submit: (sensors: unknown) => {
      kept.push(sensors)
      setImmediate(() => {
        for (const state of states)
          if (state === 'answer') watchers.acknowledged(9)
          else watchers.sent(9, FULL, 'UDP', state)
      })
      return { seqs: [9], facts: [], rejected: [] }
    },
  } as unknown as Gateway
  const node = {
    transmit: () => [FULL, 5, 'FULL_PACKET'] as const,
    dispatch: async () => takes,
    transporterManager: { getDriver: (medium: string) => (medium === 'UART' ? {} : null) },
    lastError: new Error('the cable is out'),
  }
  return {
    kept,
    send: (medium?: string) => transmitThrough(gateway, node, { sensors: SENSORS as never, ...(medium && { medium }) }),
  }
}

test('a packet that the upstream or a broker confirmed is acknowledged', async () => {
  for (const states of [['exchange', 'answer'], ['medium']] as Way[][]) {
    const { packet, sent, delivery, reason } = await world({ states }).send()
    assert.deepEqual(
      { packet, sent, delivery, reason },
      { packet: FULL, sent: true, delivery: 'acknowledged', reason: undefined },
    )
  }
})

test('a best-effort packet is sent, with the reason why it is not acknowledged', async () => {
  const { sent, delivery, reason, dispatch_path } = await world({ states: ['best_effort'] }).send()
  assert.deepEqual([sent, delivery, dispatch_path], [true, 'sent', 'driver'])
  assert.match(reason!, /no acknowledgements/)
})

test('after 5 s a packet without an answer is `sent`, and one that was not transmitted is `kept`', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  for (const [states, delivery, why, bytes] of [
    [['exchange'], 'sent', /no acknowledgement came/, 3],
    [[], 'kept', /up is down/, 0],
  ] as const) {
    const sending = world({ states: [...states] }).send()
    await new Promise(setImmediate)
    mock.timers.tick(5000)
    const outcome = await sending
    assert.deepEqual([outcome.sent, outcome.delivery, outcome.packet.length], [true, delivery, bytes])
    assert.match(outcome.reason!, why)
  }
})

test('readings before the gateway has an id, or in safe mode, are kept immediately', async () => {
  for (const state of [{ assigned: false }, { safeMode: '5 crashes' }]) {
    const w = world(state)
    const { sent, delivery, dispatch_path, strategy, reason } = await w.send()
    assert.deepEqual([sent, delivery, dispatch_path, strategy], [true, 'kept', 'none', 'FULL_PACKET'])
    assert.match(reason!, /no id yet|safe mode/)
    assert.equal(w.kept.length, 1)
  }
})

test('readings kept while the disk refuses writes are reported as in RAM only', async () => {
  const { send } = world({ assigned: false, failure: new Error('disk full (ENOSPC)') })
  const { delivery, reason } = await send()
  assert.equal(delivery, 'kept')
  assert.match(reason ?? '', /no id yet.*; kept in RAM only: disk full \(ENOSPC\)$/)
})

test('a refused dispatch names its reason; a medium that needs an id refuses before anything is kept', async () => {
  const { sent, delivery, reason } = await world().send('UART')
  assert.deepEqual([sent, delivery, reason], [false, undefined, 'the cable is out'])
  assert.equal((await world({ takes: true }).send('UART')).delivery, 'sent')
  const unnamed = world({ assigned: false })
  await assert.rejects(unnamed.send('UART'), { code: 'NO_ASSIGNED_ID' })
  await assert.rejects(unnamed.send('LoRa'), { code: 'NO_DRIVER' })
  assert.equal(unnamed.kept.length, 0)
})

test('a server without uplinks keeps readings in its own log and does not report them as sent', async () => {
  const w = world({ names: [] })
  const { sent, delivery, reason } = await w.send()
  assert.deepEqual([sent, delivery, w.kept.length], [false, undefined, 1])
  assert.match(reason!, /no uplink/)
})

test('an rx_only gateway refuses readings for sending, before any is kept', async () => {
  const { send, kept } = world({ deviceRole: 'rx_only' })
  await assert.rejects(send(), { code: 'RX_ONLY' })
  await assert.rejects(send('UART'), { code: 'RX_ONLY' })
  assert.deepEqual(kept, [])
})
