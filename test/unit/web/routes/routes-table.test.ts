// The table of routes, each called: who may call it (S2), what is refused while read_only, that every answer fits its schema,
// and that openapi.json agrees.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as v from 'valibot'
import { ROLES } from '../../../../src/services/users'
import { ROUTES, type Route } from '../../../../src/web/routes'
import { answerProblems, documentProblems, violations } from '../../../lib/openapi'
import { ask, TOKEN, UUID } from '../helper'
import { PASSWORD, type World, world } from '../world'

const OPEN = [
  'GET /',
  'GET /app.js',
  'GET /app.css',
  'GET /favicon.svg',
  'GET /favicon.ico',
  'GET /health',
  'GET /api/health',
  'POST /api/login',
]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']

const nameOf = ({ method, path }: Route): string => `${method} ${path}`

const concrete = (path: string): string =>
  path.replace(':uuid', UUID).replace(':username', 'bob').replace(':section', 'weather:now') +
  (path === '/api/data/history' ? '?device_id=d&sensor_id=s' : '')

/** A body for each route that takes one; a new route fails here until it has its own. */
const BODIES: Record<string, unknown> = {
  'POST /api/login': { token: TOKEN },
  'POST /api/logout': {},
  'PUT /api/config': { engine_settings: { precision: 6 } },
  'PUT /api/options': { updates: [{ key: 'engine_settings.precision', value: 5, value_type: 'int' }] },
  'PUT /api/ui/config': { ui_theme: 'dark' },
  'POST /api/reload': {},
  'POST /api/safe-mode': { leave: true },
  'POST /api/backup': {},
  'PUT /api/restore': { offset: 0, data: 'YQ==' },
  'POST /api/restore': { size: 1 },
  'POST /api/wifi': { ssid: 'garden' },
  'PUT /api/update': { offset: 0, data: 'YQ==' },
  'POST /api/update': { source: 'https://example.org/x.update' },
  'POST /api/transport': { medium: 'udp' },
  'POST /api/outputs': { name: 'pump', value: 1 },
  'POST /api/plugins': { plugin: 'port_forwarder', action: 'start' },
  'POST /users': { username: 'carol', password: PASSWORD },
  'PUT /users/:username': { role: 'operator' },
  'POST /api/oscli/execute': { command: 'status --json' },
  'POST /api/oscli/cancel': {},
}

async function bodyOf(route: Route, { jobs }: World): Promise<unknown> {
  if (route.method === 'GET' || route.method === 'DELETE') return undefined
  const name = nameOf(route)
  assert.ok(name in BODIES, `${name} needs a body in this test`)
  if (name !== 'POST /api/oscli/cancel') return BODIES[name]
  const request = { command: 'status', role: 'operator', username: 'x', remote: 'y' } as const
  return { job_id: (await jobs.submit(request)).job_id }
}

test('S2: every route × method is 401 without the token, except the listed ones', async t => {
  const { server } = await world(t)
  assert.deepEqual(ROUTES.filter(route => route.role === 'open').map(nameOf), OPEN)
  for (const path of new Set(ROUTES.map(route => route.path))) {
    for (const method of METHODS) {
      const { status, json } = await ask(server, concrete(path), { method, token: false })
      const listed = OPEN.some(name => name.endsWith(` ${path}`))
      if (!listed) {
        assert.equal(status, 401, `${method} ${path}`)
        if (method !== 'HEAD')
          assert.deepEqual(json, { ok: false, error: 'admin token required', code: 'UNAUTHORIZED' })
      } else assert.notEqual(status, 401, `${method} ${path}`)
    }
  }
})

test('every route × role: the refusal of a lower role names the required one', async t => {
  const w = await world(t)
  for (const role of ROLES) {
    const session = await w.session(role)
    for (const route of ROUTES) {
      if (route.role === 'open' || route.path === '/api/logout' || route.stream) continue
      const ofUsers = route.path.startsWith('/users') && route.role === 'admin'
      if (ofUsers && !w.users.get('bob')) await w.users.add({ username: 'bob' })
      const { status, json } = await w.send(route.method, concrete(route.path), await bodyOf(route, w), session)
      const may = ROLES.indexOf(role) >= ROLES.indexOf(route.role)
      if (may) assert.ok(status === 200, `${role} ${nameOf(route)}: ${status} ${json.error}`)
      else {
        assert.equal(status, 403, `${role} ${nameOf(route)}`)
        assert.deepEqual(json, { ok: false, error: `role ${route.role} required`, code: 'FORBIDDEN' })
      }
      if (w.users.get('carol')) w.users.remove('carol')
    }
  }
})

