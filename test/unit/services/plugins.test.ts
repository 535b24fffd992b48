import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { ConfigStore } from '../../../src/config'
import { OsError } from '../../../src/lib/errors'
import { realFiles } from '../../../src/lib/files'
import { httpPlugins, type PluginDefinition, Plugins, type PluginTable, ServiceManager } from '../../../src/services'
import { StartMarks } from '../../../src/services/third-party'
import { distrust } from '../../../src/services/trusted'
import { until } from '../../lib/gateway'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { configIn, FakeGateway, FakeNode, io, lines, logger, tempDir } from './fake'

interface Made {
  plugins: Plugins
  timers: ManualTimers
  dir: string
  config: ConfigStore
}

function make(
  t: TestContext,
  {
    config: content = {},
    builtins = {},
    foreign = {},
    safeMode,
    gateway,
    frozen,
    dir = tempDir(t),
  }: {
    config?: Record<string, unknown>
    builtins?: PluginTable
    /** file name → text */
    foreign?: Record<string, string>
    safeMode?: string
    gateway?: FakeGateway
    frozen?: readonly string[]
    dir?: string
  },
): Made {
  const config = configIn(dir, content)
  const folder = join(config.dataDir, 'plugins')
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries(foreign)) writeFileSync(join(folder, name), text)
  const timers = new ManualTimers(new ManualClock())
  const manager = new ServiceManager(config, 'runtime', { timers, limitMs: 1000, logger })
  const node = Object.assign(new FakeNode(), { store: config, serviceManager: manager })
  const plugins = new Plugins({
    manager,
    node,
    builtins,
    version: '1',
    logger,
    ...(gateway && { gateway }),
    ...(safeMode !== undefined && { safeMode: () => safeMode }),
    ...(frozen && { frozen }),
  })
  return { plugins, timers, dir, config }
}

const plain = (name: string, service: object = {}): PluginDefinition => ({ name, create: () => service })
const table = (...definitions: PluginDefinition[]): PluginTable =>
  Object.fromEntries(definitions.map(definition => [definition.name, async () => definition]))
const row = (plugins: Plugins, name: string) => plugins.list().find(item => item.name === name)!

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

const GOOD = `module.exports = { name: 'good', summary: 'fine', defaults: { colour: 'red' },
  create: host => ({ status: () => ({ colour: host.settings().colour }) }) }`

test('third-party plugins are disabled unless the configuration enables them', async t => {
  const { plugins } = make(t, { foreign: { 'good.js': GOOD } })
  await plugins.startConfigured()
  assert.deepEqual(plugins.list(), [])
})

test('plugins of the folder run; each that fails is shown with its reason, and the others continue', async t => {
  const { plugins, timers } = make(t, {
    config: { plugins: { enabled: true } },
    builtins: table(plain('env_guard')),
    foreign: {
      'good.js': GOOD,
      'broken.js': 'this is no javascript',
      'thrower.js': `module.exports = { name: 'thrower', create() { throw new Error('no way') } }`,
      'hangs.js': `module.exports = { name: 'hangs', create: () => ({ start: () => new Promise(() => {}) }) }`,
      'hollow.js': 'module.exports = {}',
      'misnamed.js': `module.exports = { name: 'other', create: () => ({}) }`,
      'module.mjs': `export default { name: 'module', create: () => ({}) }`,
      'env-guard.js': `module.exports = { name: 'env_guard', create: () => ({}) }`,
      'notes.txt': 'no plugin',
    },
  })
  const started = plugins.startConfigured()
  let over = false
  void started.then(() => {
    over = true
  })
  await until('all were started', async () => {
    // only the one that hangs waits for its time-out
    if (row(plugins, 'hangs').loaded) await timers.advance(1001)
    return over
  })
  const state = Object.fromEntries(plugins.list().map(({ name, running, error }) => [name, running ? 'runs' : error]))
  assert.equal(state.good, 'runs')
  assert.equal(state.module, 'runs')
  assert.equal(state.env_guard, 'runs')
  assert.match(String(state.broken), /broken: import failed/)
  assert.match(String(state.thrower), /thrower: create failed: no way/)
  assert.match(String(state.hangs), /start did not end within 1 s/)
  assert.match(String(state.hollow), /exports no plugin/)
  assert.match(String(state.misnamed), /contains the plugin "other"/)
  assert.equal(state['notes.txt'], undefined)
  assert.deepEqual((await plugins.command('good', ['status'], io)).value, { colour: 'red' })
  assert.equal(plugins.list().filter(({ failures }) => failures > 0).length, 5)
  await plugins.close()
})

test('a world-writable file is not loaded; allow names those that are loaded', async t => {
  const dir = tempDir(t)
  const made = make(t, {
    dir,
    config: { plugins: { enabled: true, allow: ['open'] } },
    foreign: { 'open.js': GOOD.replace('good', 'open'), 'good.js': GOOD },
  })
  assert.deepEqual(
    made.plugins.list().map(({ name }) => name),
    ['open'],
  )
  chmodSync(join(dir, 'data/plugins/open.js'), 0o666)
  const { plugins } = make(t, { dir, config: { plugins: { enabled: true } } })
  await plugins.startConfigured()
  assert.match(row(plugins, 'open').error ?? '', /is writable by everyone/)
  assert.equal(row(plugins, 'open').running, false)
  assert.equal(row(plugins, 'good').running, true)
})

