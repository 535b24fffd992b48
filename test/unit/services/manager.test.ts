import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServiceManager } from '../../../src/services'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { configIn, io, tempDir } from './fake'

test('a plugin is mounted, found, loaded, started and stopped; autoLoad is called once', async () => {
  const manager = new ServiceManager()
  const calls: string[] = []
  const service = {
    autoLoad: () => void calls.push('autoLoad'),
    start: async () => void calls.push('start'),
    stop: () => void calls.push('stop'),
  }
  assert.equal(manager.mount('one', service), service)
  assert.equal(manager.get('one'), service)
  assert.equal(manager.get('two'), null)
  assert.equal(manager.get('two', 'fallback'), 'fallback')
  assert.equal(await manager.load('one'), service)
  await Promise.all([manager.load('one'), manager.load('one')])
  assert.deepEqual(await manager.startAll(), ['one'])
  assert.equal(await manager.start('one'), false)
  await manager.stopAll()
  assert.equal(await manager.stop('one'), false)
  assert.deepEqual(calls, ['autoLoad', 'start', 'stop'])
  await assert.rejects(manager.load('two'), { code: 'NOT_FOUND' })
})

test('the snapshot lists mounted and loaded plugins, and masks secrets', async t => {
  const config = configIn(tempDir(t), {
    RESOURCES: { service_plugins: { mine: { password: 'hidden', colour: 'red' } } },
  })
  const manager = new ServiceManager(config)
  manager.mount('mine', {})
  manager.mount('given', {}, { api_key: 'hidden', deep: [{ token: 'hidden', empty: { password: '' } }] }, 'manual')
  await manager.load('given')
  const snapshot = manager.snapshot()
  assert.deepEqual(Object.keys(snapshot), ['mode', 'mount_index', 'runtime_index', 'config_index'])
  assert.deepEqual(snapshot.mount_index, ['mine', 'given'])
  assert.deepEqual(snapshot.runtime_index, ['given'])
  assert.equal(manager.state('given')?.mode, 'manual')
  assert.ok(!JSON.stringify(snapshot).includes('hidden'))
  assert.deepEqual(snapshot.config_index.mine, { password: '********', colour: 'red' })
  assert.deepEqual(snapshot.config_index.given, {
    api_key: '********',
    deep: [{ token: '********', empty: { password: '' } }],
  })
})

test('a plain dict is accepted as configuration', () => {
  const manager = new ServiceManager({ RESOURCES: { service_plugins: { a: { secret: 'x', n: 1 } } } }, 'test')
  manager.mount('a', {})
  assert.deepEqual(manager.snapshot(), {
    mode: 'test',
    mount_index: ['a'],
    runtime_index: [],
    config_index: { a: { secret: '********', n: 1 } },
  })
})

test('a plugin that throws is counted and shown, the others start; a failed load is retried', async () => {
  const manager = new ServiceManager()
  let tries = 0
  manager.mount('bad', {
    autoLoad: () => {
      if (++tries < 2) throw new Error('no way')
    },
  })
  manager.mount('good', {})
  assert.deepEqual(await manager.startAll(), ['good'])
  assert.deepEqual(manager.state('bad'), {
    mode: 'runtime',
    loaded: false,
    running: false,
    failures: 1,
    error: 'bad: load failed: no way',
  })
  assert.deepEqual(await manager.startAll(), ['bad', 'good'])
  assert.equal(manager.state('bad')?.error, undefined)
  assert.equal(manager.state('bad')?.failures, 1)
})

test('a start that hangs times out, and the others do not wait for it', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const manager = new ServiceManager(null, 'runtime', { timers, limitMs: 3000 })
  manager.mount('hangs', { start: () => new Promise(() => undefined) })
  manager.mount('good', {})
  const all = manager.startAll()
  await timers.advance(2999)
  assert.equal(manager.state('good')?.running, true)
  assert.equal(manager.state('hangs')?.failures, 0)
  await timers.advance(2)
  assert.deepEqual(await all, ['good'])
  assert.equal(manager.state('hangs')?.running, false)
  assert.match(manager.state('hangs')?.error ?? '', /did not end within 3 s/)
  assert.equal(timers.pending, 0)
})

