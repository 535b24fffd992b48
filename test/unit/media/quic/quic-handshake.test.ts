// Handshakes of QUIC: too many peers, noise, half-open handshakes, and forged addresses, which must be proved first.
// Needs: openssl quic node24
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { type TestContext, test } from 'node:test'
import { createQuic, type QuicSender } from '../../../../src/media/quic'
import { freeUdpPort } from '../../../lib/gateway'
import { LossyProxy } from '../../../lib/lossy'
import { ManualClock } from '../../../lib/manual'
import { bytes, context, listener, sender, silent, until } from './quic-world'

test('peers above the limit are not answered; noise and half-open handshakes leave nothing behind', async t => {
  const parts = { ...context, clock: new ManualClock() } // so that all of it arrives within one second
  const server = await listener(t, { max_connections: 2, connect_timeout_ms: 2000 }, parts)
  const clients = await Promise.all(
    [0, 1].map(async () => {
      const client = sender(t, server.port!)
      await client.open(silent)
      return client
    }),
  )
  const third = sender(t, server.port!, { connect_timeout_ms: 100 })
  await assert.rejects(third.open(silent), { code: 'NO_REPLY' })
  await until(() => server.counters.detail.too_many > 0)
  await clients[0]!.close()
  await until(() => server.connections === 1)
  const noise = createSocket('udp4')
  t.after(() => noise.close())
  for (let k = 0; k < 300; k++) noise.send(bytes(k * 5 + 1, k), server.port!, '127.0.0.1')
  // the first datagram of a handshake that never continues
  const half = createSocket('udp4')
  await new Promise<void>(resolve => half.bind(0, '127.0.0.1', resolve))
  const stolen = new Promise<Buffer>(resolve => half.once('message', resolve))
  const one = sender(t, half.address().port, { connect_timeout_ms: 100 })
  await assert.rejects(one.open(silent), /does not answer by QUIC/)
  noise.send(await stolen, server.port!, '127.0.0.1')
  half.close()
  await until(() => server.tally.accepted === 3)
  await until(() => server.connections === 1)
  assert.ok(server.tally.resets <= 50)
  assert.ok(server.tally.strange > 0)
  assert.equal(server.tally.failed, 1)
  assert.equal(await clients[1]!.send(bytes(10, 1)), true)
})

/** Forwards datagrams to `port` in both directions, and records those to it. */
async function relay(t: TestContext, port: number) {
  const [front, back] = [createSocket('udp4'), createSocket('udp4')]
  const seen: Buffer[] = []
  let client = 0
  front.on('message', (message, from) => {
    client = from.port
    seen.push(Buffer.from(message))
    back.send(message, port, '127.0.0.1')
  })
  back.on('message', message => front.send(message, client, '127.0.0.1'))
  await new Promise<void>(resolve => front.bind(0, '127.0.0.1', resolve))
  t.after(() => {
    front.close()
    back.close()
  })
  return { port: front.address().port, back, seen }
}

/** The first datagram of a handshake that never continues. */
async function firstDatagram(): Promise<Buffer> {
  const deaf = createSocket('udp4')
  await new Promise<void>(resolve => deaf.bind(0, '127.0.0.1', resolve))
  const first = new Promise<Buffer>(resolve => deaf.once('message', resolve))
  const options = { host: '127.0.0.1', port: deaf.address().port, tls: { insecure: true }, connect_timeout_ms: 100 }
  const one = createQuic('half', options, context) as QuicSender
  await assert.rejects(one.open(silent), { code: 'NO_REPLY' })
  await one.close()
  deaf.close()
  return first
}

test('while many handshakes are unfinished a peer proves its address first; the proof is valid for that address and a limited time', async t => {
  const clock = new ManualClock()
  // with so few connections one may lack a proof
  const server = await listener(t, { max_connections: 4 }, { ...context, clock })
  server.onPacket((packet, origin) => void origin.reply(packet))
  const forged = createSocket('udp4')
  t.after(() => forged.close())
  forged.send(await firstDatagram(), server.port!, '127.0.0.1')
  await until(() => server.connections === 1)
  const road = await relay(t, server.port!)
  const client = sender(t, road.port)
  let back = 0
  client.onPacket(packet => {
    back += packet.length
  })
  await client.open(silent)
  for (const length of [10, 5000]) assert.equal(await client.send(bytes(length, 1)), true)
  await until(() => back === 5010)
  assert.deepEqual([server.tally.accepted, server.tally.retries, server.connections], [2, 1, 2])
  await client.close()
  await until(() => server.connections === 1)

  // more forged ones leave nothing behind
  for (let k = 0; k < 5; k++) forged.send(await firstDatagram(), server.port!, '127.0.0.1')
  await until(() => server.tally.retries === 6)
  const proved = road.seen.find(datagram => datagram[0]! >> 4 === 0xc && tokenOf(datagram).length > 0)!
  const { strange } = server.tally
  forged.send(proved, server.port!, '127.0.0.1')
  const changed = Buffer.from(proved)
  changed[changed.indexOf(tokenOf(proved))]! ^= 1
  road.back.send(changed, server.port!, '127.0.0.1')
  await until(() => server.tally.strange === strange + 2)
  clock.advance(10_001)
  road.back.send(proved, server.port!, '127.0.0.1')
  await until(() => server.tally.strange === strange + 3)
  assert.deepEqual([server.tally.accepted, server.tally.retries, server.connections], [2, 6, 1])
})

/** The token of an Initial packet; it is shorter than 64 bytes. */
function tokenOf(datagram: Buffer): Buffer {
  const ids = 5 + 1 + datagram[5]!
  const at = ids + 1 + datagram[ids]!
  return datagram.subarray(at + 1, at + 1 + datagram[at]!)
}

test('a handshake that has to prove its address succeeds over a bad network', async t => {
  const server = await listener(t, { max_connections: 4 })
  const got: number[] = []
  server.onPacket(packet => got.push(packet.length))
  const forged = createSocket('udp4')
  t.after(() => forged.close())
  forged.send(await firstDatagram(), server.port!, '127.0.0.1')
  await until(() => server.connections === 1)
  const road = await freeUdpPort()
  const proxy = await LossyProxy.open(road, server.port!, { seed: 5, drop: 0.2, double: 0.2, late: 0.2, lateMs: 20 })
  t.after(() => proxy.close())
  const client = sender(t, road)
  await client.open(silent)
  await client.send(bytes(20_000, 1))
  await until(() => got.includes(20_000))
  assert.ok(server.tally.retries > 0)
})