test('a route that changes something has a write rule and is refused while read_only, before the token is checked', async t => {
  const w = await world(t, { config: { web_user: { read_only: true } } })
  for (const route of ROUTES) {
    if (route.stream) continue
    const name = nameOf(route)
    const changes =
      route.method !== 'GET' && !['POST /api/login', 'POST /api/logout', 'POST /api/backup'].includes(name)
    assert.equal(route.write !== undefined, changes, name)
    if (!changes) continue
    for (const token of [TOKEN, false] as const) {
      const { status, json } = await w.send(
        route.method,
        concrete(route.path),
        route.method === 'DELETE' ? undefined : {},
        token,
      )
      assert.deepEqual([status, json], [403, { ok: false, error: 'read-only mode is active', code: 'READ_ONLY' }], name)
    }
  }
})

test('every answer fits its schema, HEAD is the same without a body', async t => {
  const w = await world(t)
  await w.users.add({ username: 'bob' })
  for (const route of ROUTES) {
    if (route.stream) continue
    const name = nameOf(route)
    const { status, headers, json, text } = await w.send(route.method, concrete(route.path), await bodyOf(route, w))
    assert.equal(status, 200, `${name}: ${text.slice(0, 200)}`)
    if (route.answer) {
      assert.equal(headers['content-type'], 'application/json; charset=utf-8')
      const checked = v.safeParse(route.answer, json)
      const issues = checked.success ? [] : checked.issues.map(issue => `${v.getDotPath(issue)}: ${issue.message}`)
      assert.deepEqual(issues, [], name)
    } else
      assert.ok(
        ['/metrics', '/api/backup', ...OPEN.map(open => open.slice(4))].includes(route.path),
        `${name} needs an answer`,
      )
    if (route.method !== 'GET') continue
    const head = await ask(w.server, concrete(route.path), { method: 'HEAD' })
    assert.deepEqual([head.status, head.text, head.headers['content-type']], [200, '', headers['content-type']], name)
  }
})

test('X18: a body that is no JSON object, or of another type, is 400 on every route that takes one', async t => {
  const { send, server } = await world(t)
  for (const route of ROUTES.filter(({ method }) => method === 'POST' || method === 'PUT')) {
    for (const body of ['{', 'null', '[]', '"x"', '\xff\xfe', '{"__proto__":']) {
      const { status, json } = await send(route.method, concrete(route.path), body)
      assert.deepEqual([status, json.ok, json.code], [400, false, 'BAD_REQUEST'], `${nameOf(route)} ${body}`)
    }
    const plain = await ask(server, concrete(route.path), {
      method: route.method,
      body: '{}',
      headers: { 'Content-Type': 'text/plain' },
    })
    assert.equal(plain.status, 415, nameOf(route))
  }
})

test('values of a wrong type in a body are 400 and name the key, never a dropped connection', async t => {
  const w = await world(t)
  const values = [null, 0, -1, 1e300, '', 'x', [], {}, true, [[]], { a: { b: {} } }, '\u0000', 'x'.repeat(70_000)]
  for (const route of ROUTES.filter(({ body }) => body)) {
    const sample = (await bodyOf(route, w)) as Record<string, unknown>
    for (const key of Object.keys(sample)) {
      for (const value of values) {
        const { status, json } = await w.send(route.method, concrete(route.path), { ...sample, [key]: value })
        assert.ok(status >= 200 && status < 500, `${nameOf(route)} ${key} ${JSON.stringify(value)}: ${status}`)
        if (status >= 400) assert.deepEqual([json.ok, typeof json.error, typeof json.code], [false, 'string', 'string'])
      }
    }
  }
})

