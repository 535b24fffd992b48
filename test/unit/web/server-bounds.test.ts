// What a server limits, counts and remembers, and how it stops, compared with server-bounds-trace.txt: its time-outs and limits, what
// is left after a stop, files and refusals byte by byte, who is accepted while the token cannot be read, dashboards.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EventEmitter } from 'node:events'
import type { Server, ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { OsError } from '../../../src/lib/errors'
import { hashSecret } from '../../../src/lib/scrypt'
import { Access } from '../../../src/web/access'
import { refuseRaw, sendAsset } from '../../../src/web/answer'
import { TokenVerifier } from '../../../src/web/auth'
import { buildDashboard } from '../../../src/web/dashboard'
import { listen, parserError } from '../../../src/web/listen'
import { TokenGate } from '../../../src/web/login-throttle'
import type { Call, Route } from '../../../src/web/route'
import { OSCLI } from '../../../src/web/routes/oscli'
import { WebServer } from '../../../src/web/server'
import { Sessions } from '../../../src/web/sessions'
import { ManualClock } from '../../lib/manual'
import { Trace } from '../../lib/trace'
import { fakeContext, raw, status, TOKEN } from './helper'

const trace = new Trace('unit/web/server-bounds-trace.txt')
after(() => trace.compare())

const tick = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

test('limits for clients, counters and the stop are as server-bounds-trace.txt has them', async t => {
  const clock = new ManualClock()
  const context = fakeContext()
  let running: Server | undefined
  const note = (message: unknown): void => {
    running = (message as { server: Server }).server
  }
  subscribe('http.server.request.start', note)
  t.after(() => unsubscribe('http.server.request.start', note))
  const waits = t.mock.method(globalThis, 'setTimeout')
  let hold: ((answer: object) => void) | undefined
  const routes = [
    {
      ...({ method: 'GET', path: '/hold', role: 'open', summary: '' } as const),
      run: ({ request }: Call) => {
        trace.say('longest silence while an answer is made', request.socket.timeout)
        return new Promise<object>(resolve => {
          hold = resolve
        })
      },
    },
  ]
  for (const [name, more] of Object.entries({
    usual: {},
    quick: { slowClientMs: 1500, stallMs: 300, maxConnections: 40 },
  })) {
    const server = new WebServer(context, { host: '127.0.0.1', port: 0, clock, routes, ...more })
    const facts = (what: string): void =>
      trace.say(`${name}, ${what}`, [server.running, { ...server.facts(), port: server.port > 0 }])
    facts('made')
    await server.start()
    clock.advance(61_999)
    facts('started')
    const share = name === 'usual' ? 64 : 10
    const idle = Array.from({ length: share + 1 }, () => raw(server, ''))
    while (server.facts().http.connections! + server.facts().http.dropped_connections! < share + 1) await tick()
    facts('one more than an address may have')
    const answer = raw(server, 'GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n')
    while (!hold) await tick()
    const { headersTimeout, requestTimeout, keepAliveTimeout, timeout, maxRequestsPerSocket } = running!
    const { maxHeaderSize, connectionsCheckingInterval } = running as unknown as Record<string, number>
    trace.say(name, {
      headersTimeout,
      requestTimeout,
      keepAliveTimeout,
      timeout,
      maxRequestsPerSocket,
      maxHeaderSize,
      connectionsCheckingInterval,
    })
    running!.emit('error', Object.assign(new Error('too many open files'), { code: 'EMFILE' }))
    trace.say(
      'waits',
      waits.mock.calls.map(({ arguments: [, ms] }) => Math.round(ms ?? 0)),
    )
    const stopped = server.stop()
    await Promise.all(idle)
    facts('stopping')
    hold({ ok: true })
    trace.say('the answer', (await answer).replace(/Date: .*/, 'Date').split('\r\n'))
    await stopped
    hold = undefined
    facts('stopped')
    trace.say(
      'log',
      context.lines.splice(0).map(line => line.replaceAll(/:\d{4,5}/g, ':PORT')),
    )
    waits.mock.resetCalls()
  }
  for (const host of ['::1', 'localhost']) trace.say('url', new WebServer(context, { host, port: 80 }).url)
})

test('a stop waits two seconds for an answer, then aborts it; nothing is left to wait for', async t => {
  let asked = false
  const route = {
    ...({ method: 'GET', path: '/hold', role: 'open', summary: '' } as const),
    run: () => {
      asked = true
      return new Promise<object>(() => undefined)
    },
  }
  const server = new WebServer(fakeContext(), { host: '127.0.0.1', port: 0, routes: [route] })
  await server.start()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const seen: string[] = []
  const answer = raw(server, 'GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n').catch(error => error.code)
  while (!asked) await tick()
  void answer.then(() => seen.push('cut'))
  const stopped = server.stop().then(() => seen.push('stopped'))
  for (const ms of [0, 1999, 1]) {
    t.mock.timers.tick(ms)
    if (ms === 1) await Promise.all([answer, stopped])
    for (let k = 0; k < 20; k++) await tick()
    trace.say(`after ${ms} ms`, seen.sort())
  }
})

/** A response that records the calls to it. */
class Res extends EventEmitter {
  readonly seen: unknown[] = []
  setHeader(...header: string[]): void {
    this.seen.push(header)
  }
  writeHead(...head: unknown[]): this {
    this.seen.push(head.map(part => (typeof part === 'object' ? Object.keys(part as object) : part)))
    return this
  }
  end(body: Buffer | undefined): void {
    this.seen.push(body === undefined ? 'no body' : body[0] === 0x1f ? gunzipSync(body).toString() : `${body}`)
  }
}

test('files, refusals and errors of listening are as server-bounds-trace.txt has them', async () => {
  const asset = { type: 'text/plain', body: 'a file', etag: '"1"' }
  for (const encoding of [undefined, 'gzip', 'br', 'xgzip', 'br;q=1, gzip', 'gzip'])
    for (const known of [undefined, '"1"', '"2"'])
      for (const type of ['text/html; charset=utf-8', 'text/css']) {
        const res = new Res()
        const headers = { 'accept-encoding': encoding, 'if-none-match': known }
        sendAsset({ headers } as never, res as unknown as ServerResponse, { ...asset, type })
        trace.say(`${encoding} ${known}`, res.seen)
      }
  for (const [code, rawPacket] of [
    ['ERR_HTTP_REQUEST_TIMEOUT', undefined],
    ['HPE_INVALID_METHOD', undefined],
    ['HPE_HEADER_OVERFLOW', undefined],
    ['HPE_HEADER_OVERFLOW', ''],
    ['HPE_HEADER_OVERFLOW', '\n'],
    ['HPE_HEADER_OVERFLOW', `${'x'.repeat(8192)}\n`],
    ['HPE_HEADER_OVERFLOW', `${'x'.repeat(8193)}\n`],
  ] as const) {
    const error = parserError(
      Object.assign(new Error('m'), { code, ...(rawPacket !== undefined && { rawPacket: Buffer.from(rawPacket) }) }),
    )
    trace.say(code, [error.code, error.message])
    for (const writable of [true, false]) {
      const socket = {
        writable,
        said: [] as string[],
        destroy: () => socket.said.push('destroyed'),
        end: (text: string, done: () => void) => {
          socket.said.push(text)
          done()
        },
      }
      refuseRaw(socket as never, error)
      trace.say('  raw', socket.said)
    }
  }
  for (const code of ['EADDRINUSE', 'EACCES', 'EADDRNOTAVAIL', undefined]) {
    const server = Object.assign(new EventEmitter(), {
      listen: () =>
        queueMicrotask(() => {
          if (code) server.emit('error', Object.assign(new Error('why'), { code }))
          else server.emit('listening')
        }),
    })
    const got = await listen(server as never, 'host', 80).catch(({ code, message, hint, details }) => [
      code,
      message,
      hint,
      details,
    ])
    trace.say(`${code}`, [got, server.listenerCount('error')])
  }
})

test('how long a right token is remembered, and who is accepted, is as server-bounds-trace.txt has it', async () => {
  const clock = new ManualClock()
  let stored: string | null = await hashSecret('right')
  const verifier = new TokenVerifier(() => stored, clock)
  for (const ms of [0, 599_999, 599_999, 600_000, 0]) {
    clock.advance(ms)
    trace.say(`after ${ms} ms`, [verifier.remembered('right'), verifier.remembered('wrong')])
    if (ms === 600_000 || ms === 0)
      trace.say('verified', [await verifier.verify('wrong'), await verifier.verify('right')])
  }
  stored = null
  trace.say('no token', [verifier.remembered('right'), await verifier.verify('right'), verifier.stamp()])
  let readable = true
  let enabled = true
  const context = fakeContext()
  context.auth = {
    enabled: () => enabled,
    verify: async token => {
      if (!readable) throw new OsError(token === 'odd' ? 'NETWORK' : 'STORAGE', 'unreadable')
      return token === 'right'
    },
    stamp: () => {
      if (!readable) throw new OsError('STORAGE', 'unreadable')
      return 1
    },
  }
  const sessions = new Sessions(clock, () => ({ idleS: 10, maxS: 20 }))
  for (const loopback of [true, false]) {
    const access = new Access(
      context,
      new TokenGate(context.auth, clock, async ms => clock.advance(ms)),
      sessions,
      loopback,
    )
    const { id } = sessions.open('viewer', 'vera', '::1', () => enabled)
    for (const state of ['asked', 'off', 'unreadable']) {
      enabled = state !== 'off'
      readable = state !== 'unreadable'
      for (const remote of ['127.0.0.1', '10.0.0.1'])
        for (const token of ['right', 'wrong', 'odd', '', undefined, ' right ', ['right', 'x'], id, 'os-session-x']) {
          const req = {
            headers: { 'x-admin-token': token, ...(token === '' && { authorization: 'bearer right' }) },
            socket: { remoteAddress: remote },
          } as never
          const fails = ({ code, message }: OsError): unknown => [code, message]
          const admitted = await access.admit(req).catch(fails)
          const login =
            typeof token === 'string'
              ? await access.login({ token }, remote).then(({ session }) => session, fails)
              : undefined
          trace.say(`${loopback} ${state} ${remote} ${`${token}`.replace(/(os-session-).{9,}/, '$1…')}`, [
            admitted,
            access.holds(req),
            login,
            sessions.size,
            context.lines.splice(0),
          ])
        }
    }
    enabled = true
    readable = true
  }
})

test('open and closed methods of one path are distinguished', async t => {
  const run = () => ({ ok: true })
  const of = (method: Route['method'], path: string, role: Route['role']): Route => ({
    method,
    path,
    role,
    summary: '',
    run,
  })
  const routes = [
    of('GET', '/half', 'open'),
    of('POST', '/half', 'admin'),
    of('GET', '/open', 'open'),
    of('POST', '/open', 'open'),
  ]
  const context = fakeContext({ settings: () => ({ read_only: false, management_enabled: true }) })
  const server = new WebServer(context, { host: '127.0.0.1', port: 0, routes })
  await server.start()
  t.after(() => server.stop())
  for (const path of ['/half', '/open'])
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'])
      for (const token of ['', `X-Admin-Token: ${TOKEN}\r\n`]) {
        const text = await raw(
          server,
          `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${token}Connection: close\r\n\r\n`,
        )
        trace.say(
          `${method} ${path} ${token.length > 0}`,
          text.match(/^(HTTP|Allow).*$/gm)?.map(line => line.trim()),
        )
      }
})

test('dashboards of links, jobs and roles are as server-bounds-trace.txt has them', async () => {
  const job = { job_id: 'j', status: 'completed', stdout: 'text', stderr: '' }
  const jobs = {
    counters: { total: 3, failed: 1 },
    running: 2,
    queued: 1,
    list: (...how: unknown[]) => [{ ...job, how }],
  }
  const service = { uptimeS: 1, host: 'h', port: 2, now: 1_710_000_000_999, http: { '2xx': 3 } }
  const display = {
    metadata: () => ({ total: 1 }),
    collect: async (format: string) => ({ format }),
    render: async () => ({}),
  }
  for (const links of [[], ['up'], ['down'], ['up', 'degraded'], ['starting', 'up']])
    for (const more of [
      {},
      { intake: { facts: 4 } },
      { received: { facts: 5 } },
      { intake: { facts: 4 }, received: { facts: 5 } },
    ])
      for (const role of ['viewer', 'operator'] as const) {
        const now = { ...status(), ...more, links: Object.fromEntries(links.map((state, k) => [`l${k}`, { state }])) }
        const context = fakeContext({
          status: () => now as never,
          ...(role === 'operator' || links.length > 1 ? { jobs: jobs as never, display: display as never } : {}),
          ...(links.length > 0 && {
            settings: () => ({ read_only: links.length > 1, management_enabled: links.length > 1 }),
          }),
        })
        const shown = await buildDashboard(context, service, ' overview_metrics,,status.x', role)
        trace.say(`${links} ${role}`, shown)
        if (links.length === 1) trace.say('all', Object.keys(await buildDashboard(context, service)))
      }
  const context = fakeContext({
    latest: () => [{ ...fakeContext().latest()[0]!, sensors: [{ id: 't', status: 'OK', unit: 'K', value: 300 }] }],
    sections: {
      'a:b': () => 1,
      b: () => {
        throw new OsError('NETWORK', 'no route')
      },
      c: () => Promise.reject(new Error('a path')),
    },
  })
  for (const display of [undefined, true]) {
    trace.say('parts', await buildDashboard(context, service, 'a:b,b,c,latest', 'viewer', display))
    trace.say('unasked', Object.keys(await buildDashboard(context, service, undefined, undefined, display)))
  }
  trace.say('log', context.lines)
})

test('the output of commands is truncated in lists and shown longer for a single one', async () => {
  const route = OSCLI.find(({ path }) => path === '/api/oscli/jobs')!
  const asked: unknown[][] = []
  const jobOf = (out: number, err: number) => ({
    job_id: 'j',
    stdout: 'o'.repeat(out),
    stderr: 'e'.repeat(err),
    truncated: false,
  })
  for (const [out, err] of [
    [400, 400],
    [401, 400],
    [400, 401],
    [1000, 1001],
    [1001, 0],
    [2000, 2000],
  ] as const) {
    const jobs = {
      get: (...how: unknown[]) => asked.push(how) && jobOf(out, err),
      list: (...how: unknown[]) => asked.push(how) && [jobOf(out, err)],
    }
    for (const query of [{}, { id: 'j' }, { include_output: true }, { include_output: false }]) {
      const call = {
        context: { jobs },
        query: { limit: 7, output_limit: 1000, ...query },
        session: { role: 'operator' },
      }
      const shown = (await route.run(call as never)) as {
        job?: ReturnType<typeof jobOf>
        jobs?: ReturnType<typeof jobOf>[]
      }
      const { stdout, stderr, truncated } = (shown.job ?? shown.jobs?.[0])!
      trace.say(`${out} ${err} ${JSON.stringify(query)}`, [stdout.length, stderr.length, truncated, asked.splice(0)])
    }
  }
})
