// The parts of the HTTP service over long seeded runs, compared with web-trace.txt: who is accepted and when, which connections
// stay, what a query, a Host or an Origin means, how options are listed, the bytes of a certificate, the text of a scrape.
import { X509Certificate } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { after, test } from 'node:test'
import type { SchemaRow } from '../../../src/config'
import { ERRORS, type ErrorCode, OsError } from '../../../src/lib/errors'
import { sendError } from '../../../src/web/answer'
import { selfSigned } from '../../../src/web/certificate'
import { Connections } from '../../../src/web/connections'
import { hostName, RequestGuard } from '../../../src/web/guard'
import { addressKey, TokenGate } from '../../../src/web/login-throttle'
import { metricsText } from '../../../src/web/metrics'
import { choice, flag, limit, needed, offset, parseQuery, seconds, text } from '../../../src/web/query'
import { matched } from '../../../src/web/route'
import { ROUTES } from '../../../src/web/routes'
import { Sessions } from '../../../src/web/sessions'
import { optionList, optionSchema } from '../../../src/web/web-options'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { dice, digest, Trace } from '../../lib/trace'
import { fakeContext, status } from './helper'

const trace = new Trace('unit/web/web-trace.txt')
after(() => trace.compare())

const ADDRESSES = ['10.0.0.1', '::ffff:10.0.0.1', 'fe80::1%eth0', '2001:db8:1:2:3:4:5:6', '2001:db8::1', '::1', '']

test('login attempts of many addresses and names are handled as web-trace.txt has it', async () => {
  for (const address of [...ADDRESSES, '1:2:3::', '::2:3:4:5:6:7:8', '1::5:6:7:8'])
    trace.say(address, addressKey(address))
  for (const users of [1, 3, 1500]) {
    const { below, chance, pick } = dice(users)
    const clock = new ManualClock()
    const timers = new ManualTimers(clock)
    const slept: number[] = []
    let tried = 0
    const verify = async (right: boolean): Promise<boolean> => {
      tried++
      await new Promise<void>(resolve => timers.after(below(3) * 20, resolve))
      if (chance(0.03)) throw new Error('unreadable')
      return right
    }
    const auth = { enabled: () => true, verify: (token: string) => verify(token === 'right') }
    const gate = new TokenGate(auth, clock, ms => {
      slept.push(ms)
      return new Promise<void>(resolve => timers.after(ms, resolve))
    })
    const ends: Record<string, number> = {}
    const end = (what: string): number => (ends[what] = (ends[what] ?? 0) + 1)
    await trace.steps(`attempts on ${users} names`, 144, 12, async k => {
      for (let n = below(k % 40 < 20 ? 4 : 40); n > 0; n--) {
        const from =
          users === 1500 ? `10.${k % 7}.${below(250)}.${n}` : chance(0.5) ? `10.0.${below(40)}.2` : pick(ADDRESSES)
        const right = chance(0.1)
        const token = pick(['x'.repeat(256), 'x'.repeat(257), right ? 'right' : 'wrong'])
        const attempt = chance(0.4)
          ? gate.check(token, from)
          : gate.attempt(from, () => verify(right), `u${below(users)}`)
        attempt.then(
          got => end(`${got}`),
          error => end(error.code ?? error.message),
        )
      }
      await timers.advance(pick([0, 10, 99, 100, 200, 1999, 2000]))
      if (chance(0.04)) await timers.advance(pick([60_000, 299_999, 300_001]))
      return [tried, { ...ends }, slept.length, digest(0, ...slept)]
    })
  }
})

class Socket extends EventEmitter {
  destroyed = false
  ended = false
  writableLength = 0
  _handle = { writeQueueSize: 0 }
  parser: { onIncoming: () => number } | null = { onIncoming: () => 0 }
  constructor(
    readonly remoteAddress: string | undefined,
    readonly remotePort: number,
  ) {
    super()
  }
  destroy(): void {
    this.destroyed = true
    this.emit('close')
  }
  end(): void {
    this.ended = true
  }
}

