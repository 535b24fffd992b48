// Every route of a complete server, compared with server-trace.txt: for each request the full answer with its headers,
// the log lines and the calls to plugins; and the description of each route.
import http from 'node:http'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { OsError } from '../../../src/lib/errors'
import { ASSETS, PAGE_WITH_SIGN_IN } from '../../../src/web/assets'
import { openApi } from '../../../src/web/openapi'
import { ROUTES } from '../../../src/web/routes'
import { ManualClock } from '../../lib/manual'
import { Trace } from '../../lib/trace'
import { raw, TOKEN, UUID } from './helper'
import { PASSWORD, type World, world } from './world'

const trace = new Trace('unit/web/server-trace.txt')
after(() => trace.compare())

/** The server's own reports, except what differs from run to run. */
function plain(text: string, w: World): string {
  return text
    .replaceAll(w.dir, 'DIR')
    .replaceAll(`:${w.server.port}`, ':PORT')
    .replace(/os-session-[\w-]+/g, 'SESSION')
    .replace(/"job_id":"[^"]+"/g, '"job_id":"JOB"')
    .replace(/"(at|created_at|updated_at|started_at|finished_at)":\d+(?:\.\d+)?/g, '"$1":"NOW"')
    .replace(/"connections":\d+/, '"connections":"SOME"')
}

/** headers of nearly every answer */
const USUAL = 'cache-control: no-store,content-type: application/json; charset=utf-8,connection: close'

interface Sent {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: unknown
  readonly as?: string | false
}

/** One request, and a line with its answer and with what was logged meanwhile. */
async function say(
  w: World,
  path: string,
  { method = 'GET', headers = {}, body, as = TOKEN }: Sent = {},
): Promise<string> {
  const before = w.logger.recent().length
  const asked = w.calls.length
  const sent = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
  const { status, text, got } = await new Promise<{ status: number; text: string; got: http.IncomingHttpHeaders }>(
    (resolve, reject) =>
      http
        .request(
          {
            ...{ host: '127.0.0.1', port: w.server.port, path, method, agent: false },
            headers: {
              ...(as !== false && { 'X-Admin-Token': as }),
              ...(sent && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(sent) }),
              ...headers,
            },
          },
          res => {
            const chunks: Buffer[] = []
            res.on('data', chunk => chunks.push(chunk))
            res.on('end', () => {
              const bytes = Buffer.concat(chunks)
              const whole = res.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
              resolve({ status: res.statusCode ?? 0, text: whole.toString(), got: res.headers })
            })
          },
        )
        .on('error', reject)
        .end(sent),
  )
  const told = Object.entries(got)
    .filter(([name]) =>
      /^(allow|connection|retry-after|www-authenticate|vary|cache-control|content-(type|encoding))$/.test(name),
    )
    .map(([name, value]) => `${name}: ${value}`)
  const { body: whole } = ASSETS[path as keyof typeof ASSETS] ?? {}
  const line = plain(`${method} ${path} ${status}`, w)
  if (told.join() === USUAL) trace.say(line)
  else trace.say(line, told)
  trace.say(
    `  ${text === '' ? 'nothing' : whole === text ? 'the file' : text === PAGE_WITH_SIGN_IN.body ? 'the page with sign-in' : plain(text, w)}`,
  )
  for (const line of w.logger.recent().slice(before))
    trace.say(`  ${line.level}: ${plain(line.text.split('\n')[0]!, w)}`)
  if (w.calls.length > asked) trace.say('  asked', w.calls.slice(asked))
  return text
}

