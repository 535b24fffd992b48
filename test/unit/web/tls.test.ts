// The HTTP service encrypted (web_user.tls): with its own certificate, and with configured files.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { realFiles } from '../../../src/lib/files'
import { keptPair, selfSigned } from '../../../src/web/certificate'
import { WebServer } from '../../../src/web/server'
import { webTls } from '../../../src/web/tls'
import { fakeContext, TOKEN } from './helper'

function dir(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), 'os-tls-'))
  t.after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function store(t: TestContext, tls: unknown): ConfigStore {
  const at = dir(t)
  writeFileSync(join(at, 'Config.json'), JSON.stringify({ web_user: { tls, allowed_hosts: ['shed.example'] } }))
  realFiles.mkdir(join(at, 'data'))
  return ConfigStore.load({ path: join(at, 'Config.json'), dataDir: join(at, 'data'), env: {} })
}

const get = (
  port: number,
  ca: string,
  path: string,
  servername = 'localhost',
): Promise<{ status: number; text: string }> =>
  new Promise((resolve, reject) => {
    https
      .get(
        {
          host: '127.0.0.1',
          port,
          path,
          ca,
          servername,
          agent: false,
          headers: { 'X-Admin-Token': TOKEN, Host: servername },
        },
        response => {
          let text = ''
          response.on('data', chunk => {
            text += chunk
          })
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
        },
      )
      .on('error', reject)
  })

test('its own certificate has every name and address, and is accepted by node and browsers', () => {
  const { cert, key } = selfSigned([
    'gw',
    'gw.local',
    '127.0.0.1',
    '192.168.100.200',
    '::1',
    'fe80::1:2',
    'x'.repeat(200),
  ])
  const made = new X509Certificate(cert)
  assert.ok(made.verify(made.publicKey))
  assert.equal(made.ca, false)
  assert.equal(made.subject, 'CN=gw')
  assert.match(
    made.subjectAltName ?? '',
    /DNS:gw.local, IP Address:127.0.0.1, IP Address:192.168.100.200, IP Address:0:0:0:0:0:0:0:1/,
  )
  assert.ok(made.checkHost('gw.local') && made.checkIP('192.168.100.200') && made.checkIP('fe80::1:2'))
  assert.deepEqual([new Date(made.validFrom).getUTCFullYear(), new Date(made.validTo).getUTCFullYear()], [2025, 2049])
  assert.match(key, /BEGIN PRIVATE KEY/)
  assert.notEqual(selfSigned(['gw']).cert, selfSigned(['gw']).cert)
})

test('the certificate is kept, and renewed only when a name is missing; a damaged file is replaced with a warning', t => {
  const path = join(dir(t), 'web_tls.pem')
  const said: string[] = []
  const warn = (text: string): void => void said.push(text)
  const first = keptPair(path, ['gw', '127.0.0.1'], realFiles, warn)
  assert.deepEqual(keptPair(path, ['gw', '127.0.0.1'], realFiles, warn), first)
  const more = keptPair(path, ['gw', '127.0.0.1', 'new.example'], realFiles, warn)
  assert.notEqual(more.cert, first.cert)
  writeFileSync(path, 'something else')
  const anew = keptPair(path, ['gw'], realFiles, warn)
  assert.deepEqual(keptPair(path, ['gw'], realFiles, warn), anew)
  rmSync(path)
  mkdirSync(path)
  assert.ok(new X509Certificate(keptPair(path, ['gw'], realFiles, warn).cert).checkHost('gw'))
  assert.deepEqual(
    said.map(text => /cannot be (read|written)/.exec(text)?.[1]),
    ['read', 'read', 'written'],
  )
})

