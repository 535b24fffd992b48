// One request over UDP and its answer: the first reply that is accepted, reasons for none, and the time limit.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { test } from 'node:test'
import type { OsError } from '../../../../src/lib/errors'
import { HostResolver } from '../../../../src/links/resolve'
import { request } from '../../../../src/media/udp'
import { freePort, listener } from './udp-world'

test('request returns the first reply that is accepted', async t => {
  const server = await listener(t)
  server.onPacket((packet, origin) => {
    void origin.reply(Buffer.from('noise'))
    void origin.reply(Buffer.from(`seq ${packet[0]}`))
  })
  const port = server.port!
  const reply = await request('localhost', port, Buffer.of(7), 60_000, r => r.toString() === 'seq 7')
  assert.equal(reply?.toString(), 'seq 7')
  assert.equal((await request('127.0.0.1', port, Buffer.of(7), 60_000))?.toString(), 'noise')
})

test('request returns null with the reason: no answer, absent peer, unknown name, a failing accept', async t => {
  const server = await listener(t)
  const why: OsError[] = []
  const onFailure = (error: OsError): void => void why.push(error)
  const packet = Buffer.of(1)
  assert.equal(await request('127.0.0.1', server.port!, packet, 30, undefined, { onFailure }), null)
  assert.equal(await request('127.0.0.1', await freePort(), packet, 60_000, undefined, { onFailure }), null)
  const resolver = new HostResolver({ readText: () => '', query: () => Promise.reject(new Error('no DNS')) })
  assert.equal(await request('nas', 1, packet, 60_000, undefined, { onFailure, resolver }), null)
  assert.deepEqual(
    why.map(error => error.code),
    ['NO_REPLY', 'NETWORK', 'NETWORK'],
  )
  assert.match(why[1]!.message, /nothing listens at/)
  assert.match(why[2]!.message, /cannot resolve nas/)
})

test('request ends in time when the name server hangs, and sends nothing later', async t => {
  const server = await listener(t)
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
  assert.equal(await request('up.example', server.port!, Buffer.of(1), 30, undefined, { resolver }), null)
  answer()
  await new Promise(resolve => setTimeout(resolve, 30))
  assert.equal(server.counters.rx, 0)
})

test('an answer from another address is ignored', async t => {
  const server = await listener(t, { listen_host: '127.0.0.1' })
  const stranger = createSocket('udp4')
  t.after(() => stranger.close())
  server.onPacket((_packet, origin) => {
    const [host, port] = origin.address.split(':')
    stranger.send('forged', Number(port), host)
    setTimeout(() => void origin.reply(Buffer.from('true')), 20)
  })
  const reply = await request('127.0.0.1', server.port!, Buffer.of(1), 60_000)
  assert.equal(reply?.toString(), 'true')
})
