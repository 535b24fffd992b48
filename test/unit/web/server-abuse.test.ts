// What unknown senders and greedy users cannot do to the HTTP service: accumulate answers, stall, take all connections,
// confuse it.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { get } from 'node:http'
import net from 'node:net'
import { test } from 'node:test'
import { Text } from '../../../src/web/route'
import type { WebServer } from '../../../src/web/server'
import { ask, fakeContext, raw, serve, TOKEN } from './helper'
import { PASSWORD, world } from './world'

const GET = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`

/** A connection that sends and reads nothing; it does not even notice that it was cut off. */
function silent(server: WebServer, bytes: string): net.Socket {
  const socket = net.connect(server.port, '127.0.0.1', () => socket.write(bytes))
  socket.pause()
  // errors of a sender that was cut off are expected
  socket.on('error', () => undefined)
  return socket
}

/** Resolves when the server has cut off so many connections. */
async function cut(server: WebServer, count: number): Promise<void> {
  while (server.facts().http.cut_connections! < count) await new Promise(resolve => setTimeout(resolve, 2))
}

test('S15: requests of one connection are answered one after the other; one that sends many more is cut off', async t => {
  let running = 0
  let most = 0
  let answers = 0
  const server = await serve(t, fakeContext(), {
    routes: [
      {
        method: 'GET',
        path: '/slow',
        role: 'open',
        summary: '',
        run: async () => {
          answers++
          most = Math.max(most, ++running)
          await new Promise(resolve => setImmediate(resolve))
          running--
          return new Text('text/plain', 'x')
        },
      },
    ],
  })
  const text = await raw(
    server,
    GET('/slow').repeat(5) + GET('/slow').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
  )
  assert.equal(text.split('HTTP/1.1 200').length - 1, 6, 'a few in a row are answered')
  assert.equal(most, 1)
  answers = 0
  const socket = silent(server, GET('/slow').repeat(999))
  await cut(server, 1)
  socket.destroy()
  assert.ok(answers <= 1, `${answers} answers were made for 999 requests`)
  assert.equal(server.facts().http.cut_connections, 1)
})

test('S15: of a flood of pipelined requests little is parsed, and its address leaves room for others', async t => {
  let parsed = 0
  const count = (): void => void parsed++
  subscribe('http.server.request.start', count)
  t.after(() => unsubscribe('http.server.request.start', count))
  const server = await serve(t, fakeContext(), { maxConnections: 40 })
  const flood = Array.from({ length: 20 }, () => silent(server, GET('/app.js').repeat(999)))
  const idle = Array.from({ length: 60 }, () => silent(server, ''))
  t.after(() => {
    for (const socket of [...flood, ...idle]) socket.destroy()
  })
  await Promise.all([...flood, ...idle].map(socket => new Promise(resolve => socket.once('connect', resolve))))
  const status = await new Promise((resolve, reject) =>
    get({ host: '127.0.0.1', port: server.port, path: '/health', localAddress: '127.0.0.2', agent: false }, res =>
      resolve(res.resume().statusCode),
    ).on('error', reject),
  )
  assert.equal(status, 200)
  const { connections, dropped_connections, cut_connections } = server.facts().http
  assert.ok(connections! <= 11, `${connections} connections are open`)
  assert.ok(dropped_connections! + cut_connections! >= 60, `${dropped_connections} dropped, ${cut_connections} cut`)
  assert.ok(parsed <= 20 * 9 + 1, `${parsed} requests were parsed`)
})

test('S15: unread data is limited in total, and a reader that stalls is cut off, also one of events', async t => {
  const megabytes = 'x'.repeat(6_000_000)
  const context = fakeContext({ latest: () => [{ device_id: megabytes, sensors: [] }] as never })
  const server = await serve(t, context, {
    stallMs: 60,
    routes: [
      { method: 'GET', path: '/big', role: 'open', summary: '', run: () => new Text('text/plain', megabytes) },
      { method: 'GET', path: '/stream', role: 'open', summary: '', stream: true, run: () => ({}) },
    ],
  })
  const stalled = [silent(server, GET('/big')), silent(server, GET('/stream'))]
  await cut(server, 2)
  // many at the same time: the total is limited before any of them has stalled
  const patient = await serve(t, context, {
    stallMs: 600_000,
    routes: [{ method: 'GET', path: '/big', role: 'open', summary: '', run: () => new Text('text/plain', megabytes) }],
  })
  const readers = Array.from({ length: 12 }, () => silent(patient, GET('/big')))
  await cut(patient, 1)
  for (const socket of [...stalled, ...readers]) socket.destroy()
})

test('two Host headers are 400', async t => {
  const server = await serve(t)
  const twice = `GET /health HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\nConnection: close\r\n\r\n`
  const text = await raw(server, twice)
  assert.match(text, /^HTTP\/1\.1 400[\s\S]*more than one Host header/)
})

test('unknown query parameters under /api/ are 400; names that begin with _ are ignored', async t => {
  const server = await serve(t)
  const wrong = await ask(server, '/api/data/packets?limt=5')
  assert.deepEqual(
    [wrong.status, wrong.json.error, wrong.json.key],
    [400, 'unknown query parameter "limt"; did you mean limit?', 'limt'],
  )
  assert.match(String((await ask(server, '/api/transport?x=1')).json.error), /this route has none/)
  assert.equal((await ask(server, '/api/data/packets?limit=5&_=123&_cache')).status, 200)
  assert.equal((await ask(server, '/health?x=1')).status, 200)
  assert.equal((await ask(server, '/api/data/packets?__proto__=1')).status, 200)
})

test('event streams have quotas for each user and address', async t => {
  const { server, send, session } = await world(t)
  const viewer = await session('viewer')
  const streams: net.Socket[] = []
  t.after(() => {
    for (const socket of streams) socket.destroy()
  })
  const open = (as: string): Promise<string> =>
    new Promise(resolve => {
      const socket = net.connect(server.port, '127.0.0.1', () =>
        socket.write(`GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-Admin-Token: ${as}\r\n\r\n`),
      )
      streams.push(socket)
      socket.once('data', chunk => resolve(chunk.toString().slice(9, 12)))
    })
  const first = await Promise.all(Array.from({ length: 13 }, () => open(viewer)))
  assert.deepEqual(first.sort(), [...Array(12).fill('200'), '503'])
  assert.equal(await open(TOKEN), '200', 'another user has places of his own')
  assert.equal((await send('GET', '/api/session', undefined, viewer)).status, 200)
})

test('when auth is switched off while the server is on a network, it still requires the token', async t => {
  const context = fakeContext()
  const server = await serve(t, context, { host: '0.0.0.0' })
  context.authOn = false
  assert.equal((await ask(server, '/api/config', { token: false })).status, 401)
  assert.equal((await ask(server, '/api/config')).status, 200)
})

test('an operator starts the page but does not stop it; the log line of a change names keys, not values', async t => {
  const { send, session, calls, logger } = await world(t)
  const operator = await session('operator')
  for (const plugin of ['web_user', 'web-user', 'Web', ' WEB_USER '])
    assert.equal((await send('POST', '/api/plugins', { plugin, action: 'stop' }, operator)).status, 403, plugin)
  assert.ok(!JSON.stringify(calls).includes('stop'))
  await send('PUT', '/api/config', { engine_settings: { precision: 5, network_retry: { enabled: false } } })
  await send('PUT', '/api/options', { updates: [{ key: 'engine_settings.precision', value: 7 }] })
  await send('POST', '/users', { username: 'eve', password: PASSWORD, role: 'viewer' })
  const lines = logger.recent().map(({ text }) => text)
  const line = (path: string): string => lines.find(text => text.includes(path)) ?? ''
  assert.match(line('PUT /api/config'), /engine_settings\.precision engine_settings\.network_retry\.enabled$/)
  assert.match(line('PUT /api/options'), /engine_settings\.precision$/)
  assert.ok(!lines.join().includes(PASSWORD))
})