test('self_signed: the server speaks only TLS, to names it has, and still requires its token', async t => {
  const config = store(t, 'self_signed')
  const server = new WebServer(fakeContext(), { host: '127.0.0.1', port: 0, tls: () => webTls(config) })
  await server.start()
  t.after(() => server.stop())
  assert.match(server.url, /^https:/)
  const { cert } = webTls(config)!
  assert.equal((await get(server.port, cert, '/api/config')).status, 200)
  assert.equal((await get(server.port, cert, '/health')).text, '{"ok":true,"service":"web_user"}')
  for (const name of [hostname(), 'shed.example']) assert.ok(new X509Certificate(cert).checkHost(name), name)
  await assert.rejects(get(server.port, cert, '/health', 'evil.example'), /altnames|Hostname/)
  await assert.rejects(fetch(`http://127.0.0.1:${server.port}/health`), { message: 'fetch failed' })
  assert.equal((await get(server.port, cert, '/health')).status, 200)
})

/** An answer of the plain port, without following the redirect. */
const plain = (port: number, path: string, more: http.RequestOptions = {}) =>
  new Promise<{ status: number; location: string | undefined; text: string }>((resolve, reject) => {
    http
      .request({ host: '127.0.0.1', port, path, agent: false, ...more }, response => {
        let text = ''
        response.on('data', chunk => {
          text += chunk
        })
        response.on('end', () =>
          resolve({ status: response.statusCode!, location: response.headers.location, text: text.slice(0, 60) }),
        )
      })
      .on('connect', ({ statusCode }, socket) => {
        socket.destroy()
        resolve({ status: statusCode!, location: undefined, text: '' })
      })
      .on('error', reject)
      .end()
  })

