// What only the batched socket does; the common behaviour is in udp.test.ts.
// Needs: cc
import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents, PacketOrigin } from '../../../../src/links/contracts'
import { Supervisor } from '../../../../src/links/supervisor'
import { createUdp, type UdpListener, type UdpSender } from '../../../../src/media/udp'
import { openBatch } from '../../../../src/media/udp/batch'
import { PeerTable } from '../../../../src/media/udp/peers'
import { AGAIN, type Native, NO_BUFFERS, nativeOrNull, PEER_BYTES, READABLE, WRITABLE } from '../../../../src/native'
import { until as waitUntil } from '../../../lib/gateway'
import { prng } from '../../../lib/random'

const lacks = nativeOrNull() ? false : 'this machine has no C compiler'
const context = { clock: systemClock, logger: silentLogger }
const silentEvents: OpenableEvents = { lost: () => undefined, degraded: () => undefined }
const linkLocal = Object.entries(networkInterfaces())
  .flatMap(([name, list]) => (list ?? []).map(a => ({ name, ...a })))
  .find(a => a.family === 'IPv6' && a.address.startsWith('fe80:'))

const until = (holds: () => boolean): Promise<boolean> => waitUntil(String(holds), holds)

async function pair(t: TestContext, options: object = {}): Promise<{ server: UdpListener; client: UdpSender }> {
  const host = { listen_host: '127.0.0.1', host: '127.0.0.1', ...options }
  const server = createUdp('in', { mode: 'listen', port: 0, ...host }, context) as UdpListener
  t.after(() => server.close())
  await server.open(silentEvents)
  const client = createUdp('up', { port: server.port, ...host }, context) as UdpSender
  t.after(() => client.close())
  await client.open(silentEvents)
  return { server, client }
}

for (const batch of ['auto', 'off'])
  test(`a thousand packets in batches arrive in order and are counted (batch ${batch})`, async t => {
    const { server, client } = await pair(t, { batch, receive_buffer_bytes: 2 * 1024 * 1024 })
    const next = prng(7)
    const packets = Array.from({ length: 1000 }, (_, k) => Buffer.alloc(4 + Math.floor(next() * 60), k & 255))
    const got: Buffer[] = []
    server.onPacket(packet => got.push(Buffer.from(packet)))
    for (let k = 0; k < 1000; k += 250) {
      assert.equal(await client.sendBatch(packets.slice(k, k + 250)), 250)
      await until(() => got.length === k + 250)
    }
    assert.deepEqual(got, packets)
    assert.deepEqual([client.counters, server.counters.rx], [{ rx: 0, tx: 1000, errors: 0 }, 1000])
    assert.equal(await client.sendBatch([]), 0)
  })

for (const batch of ['auto', 'off'])
  test(`a batch stops at a packet that is too long, and sends large ones (batch ${batch})`, async t => {
    const { server, client } = await pair(t, { batch, receive_buffer_bytes: 4 * 1024 * 1024 })
    const lengths: number[] = []
    server.onPacket(packet => lengths.push(packet.length))
    const packets = [60_000, 65_507, 60_000, 60_000, 60_000, 0, 65_508, 5].map(bytes => Buffer.alloc(bytes))
    assert.equal(await client.sendBatch(packets), 6)
    await until(() => lengths.length === 6)
    assert.deepEqual(lengths, [60_000, 65_507, 60_000, 60_000, 60_000, 0])
    assert.equal(client.counters.errors, 1)
    await client.close()
    assert.equal(await client.sendBatch(packets), 0)
  })

test('a peer that sends again has the same origin object, and its replies reach it', { skip: lacks }, async t => {
  const { server, client } = await pair(t)
  const origins = new Set<PacketOrigin>()
  server.onPacket((packet, origin) => {
    origins.add(origin)
    void origin.reply(packet)
  })
  for (let k = 0; k < 50; k++) await client.send(Buffer.of(k))
  await until(() => client.counters.rx === 50)
  assert.equal(origins.size, 1)
})

test('handlers may keep a copy: views of packets of equal length do not mix', { skip: lacks }, async t => {
  const { server, client } = await pair(t)
  const got: string[] = []
  server.onPacket(packet => got.push(Buffer.from(packet).toString()))
  const texts = Array.from({ length: 300 }, (_, k) => 'x'.repeat((k * 7) % 40) + k)
  await client.sendBatch(texts.map(text => Buffer.from(text)))
  await until(() => got.length === texts.length)
  assert.deepEqual(got, texts)
})