test('every kind of caller gets the answers of server-trace.txt on every route', async t => {
  const clock = new ManualClock()
  const w = await world(t, { options: { clock }, config: { device_id: 'shed' } })
  const [viewer, operator] = [await w.session('viewer'), await w.session('operator')]
  trace.say('facts', plain(JSON.stringify(w.server.facts()), w))
  for (const path of ['/', '/app.js', '/app.css', '/favicon.svg', '/favicon.ico']) {
    await say(w, path, { as: false })
    await say(w, path, { as: false, headers: { 'Accept-Encoding': 'br, gzip' } })
  }
  for (const path of ['/health', '/api/health', '/nothing', '/api/data/packets/', '/users/', '/api/display/render/'])
    for (const as of [false, TOKEN] as const) await say(w, path, { as })
  for (const method of ['HEAD', 'OPTIONS', 'PUT', 'PATCH'])
    for (const path of ['/', '/health', '/api/session', '/api/events', '/users/eve'])
      await say(w, path, { method, as: method === 'PATCH' ? false : viewer })
  for (const path of [
    '/api/session',
    '/api/transport',
    '/api/outputs',
    '/api/plugins',
    '/users',
    '/api/ui/config',
    '/api/safe-mode',
    '/api/update',
    '/api/config?key=device_id',
    '/api/config?key=web_user.admin_token_hash',
    '/api/config?key=no.such',
    '/api/config?key=__proto__',
    '/api/config?key=a.constructor.b',
    '/api/data/devices?limit=3',
    '/api/data/packets?limit=2&offset=1&units=display',
    `/api/data/packets/${UUID}`,
    `/api/data/packets/${UUID}?units=display`,
    '/api/data/packets/other',
    '/api/data/packets/%20',
    '/api/data/sensors?units=display',
    '/api/data/sensors?units=none',
    '/api/data/history?device_id=a&sensor_id=b',
    '/api/data/history?device_id=a',
    '/api/display/providers',
    '/api/display/all?format=text',
    '/api/display/all?min_priority=51',
    '/api/display/all?category=none',
    '/api/display/render/weather:now',
    '/api/display/render/weather:now?format=html',
    '/api/display/render/weather',
    '/api/display/render/%20',
    '/api/oscli/jobs',
    '/api/log?lines=2',
    '/api/events?kinds=birds',
  ])
    await say(w, path, { as: operator })
  await say(w, '/api/oscli/jobs', { as: viewer })
  await say(w, '/api/session')
  await say(w, '/api/session', { as: 'os-session-none' })
  await say(w, '/api/session', { as: 'wrong' })
  await say(w, '/api/session', { as: false, headers: { Authorization: `Bearer  ${TOKEN} ` } })
  await say(w, '/api/session', { as: false, headers: { Authorization: `Basic ${TOKEN}` } })
  const put = (path: string, body: unknown, as: string = TOKEN) => say(w, path, { method: 'PUT', body, as })
  const post = (path: string, body: unknown, as: string | false = TOKEN) => say(w, path, { method: 'POST', body, as })
  for (const body of [
    {},
    '',
    '[]',
    'null',
    '{',
    { key: 'engine_settings.precision', value: 5 },
    { key: 'engine_settings.precision', value: '6', value_type: 'int' },
    { key: 'engine_settings.precision', value: '6', value_type: 7 },
    { key: 'device_id', value: 'x' },
    { key: 'engine_settings.precision' },
    { engine_settings: { precision: 4, network_retry: { enabled: true } } },
    { engine_settings: { precision: 'many' } },
    { ['bad key\n'.repeat(30)]: 1 },
    { a: { b: { c: { d: { e: { f: { g: { h: { i: 1 } } } } } } } } },
    Object.fromEntries(Array.from({ length: 20 }, (_, k) => [`k${k}`, k])),
    Object.fromEntries(Array.from({ length: 21 }, (_, k) => [`k${k}`, k])),
  ])
    await put('/api/config', body)
  for (const updates of [
    7,
    [],
    [
      1,
      { key: '' },
      { key: 'x', value: 1 },
      { key: 'engine_settings.precision', value: 3 },
      { key: 'device_id', value: 1 },
    ],
    Array.from({ length: 1001 }, () => 1),
  ])
    await put('/api/options', { updates })
  for (const body of [{}, { ui_theme: 'dark', other: 1 }, { ui_refresh_seconds: 0 }, { other: 1 }])
    await put('/api/ui/config', body)
  for (const body of [{}, { leave: false }, { leave: true }]) await post('/api/safe-mode', body)
  for (const source of ['', 'ftp://a/b', 'https://a b', '/etc/passwd', 'https://example.org/x.update'])
    await post('/api/update', { source })
  for (const body of [{}, { size: 0 }, { size: 3 }]) await post('/api/update', body)
  for (const body of [{}, { offset: -1, data: 'YQ==' }, { offset: 0, data: 'a b' }, { offset: 0, data: 'YWJj' }])
    await put('/api/update', body)
  for (const body of [
    { medium: 'udp' },
    { medium: 'udp', enabled: false },
    { medium: 'udp', reload: true },
    { medium: 'udp', reload: true, enabled: true },
    { medium: '' },
    { medium: 3 },
    { medium: 'udp', enabled: 'yes' },
  ])
    await post('/api/transport', body, operator)
  await post('/api/transport', { medium: 'udp' }, viewer)
  for (const body of [{ name: 'pump', value: 1 }, { name: 'pump', value: 2 }, { name: '', value: 0 }, { value: 0 }])
    await post('/api/outputs', body)
  await post('/api/outputs', { name: 'pump', value: 1 }, operator)
  for (const as of [TOKEN, operator])
    for (const body of [
      { plugin: 'port_forwarder' },
      { plugin: 'port_forwarder', action: 'start' },
      { plugin: 'port_forwarder', action: 'stop' },
      { plugin: 'web-user', action: 'stop' },
      { plugin: 'port_forwarder', action: 'set_enabled' },
      { plugin: 'port_forwarder', action: 'set_enabled', enabled: false },
      { plugin: 'port_forwarder', action: 'cmd' },
      { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'list', args: ' a  b ' },
      { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'bad', args: ['a b'] },
      { plugin: 'port_forwarder', action: 'cmd', sub_cmd: 'list', args: [1] },
      { plugin: 'other', action: 'load' },
      { plugin: 'port_forwarder', action: 'jump' },
      { action: 'load' },
    ])
      await post('/api/plugins', body, as)
  for (const [method, path, body] of [
    ['POST', '/users', { username: 'eve', password: PASSWORD, role: 'viewer' }],
    ['POST', '/users', { username: 'eve', password: PASSWORD, role: 'viewer' }],
    ['POST', '/users', { username: 'x', role: 'king' }],
    ['POST', '/users', { password: PASSWORD }],
    ['PUT', '/users/eve', { role: 'operator' }],
    ['PUT', '/users/eve', { enabled: 1 }],
    ['PUT', '/users/none', { enabled: true }],
    ['PUT', '/users/%20', { enabled: true }],
    ['DELETE', '/users/eve', undefined],
    ['DELETE', '/users/eve', undefined],
    ['DELETE', '/users/%20', undefined],
  ] as const)
    await say(w, path, { method, body })
  for (const body of [
    { command: 'version' },
    { command: 'nothing' },
    { command: 3 },
    {},
    { command: 'version', background: 'x' },
  ])
    await post('/api/oscli/execute', body, operator)
  await post('/api/oscli/cancel', { job_id: 'none' }, operator)
  await post('/api/oscli/cancel', {}, operator)
  for (const body of [
    {},
    { token: TOKEN },
    { token: '' },
    { token: 'wrong' },
    { username: 'viewer' },
    { password: PASSWORD },
    { username: 'viewer', password: PASSWORD },
    { username: 'viewer', password: 'wrong' },
    { username: 'x'.repeat(257), password: 'x' },
    { token: 'x'.repeat(1025) },
  ])
    await post('/api/login', body, false)
  await post('/api/logout', {}, viewer)
  await say(w, '/api/session', { as: viewer })
  await say(w, '/health', { headers: { Host: 'evil' } })
  await say(w, '/api/transport?a=1')
  await say(w, '/%00')
  await say(w, '/health', { headers: { 'Transfer-Encoding': 'chunked', Connection: 'keep-alive' } })
  const get = (more: string): string => `GET /health HTTP/1.1\r\nHost: localhost\r\n${more}\r\n\r\n`
  for (const more of ['A: b', 'Transfer-Encoding: chunked\r\n\r\n0']) {
    const answers = await raw(w.server, get(more) + get('Connection: close'))
    trace.say(
      more.slice(0, 17),
      answers.match(/^(HTTP|Connection).*$/gm)?.map(line => line.trim()),
    )
  }
  // a body without a length, at the limit and one byte beyond it
  for (const size of [1_048_576, 1_048_577]) {
    const body = `{"a":"${'x'.repeat(size - 8)}"}`
    const head = `POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked`
    const text = await raw(w.server, `${head}\r\n\r\n${size.toString(16)}\r\n${body}\r\n0\r\n\r\n`)
    trace.say(`a body of ${size} bytes`, [text.split('\r\n')[0], text.split('\r\n\r\n')[1]])
  }
  const { db } = w.context
  for (const [code, details] of [
    ['DB_STARTING', {}],
    ['DB_UNAVAILABLE', { reason: 'kept off' }],
    ['DB_UNAVAILABLE', {}],
    ['STORAGE', {}],
    ['BAD_REQUEST', { key: 'limit' }],
  ] as const) {
    Object.assign(w.context, {
      db: () => {
        throw new OsError(code, 'why', { details, cause: new Error('the system said no') })
      },
    })
    await say(w, `/api/data/devices?${code}`.replace('?', code === 'STORAGE' ? '?limit=7&_' : '?_'))
  }
  Object.assign(w.context, { db })
  Object.assign(w.context, {
    latest: () => {
      throw new Error('a defect')
    },
    transport: () => {
      throw new Error('a defect')
    },
  })
  await say(w, `/api/transport?_=secret`)
  await say(w, '/api/dashboard?sections=latest')
  clock.advance(12_900)
  trace.say('facts', plain(JSON.stringify(w.server.facts()), w))
  trace.say('url', plain(w.server.url, w))
})

test('each route is described as server-trace.txt has it', () => {
  const { paths, ...rest } = openApi(ROUTES, '1.2.3') as { paths: Record<string, Record<string, unknown>> }
  for (const [path, methods] of Object.entries(paths))
    for (const [method, what] of Object.entries(methods)) trace.say(`${method} ${path}`, what)
  const { components, ...info } = rest as unknown as {
    components: { schemas: { Error: { properties: { code: unknown } } } }
  }
  // the codes are those of the error table
  components.schemas.Error.properties.code = '…'
  trace.say('document', { ...info, components })
})
