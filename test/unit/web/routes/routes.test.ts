// Routes in general: tokens, unknown paths and methods, the dashboard, the configuration, and answers to errors.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask, fakeContext, serve, TOKEN } from '../helper'

test('S2: a route that is not declared open needs a token', async t => {
  const run = () => ({ ok: true })
  const server = await serve(t, fakeContext(), {
    routes: [{ method: 'POST', path: '/api/new', role: 'admin', summary: '', run }],
  })
  assert.equal((await ask(server, '/api/new', { method: 'POST', token: false })).status, 401)
  assert.equal((await ask(server, '/api/new', { method: 'POST' })).status, 200)
})

test('wrong tokens are 401 whatever they contain, spaces around the right one do not matter', async t => {
  const server = await serve(t)
  for (const token of ['x', 'x'.repeat(5000), `${TOKEN}x`, 'ÿ']) {
    assert.equal((await ask(server, '/api/config', { token })).status, 401)
  }
  assert.equal((await ask(server, '/api/config', { token: `  ${TOKEN} ` })).status, 200)
})

test('an unknown path is 404 and a wrong method 405 with Allow', async t => {
  const server = await serve(t)
  for (const path of [
    '/nothing',
    '/api',
    '/api/data',
    '/health/',
    '//',
    '/api/data/packets/a/b',
    '/__proto__',
    '/constructor',
    '/..%2f..%2fetc/passwd',
    '/../../etc/passwd',
  ]) {
    const { status, json } = await ask(server, path)
    assert.equal(status, 404, path)
    assert.deepEqual(json, { ok: false, error: 'not found', code: 'NOT_FOUND' })
  }
  const wrong = await ask(server, '/api/data/devices', { method: 'DELETE' })
  assert.equal(wrong.status, 405)
  assert.equal(wrong.headers.allow, 'GET, HEAD, OPTIONS')
  assert.deepEqual(wrong.json, { ok: false, error: 'method not allowed', code: 'METHOD_NOT_ALLOWED' })
  const options = await ask(server, '/api/config', { method: 'OPTIONS' })
  assert.equal(options.status, 204)
  assert.equal(options.headers.allow, 'GET, HEAD, PUT, OPTIONS')
  assert.equal(options.headers['access-control-allow-origin'], undefined)
})

test('health needs no token', async t => {
  const server = await serve(t)
  for (const path of ['/health', '/api/health']) {
    assert.deepEqual((await ask(server, path, { token: false })).json, { ok: true, service: 'web_user' })
  }
})

test('the dashboard contains the service, every section and the status, or the requested sections', async t => {
  const server = await serve(t)
  const all = (await ask(server, '/api/dashboard')).json as { ok: boolean; dashboard: Record<string, unknown> }
  assert.equal(all.ok, true)
  const names = [
    'service',
    'identity',
    'transport',
    'pipeline',
    'plugins',
    'users',
    'overview_metrics',
    'display_providers',
    'display_sections',
    'status',
    'latest',
    'timestamp',
    'service_config',
  ]
  assert.deepEqual(Object.keys(all.dashboard), names)
  assert.deepEqual(all.dashboard.service, {
    name: 'web_user',
    running: true,
    uptime_s: 0,
    host: '127.0.0.1',
    port: server.port,
    read_only: false,
    management_enabled: true,
    auth_enabled: true,
  })
  const sectionsOf = async (query: string): Promise<string[]> => {
    const { json } = await ask(server, `/api/dashboard?sections=${query}`)
    const fixed = ['service', 'timestamp', 'service_config']
    return Object.keys(json.dashboard as object).filter(key => !fixed.includes(key))
  }
  assert.deepEqual(await sectionsOf('identity,%20users,none'), ['identity', 'users'])
  const everything = names.filter(name => !['service', 'timestamp', 'service_config'].includes(name))
  for (const query of ['', 'none', '__proto__,constructor']) assert.deepEqual(await sectionsOf(query), everything)
})

test('a dashboard section that fails shows its error and does not affect the others', async t => {
  const context = fakeContext()
  const server = await serve(t, context)
  context.sections = {
    ...context.sections,
    pipeline: () => {
      throw new Error('secret path /data/x')
    },
  }
  const { status, json, text } = await ask(server, '/api/dashboard')
  assert.equal(status, 200)
  assert.deepEqual((json.dashboard as Record<string, unknown>).pipeline, { error: 'internal error', code: 'INTERNAL' })
  assert.ok(!text.includes('secret path'))
  assert.ok(context.lines.some(line => line.includes('secret path')))
})

test('the configuration is returned complete or by key, a missing key is 404', async t => {
  const server = await serve(t)
  assert.deepEqual((await ask(server, '/api/config')).json, { ok: true, config: { web_user: { auth_enabled: true } } })
  assert.deepEqual((await ask(server, '/api/config?key=web_user.auth_enabled')).json, {
    ok: true,
    key: 'web_user.auth_enabled',
    value: true,
  })
  for (const key of ['none', '__proto__', 'constructor.prototype', 'web_user.__proto__', 'toString', '../x']) {
    const { status, json } = await ask(server, `/api/config?key=${encodeURIComponent(key)}`)
    assert.equal(status, 404, key)
    assert.deepEqual(json, { ok: false, error: 'key not found', code: 'CONFIG_KEY', key })
  }
})

test('the transport view has the form of the reference', async t => {
  const server = await serve(t)
  const context = fakeContext()
  assert.deepEqual((await ask(server, '/api/transport')).json, { ok: true, ...context.transport() })
})

test('a handler that throws answers 500 without its text, and the server continues', async t => {
  const context = fakeContext({
    transport: () => {
      throw new TypeError('x is not a function')
    },
  })
  const server = await serve(t, context)
  const { status, json } = await ask(server, '/api/transport')
  assert.equal(status, 500)
  assert.deepEqual(json, { ok: false, error: 'internal error', code: 'INTERNAL' })
  assert.ok(context.lines.some(line => line.includes('x is not a function')))
  assert.equal((await ask(server, '/health')).status, 200)
})

test('S6: the page and its files are served with an ETag and no inline script or style', async t => {
  const server = await serve(t)
  const { text, headers } = await ask(server, '/', { token: false })
  assert.match(String(headers['content-type']), /^text\/html/)
  assert.match(text, /<script src="\/app\.js" defer><\/script>/)
  assert.doesNotMatch(text, /<style|style=|onclick|<script>|https?:/)
  const script = await ask(server, '/app.js', { token: false })
  assert.match(String(script.headers['content-type']), /^text\/javascript/)
  assert.ok(script.text.length > 1000)
  const again = await ask(server, '/app.js', {
    token: false,
    headers: { 'If-None-Match': String(script.headers.etag) },
  })
  assert.equal(again.status, 304)
  assert.equal(again.text, '')
})
