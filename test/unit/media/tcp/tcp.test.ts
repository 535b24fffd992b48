// TCP in both directions: framed and plain packets, limits, slow, silent and misbehaving peers, names, ports, reopenings.
import assert from 'node:assert/strict'
import { createServer, type Server, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import { HostResolver } from '../../../../src/links/resolve'
import { createTcp, tcpDriver } from '../../../../src/media/tcp'
import { buildProbe, buildProbeReply } from '../../../../src/protocol/delivery/frame'
import { ManualClock } from '../../../lib/manual'
import { context, data, listener, quiet, raw, sender, until } from './tcp-world'

const hasIPv6 = Object.values(networkInterfaces()).some(list => list?.some(a => a.address === '::1'))

async function stubborn(t: TestContext, onSocket: (socket: Socket) => void): Promise<number> {
  const sockets: Socket[] = []
  const server: Server = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    onSocket(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as { port: number }).port
}

const framed = (packet: Uint8Array): Buffer => Buffer.from([packet.length >> 8, packet.length & 255, ...packet])

test('after the probe, framed packets go in both directions over one connection', async t => {
  const server = await listener(t)
  const client = await sender(t, { port: server.medium.port })
  const answers: Buffer[] = []
  client.onPacket(packet => answers.push(Buffer.from(packet)))
  assert.equal(await client.send(buildProbe(1)), true)
  await until(() => answers.length === 1)
  assert.deepEqual(answers[0], Buffer.from(buildProbeReply(1, 100)))
  const big = Buffer.alloc(65_535, 7)
  assert.equal(await client.send(data('one')), true)
  assert.equal(await client.sendBatch([data('two'), big, data('three')]), 3)
  await until(() => server.packets.length === 5)
  assert.deepEqual(server.packets.slice(1), [data('one'), data('two'), big, data('three')])
  assert.equal(server.medium.connections, 1)
  assert.equal(server.medium.tally.accepted, 1)
  assert.match(server.origins[1]!.address, /^127\.0\.0\.1:\d+$/)
  assert.equal(await server.origins[1]!.reply(big), true)
  await until(() => answers.length === 2)
  assert.deepEqual(answers[1], big)
  assert.deepEqual(client.counters, { rx: 2, tx: 5, errors: 0 })
  const { detail, ...counted } = server.medium.counters
  assert.deepEqual(counted, { rx: 5, tx: 2, errors: 0 })
  assert.equal(detail.accepted, 1)
  assert.equal(await client.send(Buffer.alloc(65_536)), false)
  assert.equal(await client.send(Buffer.alloc(0)), false)
})

test('a stream split anywhere gives the same packets', async t => {
  const server = await listener(t)
  const all = Buffer.concat([buildProbe(3), framed(data('a')), framed(data('bcd')), framed(data('e'))])
  for (let cut = 1; cut < all.length; cut++) {
    server.packets.length = 0
    const socket = await raw(t, server.medium.port)
    socket.setNoDelay(true)
    socket.write(all.subarray(0, cut))
    await new Promise(resolve => setImmediate(resolve))
    socket.end(all.subarray(cut))
    await until(() => server.packets.length === 4)
    assert.deepEqual(server.packets.slice(1), [data('a'), data('bcd'), data('e')], `cut at ${cut}`)
  }
})

test('a plain packet up to the end of the connection is accepted, as the reference sends it, and may be answered', async t => {
  const server = await listener(t)
  const socket = await raw(t, server.medium.port)
  socket.write(data('as the '))
  await new Promise(resolve => setTimeout(resolve, 5))
  socket.end('reference')
  await until(() => server.packets.length === 1)
  assert.deepEqual(server.packets[0], data('as the reference'))
  await until(() => server.medium.connections === 0)
  assert.equal(server.medium.counters.errors, 0)
  // a request: its answer waits for the flash
  const asking = await raw(t, server.medium.port)
  const answer: Buffer[] = []
  asking.on('data', chunk => answer.push(chunk))
  asking.end(Buffer.of(0x0b, 0, 5))
  await until(() => server.packets.length === 2)
  await new Promise(resolve => setTimeout(resolve, 5))
  assert.equal(await server.origins[1]!.reply(Buffer.from('answer')), true)
  await until(() => answer.length > 0)
  assert.equal(Buffer.concat(answer).toString(), 'answer')
  await until(() => server.medium.connections === 0)
  assert.equal(await server.origins[1]!.reply(Buffer.from('more')), false)
})

test('to a plain receiver each packet has its own connection, in order, and its answer is received', async t => {
  const server = await listener(t)
  const client = await sender(t, { port: server.medium.port, delivery: 'best_effort' })
  const answers: string[] = []
  client.onPacket(packet => answers.push(Buffer.from(packet).toString()))
  server.medium.onPacket((packet, origin) => {
    server.packets.push(Buffer.from(packet))
    if (packet[0] === 0x0b) void origin.reply(Buffer.from('time'))
  })
  const names = Array.from({ length: 30 }, (_, k) => data(String(k)))
  assert.ok((await Promise.all(names.map(packet => client.send(packet)))).every(Boolean))
  await until(() => server.packets.length === 30)
  assert.deepEqual(server.packets, names)
  assert.equal(server.medium.tally.accepted, 30)
  assert.equal(await client.send(Buffer.of(0x0b, 0, 9)), true)
  await until(() => answers.length === 1)
  assert.deepEqual(answers, ['time'])
  assert.equal(await client.send(buildProbe(4)), true)
  await until(() => server.packets.length === 32)
  await until(() => server.medium.connections === 0)
})

test('a link without delivery exchange that sends no probe sends plain packets; an absent peer is reported', async t => {
  const server = await listener(t)
  const lost: string[] = []
  const client = await sender(t, { port: server.medium.port }, { ...quiet, lost: reason => lost.push(reason) })
  assert.equal(await client.send(data('x')), true)
  await until(() => server.packets.length === 1)
  await server.medium.close()
  assert.equal(await client.send(data('y')), false)
  assert.match(lost[0]!, /nothing listens at 127\.0\.0\.1:/)
})

test('an idle connection is closed, since a reference receiver serves one at a time', async t => {
  const server = await listener(t)
  const client = await sender(t, { port: server.medium.port })
  await until(() => server.medium.tally.accepted === 1)
  await until(() => server.medium.connections === 0)
  assert.equal(await client.send(buildProbe(1)), true)
  await until(() => server.packets.length === 1 && server.medium.connections === 1)
})

test('a silent peer is lost when it owes an answer, and only then', async t => {
  const clock = new ManualClock()
  const lost: string[] = []
  const port = await stubborn(t, socket => {
    socket.once('data', () => socket.write(buildProbeReply(1, 100)))
  })
  const client = await sender(t, { port, send_timeout_s: 0.1 }, { ...quiet, lost: why => lost.push(why) }, { clock })
  let answers = 0
  client.onPacket(() => answers++)
  await client.send(buildProbe(1))
  await until(() => answers === 1)
  await client.send(Buffer.of(0x0e, 0, 0))
  clock.advance(10_000)
  await new Promise(resolve => setTimeout(resolve, 120))
  assert.deepEqual(lost, [])
  await client.send(Buffer.of(0x10, 1, 2))
  clock.advance(200)
  await until(() => lost.length === 1)
})

test('streams that lost synchronisation, are too large or are reset close only their own connection', async t => {
  const server = await listener(t, { max_packet: 1000 })
  const well = await sender(t, { port: server.medium.port })
  await well.send(buildProbe(1))
  await until(() => server.packets.length === 1)
  for (const bytes of [
    Buffer.concat([buildProbe(1), Buffer.of(0, 0)]),
    Buffer.concat([buildProbe(1), Buffer.of(0xff, 0xff)]),
    Buffer.alloc(1500, 0x3f),
  ]) {
    const before = server.medium.tally.broken
    const socket = await raw(t, server.medium.port)
    socket.write(bytes)
    await until(() => server.medium.tally.broken === before + 1)
    await until(() => server.medium.connections === 1)
  }
  const reset = await raw(t, server.medium.port)
  reset.write(Buffer.concat([buildProbe(1), Buffer.of(0, 9, 1)]))
  await until(() => server.packets.length === 4)
  reset.resetAndDestroy()
  await until(() => server.medium.tally.failed === 1)
  const short = await raw(t, server.medium.port)
  short.end(Buffer.concat([buildProbe(1), Buffer.of(0, 9, 1)]))
  await until(() => server.medium.tally.cut === 1)
  await well.send(data('still here'))
  await until(() => server.packets.at(-1)!.equals(data('still here')))
  assert.equal(server.medium.counters.errors, 5)
})

test('slow connections time out; a plain packet is accepted even if its sender does not close', async t => {
  const clock = new ManualClock()
  const server = await listener(t, { receive_timeout_s: 10, idle_timeout_s: 100 }, { clock })
  const silent = await raw(t, server.medium.port)
  const waiting = await raw(t, server.medium.port)
  waiting.write(data('not closed'))
  const half = await raw(t, server.medium.port)
  half.write(Buffer.concat([buildProbe(1), Buffer.of(0, 9, 1)]))
  const idle = await raw(t, server.medium.port)
  idle.write(buildProbe(1))
  await until(() => server.packets.length === 2 && server.medium.connections === 4)
  clock.advance(11_000)
  await until(() => server.medium.tally.timeout === 2)
  await until(() => server.packets.length === 3)
  assert.deepEqual(server.packets[2], data('not closed'))
  await until(() => server.medium.connections <= 2)
  assert.equal(server.medium.tally.idle, 0)
  clock.advance(100_000)
  await until(() => server.medium.tally.idle === 1 && server.medium.connections === 0)
  silent.destroy()
})

test('the number of connections is limited, in total and for one address', async t => {
  for (const options of [{ max_connections: 5 }, { max_per_address: 5 }]) {
    const server = await listener(t, options)
    for (let k = 0; k < 8; k++) await raw(t, server.medium.port)
    await until(() => server.medium.tally.too_many === 3)
    assert.equal(server.medium.connections, 5)
    await server.medium.close()
    assert.equal(server.medium.connections, 0)
  }
})

test('a thousand connections are served, and none is left open', async t => {
  const server = await listener(t, { max_per_address: 2000 })
  for (let k = 0; k < 1000; k += 100)
    await Promise.all(
      Array.from({ length: 100 }, async (_, j) => {
        const socket = await raw(t, server.medium.port)
        socket.write(Buffer.concat([buildProbe(1), framed(data(String(k + j)))]))
      }),
    )
  await until(() => server.packets.length === 2000)
  assert.equal(server.medium.connections, 1000)
  assert.equal(new Set(server.origins.map(origin => origin.address)).size, 1000)
  await server.medium.close()
  assert.equal(server.medium.connections, 0)
})

test('a peer that reads nothing is lost after its time-out, and packets wait for room until then', async t => {
  const lost: string[] = []
  let peer: Socket | undefined
  const port = await stubborn(t, socket => {
    peer = socket
    socket.pause()
  })
  const client = await sender(t, { port, send_timeout_s: 0.2 }, { ...quiet, lost: reason => lost.push(reason) })
  await client.send(buildProbe(1))
  const sent = Array.from({ length: 300 }, () => client.send(Buffer.alloc(65_000, 1)))
  await until(() => lost.length === 1)
  assert.match(lost[0]!, /accepts or answers nothing/)
  assert.ok((await Promise.all(sent)).includes(false))
  assert.ok(peer)
})

test('a slow peer that does read gets everything, in order', async t => {
  const server = await listener(t)
  const client = await sender(t, { port: server.medium.port })
  await client.send(buildProbe(1))
  const sent = await Promise.all(Array.from({ length: 300 }, (_, k) => client.send(Buffer.alloc(20_000, k & 255))))
  assert.ok(sent.every(Boolean))
  await until(() => server.packets.length === 301)
  for (const [k, packet] of server.packets.slice(1).entries()) assert.equal(packet[9], k & 255)
})

test('answers that are not read are refused beyond a limit', async t => {
  const server = await listener(t)
  const socket = await raw(t, server.medium.port)
  socket.pause()
  socket.write(buildProbe(1))
  await until(() => server.origins.length === 1)
  const answers = await Promise.all(Array.from({ length: 400 }, () => server.origins[0]!.reply(Buffer.alloc(60_000))))
  assert.ok(answers.includes(false))
})

test('the link is lost when the listener closes, and reopens when it returns', async t => {
  const server = await listener(t)
  const { port } = server.medium
  const lost: string[] = []
  const client = await sender(t, { port }, { ...quiet, lost: reason => lost.push(reason) })
  await client.send(buildProbe(1))
  await until(() => server.packets.length === 1)
  await server.medium.close()
  await until(() => lost.length === 1)
  await assert.rejects(client.open(quiet), { code: 'NETWORK', message: /nothing listens/ })
  const again = await listener(t, { port })
  await client.open(quiet)
  assert.equal(await client.send(buildProbe(2)), true)
  await until(() => again.packets.length === 1)
})

test('a stream whose peer sends invalid data is lost', async t => {
  const lost: string[] = []
  const port = await stubborn(t, socket => socket.write(Buffer.concat([buildProbeReply(1, 100), Buffer.of(0, 0)])))
  const client = await sender(t, { port }, { ...quiet, lost: reason => lost.push(reason) })
  await client.send(buildProbe(1))
  await until(() => lost.length === 1)
  assert.match(lost[0]!, /packet of 0 bytes/)
})

test('a port in use is PORT_BUSY with what to do; options are checked', async t => {
  const server = await listener(t)
  const second = createTcp('two', { mode: 'listen', listen_host: '127.0.0.1', port: server.medium.port }, context)
  await assert.rejects(second.open(quiet), { code: 'PORT_BUSY', hint: /ss -ltnp/ })
  await second.close()
  assert.throws(() => createTcp('up', {}, context), { code: 'CONFIG_INVALID' })
  assert.throws(() => createTcp('up', { host: 'x', port: 0 }, context), { code: 'CONFIG_INVALID' })
  assert.throws(() => createTcp('up', { host: 'x', tls: { cacert: 1 } }, context), { code: 'CONFIG_INVALID' })
  const plain = tcpDriver.create('up', { host: 'x' }, context)
  assert.equal(plain.maxPacket, 65_535)
})

test('a name is resolved once, and kept while its answer is valid; a connection has a deadline', async t => {
  const server = await listener(t)
  let asked = 0
  const resolver = new HostResolver({
    clock: systemClock,
    logger: silentLogger,
    readText: () => '',
    query: async (_name, family) => {
      if (family === 6) return []
      asked++
      return [{ address: '127.0.0.1', ttl: 3600 }]
    },
  })
  const client = await sender(t, { host: 'peer.example', port: server.medium.port }, quiet, { resolver })
  for (let k = 0; k < 3; k++) await client.open(quiet)
  assert.equal(asked, 1)
  const nobody = createTcp('up', { host: '192.0.2.1', connect_timeout_s: 0.05 }, context)
  await assert.rejects(nobody.open(quiet), { code: 'NETWORK' })
})

test('IPv6 works, and an IPv4 peer of an IPv6 listener is written as IPv4', { skip: !hasIPv6 }, async t => {
  const server = await listener(t, { listen_host: '::' })
  for (const host of ['::1', '127.0.0.1']) {
    const client = await sender(t, { host, port: server.medium.port })
    await client.send(buildProbe(1))
  }
  await until(() => server.packets.length === 2)
  const addresses = server.origins.map(origin => origin.address).sort()
  assert.match(addresses[0]!, /^127\.0\.0\.1:\d+$/)
  assert.match(addresses[1]!, /^\[::1\]:\d+$/)
})
