// Plugins: which ones start, settings that restart them, errors that are attributed to them, freezes and crashes that switch them off.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { realFiles } from '../../../src/lib/files'
import { httpPlugins, type PluginDefinition } from '../../../src/services'
import { StartMarks } from '../../../src/services/third-party'
import { until } from '../../lib/gateway'
import { configIn, FakeGateway, io, tempDir } from './fake'
import { GOOD, make, plain, row, table } from './plugins-world'

test('only plugins with auto_start run from the start, and manual ones never start automatically', async t => {
  const { plugins } = make(t, {
    builtins: table(plain('env_guard'), plain('port_forwarder'), plain('web_user')),
    config: { RESOURCES: { service_plugins: { web_user: { mode: 'manual' } } } },
  })
  await plugins.startConfigured()
  assert.deepEqual(
    plugins.list().map(({ name, running }) => [name, running]),
    [
      ['web_user', false],
      ['port_forwarder', false],
      ['env_guard', true],
    ],
  )
  assert.equal((await plugins.start('port-forwarder')).running, true)
  assert.equal((await plugins.stop('port-forwarder')).running, false)
  await plugins.close()
  assert.equal(row(plugins, 'env_guard').running, false)
})

test('safe mode keeps every plugin off (R25)', async t => {
  const { plugins } = make(t, { builtins: table(plain('env_guard')), safeMode: '5 crashes in a row' })
  await plugins.startConfigured()
  assert.deepEqual(plugins.manager.names(), [])
})

test('disabling a plugin stops it and is saved; a disabled one cannot be loaded', async t => {
  const { plugins } = make(t, { builtins: table(plain('env_guard')) })
  await plugins.startConfigured()
  const off = await plugins.setEnabled('env-guard', false)
  assert.deepEqual([off.enabled, off.mounted, off.running], [false, false, false])
  await assert.rejects(plugins.load('env_guard'), { code: 'FORBIDDEN' })
  assert.equal((await plugins.setEnabled('env-guard', true)).enabled, true)
  await assert.rejects(plugins.setEnabled('nobody', true), { code: 'NOT_FOUND' })
})

test('new settings restart a plugin when it requires that', async t => {
  const starts: unknown[] = []
  const definition: PluginDefinition = {
    name: 'env_guard',
    restart: true,
    create: host => ({ start: () => void starts.push(host.settings().max_history) }),
  }
  const { plugins, config } = make(t, { builtins: table(definition) })
  await plugins.startConfigured()
  config.set('RESOURCES.service_plugins.env_guard.max_history', 9)
  await new Promise(resolve => setImmediate(resolve))
  assert.deepEqual(starts, [100, 9])
  config.set('RESOURCES.service_plugins.env_guard.enabled', false)
  await new Promise(resolve => setImmediate(resolve))
  assert.deepEqual([starts.length, row(plugins, 'env_guard').running], [2, false])
})

test('an uncaught error is attributed to the plugin it comes from, which is stopped', async t => {
  const { plugins } = make(t, {
    config: { plugins: { enabled: true } },
    foreign: {
      'late.js': `let fail; module.exports = { name: 'late', create: () => ({ status: () => { try { throw new Error('boom') } catch (error) { return { error } } } }) }`,
    },
  })
  await plugins.startConfigured()
  assert.equal(row(plugins, 'late').running, true)
  const { error } = (await plugins.manager.status('late')) as { error: Error }
  assert.equal(plugins.blame(new Error('our own')), false)
  assert.equal(row(plugins, 'late').running, true)
  assert.equal(plugins.blame(error), true)
  await new Promise(resolve => setImmediate(resolve))
  assert.deepEqual([row(plugins, 'late').running, row(plugins, 'late').failures], [false, 1])
})

test('an error belongs to a plugin by any frame of its stack, also in a folder with a space, otherwise by the plugin that started the work', async t => {
  const dir = join(tempDir(t), 'with space')
  mkdirSync(dir)
  const options = {
    dir,
    config: { plugins: { enabled: true } },
    foreign: {
      'late.mjs': `export default { name: 'late', create: () => ({
        status() { try { [1].forEach(() => null.x) } catch (error) { return { error } } },
        getCliCommands: () => ({ later: { summary: '', run: () => void setTimeout(globalThis.afterwards, 1) } }),
      }) }`,
    },
  }
  const { plugins } = make(t, options)
  await plugins.startConfigured()
  const { error } = (await plugins.manager.status('late')) as { error: Error }
  error.stack = error.stack!.replace('\n', '\n    at call (/usr/lib/library.js:1:1)\n')
  assert.equal(plugins.blame(error), true)
  // an error without a stack belongs to the plugin that started the work; a defect of this program does not, its
  // regular error does
  const defect = Object.assign(new Error('our own'), { stack: `Error: our own\n    at work (${__filename}:1:1)` })
  const thrown = ['a text', undefined, defect, new OsError('BAD_ID', 'no')]
  const blamed = (): boolean[] => thrown.map(one => plugins.blame(one))
  assert.deepEqual(blamed(), [false, false, false, false])
  const later = new Promise(resolve => Object.assign(globalThis, { afterwards: () => resolve(blamed()) }))
  assert.deepEqual(await plugins.command('late', ['later'], io), {}, 'a command may have nothing to say')
  assert.deepEqual(await later, [true, true, false, true])
})

