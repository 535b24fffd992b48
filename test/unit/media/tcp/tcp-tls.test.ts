// TCP with TLS: client certificates, refused clients, and a clock that is behind (R22).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createTcp } from '../../../../src/media/tcp'
import { buildProbe } from '../../../../src/protocol/delivery/frame'
import { type Certs, makeCerts } from '../../../lib/certs'
import { removeDir, tempDir } from '../../../lib/gateway'
import { context, data, listener, quiet, raw, sender, until } from './tcp-world'

const dir = tempDir()
let certs: Certs
before(() => {
  certs = makeCerts(join(dir, 'certs'))
})
after(() => removeDir(dir))

test('TLS carries framed and plain packets, with a client certificate where one is required', async t => {
  const server = await listener(t, { tls: { cert: certs.serverCert, key: certs.serverKey, client_ca: certs.ca } })
  const own = { cert: certs.clientCert, key: certs.clientKey }
  const { port } = server.medium
  const client = await sender(t, { host: 'localhost', port, tls: { ca: certs.ca, ...own } })
  const answers: Buffer[] = []
  client.onPacket(packet => answers.push(Buffer.from(packet)))
  await client.send(buildProbe(1))
  await client.sendBatch([data('one'), Buffer.alloc(65_535, 3)])
  await until(() => server.packets.length === 3 && answers.length === 1)
  const plain = await sender(t, { host: 'localhost', port, delivery: 'best_effort', tls: { ca: certs.ca, ...own } })
  assert.equal(await plain.send(data('plain')), true)
  await until(() => server.packets.length === 4)
  assert.deepEqual(server.packets[3], data('plain'))
})

test('a refused client gets the reason, and none of its packets is accepted', async t => {
  const server = await listener(t, { tls: { cert: certs.serverCert, key: certs.serverKey, client_ca: certs.ca } })
  const { port } = server.medium
  const tries: [object, RegExp][] = [
    [{}, /client certificate is required/],
    [{ cert: certs.foreignCert, key: certs.foreignKey }, /./],
    [{ cert: certs.expiredCert, key: certs.expiredKey }, /./],
  ]
  for (const [k, [own, reason]] of tries.entries()) {
    const lost: string[] = []
    const client = createTcp('up', { host: 'localhost', port, tls: { ca: certs.ca, ...own } }, context)
    t.after(() => client.close())
    try {
      await client.open({ ...quiet, lost: why => lost.push(why) })
      await client.send(buildProbe(1))
    } catch (error) {
      lost.push((error as Error).message)
    }
    await until(() => lost.length >= 1 && server.medium.tally.tls === k + 1)
    assert.match(lost[0]!, reason)
  }
  const socket = await raw(t, port)
  socket.write(data('no TLS at all'))
  await until(() => server.medium.tally.tls === 4)
  assert.equal(server.packets.length, 0)
  await until(() => server.medium.connections === 0)
})

test('with a clock that is behind, a listener checks client certificates at the best known time (R22)', async t => {
  const tls = { cert: certs.serverCert, key: certs.serverKey, client_ca: certs.ca }
  const trueNow = () => Date.now() + 730 * 86_400_000
  const server = await listener(t, { tls }, { trueNow })
  const { port } = server.medium
  const young = { ca: certs.ca, cert: certs.futureCert, key: certs.futureKey }
  const client = await sender(t, { host: 'localhost', port, tls: young })
  await client.send(buildProbe(1))
  await until(() => server.packets.length === 1)
  const foreign = { ca: certs.ca, cert: certs.foreignCert, key: certs.foreignKey }
  const refused = createTcp('up', { host: 'localhost', port, tls: foreign }, context)
  t.after(() => refused.close())
  await refused.open(quiet).catch(() => undefined)
  await until(() => server.medium.tally.tls === 1)
  await refused.send(buildProbe(1))
  assert.equal(server.packets.length, 1)
})

test('a TLS listener does not open without its certificate', async () => {
  for (const tls of [true, { cert: '/no/such.pem', key: '/no/such.key' }]) {
    const medium = createTcp('in', { mode: 'listen', listen_host: '127.0.0.1', port: 0, tls }, context)
    await assert.rejects(medium.open(quiet), { code: 'TLS_FILE' })
    await medium.close()
  }
})
