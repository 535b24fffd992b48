// QUIC in both directions: datagrams and the stream, loss, certificates, peers that vanish, moved peers.
// Needs: openssl quic node24
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { test } from 'node:test'
import { createQuic, type QuicListener } from '../../../../src/media/quic'
import { freeUdpPort } from '../../../lib/gateway'
import { LossyProxy } from '../../../lib/lossy'
import { bytes, certs, context, dir, listener, own, sender, silent, until } from './quic-world'

test('small and large packets go in both directions, each complete, and are counted', async t => {
  const server = await listener(t)
  const origins = new Set<unknown>()
  server.onPacket((packet, origin) => {
    origins.add(origin)
    assert.equal(origin.medium, 'QUIC')
    void origin.reply(Buffer.from(packet).reverse())
  })
  const client = sender(t, server.port!)
  assert.equal(client.maxPacket, 1200)
  await client.open(silent)
  assert.ok(client.maxPacket > 1250 && client.maxPacket < 1350, String(client.maxPacket))
  const back: Buffer[] = []
  client.onPacket((packet, origin) => {
    back.push(Buffer.from(packet))
    assert.equal(origin.address, `127.0.0.1:${server.port}`)
  })
  const sent = [1, 8, 10, 100, client.maxPacket, client.maxPacket + 1, 5000, 65_535].map((n, k) => bytes(n, k))
  for (const packet of sent) assert.equal(await client.send(packet), true)
  await until(() => back.length === sent.length)
  const order = (list: Buffer[]): string[] => list.map(packet => packet.toString('hex')).sort()
  assert.deepEqual(order(back), order(sent.map(packet => Buffer.from(packet).reverse())))
  assert.equal(origins.size, 1, 'the origin of a peer is one object')
  assert.deepEqual(client.counters, { rx: sent.length, tx: sent.length, errors: 0 })
  const { detail, ...counted } = server.counters
  assert.deepEqual(counted, { rx: sent.length, tx: sent.length, errors: 0 })
  assert.deepEqual(detail, { accepted: 1, too_many: 0, failed: 0, retries: 0, resets: 0, strange: 0 })
  assert.equal(await client.send(bytes(65_536, 0)), false)
  assert.equal(await client.send(new Uint8Array(0)), false)
  assert.equal(await server.send(), false)
})

test('a listener can answer with a large packet before the peer sent one', async t => {
  const server = await listener(t)
  const replies: boolean[] = []
  server.onPacket((_, origin) => void origin.reply(bytes(30_000, 3)).then(sent => replies.push(sent)))
  const client = sender(t, server.port!)
  let got = 0
  client.onPacket(packet => {
    got = packet.length
  })
  await client.open(silent)
  await client.send(bytes(10, 1))
  await until(() => got > 0)
  assert.deepEqual([got, replies], [30_000, [true]])
})

test('probe and PONG of the exchange are transported like any other packet', async t => {
  const server = await listener(t)
  const seen: string[] = []
  server.onPacket((packet, origin) => {
    seen.push(Buffer.from(packet).toString('hex'))
    void origin.reply(Buffer.from('0a00074f534e01000064', 'hex'))
  })
  const client = sender(t, server.port!)
  client.onPacket(packet => seen.push(Buffer.from(packet).toString('hex')))
  await client.open(silent)
  await client.send(Buffer.from('0900074f534e0100', 'hex'))
  await until(() => seen.length === 2)
  assert.deepEqual(seen, ['0900074f534e0100', '0a00074f534e01000064'])
})

test('over a bad network the handshake and the stream arrive complete; datagrams may be lost, never damaged', async t => {
  const server = await listener(t)
  const road = await freeUdpPort()
  const proxy = await LossyProxy.open(road, server.port!, { seed: 3, drop: 0.1, double: 0.05, late: 0.1, lateMs: 20 })
  t.after(() => proxy.close())
  const got = new Map<string, number>()
  server.onPacket(packet => {
    const key = Buffer.from(packet).toString('hex')
    got.set(key, (got.get(key) ?? 0) + 1)
  })
  const client = sender(t, road)
  await client.open(silent)
  const large = Array.from({ length: 20 }, (_, k) => bytes(3000 + k, k))
  const small = Array.from({ length: 200 }, (_, k) => bytes(40 + k, k))
  const sends = [...small, ...large].map(packet => client.send(packet))
  assert.ok((await Promise.all(sends)).every(Boolean))
  const has = (packet: Buffer): boolean => got.has(packet.toString('hex'))
  await until(() => large.every(has))
  await until(() => small.filter(has).length > 100)
  assert.ok(
    [...got.values()].every(times => times === 1),
    'none twice',
  )
  const known = new Set([...small, ...large].map(packet => packet.toString('hex')))
  assert.ok([...got.keys()].every(key => known.has(key)))
  const { dropped, doubled, late } = proxy.counters
  assert.ok(dropped > 0 && dropped + doubled + late > 10, 'the network was bad')
})

