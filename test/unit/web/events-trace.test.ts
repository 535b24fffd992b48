// A trace of event streams on manual timers, and what the page gets from a gateway, compared with events-trace.txt.
import { EventEmitter } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { DisplayProvider, DisplayRegistry } from '../../../src/display'
import { OsError } from '../../../src/lib/errors'
import type { LatestReading } from '../../../src/web/context'
import { EventStreams } from '../../../src/web/events'
import { overHttp, webContext } from '../../../src/web/from-gateway'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { Trace } from '../../lib/trace'

const trace = new Trace('unit/web/events-trace.txt')
after(() => trace.compare())

class Res extends EventEmitter {
  writableNeedDrain = false
  readonly written: string[] = []
  head: unknown
  writeHead(...head: unknown[]): void {
    this.head = head
  }
  write(text: string): void {
    this.written.push(text)
  }
  end(): void {
    this.written.push('END')
    this.emit('close')
  }
}

const reading = (k: number): LatestReading => ({
  ...{ device_id: `d${k}`, state: 'ONLINE', t_raw: k, medium: 'udp', source_aid: 7 },
  sensors: [{ id: 'T', status: 'OK', unit: 'K', value: 273.15 + k }],
})

test('readers of several kinds and roles get the events of events-trace.txt, at its times', async () => {
  const timers = new ManualTimers(new ManualClock())
  const streams = new EventStreams(timers)
  const hub = new EventEmitter().setMaxListeners(0)
  const links: Record<string, object> = { up1: { state: 'up' } }
  const listen =
    (name: string) =>
    (run: (...event: unknown[]) => void): (() => void) => {
      hub.on(name, run)
      return () => hub.off(name, run)
    }
  const context = {
    latest: () => [reading(0)],
    status: () => ({ links }),
    events: { onReading: listen('reading'), onLink: listen('link') },
    jobs: { onJob: listen('job') },
  }
  let holding = true
  const open = (query: object, role = 'viewer', more: object = {}): Res => {
    const res = new Res()
    const session = { role, username: role }
    const access = { holds: () => holding }
    streams.open({ context, query, session, access, request: {}, remote: '10.0.0.1', ...more } as never, res as never)
    return res
  }
  const all = {
    viewer: open({}),
    operator: open({ units: 'display' }, 'operator'),
    links: open({ kinds: ' links ,' }, 'admin'),
    alone: open({}, 'admin', { remote: '10.0.0.2' }),
  }
  const look = (what: string): void => {
    trace.say(what, [streams.size, streams.dropped, timers.pending, hub.listenerCount('reading')])
    for (const [name, { written }] of Object.entries(all)) {
      const text = written.splice(0).join('')
      const long = text.length > 2000 ? [text.split('event: ').length - 1, text.slice(0, 200)] : text
      if (text) trace.say(`  ${name}`, long)
    }
  }
  trace.say('head', all.viewer.head)
  look('opened')
  const job = { job_id: 'j', status: 'running', command: 'c', stdout: 'ab', stderr: '' }
  const happen = (): void => {
    for (const k of [1, 2, 1]) hub.emit('reading', reading(k))
    for (const name of ['up1', 'gone', 'up1']) hub.emit('link', { name })
    for (const needed of ['viewer', 'operator', 'admin']) hub.emit('job', { ...job, job_id: `of ${needed}` }, needed)
  }
  happen()
  for (const ms of [0, 249, 1, 250]) {
    await timers.advance(ms)
    look(`after ${ms} ms`)
  }
  for (const res of Object.values(all)) res.writableNeedDrain = true
  happen()
  for (let k = 0; k < 1100; k++) hub.emit('reading', reading(k))
  await timers.advance(250)
  look('nobody reads')
  await timers.advance(9_248)
  look('no beat yet')
  for (const res of Object.values(all)) res.writableNeedDrain = false
  for (const res of Object.values(all)) res.emit('drain')
  await timers.advance(1)
  look('just before the beat')
  await timers.advance(1)
  look('the beat')
  await timers.advance(248)
  look('all that waited')
  all.links.writableNeedDrain = true
  await timers.advance(9_752)
  look('another beat')
  happen()
  all.viewer.emit('close')
  look('one left')
  holding = false
  await timers.advance(9_999)
  look('not yet')
  await timers.advance(1)
  look('none may see more')
  await timers.advance(60_000)
  look('over')
  holding = true
  const places = (name: string, count: number, more: (k: number) => object, role = 'viewer'): void => {
    for (let k = 0; k < count; k++)
      try {
        open({}, role, more(k))
      } catch (error) {
        const { code, message } = error as OsError
        trace.say(`${name} ${k}`, [code, message, streams.size])
      }
  }
  places('of one user', 13, k => ({ remote: `10.1.${k}.1` }))
  places('from one address', 17, k => ({ session: { role: 'admin', username: `u${k}` } }))
  places('in all', 5, k => ({ session: { role: 'admin', username: `v${k}` }, remote: `10.2.${k}.1` }))
  trace.say(`closed ${streams.closeAll()}`, [streams.size, timers.pending])
  try {
    open({ kinds: 'birds' })
  } catch (error) {
    const { code, message, details } = error as OsError
    trace.say('birds', [code, message, details])
  }
})