test('a listener closed by its handler gives no further packet of the batch', { skip: lacks }, async t => {
  const { server, client } = await pair(t)
  let got = 0
  server.onPacket(() => {
    got++
    void server.close()
  })
  await client.sendBatch(Array.from({ length: 20 }, () => Buffer.of(1)))
  await until(() => got > 0)
  await new Promise(setImmediate)
  assert.equal(got, 1)
})

test('packets dropped by the kernel for lack of room are a counter of the link', { skip: lacks }, async t => {
  const { server, client } = await pair(t, { receive_buffer_bytes: 4096 })
  const supervisor = new Supervisor()
  t.after(() => supervisor.stop())
  supervisor.add(server)
  await until(() => supervisor.links()['in']?.state === 'up')
  const again = createUdp('again', { host: '127.0.0.1', port: server.port }, context) as UdpSender
  t.after(() => again.close())
  await again.open(silentEvents)
  await again.sendBatch(Array.from({ length: 200 }, () => Buffer.alloc(100)))
  await until(() => server.counters.rx + (server.counters.dropped ?? 0) === 200)
  assert.ok(server.counters.dropped! > 0)
  assert.equal(supervisor.links()['in']?.dropped, server.counters.dropped)
  await server.close()
  assert.equal(server.counters.rx + server.counters.dropped!, 200)
  assert.equal(client.counters.errors, 0)
})

test('a link-local peer is reached through its interface, and its name contains the interface', {
  skip: lacks || (linkLocal ? false : 'this machine has no link-local IPv6 address'),
}, async t => {
  const address = `${linkLocal!.address}%${linkLocal!.name}`
  const { server, client } = await pair(t, { listen_host: address, host: address })
  const from: string[] = []
  server.onPacket((packet, origin) => {
    from.push(origin.address)
    void origin.reply(packet)
  })
  await client.send(Buffer.of(1))
  await until(() => client.counters.rx === 1)
  assert.ok(from[0]!.startsWith(`[${address}]:`), from[0])
})

/** A socket whose results the test decides; `results` is called before each packet is sent. */
function fake(results: () => number) {
  const log: string[] = []
  let wake = (_events: number): void => undefined
  const socket = {
    connect: () => undefined,
    bind: () => undefined,
    state: () => ({ port: 1, receiveBuffer: 1, sendBuffer: 1, dropped: 0 }),
    watch: (_events: number, run: typeof wake) => {
      wake = run
    },
    rewatch: (events: number) => log.push(events & WRITABLE ? 'watch' : 'rest'),
    sendOne: (packet: Uint8Array) => {
      const result = results()
      if (result >= 0) log.push(`sent ${packet[0]}`)
      return result
    },
    send: (slab: Uint8Array, offsets: Uint32Array, _lengths: Uint32Array, count: number) => {
      for (let k = 0; k < count; k++) {
        const result = results()
        if (result < 0) return k > 0 ? k : result
        log.push(`sent ${slab[offsets[k]!]}`)
      }
      return count
    },
    receive: () => AGAIN,
    close: () => log.push('close'),
  }
  const tally = { sent: 0, failed: [] as string[] }
  const port = openBatch(
    {
      family: 4,
      way: 'connect',
      address: '192.0.2.1',
      port: 1,
      receiveBufferBytes: 1,
      events: {
        packet: () => undefined,
        sent: count => {
          tally.sent += count
        },
        sendFailed: error => tally.failed.push((error as NodeJS.ErrnoException).code!),
        failed: error => tally.failed.push(`socket ${(error as NodeJS.ErrnoException).code}`),
      },
    },
    { udpSocket: () => socket } as unknown as Native,
  )
  return { port, log, tally, wake: (events: number) => wake(events) }
}

test('with a full send buffer packets wait in order, unchanged, until the socket is writable', async () => {
  let result = AGAIN
  const { port, log, tally, wake } = fake(() => result)
  const bytes = Uint8Array.of(1)
  const first = port.send(bytes)
  bytes[0] = 2
  const second = port.send(bytes)
  bytes[0] = 9
  const batch = port.sendBatch([Uint8Array.of(3), Uint8Array.of(4)])
  wake(WRITABLE)
  assert.deepEqual(log, ['watch', 'watch'])
  result = 1
  wake(WRITABLE | READABLE)
  assert.deepEqual(log.slice(2), ['sent 1', 'sent 2', 'sent 3', 'sent 4', 'rest'])
  assert.deepEqual([await first, await second, await batch, tally], [true, true, 2, { sent: 4, failed: [] }])
  assert.equal(await port.send(Uint8Array.of(5)), true)
  assert.equal(log.at(-1), 'sent 5')
})