/** What the plain port answers to `text`. */
async function raw(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1', () => socket.end(text))
  let answer = ''
  for await (const chunk of socket) answer += chunk
  return answer
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

test('the plain port answers /health and redirects everything else to the encrypted page, under the names of the page only', async t => {
  const config = store(t, 'self_signed')
  const redirect = await freePort()
  const context = fakeContext()
  const said = (): string[] => context.lines.filter(line => /redirect/.test(line))
  const make = (redirectPort: number, tls = () => webTls(config)) =>
    new WebServer(context, { host: '127.0.0.1', port: 0, tls, redirectPort: () => redirectPort })
  const server = make(redirect)
  await server.start()
  t.after(() => server.stop())
  const to = `https://127.0.0.1:${server.port}`
  assert.deepEqual(await plain(redirect, '/health'), {
    status: 200,
    location: undefined,
    text: '{"ok":true,"service":"web_user"}',
  })
  for (const [path, more] of [
    ['/', {}],
    ['/api/config?x=1', { headers: { 'X-Admin-Token': TOKEN } }],
    ['/healthy', {}],
    ['/api/users', { method: 'POST' }],
  ] as const)
    assert.deepEqual(await plain(redirect, path, more), { status: 308, location: `${to}${path}`, text: '' }, path)
  const strange = await plain(redirect, '/', { headers: { Host: 'evil.example' } })
  assert.deepEqual([strange.status, strange.location], [403, undefined])
  assert.match(strange.text, /host name is not allowed/)
  assert.equal((await plain(redirect, '/health', { headers: { Host: 'evil.example' } })).status, 403)
  assert.equal((await plain(redirect, 'http://evil.example/')).status, 400)
  assert.match(await raw(redirect, 'GET / HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 400 /, 'there is no name to send it to')
  assert.equal((await plain(redirect, 'evil.example:443', { method: 'CONNECT' })).status, 405)
  assert.match(await raw(redirect, 'no request at all\r\n\r\n'), /^HTTP\/1\.1 400 .*"code":"BAD_REQUEST"/s)
  assert.deepEqual(said(), [])
  // 32 connections at a time: one more closes the one that is idle for longest
  const from = (k: number) => connect({ port: redirect, host: '127.0.0.1', localAddress: `127.0.0.${k}` })
  const idle = Array.from({ length: 32 }, (_, k) => from(1 + (k >> 3)))
  t.after(() => {
    for (const socket of idle) socket.destroy()
  })
  const closed: number[] = []
  for (const [k, socket] of idle.entries()) socket.on('error', () => undefined).on('close', () => void closed.push(k))
  await Promise.all(idle.map(socket => once(socket, 'connect')))
  const health = 'GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
  const answered = async (socket: Socket): Promise<void> => {
    socket.write(health)
    assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 200 /)
  }
  await answered(idle[0]!)
  await Promise.all(idle.slice(1).map(answered))
  assert.deepEqual(closed, [])
  const one = from(9)
  for (let k = 0; k < 5; k++) await answered(one)
  one.destroy()
  assert.equal(closed[0], 0)
  // a port in use disables only the redirect
  const second = make(redirect)
  await second.start()
  t.after(() => second.stop())
  assert.match(said().join(), /^warn no redirect to the page: port \d+ on 127\.0\.0\.1 is in use/)
  assert.equal((await get(second.port, webTls(config)!.cert, '/health')).status, 200)
  await server.stop()
  await assert.rejects(plain(redirect, '/health'), { code: 'ECONNREFUSED' })
  // a page that is not encrypted needs none
  const open = make(redirect, () => null as never)
  await open.start()
  t.after(() => open.stop())
  await assert.rejects(plain(redirect, '/health'), { code: 'ECONNREFUSED' })
})

test('idle connections beyond the limit are closed under TLS too, a busy one stays', async t => {
  const config = store(t, 'self_signed')
  let go = (): void => undefined
  const wait = new Promise<void>(resolve => {
    go = resolve
  })
  const slow = {
    method: 'GET',
    path: '/slow',
    role: 'open',
    summary: '',
    run: () => wait.then(() => ({ ok: true })),
  } as const
  const quick = { ...slow, path: '/quick', run: () => ({ ok: true }) }
  const options = { host: '127.0.0.1', port: 0, maxConnections: 2, routes: [slow, quick], tls: () => webTls(config) }
  const server = new WebServer(fakeContext(), options)
  await server.start()
  t.after(() => server.stop())
  const { cert } = webTls(config)!
  const busy = get(server.port, cert, '/slow')
  for (let k = 0; k < 4; k++) assert.equal((await get(server.port, cert, '/quick')).status, 200)
  go()
  assert.equal((await busy).status, 200)
})

test('configured certificate files are used; unsuitable ones are TLS_FILE and nothing listens', async t => {
  const at = dir(t)
  const { cert, key } = selfSigned(['localhost', '127.0.0.1'])
  const files = { cert: join(at, 'cert.pem'), key: join(at, 'key.pem') }
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
  assert.deepEqual(webTls(store(t, files)), { cert, key })
  assert.equal(webTls(store(t, 'off')), null)
  // run --lan always uses one, and a configured certificate stays in use
  assert.deepEqual(webTls(store(t, files), undefined, { lan: ['192.0.2.7'] }), { cert, key })
  const made = new X509Certificate(webTls(store(t, 'off'), undefined, { lan: ['192.0.2.7'] })!.cert)
  assert.ok(made.checkIP('192.0.2.7') && made.checkHost('localhost'))
  writeFileSync(files.key, selfSigned(['localhost']).key)
  for (const wrong of [files, { ...files, key: join(at, 'none.pem') }]) {
    const server = new WebServer(fakeContext(), { host: '127.0.0.1', port: 0, tls: () => webTls(store(t, wrong)) })
    await assert.rejects(server.start(), { code: 'TLS_FILE' })
    assert.equal(server.running, false)
  }
})

test('its own certificate names the address the server listens on, unless that is every address', t => {
  const seen = ['0.0.0.0', '::', '', '10.9.8.7'].map(host => {
    const settings: Record<string, unknown> = { 'web_user.tls': 'self_signed', 'web_user.allowed_hosts': ['a.example'] }
    const RESOURCES = { service_plugins: { web_user: { host } } }
    const config = { get: (key: string) => settings[key], config: { RESOURCES }, dataDir: dir(t) }
    return new X509Certificate(webTls(config as never, assert.fail, { lan: ['10.1.1.1'] })!.cert).subjectAltName
  })
  const common = `DNS:${hostname()}, DNS:${hostname()}.local, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1`
  const all = `${common}, DNS:a.example, IP Address:10.1.1.1`
  const one = `${common}, IP Address:10.9.8.7, DNS:a.example, IP Address:10.1.1.1`
  assert.deepEqual(seen, [all, all, all, one])
})