test('connections that open, request, read slowly and close are handled as web-trace.txt has it', async () => {
  for (const most of [8, 16, 24, 33, 64]) {
    const { below, chance, pick } = dice(most)
    const timers = new ManualTimers(new ManualClock())
    const connections = new Connections({ limit: most, stallMs: 3000, timers })
    const server = new EventEmitter()
    connections.watch(server as never)
    const sockets: Socket[] = []
    const answers: EventEmitter[] = []
    let begun = 0
    const some = (): Socket | undefined => pick(sockets.slice(-80))
    const connect = (): void => {
      const socket = new Socket(chance(0.02) ? undefined : `10.0.0.${below(chance(0.5) ? 2 : 12)}`, sockets.length)
      sockets.push(socket)
      server.emit('connection', socket)
    }
    const ask = (socket = some()): void => {
      if (!socket) return
      const res = new EventEmitter()
      answers.push(res)
      connections.enter({ socket } as never, res as never, () => (begun = digest(begun, socket.remotePort)))
    }
    const steps = [
      connect,
      connect,
      ask,
      ask,
      () => Array.from({ length: below(9) }, () => ask(sockets.at(-1))),
      () => answers.splice(below(answers.length + 1), 1)[0]?.emit('close'),
      () => chance(0.2) && some()?.destroy(),
      () => Object.assign(some() ?? {}, { writableLength: pick([0, 1, 900, chance(0.1) ? 2 ** 24 : 4 * 2 ** 20]) }),
      () => Object.assign(some()?._handle ?? {}, { writeQueueSize: pick([0, 0, 5, 70]) }),
      () => chance(0.05) && Object.assign(some() ?? {}, { parser: null }),
    ]
    await trace.steps(`at most ${most} connections`, 900, 60, async k => {
      pick(steps)()
      if (chance(0.05)) await timers.advance(pick([999, 1000, 1001]))
      if (k === 860) connections.closeIdle()
      const state = sockets.map(({ destroyed, ended, parser }) => `${+destroyed}${+ended}${parser?.onIncoming()}`)
      const { size, dropped, cut } = connections
      return [size, dropped, cut, begun, timers.pending, digest(0, Buffer.from(state.join()))]
    })
  }
})

test('requests pass the guard or are refused as web-trace.txt has it', () => {
  const names = [
    'localhost',
    'LOCALHOST:80',
    '127.0.0.1',
    '[::1]:9',
    'shed.lan',
    'Shed.Lan:123456',
    '10.0.0.9',
    'a b',
    '',
  ]
  for (const name of [...names, 'x'.repeat(253), 'x'.repeat(254), '[1]', `[${'1'.repeat(46)}]`])
    trace.say(name, hostName(name))
  const hosts = ['0.0.0.0', '::', '', '10.0.0.9', '[fd00::1]']
  for (const host of hosts) {
    const guard = new RequestGuard({ host, allowedHosts: ['Shed.lan', '[FD00::2]'] })
    const { chance, pick } = dice(hosts.indexOf(host) + 1)
    const sent: Record<string, string> = {}
    guard.headers({ setHeader: (name: string, value: string) => (sent[name] = value) } as never)
    if (host === '') trace.say('headers', sent)
    trace.course(`guard of '${host}'`, 900, 60, () => {
      const name = chance(0.05) ? undefined : pick([...names, '[fd00::1]:80', 'fd00::2', '[fd00::2]', '10.0.0.8'])
      const headers: Record<string, string | undefined> = {
        ...(name !== undefined && { host: name }),
        ...(chance(0.4) && { 'content-length': pick(['0', '1', '1048576', '1048577', 'x']) }),
        ...(chance(0.3) && { 'sec-fetch-site': pick(['none', 'same-origin', 'same-site', 'cross-site']) }),
        ...(chance(0.4) && {
          origin: pick(['null', `http://${name}`, `https://${name}`, `http://${name}.evil`, 'http://a']),
        }),
        ...(chance(0.2) && { 'transfer-encoding': 'chunked' }),
        ...(chance(0.5) && {
          'content-type': pick([
            'application/json',
            'application/JSON ;charset=utf-8',
            'text/plain',
            'application/jsonx',
          ]),
        }),
      }
      const rawHeaders = Object.entries(headers).flatMap(([key, value]) => [key, value ?? ''])
      if (chance(0.05)) rawHeaders.push('HOST', 'other')
      if (chance(0.05)) rawHeaders.push('x', 'host')
      guard.check({
        method: pick(['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE']),
        url: chance(0.05) ? pick([undefined, '*', 'http://a/', `/${'x'.repeat(8191)}`, `/${'x'.repeat(8192)}`]) : '/a',
        httpVersion: pick(['1.0', '1.1']),
        ...{
          headers,
          rawHeaders,
          socket: { localAddress: pick(['10.0.0.9', '::ffff:10.0.0.9', 'fd00::1', undefined]) },
        },
      } as never)
      return 'passes'
    })
  }
})

