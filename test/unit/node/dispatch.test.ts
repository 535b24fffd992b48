// dispatch (specification, "Node operations"): attempts and intervals, order, limits, what ends the retries.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { Dispatcher } from '../../../src/node/dispatch'
import { TransporterManager } from '../../../src/node/transporters'
import { Bench } from './helper'
import { FakeWorld } from './media'

const RETRY = { enabled: true, max_retries: 2, interval_seconds: 1 }

function setUp({ retry = RETRY, ...limits }: { retry?: typeof RETRY; maxPackets?: number; maxBytes?: number } = {}) {
  const world = new FakeWorld()
  const { clock, timers } = world
  const config = world.config({ RESOURCES: { transport_status: { udp: true, tcp: true } } })
  const manager = new TransporterManager({ config, registry: world.registry('UDP', 'TCP'), clock, timers })
  const dispatcher = new Dispatcher({
    driver: medium => manager.getDriver(medium),
    retry: () => retry,
    timers,
    ...limits,
  })
  /** results of packets by name, as they arrive */
  const results: string[] = []
  const send = (text: string, medium = 'UDP'): Promise<void> =>
    dispatcher.send(Buffer.from(text), medium).then(error => {
      results.push(`${text}:${error ? error.code : 'sent'}`)
    })
  return { world, config, manager, dispatcher, send, results, timers }
}

const later = (): Promise<void> => new Promise(setImmediate)

test('1 + max_retries attempts, one interval apart; then false with the reason', async () => {
  const { world, send, results, timers } = setUp()
  world.onSend = async () => false
  void send('a')
  await later()
  assert.deepEqual(world.tried, ['a'])
  await timers.advance(999)
  assert.equal(world.tried.length, 1)
  await timers.advance(1)
  assert.equal(world.tried.length, 2)
  assert.deepEqual(results, [])
  await timers.advance(1000)
  assert.deepEqual([world.tried.length, results], [3, ['a:NETWORK']])
  assert.equal(timers.pending, 0)
})

test('with retries disabled there is one attempt', async () => {
  const { world, send, results } = setUp({ retry: { ...RETRY, enabled: false } })
  world.onSend = async () => false
  await send('a')
  assert.deepEqual([world.tried, results], [['a'], ['a:NETWORK']])
})

test('a link that cannot be opened now is retried; wrong options and a driver that throws end the retries immediately', async () => {
  const { world, send, results, timers } = setUp()
  world.onOpen = () => {
    throw Object.assign(new Error('no way there'), { code: 'ENETUNREACH' })
  }
  const failed = send('a')
  await timers.advance(2000)
  await failed
  assert.equal(world.made.length, 3)
  world.onOpen = () => {
    throw new OsError('CONFIG_INVALID', 'host is needed')
  }
  await send('b')
  world.onOpen = () => undefined
  world.onSend = () => Promise.reject(new Error('a defect'))
  await send('c')
  assert.deepEqual(results, ['a:NETWORK', 'b:CONFIG_INVALID', 'c:NETWORK'])
  assert.equal(timers.pending, 0)
  assert.ok(
    world.made.every((medium, k) => k >= 4 || medium.closed === 1),
    'what did not open is closed',
  )
})

test('packets of one medium are sent in order, also across a retry interval; media do not wait for each other', async () => {
  const { world, send, results, timers } = setUp()
  const left: string[] = []
  let first = true
  world.onSend = async (packet, { medium }) => {
    if (medium === 'UDP' && first) {
      first = false
      return false
    }
    left.push(Buffer.from(packet).toString())
    return true
  }
  for (const text of ['a', 'b', 'c']) void send(text)
  void send('t', 'tcp')
  await later()
  assert.deepEqual(left, ['t'])
  await timers.advance(1000)
  assert.deepEqual(left, ['t', 'a', 'b', 'c'])
  assert.deepEqual(results, ['t:sent', 'a:sent', 'b:sent', 'c:sent'])
})

test('behind a dead medium a packet waits only its own time, and is tried at least once', async () => {
  const { world, send, results, timers } = setUp()
  world.onSend = async () => false
  for (let k = 0; k < 20; k++) void send(`p${k}`)
  await timers.advance(2000)
  assert.equal(results.length, 20)
  assert.deepEqual(
    world.tried.filter(text => text !== 'p0'),
    Array.from({ length: 19 }, (_, k) => `p${k + 1}`),
  )
})