test('docs/http.md lists every route with its role and write rule', () => {
  const page = readFileSync(join(process.env.OS_NODE_TEST_ROOT ?? '.', 'docs/http.md'), 'utf8')
  const listed = [...page.matchAll(/^\| (GET|POST|PUT|DELETE) \| `([^`]+)` \| (\w+) \| (\w*) ?\| (.*) \|$/gm)]
  assert.deepEqual(
    listed.map(([, ...cells]) => cells.join(' ')),
    ROUTES.filter(({ path }) => !/^\/(app|favicon)/.test(path)).map(({ method, path, role, write = '', summary }) =>
      [method, path.replace(/:(\w+)/g, '{$1}'), role, write, summary].join(' '),
    ),
  )
})

test('openapi.json has every route with its role, its parameters and its schemas', async t => {
  const { send } = await world(t)
  const { json } = await send('GET', '/api/openapi.json')
  const paths = json.paths as Record<string, Record<string, Record<string, unknown>>>
  assert.equal(json.openapi, '3.1.0')
  const told = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  assert.deepEqual(told.sort(), ROUTES.map(route => nameOf(route).replace(/:(\w+)/g, '{$1}')).sort())
  for (const route of ROUTES) {
    const one = paths[route.path.replace(/:(\w+)/g, '{$1}')]![route.method.toLowerCase()]!
    assert.equal(one['x-role'], route.role)
    assert.deepEqual(one.security, route.role === 'open' ? [] : [{ adminToken: [] }])
    const names = (one.parameters as { name: string; in: string }[]).filter(p => p.in === 'query').map(p => p.name)
    assert.deepEqual(names, Object.keys(route.query ?? {}))
    assert.equal('requestBody' in one, route.body !== undefined)
    assert.ok(String(one.summary).length > 3)
  }
  const config = paths['/api/options']!.put as { requestBody: { content: Record<string, { schema: unknown }> } }
  assert.deepEqual(
    Object.keys((config.requestBody.content['application/json']!.schema as { properties: object }).properties),
    ['updates'],
  )
  const limit = (paths['/api/data/packets']!.get!.parameters as { name: string; schema: object }[]).find(
    ({ name }) => name === 'limit',
  )
  assert.deepEqual(limit?.schema, { type: 'integer', minimum: 1, maximum: 500, default: 50 })
})

test('openapi.json is valid OpenAPI, and every real answer and refusal fits it', async t => {
  const w = await world(t)
  await w.users.add({ username: 'bob' })
  const document = (await w.send('GET', '/api/openapi.json')).json
  assert.deepEqual(documentProblems(document), [])
  const { paths } = JSON.parse(JSON.stringify(document))
  const check = async (route: Route, path: string, body: unknown, as: string | false = TOKEN): Promise<number> => {
    const { status, headers, json } = await w.send(route.method, path, body, as)
    const told = { method: route.method, path: route.path.replace(/:(\w+)/g, '{$1}'), status, json }
    assert.deepEqual(answerProblems(document, { ...told, type: String(headers['content-type']) }), [])
    return status
  }
  for (const route of ROUTES) {
    if (route.stream) continue
    const name = nameOf(route)
    const path = concrete(route.path)
    const body = await bodyOf(route, w)
    if (route.role !== 'open') assert.equal(await check(route, path, body, false), 401)
    const { parameters, requestBody } = paths[route.path.replace(/:(\w+)/g, '{$1}')][route.method.toLowerCase()]
    for (const { name: key, in: place, schema } of parameters) {
      if (place === 'path') {
        const elsewhere = route.path.replace(/:\w+/, 'no%3Asuch')
        assert.equal(await check(route, elsewhere, body), 404, `${name}: nothing of that name`)
      } else if (schema.type !== 'string' || schema.enum)
        assert.equal(
          await check(route, `${path}${path.includes('?') ? '&' : '?'}${key}=no+such`, body),
          400,
          `${name}?${key}`,
        )
    }
    if (requestBody) {
      const { schema } = requestBody.content['application/json']
      assert.deepEqual(violations(document, schema, body), [], `the body of ${name}`)
      const sample = body as Record<string, unknown>
      for (const key of schema.required ?? []) {
        const { [key]: _, ...rest } = sample
        assert.equal(await check(route, path, rest), 400, `${name} without ${key}`)
      }
      for (const [key, one] of Object.entries(schema.properties ?? {}))
        for (const value of [7, -1, 'x', [], {}, true, null])
          if (violations(document, one, value).length > 0)
            assert.equal(await check(route, path, { ...sample, [key]: value }), 400, `${name} ${key} ${value}`)
    }
    assert.equal(await check(route, path, body), 200, name)
  }
})

test('S5: every route refuses an unknown host; every route that changes something refuses other sites and origins', async t => {
  const { server } = await world(t)
  for (const route of ROUTES) {
    const ask1 = (headers: Record<string, string>) =>
      ask(server, concrete(route.path), { method: route.method, headers })
    const rebound = await ask1({ Host: 'evil.example' })
    assert.deepEqual([rebound.status, rebound.json.code], [403, 'HOST_REFUSED'], nameOf(route))
    if (route.method === 'GET') continue
    for (const headers of [
      { Origin: 'http://evil.example' },
      { Origin: 'null' },
      { Origin: `http://127.0.0.1:${server.port + 1}` },
      { 'Sec-Fetch-Site': 'cross-site' },
      { 'Sec-Fetch-Site': 'same-site' },
    ] as Record<string, string>[]) {
      const { status, json } = await ask1(headers)
      assert.deepEqual([status, json.code], [403, 'CROSS_SITE'], `${nameOf(route)} ${JSON.stringify(headers)}`)
    }
  }
})

