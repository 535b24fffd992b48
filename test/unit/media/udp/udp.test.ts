// UDP in both directions: packets, addresses, busy ports, absent peers, names that move, and a thousand reopenings.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import type { OsError } from '../../../../src/lib/errors'
import { createLogger } from '../../../../src/lib/logger'
import type { Medium, OpenableEvents } from '../../../../src/links/contracts'
import { HostResolver } from '../../../../src/links/resolve'
import { Supervisor } from '../../../../src/links/supervisor'
import { createUdp, request, UdpListener, UdpSender, udpDriver } from '../../../../src/media/udp'
import { until as waitUntil } from '../../../lib/gateway'
import { ManualClock } from '../../../lib/manual'
import { context, freePort, listener, silentEvents } from './udp-world'

const hasIPv6 = Object.values(networkInterfaces()).some(list => list?.some(a => a.address === '::1'))

/** Events as a list of texts. */
function heard(): { events: OpenableEvents; texts: string[] } {
  const texts: string[] = []
  return {
    texts,
    events: { lost: reason => texts.push(`lost ${reason}`), degraded: reason => texts.push(`degraded ${reason}`) },
  }
}

const until = (holds: () => boolean): Promise<boolean> => waitUntil(String(holds), holds)

async function sender(t: TestContext, options: object, events = silentEvents, more = {}): Promise<UdpSender> {
  const medium = createUdp('up', options, { ...context, ...more })
  assert.ok(medium instanceof UdpSender)
  t.after(() => medium.close())
  await medium.open(events)
  return medium
}

test('packets go in both directions between a sender and a listener, and are counted', async t => {
  const server = await listener(t)
  const client = await sender(t, { host: '127.0.0.1', port: server.port })
  const at: string[] = []
  server.onPacket((packet, origin) => {
    at.push(origin.address)
    assert.equal(origin.medium, 'UDP')
    void origin.reply(Buffer.concat([Buffer.from('re:'), packet]))
  })
  const replies: string[] = []
  client.onPacket((packet, origin) => {
    replies.push(Buffer.from(packet).toString())
    assert.equal(origin.address, `127.0.0.1:${server.port}`)
  })
  assert.equal(await client.send(Buffer.from('one')), true)
  assert.equal(await client.send(Buffer.from('two')), true)
  await until(() => replies.length === 2)
  assert.deepEqual(replies, ['re:one', 're:two'])
  assert.deepEqual(client.counters, { rx: 2, tx: 2, errors: 0 })
  assert.deepEqual(server.counters, { rx: 2, tx: 2, errors: 0 })
  assert.match(at[0]!, /^127\.0\.0\.1:\d+$/)
  assert.equal(client.address, `127.0.0.1:${server.port}`)
})

test('each reply goes to the peer whose packet it answers', async t => {
  const server = await listener(t)
  server.onPacket((packet, origin) => void origin.reply(packet.slice()))
  const clients = await Promise.all(
    Array.from({ length: 5 }, () => sender(t, { host: 'localhost', port: server.port })),
  )
  const got = clients.map(client => {
    const list: number[] = []
    client.onPacket(packet => list.push(packet[0]!))
    return list
  })
  for (let k = 0; k < 20; k++) for (const [n, client] of clients.entries()) await client.send(Buffer.of(n * 20 + k))
  await until(() => got.every(list => list.length === 20))
  for (const [n, list] of got.entries())
    assert.deepEqual(
      list,
      Array.from({ length: 20 }, (_, k) => n * 20 + k),
    )
})

test('IPv6 works in both directions, and a listener on :: writes IPv4 peers as IPv4', {
  skip: hasIPv6 ? false : 'this machine has no IPv6',
}, async t => {
  const server = await listener(t, { listen_host: '::' })
  const from: string[] = []
  server.onPacket((packet, origin) => {
    from.push(origin.address)
    void origin.reply(packet)
  })
  for (const host of ['::1', '[::1]', '127.0.0.1']) {
    const client = await sender(t, { host, port: server.port })
    let replies = 0
    client.onPacket(() => replies++)
    await client.send(Buffer.from('x'))
    await until(() => replies === 1)
  }
  assert.match(from[0]!, /^\[::1\]:\d+$/)
  assert.match(from[2]!, /^127\.0\.0\.1:\d+$/)
})

