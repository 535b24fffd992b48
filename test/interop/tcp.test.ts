// Two real processes over TCP: a gateway whose uplink is the framed stream of X29, and a receiver. With and without TLS,
// with a client certificate, and with a receiver that is killed in the middle: nothing is lost, nothing is duplicated.
// And a client that sends as the reference does.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerOf, factsOf } from '../lib/ask'
import { type Certs, makeCerts } from '../lib/certs'
import { freePort, freeUdpPort, keyOf, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'

const dir = tempDir()
let certs: Certs
before(() => {
  certs = makeCerts(join(dir, 'certs'))
})
after(() => removeDir(dir))

const uplinkTls = (): object => ({ ca: certs.ca, cert: certs.clientCert, key: certs.clientKey })
const receiverTls = (): object => ({ cert: certs.serverCert, key: certs.serverKey, client_ca: certs.ca })

async function pair(name: string, tls: boolean) {
  const [tcp, udp, serverWeb, web] = [await freePort(), await freeUdpPort(), await freePort(), await freePort()]
  const enabled = { RESOURCES: { transport_status: { tcp: true } } }
  const server = new Machine(join(dir, `${name}-server`), 'serve', {
    ...enabled,
    device_id: 'SRV',
    gateway: {
      receivers: [{ name: 'in', medium: 'tcp', host: '127.0.0.1', port: tcp, ...(tls && { tls: receiverTls() }) }],
    },
  })
  const gateway = new Machine(join(dir, `${name}-gateway`), 'run', {
    ...enabled,
    device_id: 'GW',
    gateway: {
      sources: [{ name: 'cpu', type: 'cpu', interval_ms: 100 }],
      uplinks: [{ name: 'up', medium: 'TCP', host: 'localhost', port: tcp, ...(tls && { tls: uplinkTls() }) }],
    },
  })
  const serve = () =>
    server.start(['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(serverWeb)], serverWeb)
  await serve()
  await gateway.start(['--port', String(web)], web)
  return { server, gateway, tcp, serve }
}

for (const tls of [false, true])
  describe(tls ? 'over TCP with TLS and a client certificate' : 'over TCP', () => {
    let world: Awaited<ReturnType<typeof pair>>
    before(async () => {
      world = await pair(tls ? 'tls' : 'plain', tls)
    })
    after(async () => {
      await world.gateway.stop()
      await world.server.stop()
    })

    test('packets are acknowledged over TCP, and a killed receiver loses and duplicates nothing', async () => {
      const { server, gateway, serve } = world
      const uplink = async () => (await answerOf(gateway, 'status')).uplinks.up
      await until('packets are acknowledged', async () => (await uplink()).acked > 5)
      assert.equal((await answerOf(gateway, 'status')).links.up.delivery, 'acked')
      await server.stop('SIGKILL')
      await sleep(500)
      await serve()
      const before = (await uplink()).acked
      await until('packets are acknowledged again', async () => (await uplink()).acked > before + 5)
      await gateway.stop()
      await server.stop()
      const sent = gateway.logKeys()
      const got = server.logKeys().filter(key => key.startsWith('GW '))
      assert.equal(new Set(got).size, got.length, 'doubled')
      // the newest ones may not have been sent before the stop
      assert.ok(got.length >= before)
      const last = sent.indexOf(got.at(-1)!)
      const missing = sent.slice(0, last + 1).filter(key => !got.includes(key))
      assert.deepEqual(missing, [], 'lost')
    })
  })

test('a packet sent as by the reference, with one connection for one packet, reaches the log', async () => {
  const tcp = await freePort()
  const [udp, web] = [await freeUdpPort(), await freePort()]
  const server = new Machine(join(dir, 'reference'), 'serve', {
    RESOURCES: { transport_status: { tcp: true } },
    gateway: { receivers: [{ name: 'in', medium: 'TCP', host: '127.0.0.1', port: tcp }] },
  })
  await server.start(['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(web)], web)
  try {
    // the reference's own bytes (test/vectors/receive.json)
    const full = '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1'
    const socket = connect(tcp, '127.0.0.1')
    socket.end(Buffer.from(full, 'hex'))
    await until('it is in the log', async () => (await factsOf(server)).some(fact => keyOf(fact) === 'D 1710000000000'))
  } finally {
    await server.stop()
  }
})
