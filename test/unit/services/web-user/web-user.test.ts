import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { OsError } from '../../../../src/lib/errors'
import { GatewayWeb, LocalWeb } from '../../../../src/services'
import { UserStore } from '../../../../src/services/users'
import { WebUserService } from '../../../../src/services/web-user'
import type { ServerLike } from '../../../../src/services/web-user/service'
import { ManualClock } from '../../../lib/manual'
import { configIn, FakeGateway, hostFor, io, tempDir } from '../fake'

/** ports that are in use */
const taken = new Set<number>()

class FakeServer implements ServerLike {
  running = false
  constructor(
    readonly host: string,
    readonly port: number,
  ) {}
  get url(): string {
    return `http://${this.host}:${this.port}`
  }
  async start(): Promise<void> {
    if (taken.has(this.port) || this.host === 'no-such-host')
      throw new OsError('PORT_BUSY', `port ${this.port} is in use`)
    taken.add(this.port)
    this.running = true
  }
  async stop(): Promise<void> {
    taken.delete(this.port)
    this.running = false
  }
  async dashboard(sections?: string): Promise<object> {
    return { asked: sections ?? null }
  }
}

function make(t: TestContext) {
  taken.clear()
  const dir = tempDir(t)
  const clock = new ManualClock()
  const users = new UserStore({ dataDir: dir })
  const made: FakeServer[] = []
  const web = new GatewayWeb({
    host: '127.0.0.1',
    port: 8765,
    users,
    clock,
    make: (host, port) => {
      const server = new FakeServer(host, port)
      made.push(server)
      return server
    },
  })
  const display = {
    DisplayProvider: Object,
    register: () => true,
    unregister: () => undefined,
    metadata: () => ({ total_providers: 1 }),
    renderSection: (section: string, format = 'json') => ({ section, format }),
    collectAllSections: () => ({ 'a:b': {} }),
  }
  const service = new WebUserService(hostFor('web_user', dir, { web, display, gateway: new FakeGateway() }))
  return { service, web, clock, made, users }
}

test('start, stop and status of the service object work', async t => {
  const { service, clock, users } = make(t)
  assert.deepEqual(service.status(), {
    running: false,
    users: 0,
    data_file: users.path,
    uptime_s: 0,
    host: '127.0.0.1',
    port: 8765,
    url: null,
  })
  assert.equal(await service.stop(), false)
  assert.equal(await service.start(), true)
  assert.equal(await service.start(), true, 'it runs, whoever started it')
  clock.advance(3000)
  await users.add({ username: 'bob' })
  const status = service.status()
  assert.deepEqual([status.running, status.users, status.uptime_s], [true, 1, 3])
  assert.equal(await service.stop(), true)
  assert.equal(service.status().running, false)
})

test('with another address the service moves there; one in use changes nothing', async t => {
  const { service, made } = make(t)
  await service.start()
  assert.equal(await service.start('0.0.0.0', 9000), true)
  assert.equal(service.status().url, 'http://0.0.0.0:9000')
  assert.deepEqual(
    made.map(server => server.running),
    [false, true],
  )
  taken.add(9001)
  await assert.rejects(service.start(null, 9001), { code: 'PORT_BUSY' })
  assert.deepEqual([service.status().running, service.status().port], [true, 9000])
  // the same port on another address is free only after the old one is closed
  await assert.rejects(service.start('no-such-host', 9000), { code: 'PORT_BUSY' })
  assert.deepEqual([service.status().running, service.status().host], [true, '0.0.0.0'])
  assert.equal(await service.start('127.0.0.1', 9000), true)
  assert.deepEqual([service.status().host, service.status().port], ['127.0.0.1', 9000])
})