test('sessions of many users behave as web-trace.txt has it', () => {
  const { below, chance, pick } = dice(7)
  const clock = new ManualClock()
  const sessions = new Sessions(clock, () => ({ idleS: 900, maxS: 4000 }))
  const ids: string[] = []
  const stale = new Set<number>()
  const open = (): unknown => {
    const k = ids.length
    const { id, session } = sessions.open(
      'viewer',
      `u${below(20)}`,
      pick([`10.0.0.${below(3)}`, '10.0.1.1']),
      () => !stale.has(k),
    )
    ids.push(id)
    return [id.length, session]
  }
  const one = (): string => ids[ids.length - 1 - below(Math.min(ids.length, 300))] ?? 'none'
  const steps = [
    open,
    open,
    open,
    () => sessions.find(one()),
    () => sessions.find(one(), false),
    () => chance(0.1) && sessions.close(one()),
    () => chance(0.1) && stale.add(below(ids.length)),
    () => clock.advance(pick([0, 1000, 3500, chance(0.03) ? 899_999 : 5])),
  ]
  trace.course(
    'sessions',
    2400,
    100,
    () => pick(steps)(),
    () => [sessions.size, ids.filter(id => sessions.find(id, false)).length],
  )
})

test('queries and paths of any text are parsed as web-trace.txt has it', () => {
  const schema = {
    limit: limit(50),
    few: limit(5, 20),
    offset,
    seconds,
    text,
    needed,
    flag,
    by: choice(['hour', 'day'], 'day'),
  }
  const { below, chance, pick } = dice(3)
  const piece = (): string =>
    `${pick([...Object.keys(schema), 'limt', '_x', '', '__proto__', '%6e', '%'])}${pick(['', '='])}${pick(['', '0', '1', '20', '21', '500', '501', '-1', '+3', '1e3', '9'.repeat(30), 'yes', 'OFF', 'Hour', 'a+b%20c', '%00', '%ff', '2147483648'])}`
  for (const strict of [false, true])
    trace.course(`queries, strict ${strict}`, 1500, 75, () => {
      const pieces = Array.from(
        { length: chance(0.02) ? 63 + below(3) : below(3) },
        chance(0.1) ? piece : () => piece().replace(/^.*(?==)/, pick(Object.keys(schema))),
      )
      return parseQuery(
        chance(0.05) ? null : [...pieces, ...(chance(0.8) ? ['needed=n'] : [])].join('&'),
        schema,
        strict,
      )
    })
  trace.course('paths', 200, 20, () =>
    matched(ROUTES, pick(ROUTES).path, {
      path: pick(['/', '/x', '/x/']),
      params: { uuid: pick(['a%20b', '%', 'a%00']), username: 'b', section: 'c' },
    }),
  )
})

test('options of a configuration are listed, and shown as a form, as web-trace.txt has it', () => {
  const types = ['bool', 'int', 'float', 'str', 'any', 'list', 'map'] as unknown as SchemaRow['type'][]
  const { below, chance, pick } = dice(9)
  const rows = Array.from(
    { length: 60 },
    (_, k): SchemaRow => ({
      key: `${pick(['', 'web_user.', 'a_b.c_d.', 'a_b.c_d.e.', 'gateway.'])}key_${k}${pick(['', '', '', '[].port', '[]'])}`,
      type: pick(types),
      default: pick([undefined, null, 0, 'x']),
      allowed: pick(['', 'a whole number 0–10']),
      help: pick(['', 'What it is']),
      restart: chance(0.5),
      secret: chance(0.2),
      ...(chance(0.3) && { min: below(3), max: 0 }),
      ...(chance(0.2) && { choices: ['a', 'b'] }),
    }),
  )
  for (const { key, type } of [...rows])
    if (type === 'list')
      rows.push({ ...rows[0]!, key: `${key}[].host_name`, help: 'Host or Host, of UDP ip', allowed: 'a text' })
  const values = [true, 'x', 3, 3.5, null, [1], { a: 1 }]
  const config = {
    ...fakeContext().config,
    rows: () => rows,
    has: (key: string) => key.length % 5 !== 0,
    get: (key?: string) => values[(key ?? '').charCodeAt((key ?? '').length - 1) % values.length],
    writable: (key: string) => key.startsWith('a'),
  }
  trace.say('options', optionList(config))
  for (const onlyWritable of [true, false]) trace.say('form', optionSchema(config, onlyWritable, 1_710_000_000_999))
})