test('a packet from 0 to 65507 bytes is sent in one piece, a longer one is refused and counted', async t => {
  const server = await listener(t)
  const client = await sender(t, { host: '127.0.0.1', port: server.port })
  const lengths: number[] = []
  server.onPacket(packet => lengths.push(packet.length))
  for (const length of [0, 1, 1400, 65_507]) assert.equal(await client.send(Buffer.alloc(length)), true)
  assert.equal(await client.send(Buffer.alloc(65_508)), false)
  await until(() => lengths.length === 4)
  assert.deepEqual(lengths, [0, 1, 1400, 65_507])
  assert.equal(client.counters.errors, 1)
  assert.equal(client.maxPacket, 1400)
  const small = createUdp('s', { host: '127.0.0.1', port: 1, max_packet: 512 }, context)
  assert.equal(small.maxPacket, 512)
})

test('a busy port is PORT_BUSY with the port and what to do, and is opened once it is free', async t => {
  const first = await listener(t)
  const port = first.port
  const second = new UdpListener('in2', {
    host: '127.0.0.1',
    port: port!,
    maxPacket: 1400,
    receiveBufferBytes: 65_536,
    ...context,
  })
  t.after(() => second.close())
  await assert.rejects(second.open(silentEvents), (error: OsError) => {
    assert.equal(error.code, 'PORT_BUSY')
    assert.match(error.message, new RegExp(`UDP port ${port} is in use`))
    assert.match(error.hint, /--port/)
    assert.equal(error.details['port'], port)
    return true
  })
  await first.close()
  await second.open(silentEvents)
  assert.equal(second.port, port)
})

test('an address that this machine does not have is reported as such', async t => {
  await assert.rejects(listener(t, { listen_host: '192.0.2.7' }), /this machine has no address 192\.0\.2\.7/)
})

test('an absent listener makes the link degraded and counted, not a crash, until the peer answers', async t => {
  const port = await freePort()
  const { events, texts } = heard()
  const client = await sender(t, { host: '127.0.0.1', port }, events)
  await client.send(Buffer.from('a'))
  await until(() => texts.length > 0)
  assert.deepEqual(texts, [`degraded nothing listens at 127.0.0.1:${port}`])
  assert.ok(client.counters.errors >= 1)
  const server = await listener(t, { port })
  server.onPacket((packet, origin) => void origin.reply(packet))
  await client.send(Buffer.from('b'))
  await client.send(Buffer.from('c'))
  await until(() => client.counters.rx > 0)
  assert.equal(texts.at(-1), 'degraded ')
})

test('a peer that only receives counts as well again when no refusal follows a packet for a second', async t => {
  const port = await freePort()
  const { events, texts } = heard()
  const clock = new ManualClock()
  clock.advance(5000)
  const client = await sender(t, { host: '127.0.0.1', port }, events, { clock })
  await client.send(Buffer.from('a'))
  await until(() => texts.length === 1)
  await listener(t, { port })
  await client.send(Buffer.from('b'))
  clock.advance(999)
  await client.send(Buffer.from('c'))
  assert.equal(texts.length, 1)
  clock.advance(1)
  await client.send(Buffer.from('d'))
  assert.deepEqual(texts.slice(1), ['degraded '])
})

test('a closed medium sends nothing, closes twice, and opens again', async t => {
  const server = await listener(t)
  const client = await sender(t, { host: '127.0.0.1', port: server.port })
  await client.close()
  await client.close()
  assert.equal(await client.send(Buffer.from('x')), false)
  await client.open(silentEvents)
  let got = 0
  server.onPacket(() => got++)
  assert.equal(await client.send(Buffer.from('x')), true)
  await until(() => got === 1)
  assert.equal(await server.send(), false)
})

test('closing during the name lookup makes the opening fail and leaves no socket', async () => {
  let answer = (): void => undefined
  const resolver = new HostResolver({
    readText: () => '',
    query: async (_name, family) => {
      if (family === 6) return []
      await new Promise<void>(resolve => {
        answer = resolve
      })
      return [{ address: '127.0.0.1', ttl: 60 }]
    },
  })
  const client = createUdp('up', { host: 'up.example', port: 9 }, { ...context, resolver })
  const opening = client.open(silentEvents)
  await new Promise(setImmediate)
  await client.close()
  answer()
  await assert.rejects(opening, /closed while opening/)
  assert.equal(await client.send(Buffer.from('x')), false)
})

