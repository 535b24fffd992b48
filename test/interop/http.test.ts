// The HTTP service of real gateways: every answer matches the table of routes, with hostile queries on the real database (S10) and secrets
// (S11).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { test } from 'node:test'
import * as v from 'valibot'
import { ROUTES } from '../../src/web/routes'
import { until } from '../lib/gateway'
import { answerProblems, documentProblems } from '../lib/openapi'
import { type Answer, SECRET, world } from './http-world'

test('a running gateway answers every GET according to its schema, keeps its secrets (S11) and its database (S10)', async t => {
  const { gw, send, token, port } = await world(t)

  await t.test('every GET matches its schema', async () => {
    const [packet] = (await send('GET', '/api/data/packets?limit=1')).json.packets
    const document = (await send('GET', '/api/openapi.json')).json
    assert.deepEqual(documentProblems(document), [])
    for (const route of ROUTES) {
      if (route.method !== 'GET' || route.stream) continue
      const path = route.path.replace(':uuid', packet.packet_uuid).replace(':section', 'node_core:pipeline')
      const asked =
        route.path === '/api/data/history' ? `?device_id=${encodeURIComponent(packet.device_id)}&sensor_id=x` : ''
      const { status, json, text } = await send('GET', path + asked)
      assert.equal(status, 200, `${path}: ${text.slice(0, 300)}`)
      if (!route.answer) continue
      const checked = v.safeParse(route.answer, json)
      const issues = checked.success ? [] : checked.issues.map(issue => `${v.getDotPath(issue)}: ${issue.message}`)
      assert.deepEqual(issues, [], path)
      const told = {
        method: 'GET',
        path: route.path.replace(/:(\w+)/g, '{$1}'),
        status,
        type: 'application/json',
        json,
      }
      assert.deepEqual(answerProblems(document, told), [])
    }
  })

  await t.test('every section is rendered in every format', async () => {
    const { providers } = (await send('GET', '/api/display/providers')).json.metadata
    assert.ok(providers.length >= 6)
    for (const { section_path } of providers)
      for (const format of ['json', 'html', 'text', 'table', 'tree']) {
        const { status, json } = await send('GET', `/api/display/render/${section_path}?format=${format}`)
        assert.deepEqual([status, json.section, json.format], [200, section_path, format])
      }
    const all = (await send('GET', '/api/display/all?format=text')).json
    assert.deepEqual(
      Object.keys(all.sections),
      providers.map(({ section_path }: { section_path: string }) => section_path),
    )
    const few = (await send('GET', '/api/display/all?category=core&min_priority=95')).json
    assert.deepEqual(Object.keys(few.sections), ['node_core:identity', 'node_core:config'])
    for (const [path, status, code] of [
      ['/api/display/render/identity', 404, 'NOT_FOUND'],
      ['/api/display/render/none:x', 404, 'NOT_FOUND'],
      ['/api/display/render/', 400, 'BAD_REQUEST'],
      ['/api/display/render/node_core:db?format=xml', 400, 'BAD_REQUEST'],
      ['/api/display/all?min_priority=high', 400, 'BAD_REQUEST'],
    ] as const) {
      const answer = await send('GET', path)
      assert.deepEqual([answer.status, answer.json.ok, answer.json.code], [status, false, code], path)
    }
  })

  await t.test('S10: hostile values are only values; limit and offset are clamped', async () => {
    const before = (await send('GET', '/api/data/packets')).json.total
    const values = [
      "' OR '1'='1",
      "'; DROP TABLE os_packets; --",
      '" OR 1=1 --',
      '%',
      '_',
      '\\',
      "\\' OR 1=1 --",
      'GW1 UNION SELECT * FROM os_packets',
      '‮\u{1F4A9}',
      'x'.repeat(2000),
      ':id',
      '?1',
      '$1',
    ]
    for (const value of values) {
      const text = encodeURIComponent(value)
      for (const path of [
        `/api/data/packets?device_id=${text}`,
        `/api/data/packets?status=${text}`,
        `/api/data/sensors?sensor_id=${text}`,
        `/api/data/sensors?device_id=${text}`,
      ]) {
        const { status, json } = await send('GET', path)
        assert.deepEqual([status, json.ok, json.total], [200, true, 0], path.slice(0, 80))
      }
      assert.equal((await send('GET', `/api/data/packets/${text}`)).status, 404)
      for (const key of ['since', 'until', 'limit', 'offset'])
        assert.equal(
          (await send('GET', `/api/data/packets?${key}=${text}`)).status,
          400,
          `${key}=${value.slice(0, 40)}`,
        )
    }
    const clamped = (await send('GET', '/api/data/packets?limit=100000&offset=-7')).json
    assert.deepEqual([clamped.limit, clamped.offset], [500, 0])
    const high = (await send('GET', `/api/data/sensors?offset=${'9'.repeat(50)}&since=${'9'.repeat(30)}`)).json
    assert.deepEqual([high.ok, high.sensors], [true, []])
    assert.ok((await send('GET', '/api/data/packets')).json.total >= before)
  })

  await t.test('S11: no secret is returned by any route, format or command, or written to the log', async () => {
    const paths = [
      '/api/config',
      '/api/config?key=gateway.uplinks',
      '/api/config?key=gateway.uplinks.0.password',
      '/api/options',
      '/api/options/schema',
      '/api/dashboard',
      '/api/dashboard?sections=status',
      '/api/transport',
      '/api/log?lines=1000',
      '/api/plugins',
      '/metrics',
      ...['json', 'html', 'text', 'table', 'tree'].map(format => `/api/display/all?format=${format}`),
    ]
    for (const path of paths) {
      const { text } = await send('GET', path)
      for (const secret of [SECRET, token, 'scrypt$']) assert.ok(!text.includes(secret), path)
    }
    const events = await new Promise<string>((resolve, reject) =>
      http
        .get(
          {
            host: '127.0.0.1',
            port,
            path: '/api/events?kinds=links',
            headers: { 'X-Admin-Token': token },
            agent: false,
          },
          response => {
            let text = ''
            response.on('data', chunk => {
              text += chunk
              if (!text.includes('"hook"')) return
              response.destroy()
              resolve(text)
            })
          },
        )
        .on('error', reject),
    )
    assert.match(events, /no driver for sources of type https:/)
    assert.ok(!events.includes(SECRET))
    for (const command of ['config-show --json', 'config-get --key gateway.uplinks', 'status --json']) {
      const { text, json } = await send('POST', '/api/oscli/execute', { command })
      assert.equal(json.exit_code, 0, text)
      assert.ok(!text.includes(SECRET), command)
    }
    assert.ok(!gw.output.includes(SECRET))
  })

  await t.test('a write applies to the running gateway; reload without enabled only reloads', async () => {
    const put = await send('PUT', '/api/config', { engine_settings: { precision: 6 } })
    assert.deepEqual(put.json.changed[0].new, 6)
    assert.equal(JSON.parse(readFileSync(gw.config, 'utf8')).engine_settings.precision, 6)
    const reload = await send('POST', '/api/transport', { medium: 'tcp', reload: true })
    assert.deepEqual(reload.json, { ok: false, medium: 'TCP', reloaded: false })
    assert.equal((await send('GET', '/api/config?key=RESOURCES.transport_status.tcp')).json.value, false)
    const on = await send('POST', '/api/transport', { medium: 'tcp', enabled: true })
    assert.deepEqual(on.json, { ok: true, medium: 'TCP', enabled: true })
    assert.deepEqual((await send('POST', '/api/transport', { medium: 'tcp', reload: true })).json, {
      ok: true,
      medium: 'TCP',
      reloaded: true,
    })
    const unknown = await send('POST', '/api/transport', { medium: 'pigeon' })
    assert.deepEqual([unknown.status, unknown.json.error, unknown.json.medium], [400, 'unknown medium', 'pigeon'])
  })

  await t.test('a user made on the command line logs in over HTTP, with the rights of the role', async () => {
    const added = gw.run('web-user', 'add', 'oli', '--role', 'operator', '--password', 'a password')
    assert.equal(added.code, 0, added.stderr + added.stdout)
    const login = await send('POST', '/api/login', { username: 'oli', password: 'a password' }, null)
    assert.equal(login.json.role, 'operator')
    const as = login.json.session as string
    const run = (command: string): Promise<Answer> => send('POST', '/api/oscli/execute', { command }, as)
    assert.equal((await run('status')).json.exit_code, 0)
    assert.deepEqual((await run('token --new')).json.error, 'role admin required')
    assert.equal((await send('PUT', '/api/config', { engine_settings: { precision: 5 } }, as)).status, 403)
    assert.equal((await send('POST', '/api/transport', { medium: 'tcp', enabled: false }, as)).status, 200)
    // by another path than that of the answer
    await until('it is noted', () => gw.output.includes('oli at 127.0.0.1: status'))
  })

  await t.test('every write answers, and refuses, as openapi.json says', async () => {
    const document = (await send('GET', '/api/openapi.json')).json
    const walk: [string, string, unknown, number][] = [
      ['PUT', '/api/config', { key: 'engine_settings.precision', value: '5', value_type: 'int' }, 200],
      ['PUT', '/api/config', { engine_settings: { precision: 11 } }, 400],
      ['PUT', '/api/config', { device_id: 'other' }, 403],
      ['PUT', '/api/config', { key: 'engine_settings..x', value: 1 }, 404],
      ['PUT', '/api/options', { updates: [{ key: 'engine_settings.precision', value: 6 }, { key: 'x' }] }, 200],
      ['PUT', '/api/options', { updates: 1 }, 400],
      ['PUT', '/api/ui/config', { ui_theme: 'dark', unknown: 1 }, 400],
      ['PUT', '/api/ui/config', { ui_refresh_seconds: 0 }, 400],
      ['POST', '/api/reload', {}, 200],
      ['POST', '/api/safe-mode', { leave: true }, 200],
      ['POST', '/api/safe-mode', {}, 400],
      ['PUT', '/api/update', { offset: 0, data: 'YW4gdXBkYXRl' }, 200],
      ['PUT', '/api/update', { offset: 8, data: 'YW4gdXBkYXRl' }, 400],
      ['POST', '/api/update', { size: 8 }, 400],
      ['POST', '/api/update', { source: '/etc/passwd' }, 400],
      ['POST', '/api/update', { source: 'https://example.org/x.update' }, 200],
      ['POST', '/api/wifi', { ssid: 'garden', password: 'long enough' }, 200],
      ['POST', '/api/wifi', { ssid: 'garden', password: 'short' }, 400],
      ['POST', '/api/backup', { passphrase: 'short' }, 400],
      ['PUT', '/api/restore', { offset: 0, data: 'bm8gYmFja3Vw' }, 200],
      ['PUT', '/api/restore', { offset: 8, data: 'bm8gYmFja3Vw' }, 400],
      ['POST', '/api/restore', { size: 9 }, 400],
      ['POST', '/api/transport', { medium: 'quic', enabled: false }, 200],
      ['POST', '/api/transport', { medium: 'pigeon' }, 400],
      ['POST', '/api/outputs', { name: 'pump', value: 1 }, 404],
      ['POST', '/api/outputs', { name: 'pump', value: 2 }, 400],
      ['POST', '/api/plugins', { plugin: 'port-forwarder', action: 'start' }, 200],
      ['POST', '/api/plugins', { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'list' }, 200],
      ['POST', '/api/plugins', { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'none' }, 400],
      ['POST', '/api/plugins', { plugin: 'port_forwarder', action: 'set_enabled', enabled: true }, 200],
      ['POST', '/api/plugins', { plugin: 'none' }, 400],
      ['POST', '/users', { username: 'ada', password: 'p', role: 'viewer' }, 200],
      ['POST', '/users', { username: 'ADA' }, 409],
      ['PUT', '/users/ada', { role: 'operator', enabled: false }, 200],
      ['PUT', '/users/nobody', {}, 404],
      ['POST', '/api/login', { username: 'ada', password: 'p' }, 401],
      ['DELETE', '/users/ada', undefined, 200],
      ['DELETE', '/users/', undefined, 400],
      ['POST', '/api/login', { token }, 200],
      ['POST', '/api/logout', {}, 200],
      ['POST', '/api/oscli/execute', { command: 'id-info --json' }, 200],
      ['POST', '/api/oscli/execute', { command: 'watch --module transport', background: true }, 200],
      ['POST', '/api/oscli/execute', { command: '' }, 400],
      ['POST', '/api/oscli/cancel', { job_id: 'none' }, 404],
      ['POST', '/health', {}, 405],
    ]
    for (const [method, path, body, expected] of walk) {
      const what = `${method} ${path} ${JSON.stringify(body)}`
      const { status, json } = await send(method, path, body)
      assert.equal(status, expected, `${what}: ${JSON.stringify(json)}`)
      if (expected === 405) continue
      const told = { method, path: path.replace(/^\/users\/.*/, '/users/{username}'), status, json }
      assert.deepEqual(answerProblems(document, { ...told, type: 'application/json' }), [])
      if (expected !== 200)
        assert.deepEqual([json.ok, typeof json.error, typeof json.code], [false, 'string', 'string'])
    }
    const walked = new Set(
      walk.map(([method, path]) => `${method} ${path.replace(/^\/users\/.*/, '/users/:username')}`),
    )
    const writes = ROUTES.filter(({ method }) => method !== 'GET').map(({ method, path }) => `${method} ${path}`)
    assert.deepEqual(
      writes.filter(name => !walked.has(name)),
      [],
    )
    const [running] = (await send('GET', '/api/oscli/jobs?limit=1')).json.jobs
    assert.equal(running.status, 'running')
    const cancelled = await send('POST', '/api/oscli/cancel', { job_id: running.job_id })
    assert.deepEqual([cancelled.json.job.status, cancelled.json.job.exit_code], ['cancelled', 130])
  })

  await t.test('the real gateway sends live events', async () => {
    const seen = new Set<string>()
    await new Promise<void>((resolve, reject) => {
      const stream = http.get(
        { host: '127.0.0.1', port, path: '/api/events', headers: { 'X-Admin-Token': token }, agent: false },
        response => {
          let text = ''
          response.setEncoding('utf8').on('data', chunk => {
            text += chunk
            for (const [, kind] of text.matchAll(/^event: (\w+)$/gm)) seen.add(kind!)
            // more readings than at the beginning
            if (seen.has('link') && (text.match(/^event: reading$/gm)?.length ?? 0) > 10) {
              stream.destroy()
              resolve()
            }
          })
        },
      )
      stream.on('error', reject)
    })
    assert.ok(seen.has('reading') && seen.has('link'))
  })

  await t.test('a new token ends the old one and its sessions immediately', async () => {
    const login = await send('POST', '/api/login', { token }, null)
    const session = login.json.session as string
    const { token: next } = gw.json('token', '--new') as { token: string }
    for (const old of [token, session]) assert.equal((await send('GET', '/api/session', undefined, old)).status, 401)
    assert.equal((await send('GET', '/api/session', undefined, next)).status, 200)
  })
})