test('an untrusted peer is reported by name, and nothing is sent to it', async t => {
  const refused = async (server: object, client: object, code: string, parts = context): Promise<void> => {
    const there = await listener(t, server)
    let packets = 0
    there.onPacket(() => packets++)
    const here = sender(t, there.port!, client, parts)
    await assert.rejects(here.open(silent), { code }, `${JSON.stringify(server)} ${JSON.stringify(client)}`)
    assert.equal(await here.send(bytes(10, 1)), false)
    assert.equal(packets, 0)
    await Promise.all([here.close(), there.close()])
  }
  const pair = (cert: string, key: string): object => ({ tls: { cert, key } })
  await refused({}, { tls: { ca: certs.otherCa } }, 'TLS_UNTRUSTED')
  await refused({}, { tls: true }, 'TLS_UNTRUSTED')
  await refused(pair(certs.foreignCert, certs.foreignKey), {}, 'TLS_UNTRUSTED')
  await refused(pair(certs.expiredCert, certs.expiredKey), {}, 'TLS_EXPIRED')
  await refused(pair(certs.futureCert, certs.futureKey), {}, 'TLS_EXPIRED')
  await refused(pair(certs.misnamedCert, certs.misnamedKey), {}, 'TLS_NAME')
  await refused(pair(certs.misnamedCert, certs.misnamedKey), { host: '127.0.0.1' }, 'TLS_NAME')
  await refused({}, { tls: { ca: join(dir, 'nothing.pem') } }, 'TLS_FILE')
  await refused({ tls: { ...own, client_ca: certs.ca } }, {}, 'TLS_HANDSHAKE')
  // a clock in the past does not show that a certificate has expired: the best known time does
  const trueNow = (): number => Date.now() + 3_600_000
  await refused(pair(certs.expiredCert, certs.expiredKey), {}, 'TLS_EXPIRED', { ...context, trueNow })
  await refused({}, { tls: { ca: certs.otherCa } }, 'TLS_UNTRUSTED', { ...context, trueNow })
  await refused(pair(certs.misnamedCert, certs.misnamedKey), {}, 'TLS_NAME', { ...context, trueNow })
})

test('names, addresses, servername, client certificates and insecure work as documented', async t => {
  const opens = async (server: object, client: object, parts = context): Promise<void> => {
    const there = await listener(t, server)
    const here = sender(t, there.port!, client, parts)
    await here.open(silent)
    await Promise.all([here.close(), there.close()])
  }
  const misnamed = { tls: { cert: certs.misnamedCert, key: certs.misnamedKey } }
  await opens({}, { host: '127.0.0.1' })
  await opens(misnamed, { tls: { ca: certs.ca, servername: 'gateway.example' } })
  await opens(misnamed, { tls: { insecure: true } })
  await opens(misnamed, { tls: true, insecure: true })
  const client = { ca: certs.ca, cert: certs.clientCert, key: certs.clientKey }
  await opens({ tls: { ...own, client_ca: certs.ca } }, { tls: client })
  await opens({}, {}, { ...context, trueNow: () => Date.now() + 3_600_000 })
})

test('a listener needs a certificate, and the error says how to create one; wrong options are named', () => {
  const code = { code: 'CONFIG_INVALID' }
  const listen = (more: object) => () => createQuic('q', { mode: 'listen', ...more }, context)
  assert.throws(listen({}), error => {
    assert.match(String((error as { hint: string }).hint), /openssl req -x509/)
    assert.match(String(error), /tls.cert and tls.key needed to listen/)
    return true
  })
  assert.throws(listen({ tls: { cert: 'a' } }), /tls.key needed/)
  assert.throws(listen({ tls: false }), /always encrypted/)
  assert.throws(listen({ tls: { certt: 'a' } }), code)
  assert.throws(() => createQuic('q', {}, context), code)
  assert.throws(() => createQuic('q', { host: 'x', port: 0 }, context), code)
  assert.throws(() => createQuic('q', { host: 'x', idle_timeout_ms: 1 }, context), code)
  assert.ok(createQuic('q', { host: 'x', frames: 'full', anything: 1 }, context))
})