test('a medium that acknowledges has many packets in flight, any other has one', async () => {
  const { world, send } = setUp()
  let acknowledges = true
  world.onOpen = medium => {
    medium.acknowledges = acknowledges
  }
  let settle: ((ok: boolean) => void)[] = []
  world.onSend = () => new Promise(resolve => settle.push(resolve))
  const all = Promise.all(Array.from({ length: 40 }, (_, k) => send(`p${k}`)))
  await later()
  assert.equal(settle.length, 1, 'before the first answer it is not known')
  settle.splice(0)[0]!(true)
  await later()
  assert.equal(settle.length, 32)
  for (let k = 0; k < 3; k++) {
    for (const ok of settle.splice(0)) ok(true)
    await later()
  }
  await all
  acknowledges = false
  settle = []
  const more = [send('x', 'TCP'), send('y', 'TCP')]
  await later()
  assert.equal(settle.length, 1)
  settle[0]!(true)
  await later()
  settle[1]!(true)
  await Promise.all(more)
})

test('packets or bytes above the limit of one medium are refused and counted; other media are not affected', async () => {
  const { world, send, results, dispatcher } = setUp({ maxPackets: 4, maxBytes: 10 })
  world.onSend = () => new Promise(() => undefined)
  for (let k = 0; k < 7; k++) void send(`p${k}`)
  await later()
  assert.deepEqual(results, ['p5:LINK_DOWN', 'p6:LINK_DOWN'])
  assert.equal(dispatcher.refused, 2)
  void send('123456789', 'TCP')
  void send('123456789', 'TCP')
  void send('12', 'TCP')
  await later()
  assert.equal(dispatcher.refused, 3)
})

test('a medium disabled meanwhile ends the retries of its packets; a recreated one accepts them', async () => {
  const { world, config, manager, send, results, timers } = setUp()
  world.onSend = async () => false
  void send('a')
  await later()
  config.set('RESOURCES.transport_status.udp', false)
  manager.runtimeTick()
  await timers.advance(1000)
  assert.deepEqual(results, ['a:NO_DRIVER'])
  void send('t', 'TCP')
  await later()
  config.set('RESOURCES.transport_config.tcp.port', 9999)
  manager.runtimeTick()
  world.onSend = async () => true
  await timers.advance(1000)
  assert.deepEqual(results, ['a:NO_DRIVER', 't:sent'])
  assert.equal(world.last.options.port, 9999)
})

test('closing answers every waiting call', async () => {
  const { world, dispatcher, send, results, timers } = setUp()
  world.onSend = async () => false
  for (const text of ['a', 'b']) void send(text)
  await later()
  dispatcher.close()
  await later()
  assert.deepEqual(results.sort(), ['a:NETWORK', 'b:LINK_DOWN'])
  assert.equal(timers.pending, 0)
  await send('c')
  assert.equal(results.at(-1), 'c:LINK_DOWN')
})

test('a node names exactly what is missing when there is no driver, and why a send failed', async () => {
  const bench = new Bench()
  const world = new FakeWorld()
  const node = bench.node(
    'dispatch',
    { engine_settings: { network_retry: { enabled: false } } },
    {
      registry: world.registry('UDP', 'TCP'),
    },
  )
  for (const medium of ['Pigeon', 'tcp', 'LoRa', ''])
    assert.deepEqual(
      [await node.dispatch('x', medium), node.lastError?.message, node.lastError?.code],
      [false, `No available driver: ${medium}`, 'NO_DRIVER'],
    )
  assert.equal(await node.dispatch('größe', 'udp'), true)
  assert.equal(await node.dispatch(new Uint8Array([0x68, 0x69])), true)
  assert.deepEqual(world.tried, ['größe', 'hi'])
  world.onSend = async () => false
  assert.equal(await node.dispatch('x'), false)
  assert.equal(node.lastError?.message, 'UDP did not accept the packet')
  await node.close()
})

test('zero_copy_transport passes the original bytes, otherwise a copy', async () => {
  const bench = new Bench()
  for (const zero_copy_transport of [true, false]) {
    const world = new FakeWorld()
    const node = bench.node(
      `zero-${zero_copy_transport}`,
      { engine_settings: { zero_copy_transport } },
      {
        registry: world.registry('UDP'),
      },
    )
    const packet = Buffer.from('before')
    let got: Uint8Array | undefined
    world.onSend = async bytes => {
      got = bytes
      return true
    }
    const sent = node.dispatch(packet)
    packet.write('AFTER!')
    await sent
    assert.equal(Buffer.from(got!).toString(), zero_copy_transport ? 'AFTER!' : 'before')
  }
})