test('certificates are as web-trace.txt has them, except for their random parts', () => {
  const many = Array.from({ length: 30 }, (_, k) => `gateway-number-${k}.example.org`)
  for (const names of [
    ['gw', '10.0.0.1', 'fd00::1', '::', '1:2:3:4:5:6:7:8'],
    [],
    ['x'.repeat(60), 'y'.repeat(130)],
    many,
  ]) {
    const { cert } = selfSigned(names)
    const made = new X509Certificate(cert)
    const signed = made.raw.subarray(4, 8 + made.raw.readUInt16BE(6))
    const key = made.publicKey.export({ type: 'spki', format: 'der' })
    const first = Number.parseInt(made.serialNumber.slice(0, 2), 16)
    const hex = signed.toString('hex').replace(made.serialNumber.toLowerCase(), '<serial>')
    trace.say('certificate', [
      first >= 0x40 && first < 0x80,
      made.serialNumber.length,
      hex.replace(key.toString('hex'), '<key>'),
    ])
  }
})

test('scrapes, errors, and unsupported requests are as web-trace.txt has them', async () => {
  const service = {
    uptimeS: 7,
    host: 'h',
    port: 1,
    now: 0,
    http: {
      '2xx': 3,
      '4xx': 1,
      connections: 2,
      dropped_connections: 4,
      cut_connections: 5,
      event_streams: 6,
      sessions: 8,
    },
  }
  const context = fakeContext()
  const whole = {
    ...status(),
    intake: { read_errors: 2 },
    received: { peers: 3, facts: 4 },
    guard: {},
    safe_mode: { reason: 'x' },
    links: { 'a"b\\c\nd': { state: 'degraded', kind: 'k', type: 't', rx: 1, tx: 2, errors: 3 }, b: { state: 'down' } },
  }
  for (const now of [status(), whole]) {
    const text = metricsText({
      context: {
        ...context,
        status: () => now as never,
        jobs: { counters: { total: 9, failed: 1 }, running: 2, queued: 3 } as never,
      },
      service,
    })
    trace.say('scrape', text.replace(/(memory|heap_used)_bytes \d+/g, '$1_bytes N'))
  }
  const { chance } = dice(5)
  for (const code of Object.keys(ERRORS))
    for (const headersSent of [false, true]) {
      const seen: unknown[] = []
      const res = {
        headersSent,
        destroy: () => seen.push('destroyed'),
        setHeader: (...header: string[]) => seen.push(header),
        writeHead: (at: number) => seen.push(at),
        end: (body: Buffer) => seen.push(JSON.parse(`${body}`)),
      }
      const lines = fakeContext()
      const details = { ok: 1, error: 2, code: 3, reason: 4 }
      const error = new OsError(code as ErrorCode, 'm', { details: chance(0.5) ? details : {} })
      sendError(res as never, error, lines.logger, 'GET /')
      trace.say(code, [seen, lines.lines])
    }
  const session = { role: 'operator', username: 'olga', expires_at: 5 } as const
  for (const db of [null, () => null])
    for (const { method, path, run, stream } of ROUTES) {
      if (stream || /reload|logout|config|options/.test(path)) continue
      for (const body of [{}, { plugin: 'web_user', action: 'stop', medium: 'udp', name: 'x', value: 1 }]) {
        const call = {
          context: { ...fakeContext({ db }) },
          query: {},
          params: {},
          service,
          body,
          session,
          remote: 'r',
          routes: ROUTES,
          access: {},
          request: {},
          signal: {},
        }
        const got = await Promise.resolve()
          .then(() => run(call as never))
          .then(
            answer => Object.keys(answer),
            error => (error.code ? [error.code, error.message] : 'thrown'),
          )
        trace.say(`${method} ${path}`, got)
      }
    }
})
