// The MQTT medium against a real broker: both versions, every QoS, acknowledgements that wait, sessions, states, names.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { PacketOrigin } from '../../../src/links/contracts'
import { createMqtt, type MqttListener } from '../../../src/media/mqtt'
import { connectBroker } from '../../../src/media/mqtt/connection'
import { sleep, until } from '../../lib/gateway'
import { broker, context, heard, identity, sender } from './mqtt-world'

function listener(t: TestContext, port: number, options: object = {}): MqttListener {
  const medium = createMqtt(
    'in',
    { mode: 'listen', host: '127.0.0.1', port, ...options },
    { ...context, identity: identity(null, 'server000001') },
  )
  t.after(() => medium.close())
  return medium as MqttListener
}

for (const version of [4, 5] as const)
  for (const qos of [0, 1, 2] as const)
    test(`version ${version}, QoS ${qos}: packets arrive in order, answers return, and a sender is identified by its topic`, async t => {
      const { port } = await broker(t)
      const up = sender(t, port, { protocol_version: version, qos })
      const down = listener(t, port, { protocol_version: version, qos })
      const got: string[] = []
      down.onPacket((packet, origin) => {
        got.push(Buffer.from(packet).toString())
        assert.equal(origin.address, `mqtt://127.0.0.1:${port}/os/7`)
        assert.equal(origin.settle === undefined, qos === 0)
        origin.settle?.(true)
        if (got.length === 1) void origin.reply(Buffer.from('answer'))
      })
      const answers: string[] = []
      up.onPacket((packet, origin) => {
        answers.push(Buffer.from(packet).toString())
        assert.equal(origin.address, `mqtt://127.0.0.1:${port}`)
        assert.equal(origin.settle, undefined)
      })
      await down.open(heard().events)
      await up.open(heard().events)
      assert.equal(up.acknowledges, qos > 0)
      const sent = Array.from({ length: 500 }, (_, k) => `packet ${k}`)
      const taken = await Promise.all(sent.map(text => up.send(Buffer.from(text))))
      assert.ok(taken.every(Boolean))
      await until('all are present', () => got.length >= 500)
      assert.deepEqual(got, sent)
      await until('the answer has arrived', () => answers.length > 0)
      assert.deepEqual(answers, ['answer'])
    })

for (const qos of [1, 2] as const)
  test(`QoS ${qos}: unsettled packets are delivered again, settled ones are not`, async t => {
    const { port } = await broker(t)
    const got: string[] = []
    const origins: PacketOrigin[] = []
    const first = listener(t, port, { qos })
    first.onPacket((packet, origin) => {
      got.push(Buffer.from(packet).toString())
      origins.push(origin)
    })
    await first.open(heard().events)
    // a sender of ours publishes with QoS 1 at most
    const up = await connectBroker({
      ...{ versions: [5], clientId: 'foreign', clean: true, keepaliveS: 30, sessionExpiryS: 0, maxUnsettled: 10 },
      openSocket: async () => connect(port, '127.0.0.1'),
      onMessage: () => undefined,
      onLost: () => undefined,
    })
    t.after(() => up.close())
    for (const text of ['a', 'b', 'c', 'd']) assert.equal(await up.publish('os/7/up', Buffer.from(text), qos), null)
    await until('four are there', () => got.length === 4)
    // the answers are sent in the order of the packets: c waits for b
    origins[0]!.settle!(true)
    origins[2]!.settle!(true)
    await sleep(100)
    await first.close()
    const second = listener(t, port, { qos })
    const again: string[] = []
    second.onPacket((packet, origin) => {
      again.push(Buffer.from(packet).toString())
      origin.settle?.(true)
    })
    await second.open(heard().events)
    await until('the remaining packets are resent', () => again.length >= 3)
    await sleep(100)
    assert.deepEqual(again, ['b', 'c', 'd'])
  })