class Sky extends DisplayProvider {
  constructor(builtin: boolean) {
    super(builtin ? 'core' : 'weather', 'sky', 'Sky')
  }
  extractData(): object {
    return { sky: 'clear' }
  }
}

test('the page gets the data of a gateway that events-trace.txt has', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-web-given-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const web_user = { session_idle_seconds: 61, allowed_hosts: ['shed.lan'], read_only: true }
  writeFileSync(join(dir, 'Config.json'), JSON.stringify({ web_user }))
  const config = ConfigStore.load({ path: join(dir, 'Config.json'), dataDir: join(dir, 'data'), env: {} })
  const asked: unknown[][] = []
  let ready: OsError | Error | undefined
  const database = { name: 'the view' }
  let failure: Error | undefined
  const gateway = {
    database: database as unknown,
    log: {
      get failure() {
        return failure
      },
    },
    ready: () => {
      if (ready) throw ready
    },
    transport: {
      view: () => 'view',
      toggle: async (...how: unknown[]) => asked.push(how),
      reload: async (...how: unknown[]) => asked.push(how),
    },
  }
  let unkept: { reason: string } | undefined
  const display = new DisplayRegistry()
  for (const builtin of [true, false]) display.register(new Sky(builtin))
  const base = { gateway, config, version: '1', auth: {}, logger: { recent: () => ['line'] } }
  const context = webContext({
    ...{ ...base, users: { list: () => ['eve'] }, jobs: 'jobs', plugins: 'plugins', display },
    unkept: { report: () => unkept },
  } as never)
  trace.say('has', Object.keys(context))
  const { sections, settings, sessionTimes, hosts, log } = context
  for (const [name, read] of Object.entries(sections)) trace.say(`section ${name}`, await read())
  trace.say('says', [settings(), sessionTimes(), hosts().map(name => name.replace(hostname(), 'HOST')), log()])
  for (const [what, error, left] of [
    ['well', undefined, undefined],
    ['full', Object.assign(new Error('x'), { code: 'ENOSPC' }), { reason: 'r' }],
    ['odd', new Error('x'), undefined],
    ['unkept', undefined, { reason: 'ids could not be written' }],
  ] as const) {
    failure = error
    unkept = left
    trace.say(what, context.trouble())
  }
  for (const [what, thrown, db] of [
    ['ready', undefined, database],
    ['starting', new OsError('STARTING', 'x'), database],
    ['starting without one', new OsError('STARTING', 'x'), null],
    ['broken', new OsError('LINK_DOWN', 'x'), database],
    ['a defect', new Error('x'), null],
  ] as const) {
    ready = thrown
    gateway.database = db
    try {
      trace.say(what, (context.db as () => unknown)())
    } catch (error) {
      const { code, message } = error as OsError
      trace.say(what, [code, message])
    }
  }
  trace.say('transport', context.transport())
  for (const medium of ['udp', 'pigeon'])
    for (const enabled of [true, false]) {
      const fails = ({ code, message, details }: OsError): unknown => [code, message, details]
      trace.say(`${medium} ${enabled}`, [
        await context.media.toggle(medium, enabled).then(() => 'done', fails),
        await context.media.reload(medium).then(() => 'done', fails),
        asked.splice(0),
      ])
    }
  const { transport, writable } = overHttp(config, gateway.transport as never)
  trace.say('over HTTP', [Object.keys(transport!()!), (transport!() as { view(): unknown }).view(), writable?.()])
  const { get, has, writable: mayWrite, prefixes } = context.config
  trace.say('config', [
    get('web_user.read_only'),
    has('web_user.none'),
    mayWrite('engine_settings.precision'),
    mayWrite('device_id'),
    prefixes(),
  ])
})