test('a device without room is retried by a timer, not on a writable socket', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let result = NO_BUFFERS
  const { port, log } = fake(() => result)
  const sent = port.send(Uint8Array.of(1))
  t.mock.timers.tick(4)
  assert.deepEqual(log, ['rest'])
  result = 1
  t.mock.timers.tick(1)
  assert.equal(await sent, true)
  assert.equal(log.at(-2), 'sent 1')
})

test('a batch that meets a full buffer in the middle queues behind the waiting packets', async () => {
  let room = 3
  const { port, log, wake } = fake(() => (room-- > 0 ? 1 : AGAIN))
  const done = port.sendBatch([1, 2, 3, 4, 5].map(k => Uint8Array.of(k)))
  assert.deepEqual(log, ['sent 1', 'sent 2', 'sent 3', 'watch'])
  room = 1
  wake(WRITABLE)
  room = 9
  wake(WRITABLE)
  assert.equal(await done, 5)
  assert.deepEqual(
    log.filter(line => line.startsWith('sent')),
    ['sent 1', 'sent 2', 'sent 3', 'sent 4', 'sent 5'],
  )
})

test('at most a thousand packets wait; more are refused, and closing refuses the waiting ones', async () => {
  const { port, tally } = fake(() => AGAIN)
  const all = Array.from({ length: 1030 }, (_, k) => port.send(Uint8Array.of(k)))
  assert.equal(tally.failed.length, 6)
  assert.ok(tally.failed.every(code => code === 'EAGAIN'))
  await port.close()
  assert.ok((await Promise.all(all)).every(taken => taken === false))
  assert.equal(tally.sent, 0)
})

test('a lasting error ends a batch and reports how many were sent; a refusal of an earlier packet does not', async () => {
  const lasting = [1, 1, -101, -101]
  const { port, tally } = fake(() => lasting.shift()!)
  assert.equal(await port.sendBatch([1, 2, 3].map(k => Uint8Array.of(k))), 2)
  assert.deepEqual(tally, { sent: 2, failed: ['ENETUNREACH'] })
  const earlier = [1, 1, -111, 1, 1]
  const other = fake(() => earlier.shift()!)
  assert.equal(await other.port.sendBatch([1, 2, 3, 4].map(k => Uint8Array.of(k))), 4)
  assert.deepEqual(other.tally, { sent: 4, failed: [] })
})

test('batches to an absent peer are a refusal of the link, reported by the kernel after all were sent', {
  skip: lacks,
}, async t => {
  const { server, client } = await pair(t)
  await server.close()
  const texts: string[] = []
  await client.open({ lost: reason => texts.push(`lost ${reason}`), degraded: reason => texts.push(reason) })
  assert.equal(await client.sendBatch(Array.from({ length: 10 }, () => Buffer.of(1))), 10)
  await until(() => texts.length > 0)
  assert.match(texts[0]!, /^nothing listens at 127\.0\.0\.1:/)
})

test('peers are distinguished by every byte of the address, and only new ones allocate a text', () => {
  let texts = 0
  const table = new PeerTable({ addressText: () => `peer ${++texts}` } as unknown as Native)
  const bytes = new Uint8Array(2 * PEER_BYTES)
  const words = new Uint32Array(bytes.buffer)
  const base = table.at(bytes, words, 1)
  for (let k = 0; k < PEER_BYTES; k++) {
    bytes[PEER_BYTES + k] = 1
    assert.notEqual(table.at(bytes, words, 1), base)
    bytes[PEER_BYTES + k] = 0
  }
  assert.equal(texts, 1 + PEER_BYTES)
  // thousands of nodes: an evicted one is created again, with the same identity
  for (let word = 0; word < PEER_BYTES / 4; word++) {
    for (let n = 0; n < 6000; n++) {
      words[word] = n
      assert.equal(new Uint32Array(table.at(bytes, words, 0).raw!.buffer)[word], n)
    }
    const before = texts
    const peer = table.at(bytes, words, 0)
    assert.equal(table.at(bytes, words, 0), peer)
    assert.equal(texts, before)
    words[word] = 0
  }
})