test('a packet that could not be kept closes the connection, and is delivered again', async t => {
  const { port } = await broker(t)
  const down = listener(t, port)
  const { texts, events } = heard()
  const got: string[] = []
  down.onPacket((packet, origin) => {
    got.push(Buffer.from(packet).toString())
    origin.settle?.(got.length > 1)
  })
  await down.open(events)
  const up = sender(t, port)
  await up.open(heard().events)
  assert.ok(await up.send(Buffer.from('once')))
  await until('it is lost', () => texts.length === 1)
  assert.match(texts[0]!, /could not be stored/)
  await down.open(events)
  await until('it comes again', () => got.length === 2)
  assert.deepEqual(got, ['once', 'once'])
})

for (const version of [4, 5] as const)
  test(`version ${version}: at most max_in_flight packets are unsettled`, async t => {
    const { port } = await broker(t, { lines: ['max_inflight_messages 0'] })
    const down = listener(t, port, { max_in_flight: 10, protocol_version: version })
    const origins: PacketOrigin[] = []
    down.onPacket((_packet, origin) => origins.push(origin))
    await down.open(heard().events)
    const up = sender(t, port)
    await up.open(heard().events)
    await Promise.all(Array.from({ length: 100 }, (_, k) => up.send(Buffer.from([k]))))
    await until('ten are present', () => origins.length === 10)
    await sleep(100)
    assert.equal(origins.length, 10)
    for (let k = 0; k < 100; k++) {
      await until(`packet ${k}`, () => origins.length > k)
      origins[k]!.settle!(true)
    }
  })

test('packets wait in the broker while the receiver is away, and an answer to one that comes with the connection is sent', async t => {
  const { port } = await broker(t)
  const first = listener(t, port)
  await first.open(heard().events)
  await first.close()
  const up = sender(t, port)
  await up.open(heard().events)
  await Promise.all(Array.from({ length: 2000 }, (_, k) => up.send(Buffer.from(String(k)))))
  let answers = 0
  up.onPacket(() => answers++)
  const got: number[] = []
  const second = listener(t, port)
  second.onPacket((packet, origin) => {
    got.push(Number(Buffer.from(packet).toString()))
    origin.settle?.(true)
    if (got.length <= 20) void origin.reply(packet)
  })
  await second.open(heard().events)
  await until('all are present', () => got.length >= 2000)
  assert.deepEqual(
    got,
    Array.from({ length: 2000 }, (_, k) => k),
  )
  await until('every answer has arrived', () => answers === 20)
})

for (const version of [4, 5] as const)
  test(`version ${version}: answers wait in the broker while the sender is away, and arrive with its connection`, async t => {
    const { port } = await broker(t)
    const origins: PacketOrigin[] = []
    const server = listener(t, port)
    server.onPacket((_, origin) => {
      origin.settle?.(true)
      origins.push(origin)
    })
    await server.open(heard().events)
    const up = sender(t, port, { protocol_version: version })
    const answers: string[] = []
    up.onPacket(packet => answers.push(Buffer.from(packet).toString()))
    await up.open(heard().events)
    await up.send(Buffer.from('x'))
    await until('it arrived', () => origins.length === 1)
    await up.close()
    assert.ok(await origins[0]!.reply(Buffer.from('refused')))
    await up.open(heard().events)
    await until('it is refused', () => answers.length === 1)
    assert.deepEqual(answers, ['refused'])
  })

test('the state is retained: online, offline at the close, offline by the will', async t => {
  const { port } = await broker(t)
  const states: string[] = []
  const watch = listener(t, port, { topics: { up: 'os/<aid>/state' } })
  watch.onPacket((packet, origin) => {
    states.push(`${origin.address.split('/').at(-1)} ${Buffer.from(packet)}`)
    origin.settle?.(true)
  })
  await watch.open(heard().events)
  const up = sender(t, port)
  await up.open(heard().events)
  await until('online', () => states.length === 1)
  await up.close()
  await until('offline', () => states.length === 2)
  assert.deepEqual(states, ['7 {"state":"online"}', '7 {"state":"offline"}'])
  // a client that is killed has its will published
  const socket = connect(port, '127.0.0.1')
  await connectBroker({
    openSocket: async () => socket,
    versions: [5],
    clientId: 'rude',
    clean: true,
    keepaliveS: 60,
    sessionExpiryS: 0,
    will: { topic: 'os/8/state', payload: 'gone' },
    maxUnsettled: 1,
    onMessage: () => undefined,
    onLost: () => undefined,
  })
  socket.destroy()
  await until('the will', () => states.length === 3)
  assert.equal(states[2], '8 gone')
})

