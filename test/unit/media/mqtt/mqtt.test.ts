// MQTT with a broker played by the test: topics, versions, and a misbehaving broker.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import MqttClient from 'mqtt/lib/client'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents } from '../../../../src/links/contracts'
import { Link } from '../../../../src/links/link'
import { createMqtt, type MqttSender } from '../../../../src/media/mqtt'
import { connectBroker } from '../../../../src/media/mqtt/connection'
import { filterOf, levelsOf, partyOf, senderOf, topicOf } from '../../../../src/media/mqtt/topics'
import { until } from '../../../lib/gateway'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { type Answers, FakeBroker, welcome } from '../../../lib/mqttbroker'

test('topics are built from a template, matched by a filter, and parsed again', () => {
  const template = 'plant/<install>/<aid>/in'
  const party = { aid: '7', install: 'gw1' }
  assert.equal(topicOf(template, party), 'plant/gw1/7/in')
  assert.equal(topicOf(template, { aid: '7' }), null)
  assert.equal(topicOf('fixed/topic', {}), 'fixed/topic')
  assert.equal(filterOf(template), 'plant/+/+/in')
  assert.deepEqual(partyOf(template, 'plant/gw1/7/in'), party)
  for (const topic of ['plant/gw1/7', 'plant/gw1/7/out', 'plant/gw1/7/in/', 'x/gw1/7/in', ''])
    assert.equal(partyOf(template, topic), null, topic)
  assert.equal(senderOf(template, 'plant/gw1/7/in'), 'plant/gw1/7')
  assert.equal(senderOf('os/<aid>/up', 'os/7/up'), 'os/7')
  assert.equal(senderOf('fixed/topic', 'fixed/topic'), 'fixed/topic')
})

test('invalid topic templates are refused', () => {
  for (const template of ['', 'os/#', 'os/+/up', '$SYS/<aid>', 'os/<id>/up', 'os/x<aid>/up', 'os/<aid/up', 'a\0b'])
    assert.equal(levelsOf(template), null, template)
  assert.deepEqual(levelsOf('<aid>'), ['<aid>'])
  assert.deepEqual(levelsOf('/os//<aid>'), ['', 'os', '', '<aid>'])
})

test('a version of mqtt.js whose internals were not reviewed is refused before it connects', async t => {
  const { VERSION } = MqttClient
  t.after(() => Object.assign(MqttClient, { VERSION }))
  Object.assign(MqttClient, { VERSION: '5.17.0' })
  const openSocket = () => assert.fail('it connects')
  await assert.rejects(connectBroker({ openSocket, versions: [5] } as never), {
    code: 'NO_DRIVER',
    message: /mqtt\.js 5\.16\.0, this build has 5\.17\.0/,
  })
})

test('the installed mqtt.js is the reviewed version, and has the private parts that are used', () => {
  assert.equal(MqttClient.VERSION, '5.16.0')
  const client = new MqttClient(() => assert.fail('it connects'), { manualConnect: true })
  const { _sendPacket: send, _receiveMaximum: maximum } = client as unknown as Record<string, unknown>
  assert.deepEqual([typeof send, maximum], ['function', 65_535])
})

const context = { clock: systemClock, logger: silentLogger }
const identity = { aid: 7, installId: 'gateway00001', onAssigned: () => () => undefined }

function heard() {
  const texts: string[] = []
  const events: OpenableEvents = {
    lost: reason => texts.push(`lost ${reason}`),
    degraded: reason => texts.push(`degraded ${reason}`),
  }
  return { texts, events }
}

async function fake(t: TestContext, answers: Answers) {
  const broker = await FakeBroker.start(answers)
  t.after(() => broker.close())
  const sender = (options: object = {}): MqttSender => {
    const medium = createMqtt('m', { host: '127.0.0.1', port: broker.port, ...options }, { ...context, identity })
    t.after(() => medium.close())
    return medium as MqttSender
  }
  return { broker, sender }
}

/** A listener that answers every packet. */
function refusing(t: TestContext, { port }: FakeBroker): ReturnType<typeof createMqtt> {
  const own = { ...context, identity: { ...identity, aid: null } }
  const medium = createMqtt('in', { mode: 'listen', host: '127.0.0.1', port }, own)
  t.after(() => medium.close())
  medium.onPacket((_, origin) => {
    void origin.reply(Buffer.from('refused'))
    origin.settle!(true)
  })
  return medium
}