test('a plugin that froze the event loop is disabled immediately, until it is started by hand', async t => {
  const dir = tempDir(t)
  const options = {
    dir,
    config: { plugins: { enabled: true } },
    foreign: { 'good.js': GOOD, 'other.js': GOOD.replaceAll('good', 'other') },
  }
  const frame = `tick (file://${join(dir, 'data/plugins/good.js')}:7)`
  const { plugins } = make(t, { ...options, frozen: ['os (/usr/lib/os-node.js:1)', frame] })
  await plugins.startConfigured()
  assert.equal(row(plugins, 'good').error, `good is not started: it froze the gateway in ${frame}`)
  assert.deepEqual([row(plugins, 'good').running, row(plugins, 'other').running], [false, true])
  const next = make(t, options).plugins
  await next.startConfigured()
  assert.equal(row(next, 'good').running, false, 'over restarts too')
  assert.equal((await next.start('good')).running, true)
  const last = make(t, { ...options, frozen: ['os (/usr/lib/os-node.js:1)'] }).plugins
  await last.startConfigured()
  assert.deepEqual([row(last, 'good').running, row(last, 'other').running], [true, true])
})

test('a plugin whose start ended the process twice stays off until it is loaded by hand', async t => {
  const dir = tempDir(t)
  const options = { dir, config: { plugins: { enabled: true } }, foreign: { 'good.js': GOOD } }
  const { dataDir } = configIn(dir)
  // what is found of a process that ended during a start
  writeFileSync(join(dataDir, 'plugin-starts.json'), JSON.stringify({ starting: 'good', ends: { good: 1 } }))
  const { plugins } = make(t, options)
  await plugins.startConfigured()
  assert.match(row(plugins, 'good').error ?? '', /not started: the process ended 2 times/)
  assert.equal((await plugins.start('good')).running, true)
  const again = make(t, options).plugins
  await again.startConfigured()
  assert.equal(row(again, 'good').running, true, 'it is trusted again')
})

test('an error or rejection in a listener is counted, and it gets the next event', async t => {
  const gateway = new FakeGateway()
  let heard = 0
  const definition: PluginDefinition = {
    name: 'env_guard',
    create: host => ({
      start: () => {
        host.gateway!.onLink(() => {
          heard++
          throw new Error('oh')
        })
        host.gateway!.onLink(() => Promise.reject(new Error('no')) as never)
      },
    }),
  }
  const { plugins } = make(t, { builtins: table(definition), gateway })
  await plugins.startConfigured()
  for (let k = 0; k < 2; k++) for (const listener of gateway.linkListeners) listener({ name: 'x' } as never)
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(heard, 2)
  assert.deepEqual([row(plugins, 'env_guard').failures, row(plugins, 'env_guard').running], [4, true])
})

test('an enabled plugin starts where it would have started with the gateway', async t => {
  const off = { RESOURCES: { service_plugins: { env_guard: { enabled: false } } } }
  for (const [safeMode, running] of [
    [undefined, true],
    ['crashes', false],
  ] as const) {
    const { plugins, config } = make(t, {
      builtins: table(plain('env_guard')),
      gateway: new FakeGateway(),
      config: off,
      ...(safeMode && { safeMode }),
    })
    await plugins.startConfigured()
    config.set('RESOURCES.service_plugins.env_guard.enabled', true)
    if (running) await until('it runs', () => row(plugins, 'env_guard').running)
    else await new Promise(resolve => setTimeout(resolve, 20))
    assert.equal(row(plugins, 'env_guard').running, running)
  }
})

test('marks of plugins survive damage and a read-only disk', t => {
  const dir = tempDir(t)
  writeFileSync(join(dir, 'plugin-starts.json'), '{')
  assert.equal(new StartMarks(dir).barred('x'), undefined)
  const full = {
    ...realFiles,
    open: () => {
      throw Object.assign(new Error('full'), { code: 'ENOSPC' })
    },
  }
  return new StartMarks(dir, full).during('x', async () => 'done').then(done => assert.equal(done, 'done'))
})

test('over HTTP an unknown plugin is a bad request, and the result of a command is its output', async t => {
  const { plugins } = make(t, {
    builtins: table(
      plain('env_guard', {
        getCliCommands: () => ({ hi: { summary: '', run: () => ({ text: 'hello', exitCode: 4 }) } }),
      }),
    ),
  })
  const http = httpPlugins(plugins)
  await assert.rejects(http.load('nobody'), { code: 'BAD_REQUEST', message: 'unknown plugin' })
  assert.deepEqual(await http.command('env-guard', ['hi']), { exit_code: 4, stdout: 'hello' })
  const wrong = await http.command('env-guard', ['ho'])
  assert.deepEqual([wrong.exit_code, wrong.stdout], [2, ''])
  assert.match(wrong.stderr ?? '', /no command "ho"/)
  assert.deepEqual(http.list().plugins.mount_index, ['env_guard'])
})