test('a node without an id connects as new-<install>, and under its id once it has one', async t => {
  const { port } = await broker(t)
  const down = listener(t, port)
  const from: string[] = []
  down.onPacket((packet, origin) => {
    from.push(new URL(origin.address).pathname)
    origin.settle?.(true)
    void origin.reply(packet)
  })
  await down.open(heard().events)
  const who = identity(null, 'gateway00002')
  const up = sender(t, port, {}, who)
  const answers: string[] = []
  up.onPacket(packet => answers.push(Buffer.from(packet).toString()))
  const { texts, events } = heard()
  await up.open(events)
  assert.ok(await up.send(Buffer.from('who am I')))
  await until('an answer', () => answers.length === 1)
  who.assign(42)
  assert.ok(await up.send(Buffer.from('I have it')), 'what is sent before it leaves arrives')
  await until('it reconnects', () => texts.length > 0)
  assert.equal(up.counters.errors, 0)
  assert.deepEqual(texts, ['wanted reconnecting with the new id 42'])
  await up.open(events)
  assert.ok(await up.send(Buffer.from('it is me')))
  await until('an answer', () => answers.length === 3)
  assert.deepEqual(from, ['/os/new-gateway00002', '/os/new-gateway00002', '/os/42'])
})

test('a node that gets its id while it connects publishes under it', async t => {
  const { port } = await broker(t)
  const down = listener(t, port)
  const from: string[] = []
  down.onPacket((_, origin) => {
    from.push(new URL(origin.address).pathname)
    origin.settle?.(true)
  })
  await down.open(heard().events)
  const who = identity(null, 'gateway00003')
  const up = sender(t, port, {}, who)
  const opening = up.open(heard().events)
  who.assign(43)
  await opening
  assert.ok(await up.send(Buffer.from('it is me')))
  await until('the packet', () => from.length === 1)
  assert.deepEqual(from, ['/os/43'])
})

test('custom topics, compatible topics and shared receivers work', async t => {
  const { port } = await broker(t)
  const topics = { up: 'plant/<install>/<aid>/in', down: 'plant/<install>/<aid>/out', state: '' }
  const own = listener(t, port, { topics })
  const addresses: string[] = []
  own.onPacket((packet, origin) => {
    addresses.push(new URL(origin.address).pathname)
    origin.settle?.(true)
    void origin.reply(packet)
  })
  await own.open(heard().events)
  const up = sender(t, port, { topics })
  let answers = 0
  up.onPacket(() => answers++)
  await up.open(heard().events)
  assert.ok(await up.send(Buffer.from('x')))
  await until('the answer', () => answers === 1)
  assert.deepEqual(addresses, ['/plant/gateway00001/7'])
  await up.close()

  const compat = listener(t, port, { compat: true, client_id: 'compat' })
  const raw: string[] = []
  compat.onPacket((packet, origin) => {
    raw.push(`${new URL(origin.address).pathname} ${Buffer.from(packet)}`)
    origin.settle?.(true)
  })
  await compat.open(heard().events)
  const reference = sender(t, port, { compat: true })
  await reference.open(heard().events)
  assert.ok(await reference.send(Buffer.from('y')))
  await until('the packet', () => raw.length === 1)
  assert.deepEqual(raw, ['/os/sensors/raw y'])
  await reference.close()

  const counts = [0, 0]
  for (const k of [0, 1]) {
    const one = listener(t, port, { shared: 'group', client_id: `shared-${k}` })
    one.onPacket((_packet, origin) => {
      if (origin.shared) counts[k]!++
      origin.settle?.(true)
    })
    await one.open(heard().events)
  }
  const many = sender(t, port)
  await many.open(heard().events)
  await Promise.all(Array.from({ length: 100 }, () => many.send(Buffer.from('z'))))
  await until('each packet once', () => counts[0]! + counts[1]! >= 100)
  await sleep(50)
  assert.equal(counts[0]! + counts[1]!, 100)
  assert.ok(counts[0]! > 20 && counts[1]! > 20, String(counts))
})