test('when a broker refuses MQTT 5, by its answer or by closing the connection, version 4 is tried; a configured version is not changed', async t => {
  for (const how of ['says', 'closes'] as const) {
    const versions: number[] = []
    const { sender } = await fake(t, (packet, client) => {
      if (packet.cmd !== 'connect') return
      versions.push(packet.protocolVersion!)
      if (packet.protocolVersion !== 5) welcome(packet, client)
      else if (how === 'closes') client.drop()
      else client.send({ cmd: 'connack', sessionPresent: false, reasonCode: 132 })
    })
    await sender().open(heard().events)
    assert.deepEqual(versions, [5, 4], how)
    await assert.rejects(sender({ protocol_version: 5 }).open(heard().events), { code: 'LINK_DOWN' })
    assert.deepEqual(versions, [5, 4, 5])
  }
})

test('a PUBACK with an error is not accepted: false, counted, degraded with the reason; the next good one clears it', async t => {
  let reasonCode = 0x97
  const { sender } = await fake(t, (packet, client) => {
    if (welcome(packet, client) || packet.cmd !== 'publish' || packet.topic !== 'os/7/up') return
    client.send({ cmd: 'puback', messageId: packet.messageId!, reasonCode })
  })
  const up = sender()
  const { texts, events } = heard()
  await up.open(events)
  assert.equal(await up.send(Buffer.from('a')), false)
  assert.equal(up.counters.errors, 1)
  assert.equal(up.counters.tx, 0)
  reasonCode = 0
  assert.equal(await up.send(Buffer.from('b')), true)
  assert.deepEqual(texts, ['degraded Publish error: Quota exceeded', 'degraded '])
})

test('a broker that answers pings and acknowledges nothing loses the connection; one that acknowledges slowly keeps it', async t => {
  let slow = true
  const { broker } = await fake(t, (packet, client) => {
    if (welcome(packet, client) || packet.cmd !== 'publish' || !slow) return
    const answer = () => client.send({ cmd: 'puback', messageId: packet.messageId! })
    // six packets together take longer than the limit, and the last of them longer than the limit since it was sent
    setTimeout(answer, 60 * broker.count('publish'))
  })
  const lost: string[] = []
  const connection = await connectBroker({
    openSocket: async () => {
      const socket = connect(broker.port, '127.0.0.1')
      await once(socket, 'connect')
      return socket
    },
    versions: [5],
    clientId: 'c',
    clean: true,
    keepaliveS: 60,
    sessionExpiryS: 0,
    maxUnsettled: 10,
    acknowledgeMs: 200,
    onMessage: () => undefined,
    onLost: reason => lost.push(reason),
  })
  const publish = () => connection.publish('t', Buffer.from('a'), 1)
  assert.deepEqual(await Promise.all(Array.from({ length: 6 }, publish)), Array(6).fill(null))
  // nothing waits: silence is no fault
  await delay(300)
  assert.deepEqual(lost, [])
  slow = false
  const reason = 'the broker did not acknowledge the oldest of 2 packets for 0.2 s'
  assert.deepEqual(await Promise.all([publish(), publish()]), [reason, reason])
  assert.deepEqual(lost, [reason])
})

test('a broker that forgets a packet and acknowledges later ones loses the connection, and the packet is sent again', async t => {
  const { broker } = await fake(t, (packet, client) => {
    if (welcome(packet, client) || packet.cmd !== 'publish' || `${packet.payload}` === 'forgotten') return
    client.send({ cmd: 'puback', messageId: packet.messageId! })
  })
  const lost: string[] = []
  const connection = await connectBroker({
    openSocket: async () => connect(broker.port, '127.0.0.1'),
    versions: [5],
    clientId: 'c',
    clean: true,
    keepaliveS: 60,
    sessionExpiryS: 0,
    maxUnsettled: 10,
    acknowledgeMs: 200,
    onMessage: () => undefined,
    onLost: reason => lost.push(reason),
  })
  const forgotten = connection.publish('t', Buffer.from('forgotten'), 1)
  for (let k = 0; lost.length === 0 && k < 200; k++) {
    await connection.publish('t', Buffer.from('later'), 1)
    await delay(10)
  }
  assert.match((await forgotten)!, /^the broker did not acknowledge the oldest of \d packets? for 0.2 s$/)
  assert.equal(lost.length, 1)
})

test('a listener acknowledges a packet when the broker has the answers to it; if the connection breaks before, the broker sends it again', async t => {
  let acknowledges = false
  let sent = 0
  const { broker } = await fake(t, (packet, client) => {
    if (packet.cmd === 'publish' && acknowledges) client.send({ cmd: 'puback', messageId: packet.messageId! })
    if (!welcome(packet, client) || packet.cmd !== 'subscribe') return
    const rest = { topic: 'os/9/up', qos: 1, dup: sent > 0, retain: false } as const
    client.send({ cmd: 'publish', payload: 'unknown key', messageId: ++sent, ...rest })
  })
  const medium = refusing(t, broker)
  await medium.open(heard().events)
  await until('it is answered', () => broker.count('publish') === 1)
  await delay(20)
  assert.equal(broker.count('puback'), 0)
  await medium.close()
  acknowledges = true
  await medium.open(heard().events)
  await until('it is acknowledged', () => broker.count('puback') === 1)
  assert.equal(broker.count('publish'), 2)
})