test('an exception in a handler loses only its packet', async t => {
  const lines: string[] = []
  const logger = createLogger({ write: line => lines.push(line) })
  const server = new UdpListener('in', {
    host: '127.0.0.1',
    port: 0,
    maxPacket: 1400,
    receiveBufferBytes: 65_536,
    clock: systemClock,
    logger,
  })
  t.after(() => server.close())
  await server.open(silentEvents)
  const client = await sender(t, { host: '127.0.0.1', port: server.port })
  server.onPacket(packet => {
    if (packet[0] === 0) throw new Error('bad packet')
  })
  await client.send(Buffer.of(0))
  await client.send(Buffer.of(1))
  await until(() => server.counters.rx === 2)
  assert.equal(server.counters.errors, 1)
  assert.match(lines.join(''), /handling a packet from 127\.0\.0\.1:\d+ failed: bad packet/)
})

test('the sender moves to the new address of a name when its TTL has passed, and keeps the last one in an outage', async t => {
  const server = await listener(t, { listen_host: '0.0.0.0' })
  const clock = new ManualClock()
  let answer: string | undefined = '127.0.0.1'
  let asked = 0
  const resolver = new HostResolver({
    clock,
    readText: () => '',
    query: async (_name, family) => {
      if (family === 6) return []
      asked++
      if (answer === undefined) throw Object.assign(new Error('timeout'), { code: 'ETIMEOUT' })
      return [{ address: answer, ttl: 60 }]
    },
  })
  const client = await sender(t, { host: 'up.example', port: server.port }, silentEvents, { resolver, clock })
  let got = 0
  server.onPacket(() => got++)
  const send = async (): Promise<void> => {
    const before = got
    assert.equal(await client.send(Buffer.from('x')), true)
    await until(() => got === before + 1)
  }
  for (let k = 0; k < 10; k++) await send()
  assert.equal(asked, 1)
  answer = undefined
  clock.advance(60_000)
  await send()
  await send()
  assert.equal(asked, 2)
  assert.equal(client.address, `127.0.0.1:${server.port}`)
  answer = '127.0.0.2'
  clock.advance(30_000)
  await send()
  await until(() => client.address === `127.0.0.2:${server.port}`)
  await send()
  assert.equal(asked, 3)
  // a reopening looks up no sooner either
  answer = undefined
  await client.open(silentEvents)
  assert.equal(asked, 3)
  clock.advance(60_000)
  await client.open(silentEvents)
  assert.equal(asked, 4)
  await send()
})

test('a name that was never resolved is a link state, retried until it answers', async t => {
  const server = await listener(t)
  let works = false
  const resolver = new HostResolver({
    readText: () => '',
    query: async (_name, family) => {
      if (works && family === 4) return [{ address: '127.0.0.1', ttl: 60 }]
      throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' })
    },
  })
  const client = createUdp('up', { host: 'up.example', port: server.port }, { ...context, resolver })
  const supervisor = new Supervisor({ backoff: { minMs: 10, maxMs: 20 } })
  t.after(() => supervisor.stop())
  supervisor.add(client)
  await until(() => supervisor.links()['up']?.state === 'down')
  assert.equal(supervisor.links()['up']?.reason, 'cannot resolve up.example (ENOTFOUND)')
  works = true
  await until(() => supervisor.links()['up']?.state === 'up')
  assert.equal(supervisor.links()['up']?.type, 'UDP')
})

test('options are checked and a wrong key is named', () => {
  const refused = (options: object, text: RegExp): void => {
    assert.throws(
      () => udpDriver.create('up', options, context),
      (error: OsError) => {
        assert.equal(error.code, 'CONFIG_INVALID')
        assert.match(error.message, text)
        return true
      },
    )
  }
  refused({}, /options of up: host/)
  refused({ host: 'x', port: 70_000 }, /port/)
  refused({ host: 'x', port: '80' }, /port/)
  refused({ host: 'x', port: 0 }, /host and port/)
  refused({ host: 'x', mode: 'both' }, /mode/)
  const medium: Medium = udpDriver.create('up', { host: 'x' }, context)
  assert.equal(medium.medium, 'UDP')
})

test('a thousand reopenings and requests leave no descriptor open', {
  skip: existsSync('/proc/self/fd') ? false : 'this machine has no /proc',
}, async t => {
  const server = await listener(t)
  const client = await sender(t, { host: '127.0.0.1', port: server.port })
  server.onPacket((packet, origin) => void origin.reply(packet))
  await request('127.0.0.1', server.port!, Buffer.of(1), 60_000)
  const before = readdirSync('/proc/self/fd').length
  for (let k = 0; k < 500; k++) {
    await client.open(silentEvents)
    await client.close()
  }
  const port = server.port!
  for (let k = 0; k < 500; k++) assert.ok(await request('127.0.0.1', port, Buffer.of(1), 60_000))
  assert.ok(readdirSync('/proc/self/fd').length <= before)
})
