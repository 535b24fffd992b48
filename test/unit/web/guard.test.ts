import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { test } from 'node:test'
import { MAX_BODY_BYTES, RequestGuard } from '../../../src/web/guard'
import type { Route } from '../../../src/web/routes'
import { until } from '../../lib/gateway'
import { ask, fakeContext, raw, serve, TOKEN } from './helper'

const write: Route = { method: 'POST', path: '/api/write', role: 'admin', summary: '', run: () => ({ ok: true }) }

test('S6, S5: every answer carries the security headers and no CORS header', async t => {
  const server = await serve(t)
  for (const path of ['/', '/health', '/api/config', '/nothing', '/api/data/packets?limit=x']) {
    const { headers } = await ask(server, path, { token: false, headers: { Origin: 'http://evil.example' } })
    const csp = String(headers['content-security-policy'])
    assert.match(csp, /default-src 'none'/)
    assert.match(csp, /frame-ancestors 'none'/)
    assert.doesNotMatch(csp, /unsafe-inline|unsafe-eval|https?:|\*/)
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['referrer-policy'], 'no-referrer')
    assert.ok(!Object.keys(headers).some(name => name.startsWith('access-control-')))
    assert.equal(headers['x-powered-by'], undefined)
  }
})

test('S5: an unknown host name is refused, the listed ones are answered on any port', async t => {
  const server = await serve(t, fakeContext({ hosts: () => ['Shed.example'] }))
  for (const Host of ['localhost', 'localhost:9000', '127.0.0.1:1', '[::1]:8765', 'shed.EXAMPLE:8765']) {
    assert.equal((await ask(server, '/health', { headers: { Host } })).status, 200, Host)
  }
  for (const Host of ['evil.example', 'localhost.evil.example', '10.0.0.9', '127.0.0.1.evil.example']) {
    const { status, json } = await ask(server, '/health', { headers: { Host } })
    assert.equal(status, 403, Host)
    assert.equal(json.code, 'HOST_REFUSED')
  }
  for (const Host of ['a b', 'localhost:x', '[::1', 'user@localhost', 'localhost/x']) {
    assert.equal((await ask(server, '/health', { headers: { Host } })).status, 400, Host)
  }
  assert.match(
    await raw(server, 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1.1 400 [\s\S]*Host header/,
  )
})

test('S5: when bound to every address, the address of the request counts as ours', async t => {
  const server = await serve(t, fakeContext(), { host: '0.0.0.0' })
  assert.equal((await ask(server, '/health', { headers: { Host: `127.0.0.1:${server.port}` } })).status, 200)
  assert.equal((await ask(server, '/health', { headers: { Host: '192.0.2.7' } })).status, 403)
  assert.equal((await ask(server, '/health', { headers: { Host: 'evil.example' } })).status, 403)
})

test('S5, S9: methods that change something refuse other sites, other types and large bodies', async t => {
  const server = await serve(t, fakeContext(), { routes: [write] })
  const post = async (headers: Record<string, string>, body = '{}'): Promise<unknown> => {
    const { status, json } = await ask(server, '/api/write', { method: 'POST', headers, body })
    return status === 200 ? 200 : json.code
  }
  const json = { 'Content-Type': 'application/json; charset=utf-8' }
  assert.equal(await post(json), 200)
  assert.equal(await post({}, ''), 200)
  assert.equal(await post({ ...json, Origin: `http://127.0.0.1:${server.port}`, 'Sec-Fetch-Site': 'same-origin' }), 200)
  assert.equal(await post({ ...json, 'Sec-Fetch-Site': 'cross-site' }), 'CROSS_SITE')
  assert.equal(await post({ ...json, 'Sec-Fetch-Site': 'same-site' }), 'CROSS_SITE')
  assert.equal(await post({ ...json, Origin: 'http://evil.example' }), 'CROSS_SITE')
  assert.equal(await post({ ...json, Origin: `http://127.0.0.1:${server.port}.evil.example` }), 'CROSS_SITE')
  assert.equal(await post({ ...json, Origin: `http://127.0.0.1:${server.port}0` }), 'CROSS_SITE')
  assert.equal(await post({ ...json, Origin: 'null' }), 'CROSS_SITE')
  assert.equal(await post({ 'Content-Type': 'text/plain' }), 'UNSUPPORTED_TYPE')
  assert.equal(await post({ 'Content-Type': 'application/jsonx' }), 'UNSUPPORTED_TYPE')
  assert.equal(await post({}), 'UNSUPPORTED_TYPE')
  const large = `POST /api/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n{`
  assert.match(await raw(server, large), /^HTTP\/1.1 413 [\s\S]*"code":"BODY_TOO_LARGE"/)
})

test('S9: a request that is not HTTP, or too large, gets a 4xx in JSON', async t => {
  const server = await serve(t)
  const cases: [string, RegExp][] = [
    ['hello\r\n\r\n', /^HTTP\/1.1 400 [\s\S]*"code":"BAD_REQUEST"/],
    ['GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', /^HTTP\/1.1 400 /],
    ['OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', /^HTTP\/1.1 400 /],
    ['CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n', /^HTTP\/1.1 405 [\s\S]*METHOD_NOT_ALLOWED/],
    [
      `GET /health?${'a'.repeat(9000)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      /^HTTP\/1.1 400 [\s\S]*URL/,
    ],
    [`GET /health?${'a'.repeat(40_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, /^HTTP\/1.1 400 [\s\S]*URL/],
    [
      `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`,
      /^HTTP\/1.1 431 [\s\S]*HEADERS_TOO_LARGE/,
    ],
    [
      'GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      /^HTTP\/1.1 400 /,
    ],
  ]
  for (const [bytes, expected] of cases) assert.match(await raw(server, bytes), expected, bytes.slice(0, 60))
  assert.equal((await ask(server, '/health')).status, 200)
})

test('mutated requests are answered in HTTP or closed, and the server continues', async t => {
  const server = await serve(t)
  const whole =
    'GET /api/data/packets/x?limit=1 HTTP/1.1\r\nHost: localhost\r\nX-Admin-Token: x\r\nConnection: close\r\n\r\n'
  let seed = 11
  const random = (n: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed >>> 8) % n
  }
  let answered = 0
  const one = async (): Promise<void> => {
    const bytes = Buffer.from(whole)
    for (let n = 1 + random(4); n > 0; n--) bytes[random(bytes.length - 4)] = random(256)
    const answer = await raw(server, Buffer.concat([bytes, Buffer.from('\r\n\r\n')]), true)
    if (answer) answered++
    assert.match(answer, /^HTTP\/1\.1 (2|4)\d\d |^$/, JSON.stringify(bytes.toString('latin1')))
  }
  for (let k = 0; k < 15; k++) await Promise.all(Array.from({ length: 20 }, one))
  assert.ok(answered > 280, `${answered} of 300 answered`)
  assert.equal((await ask(server, '/health')).status, 200)
})

test('S9: a client that is too slow gets 408 and is closed', async t => {
  const server = await serve(t, fakeContext(), { slowClientMs: 100 })
  assert.match(await raw(server, 'GET /health HTTP/1.1\r\nHost: loc'), /^HTTP\/1.1 408 [\s\S]*REQUEST_TIMEOUT/)
  // one that sends nothing at all is closed, too
  assert.ok((await raw(server, '')).length < 2000)
})

test('S9: a body that stalls midway, or arrives byte by byte, gets 408, is closed, and changes nothing', async t => {
  const context = fakeContext()
  let ran = 0
  const server = await serve(t, context, {
    slowClientMs: 100,
    routes: [{ method: 'POST', path: '/x', role: 'admin', summary: '', run: () => ({ ok: true, ran: ++ran }) }],
  })
  const head = `POST /x HTTP/1.1\r\nHost: localhost\r\nX-Admin-Token: ${TOKEN}\r\nContent-Type: application/json\r\n`
  for (const body of ['Content-Length: 50\r\n\r\n{"a":', 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n'])
    assert.match(await raw(server, head + body), /^HTTP\/1.1 408 [\s\S]*REQUEST_TIMEOUT/)
  const dripping = net.connect(server.port, '127.0.0.1')
  dripping.on('error', () => undefined) // closed while it writes
  dripping.write(`${head}Content-Length: 100000\r\n\r\n`)
  const drip = setInterval(() => dripping.write(' '), 10)
  t.after(() => clearInterval(drip))
  const [first] = await once(dripping, 'data')
  assert.match(String(first), /^HTTP\/1.1 408 /)
  await once(dripping, 'close')
  assert.equal(ran, 0)
  assert.deepEqual(
    context.lines.filter(line => line.startsWith('error')),
    [],
  )
})

test('S9: idle connections beyond the limit are closed for new ones', async t => {
  const server = await serve(t, fakeContext(), { maxConnections: 8 })
  const idle: net.Socket[] = []
  t.after(() => {
    for (const socket of idle) socket.destroy()
  })
  let closed = 0
  for (let k = 0; k < 40; k++) {
    const socket = net.connect(server.port, '127.0.0.1')
    socket.on('error', () => undefined) // a reset is how it is closed
    socket.on('close', () => closed++)
    idle.push(socket)
  }
  assert.equal((await ask(server, '/health')).status, 200)
  assert.equal((await ask(server, '/api/config')).status, 200)
  await until('most of them are closed', () => closed >= 20)
})

test('a request is refused for its form: longer by one byte, another method, a second Host', () => {
  const guard = new RequestGuard({ host: '127.0.0.1', allowedHosts: [] })
  const codeOf = (request: Record<string, unknown>): string | undefined => {
    const headers = { host: 'localhost', ...(request['headers'] as object) }
    const rawHeaders = Object.entries(headers).flat()
    try {
      guard.check({ url: '/', method: 'GET', socket: {}, rawHeaders, ...request, headers } as never)
    } catch (error) {
      return (error as { code: string }).code
    }
    return undefined
  }
  assert.equal(codeOf({}), undefined)
  const length = (bytes: number) => ({ headers: { 'content-length': `${bytes}` } })
  assert.equal(codeOf(length(MAX_BODY_BYTES)), undefined)
  assert.equal(codeOf(length(MAX_BODY_BYTES + 1)), 'BODY_TOO_LARGE')
  assert.equal(codeOf({ url: `/${'a'.repeat(8191)}` }), undefined)
  assert.equal(codeOf({ url: `/${'a'.repeat(8192)}` }), 'BAD_REQUEST')
  const cross = { 'sec-fetch-site': 'cross-site' }
  for (const method of ['GET', 'HEAD', 'OPTIONS']) assert.equal(codeOf({ method, headers: cross }), undefined, method)
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'])
    assert.equal(codeOf({ method, headers: cross }), 'CROSS_SITE')
  assert.equal(codeOf({ rawHeaders: ['Host', 'localhost', 'HOST', 'evil'] }), 'BAD_REQUEST')
})