test('an absent peer is reported soon where the kernel signals it, otherwise after the time-out', async t => {
  const here = sender(t, await freeUdpPort(), { connect_timeout_ms: 3000 })
  await assert.rejects(here.open(silent), { code: 'NETWORK' })
  const deaf = createSocket('udp4')
  await new Promise<void>(resolve => deaf.bind(0, '127.0.0.1', resolve))
  t.after(() => deaf.close())
  await assert.rejects(sender(t, deaf.address().port, { connect_timeout_ms: 200 }).open(silent), { code: 'NO_REPLY' })
})

test('a listener that closes is lost immediately; a restarted one resets connections it does not know', async t => {
  const server = await listener(t)
  const client = sender(t, server.port!)
  const lost: string[] = []
  const events = { ...silent, lost: (reason: string) => lost.push(reason) }
  await client.open(events)
  await server.close()
  await until(() => lost.length > 0)
  assert.match(lost[0]!, /the listener closes/)
  assert.equal(await client.send(bytes(10, 1)), false)

  // as after kill -9: the connection is forgotten without a message
  const port = await freeUdpPort()
  const first = await listener(t, { port })
  await client.close()
  const again = sender(t, port)
  await again.open({ ...silent, lost: (reason: string) => lost.push(reason) })
  const mute = createSocket('udp4')
  mute.close()
  await silently(first)
  const second = await listener(t, { port })
  await again.send(bytes(60, 1))
  await until(() => lost.length > 1)
  assert.match(lost[1]!, /does not know the connection/)
  assert.ok(second.tally.resets >= 1)
  await again.open(silent)
  assert.equal(await again.send(bytes(60, 1)), true)
})

/** Closes a listener without a message to its peers. */
async function silently(listener: QuicListener): Promise<void> {
  const proto = Object.getPrototypeOf(createSocket('udp4')) as { send: unknown }
  const { send } = proto
  proto.send = () => undefined
  await listener.close()
  proto.send = send
}

test('a peer whose address changes is the same peer', async t => {
  const server = await listener(t)
  const road = await freeUdpPort()
  const proxy = await LossyProxy.open(road, server.port!, { drop: 0, double: 0, late: 0 })
  t.after(() => proxy.close())
  const seen: number[] = []
  server.onPacket((packet, origin) => {
    seen.push(packet[0]!)
    void origin.reply(Buffer.from(packet))
  })
  const client = sender(t, road)
  const back: number[] = []
  client.onPacket(packet => back.push(packet[0]!))
  await client.open(silent)
  for (let k = 1; k <= 4; k++) {
    // a datagram and a packet on the stream
    assert.equal(await client.send(Buffer.of(k, 0)), true)
    assert.equal(await client.send(Buffer.concat([Buffer.of(k + 100), bytes(3000, k)])), true)
    await until(() => back.length === 2 * k)
    proxy.move()
  }
  assert.deepEqual(seen.sort(), back.sort())
  assert.deepEqual([server.tally.accepted, server.connections, server.tally.resets], [1, 1, 0])
})

test('a silent peer is lost after its time-out; keep-alives keep a quiet connection', async t => {
  const server = await listener(t, { idle_timeout_ms: 3000 })
  const road = await freeUdpPort()
  const proxy = await LossyProxy.open(road, server.port!, { drop: 0, double: 0, late: 0 })
  t.after(() => proxy.close())
  const client = sender(t, road, { idle_timeout_ms: 3000 })
  const lost: string[] = []
  await client.open({ ...silent, lost: reason => lost.push(reason) })
  await new Promise(resolve => setTimeout(resolve, 4500))
  assert.deepEqual([lost, server.connections], [[], 1])
  proxy.black = true
  await until(() => lost.length > 0 && server.connections === 0)
  assert.match(lost[0]!, /silent/)
})