test('commands are collected, parsed by their options, and return an exit code', async () => {
  const manager = new ServiceManager()
  manager.mount('p', {
    status: () => ({ fine: true }),
    getCliCommands: () => ({
      add: {
        summary: 'adds',
        options: {
          name: { type: 'string', required: true, help: 'who' },
          to: { type: 'list', help: 'where' },
          n: { type: 'integer', help: 'how many', default: 2 },
        },
        operands: ['name'],
        run: (options: object) => ({ value: { ...options }, exitCode: 3 }),
      },
      broken: {
        summary: 'breaks',
        run: () => {
          throw new TypeError('oh')
        },
      },
    }),
  })
  manager.mount('q', {
    getCliCommands: () => {
      throw new Error('none today')
    },
  })
  const collected = manager.collectCliCommands()
  assert.deepEqual(Object.keys(collected.p!), ['start', 'stop', 'status', 'add', 'broken'])
  assert.deepEqual(collected.q, {})
  assert.equal(manager.state('q')?.failures, 1)
  const outcome = await manager.runCommand('p', ['add', 'bob', '--to', 'a', '--to=b', '--n', '7'], io)
  assert.deepEqual(outcome, { value: { name: 'bob', to: ['a', 'b'], n: 7 }, exitCode: 3 })
  await assert.rejects(manager.runCommand('p', ['add'], io), { code: 'USAGE' })
  await assert.rejects(manager.runCommand('p', ['add', 'bob', '--colour', 'x'], io), /no option --colour/)
  await assert.rejects(manager.runCommand('p', ['sub'], io), /has no command "sub": start, stop, status, add/)
  await assert.rejects(manager.runCommand('p', ['ad'], io), { hint: 'see os-node plugin-cmd p --help' })
  await assert.rejects(manager.runCommand('p', ['ad'], io), /no command "ad" \(did you mean add\?\)/)
  await assert.rejects(manager.runCommand('p', ['broken'], io), { code: 'PLUGIN_FAILED' })
  assert.equal(manager.state('p')?.failures, 1)
  assert.match(
    (await manager.runCommand('p', ['add', '--help'], io)).text ?? '',
    /--to TEXT +where[\s\S]*Example:\n {2}os-node plugin-cmd p add/,
  )
  assert.deepEqual((await manager.runCommand('p', ['status'], io)).value, { fine: true })
  const printed: string[] = []
  const print = (text: string): void => void printed.push(text)
  assert.equal(await manager.dispatchPluginCli('p', ['add', 'al'], { print }), 3)
  assert.equal(await manager.dispatchPluginCli('p', ['nope'], { print }), 2)
  assert.equal(await manager.dispatchPluginCli('nope', [], { print }), 1)
  assert.deepEqual(JSON.parse(printed[0]!), { name: 'al', n: 2 })
  assert.equal(JSON.parse(printed[1]!).code, 'USAGE')
})

test('display providers are added by the load and removed by the stop', async () => {
  const shown = new Set<unknown>()
  const display = {
    DisplayProvider: Object,
    register: (provider: unknown) => !shown.has(provider) && !!shown.add(provider),
    unregister: (provider: unknown) => void shown.delete(provider),
    metadata: () => ({}),
    renderSection: () => null,
    collectAllSections: () => ({}),
  }
  const manager = new ServiceManager(null, 'runtime', { display })
  const provider = {}
  manager.mount('p', { displayProviders: () => [provider] })
  await manager.start('p')
  assert.equal(shown.size, 1)
  await manager.stop('p')
  assert.equal(shown.size, 0)
  await manager.start('p')
  assert.equal(shown.size, 1)
  manager.mount('twin', { displayProviders: () => [provider] })
  await manager.start('twin')
  assert.match(manager.state('twin')?.error ?? '', /twin.*a display provider was refused|refused/)
  assert.deepEqual([manager.state('twin')?.running, manager.state('twin')?.failures], [true, 1])
})
