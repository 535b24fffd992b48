// QUIC both ways: datagrams and the stream, loss, certificates, peers that vanish, moved peers, forged addresses, limits.
// Needs: openssl quic node24
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { systemClock } from '../../../src/lib/clock'
import { silentLogger } from '../../../src/lib/logger'
import type { DriverContext, OpenableEvents } from '../../../src/links/contracts'
import { createQuic, QuicListener, QuicSender } from '../../../src/media/quic'
import { QuicConnection } from '../../../src/media/quic/connection'
import { type QuicState, quicLibrary } from '../../../src/media/quic/native'
import { QuicStreams } from '../../../src/media/quic/stream'
import { makeCerts } from '../../lib/certs'
import { freeUdpPort, removeDir, tempDir, until as waitUntil } from '../../lib/gateway'
import { LossyProxy } from '../../lib/lossy'
import { ManualClock } from '../../lib/manual'

const dir = tempDir()
after(() => removeDir(dir))
const certs = makeCerts(join(dir, 'certs'))
const context: DriverContext = { clock: systemClock, logger: silentLogger }
const silent: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

const until = (ask: () => unknown): Promise<unknown> => waitUntil(String(ask), ask)

const own = { cert: certs.serverCert, key: certs.serverKey }

async function listener(t: TestContext, more: object = {}, parts: DriverContext = context): Promise<QuicListener> {
  const medium = createQuic('down', { mode: 'listen', listen_host: '127.0.0.1', port: 0, tls: own, ...more }, parts)
  assert.ok(medium instanceof QuicListener)
  t.after(() => medium.close())
  await medium.open(silent)
  return medium
}

function sender(t: TestContext, port: number, more: object = {}, parts: DriverContext = context): QuicSender {
  const medium = createQuic('up', { host: 'localhost', port, tls: { ca: certs.ca }, ...more }, parts)
  assert.ok(medium instanceof QuicSender)
  t.after(() => medium.close())
  return medium
}

const bytes = (length: number, seed: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, k) => (k * 31 + seed) & 0xff))

test('small and large packets go both ways, each complete, and are counted', async t => {
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

/** Forwards datagrams to `port` both ways, and records those to it. */
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

/** A connection of a peer that accepts no datagrams. */
async function bare(t: TestContext, port: number, protocols = ['os-node']): Promise<QuicConnection> {
  const library = quicLibrary()
  const names = Buffer.concat(protocols.map(name => Buffer.from(`${String.fromCharCode(name.length)}${name}`)))
  const numbers = new Uint8Array(Uint32Array.of(0, 1350, 1e6, 1e5, 0, 0).buffer)
  const config = library.Config.of(false, false, null, null, null, names, numbers, null)
  const socket = createSocket('udp4')
  await new Promise<void>(resolve => socket.connect(port, '127.0.0.1', resolve))
  const local = { host: '127.0.0.1', port: socket.address().port }
  const remote = { host: '127.0.0.1', port }
  const quic = library.Connection.connect('localhost', Buffer.alloc(16, 7), local, remote, config)
  const established = new Promise<QuicConnection>((resolve, reject) => {
    const connection = new QuicConnection(quic, {
      role: 'opener',
      transmit: (datagram, _to, free) => socket.send(datagram, free),
      onPacket: packet => packets.push(Buffer.from(packet).toString()),
      onEstablished: resolve,
      onOver: (_connection, reason) => reject(new Error(reason)),
    })
    socket.on('message', message => connection.received(message, remote))
    connection.start()
    t.after(() => {
      connection.close('done')
      socket.close()
    })
  })
  return established
}
const packets: string[] = []

test('to a peer without datagrams each plain packet has its own stream, ended after it and answered there', async t => {
  const server = await listener(t)
  const got: string[] = []
  server.onPacket((packet, origin) => {
    got.push(`${packet.length} ${packet[0]}`)
    void origin.reply(Buffer.from(`answer ${packet.length}`))
  })
  packets.length = 0
  const peer = await bare(t, server.port!)
  for (const length of [3, 40_000, 8])
    assert.equal(await peer.streams.sendPlain(Buffer.concat([Buffer.of(0x3f), bytes(length - 1, 1)])), true)
  await until(() => got.length === 3 && packets.length === 3)
  assert.deepEqual(got.sort(), ['3 63', '40000 63', '8 63'])
  assert.deepEqual(packets.sort(), ['answer 3', 'answer 40000', 'answer 8'])
})

test('a peer that offers another protocol, or none, is refused', async t => {
  const server = await listener(t)
  for (const protocols of [['other'], []]) await assert.rejects(bare(t, server.port!, protocols), /TLS alert 120/)
  await until(() => server.connections === 0)
  assert.equal(server.tally.failed, server.tally.accepted)
})

test("a listener's packets wait until its peer has started the stream; at the end of the connection they count as not sent", async () => {
  const wrote: string[] = []
  let arrived: Buffer | null = null
  const fake = {
    readable: () => [0],
    streamRecv: (_id: number, into: Uint8Array) => {
      if (!arrived) return null
      into.set(arrived)
      const { length } = arrived
      arrived = null
      return [length, false]
    },
    streamSend: (_id: number, chunk: Uint8Array) => {
      wrote.push(Buffer.from(chunk).toString('hex'))
      return chunk.length
    },
  } as unknown as QuicState
  const streams = (): QuicStreams =>
    new QuicStreams(
      fake,
      'listener',
      () => assert.fail('the probe is the medium’s own'),
      reason => assert.fail(reason),
    )
  const one = streams()
  const sent = one.send(Buffer.from('abcd', 'hex'))
  assert.deepEqual(wrote, [])
  arrived = Buffer.from('0900014f534e0100', 'hex')
  one.read(new Uint8Array(100), () => undefined)
  assert.deepEqual([wrote, await sent], [['0a00014f534e01000000', '0002abcd'], true])
  const two = streams()
  const never = Array.from({ length: 9 }, () => two.send(Buffer.from('abcd', 'hex')))
  assert.equal(await never[8], false, 'more than a few are refused')
  two.end()
  assert.equal(await never[0], false)
})