test('S6: every answer of every route, also a refusal, forbids inline script, sniffing, framing and referrers', async t => {
  const w = await world(t)
  for (const route of ROUTES) {
    if (route.stream) continue
    for (const [path, token] of [
      [concrete(route.path), TOKEN],
      [concrete(route.path), false],
      [`${concrete(route.path)}/none`, TOKEN],
    ] as const) {
      const { headers } = await ask(w.server, path, { method: route.method, token })
      const name = `${nameOf(route)} ${path}`
      const csp = String(headers['content-security-policy'])
      assert.match(csp, /default-src 'none'/, name)
      assert.match(csp, /frame-ancestors 'none'/, name)
      assert.doesNotMatch(csp, /unsafe|\*|https?:|data:/, name)
      assert.equal(headers['x-content-type-options'], 'nosniff', name)
      assert.equal(headers['referrer-policy'], 'no-referrer', name)
      assert.ok(!Object.keys(headers).some(header => header.startsWith('access-control-')), name)
    }
  }
})

test('S8: a path that climbs, is hidden or reaches into prototypes is no route and no file', async t => {
  const w = await world(t)
  const CORPUS = [
    '../../etc/passwd',
    '..%2f..%2f..%2fetc%2fpasswd',
    '%2e%2e/%2e%2e/%2e%2e/etc/passwd',
    '..%5c..%5cwindows%5cwin.ini',
    '....//....//etc/passwd',
    '%252e%252e%252fetc%252fpasswd',
    '..%c0%af..%c0%afetc/passwd',
    '..;/..;/etc/passwd',
    'file:///etc/passwd',
    '%00',
    'x%00.js',
    '__proto__',
    'constructor',
    'constructor/prototype',
    'toString',
    'hasOwnProperty',
    '.env',
    'Config.json',
    'web_users.json',
    'token.json',
  ]
  for (const base of new Set(['', ...ROUTES.map(({ path }) => concrete(path).replace(/\/$|\?.*/, ''))])) {
    for (const hostile of CORPUS) {
      const { status, text } = await ask(w.server, `${base}/${hostile}`)
      assert.ok(status === 404 || status === 400 || status === 405, `${base}/${hostile}: ${status}`)
      assert.doesNotMatch(text, /root:|password|scrypt/)
    }
  }
  for (const name of ['__proto__', 'constructor', 'toString']) {
    for (const [method, path] of [
      ['GET', `/api/data/packets/${name}`],
      ['GET', `/api/display/render/${name}:${name}`],
      ['GET', `/api/oscli/jobs?id=${name}`],
      ['GET', `/api/config?key=${name}`],
      ['PUT', `/users/${name}`],
    ] as const) {
      const { status } = await w.send(method, path, method === 'PUT' ? {} : undefined)
      assert.equal(status, 404, `${method} ${path}`)
    }
    for (const plugin of [name, `${name}.${name}`])
      assert.equal((await w.send('POST', '/api/plugins', { plugin, action: 'start' })).status, 400)
  }
  assert.equal(({} as Record<string, unknown>).polluted, undefined)
})