test('a listener has at most as many answers in flight as the broker takes', async t => {
  const held: (() => void)[] = []
  let most = 0
  const { broker } = await fake(t, (packet, client) => {
    if (packet.cmd === 'connect')
      client.send({ cmd: 'connack', reasonCode: 0, sessionPresent: false, properties: { receiveMaximum: 3 } })
    if (packet.cmd === 'publish') {
      held.push(() => client.send({ cmd: 'puback', messageId: packet.messageId! }))
      most = Math.max(most, held.length)
    }
    if (packet.cmd !== 'subscribe') return
    client.send({ cmd: 'suback', messageId: packet.messageId!, granted: [1] })
    for (let messageId = 1; messageId <= 20; messageId++)
      client.send({ cmd: 'publish', topic: 'os/9/up', payload: 'x', qos: 1, messageId, dup: false, retain: false })
  })
  const medium = refusing(t, broker)
  await medium.open(heard().events)
  for (let k = 0; k < 20; k++) {
    await until(`answer ${k}`, () => held.length > 0)
    held.shift()!()
  }
  await until('all are acknowledged', () => broker.count('puback') === 20)
  assert.equal(most, 3)
})

test('a sender acknowledges an answer after what its handler stores', async t => {
  const { broker, sender } = await fake(t, (packet, client) => {
    if (!welcome(packet, client) || packet.cmd !== 'subscribe') return
    const rest = { topic: 'os/7/down', qos: 1, dup: false, retain: false } as const
    client.send({ cmd: 'publish', payload: 'refused', messageId: 1, ...rest })
    client.send({ cmd: 'publish', payload: 'time', messageId: 2, ...rest })
  })
  const up = sender()
  let stored: () => void = assert.fail
  let received = 0
  up.onPacket((_, origin) => {
    if (received++ === 0) origin.acknowledgeAfter!(new Promise<void>(resolve => (stored = resolve)))
  })
  await up.open(heard().events)
  await until('both are there', () => received === 2)
  await delay(20)
  assert.equal(broker.count('puback'), 0)
  stored()
  await until('both are acknowledged, in order', () => broker.count('puback') === 2)
})

test('R11: a broker that disconnects after CONNACK sees no reconnect storm', async t => {
  let connects = 0
  const { sender } = await fake(t, (packet, client) => {
    if (packet.cmd === 'connect') connects++
    if (!welcome(packet, client)) return
    setImmediate(() => client.drop())
  })
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const link = new Link(sender(), { clock, timers, logger: silentLogger })
  link.enable()
  let waited = 0
  while (waited < 60_000) {
    await until('it is down again', () => link.state.state === 'down')
    const { state } = link
    const pause = Math.max(1, (state.state === 'down' ? (state.retry_at ?? 0) : 0) - clock.wall())
    waited += pause
    await timers.advance(pause)
    await until('it was tried', () => link.state.state !== 'down' || link.tally.failures > connects)
  }
  await link.disable()
  // random backoff of up to 5 s, 2.5 s on average
  assert.ok(connects >= 2 && connects <= 48, `${connects} connections in 60 s`)
})

test('while unsettled packets block reading, pings are sent and the connection stays', async t => {
  const { broker } = await fake(t, (packet, client) => {
    if (packet.cmd === 'pingreq') client.send({ cmd: 'pingresp' })
    if (!welcome(packet, client) || packet.cmd !== 'subscribe') return
    for (let k = 1; k <= 6; k++)
      client.send({
        cmd: 'publish',
        topic: 'os/9/up',
        payload: String(k),
        qos: 1,
        messageId: k,
        dup: false,
        retain: false,
      })
  })
  const settles: (() => void)[] = []
  const lost: string[] = []
  const connection = await connectBroker({
    openSocket: async () => connect(broker.port, '127.0.0.1'),
    versions: [4],
    clientId: 'slow',
    clean: true,
    keepaliveS: 1,
    sessionExpiryS: 0,
    maxUnsettled: 2,
    onMessage: (_topic, _payload, settle) => settles.push(settle!),
    onLost: reason => lost.push(reason),
  })
  t.after(() => connection.close())
  await connection.subscribe('os/+/up', 1)
  await until('the reading is delayed', () => settles.length === 2)
  // after one and a half keep-alive intervals without an answer the connection would be dropped
  await until('the broker was pinged', () => broker.count('pingreq') >= 6)
  assert.equal(settles.length, 2)
  assert.equal(broker.count('puback'), 0)
  for (let k = 0; k < 6; k++) {
    await until(`packet ${k}`, () => settles.length > k)
    settles[k]!()
  }
  await until('every one is acknowledged', () => broker.count('puback') === 6)
  assert.deepEqual(lost, [])
})