test('a plugin is loaded only where only its owner can write, imported files, folders and links included', t => {
  const dir = tempDir(t)
  const write = (name: string, text = '', mode = 0o644): string => {
    const path = join(dir, name)
    mkdirSync(join(path, '..'), { recursive: true })
    writeFileSync(path, text)
    chmodSync(path, mode)
    return path
  }
  const own = process.geteuid?.() ?? 0
  assert.equal(distrust(write('plain.js', "require('node:fs')")), undefined)
  assert.match(distrust(write('group.js', '', 0o664)) ?? '', /group\.js is writable by its group: chmod g-w/)
  assert.match(distrust(write('all.js', '', 0o646)) ?? '', /all\.js is writable by everyone/)
  write('lib/helper.js', 'module.exports = 1', 0o664)
  for (const line of ["require('./lib/helper')", "import x from './lib/helper.js'", "await import('./lib/helper.js')"])
    assert.match(distrust(write('importer.js', line)) ?? '', /helper\.js is writable by its group/, line)
  const entry = write('folder/index.js')
  write('folder/data/rules.json', '{}', 0o666)
  assert.equal(distrust(entry), undefined)
  assert.match(distrust(entry, join(dir, 'folder')) ?? '', /rules\.json is writable by everyone/)
  // a link into a folder that others may write, and one through it
  write('shared/code.js')
  chmodSync(join(dir, 'shared'), 0o775)
  symlinkSync(join(dir, 'shared/code.js'), join(dir, 'link.js'))
  symlinkSync(join(dir, 'plain.js'), join(dir, 'shared/hop.js'))
  symlinkSync(join(dir, 'shared/hop.js'), join(dir, 'through.js'))
  for (const name of ['link.js', 'through.js'])
    assert.match(distrust(join(dir, name)) ?? '', /shared is writable by its group/, name)
  assert.match(
    distrust(join(dir, 'plain.js'), undefined, own + 1) ?? (own === 0 ? 'root' : ''),
    own === 0 ? /root/ : /belongs to another/,
  )
  if (own !== 0) return
  chownSync(join(dir, 'plain.js'), 65_534, 65_534)
  assert.match(distrust(join(dir, 'plain.js')) ?? '', /plain\.js belongs to another user/)
})

test('a file reached by a computed require() is checked by the same rule when it is called', async t => {
  const dir = tempDir(t)
  mkdirSync(join(dir, 'outside'))
  for (const [name, mode] of [
    ['open.js', 0o666],
    ['closed.js', 0o644],
  ] as const) {
    writeFileSync(join(dir, 'outside', name), 'module.exports = 7')
    chmodSync(join(dir, 'outside', name), mode)
  }
  const plugin = (name: string, file: string): string =>
    `const file = ['${join(dir, 'outside')}', '${file}'].join('/')
     module.exports = { name: '${name}', create: () => ({ status: () => ({ value: require(file) }) }) }`
  mkdirSync(join(dir, 'data/plugins'), { recursive: true })
  execFileSync('mkfifo', [join(dir, 'data/plugins/pipe.cjs')])
  const { plugins } = make(t, {
    dir,
    config: { plugins: { enabled: true } },
    foreign: {
      'bad.js': plugin('bad', 'open.js'),
      'good.js': plugin('good', 'closed.js'),
      'early.js': `const dir = '${join(dir, 'outside')}'; require(dir + '/open.js')`,
    },
  })
  await plugins.startConfigured()
  assert.deepEqual(await plugins.manager.status('good'), { value: 7 })
  await assert.rejects(() => plugins.manager.status('bad'), /open\.js is writable by everyone/)
  assert.match(row(plugins, 'early').error ?? '', /early\.js requires .*open\.js is writable by everyone: chmod o-w/)
  assert.deepEqual([row(plugins, 'early').failures, row(plugins, 'pipe').error], [1, 'is no regular file'])
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

test('the folder of plugins is configurable', async t => {
  const dir = tempDir(t)
  mkdirSync(join(dir, 'elsewhere/good'), { recursive: true })
  writeFileSync(join(dir, 'elsewhere/good/index.js'), GOOD)
  const { plugins } = make(t, { dir, config: { plugins: { enabled: true, dir: join(dir, 'elsewhere') } } })
  await plugins.startConfigured()
  assert.equal(row(plugins, 'good').running, true)
})

test('an unreadable folder of plugins counts as empty, and is reported', async t => {
  const dir = tempDir(t)
  writeFileSync(join(dir, 'no folder'), '')
  const { plugins } = make(t, { dir, config: { plugins: { enabled: true, dir: join(dir, 'no folder') } } })
  await plugins.startConfigured()
  assert.deepEqual(plugins.list(), [])
  assert.match(lines.join('\n'), /the plugin folder .*no folder cannot be read: ENOTDIR/)
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