test('dashboard and the three display helpers return their data', async t => {
  const { service } = make(t)
  assert.deepEqual(await service.buildDashboard(['identity', 'db']), { asked: 'identity,db' })
  assert.deepEqual(service.getDisplayProvidersMetadata(), { total_providers: 1 })
  assert.deepEqual(await service.renderDisplaySection('a:b', 'text'), { section: 'a:b', format: 'text' })
  assert.deepEqual(await service.collectAllDisplaySections(), { 'a:b': {} })
  const bare = new WebUserService(hostFor('web_user', tempDir(t)))
  await assert.rejects(bare.start(), { code: 'UNSUPPORTED' })
  assert.throws(() => bare.getDisplayProvidersMetadata(), { code: 'UNSUPPORTED' })
})

test('handlers work: start, stop, status, dashboard, list, add, update, delete', async t => {
  const { service, users } = make(t)
  const commands = service.getCliCommands()
  assert.deepEqual(Object.keys(commands), ['start', 'stop', 'status', 'dashboard', 'list', 'add', 'update', 'delete'])
  const run = async (name: string, options: object = {}) => commands[name]!.run(options as never, io)
  assert.equal((await run('start', { port: 9100 })).value?.url, 'http://127.0.0.1:9100')
  await run('add', { username: 'bob', password: 'secret-1', role: 'viewer' })
  await assert.rejects(async () => run('add', { username: 'BOB' }), { code: 'USER_EXISTS' })
  await run('update', { username: 'bob', role: 'operator', disable: true })
  assert.deepEqual(
    users.list().map(({ username, role, enabled }) => [username, role, enabled]),
    [['bob', 'operator', false]],
  )
  await assert.rejects(async () => run('update', { username: 'bob' }), { code: 'USAGE' })
  await assert.rejects(async () => run('update', { username: 'bob', enable: true, disable: true }), { code: 'USAGE' })
  await assert.rejects(async () => run('update', { username: 'bob', 'password-stdin': true }), { code: 'USAGE' })
  assert.ok(!JSON.stringify((await run('list')).value).includes('scrypt'))
  await run('delete', { username: 'bob' })
  await assert.rejects(async () => run('delete', { username: 'bob' }), { code: 'NOT_FOUND' })
  assert.equal((await run('stop')).value?.stopped, true)
})

test('start --block reports immediately and stays until the service stops or the caller disconnects', async t => {
  for (const ends of ['stop', 'leave'] as const) {
    const { service } = make(t)
    const leave = new AbortController()
    const outcome = await service.getCliCommands().start!.run({ block: true }, { ...io, signal: leave.signal })
    const rows = outcome.rows![Symbol.asyncIterator]()
    assert.equal(((await rows.next()).value as { running: boolean }).running, true)
    const end = rows.next()
    if (ends === 'stop') await service.stop()
    else leave.abort()
    assert.equal((await end).done, true)
    assert.equal(service.status().running, ends === 'leave', 'the gateway keeps its page')
  }
})

test('without a gateway the service starts one, which ends with it', async t => {
  const dir = tempDir(t)
  let over = (_: number): void => undefined
  const places: unknown[] = []
  const web = new LocalWeb({
    config: configIn(dir),
    start: async (place, signal) => {
      places.push(place)
      const done = new Promise<number>(resolve => {
        over = resolve
      })
      signal.addEventListener('abort', () => over(0))
      return { done, info: { url: 'http://127.0.0.1:9200' } }
    },
    dashboard: async () => ({}),
  })
  const service = new WebUserService(hostFor('web_user', dir, { web }))
  assert.equal(await service.start(null, 9200), true)
  assert.deepEqual(places, [{ webPort: 9200 }])
  assert.equal(service.status().port, 9200)
  assert.equal(await web.start(), false)
  assert.equal(await service.stop(), true)
  assert.equal(service.status().running, false)
  const printed: string[] = []
  const leave = new AbortController()
  const run = service.getCliCommands().start!.run({}, { signal: leave.signal, print: text => void printed.push(text) })
  await new Promise(resolve => setImmediate(resolve))
  leave.abort()
  assert.deepEqual(await run, { exitCode: 0 })
  assert.deepEqual(printed, ['web page on http://127.0.0.1:9200'])
})
