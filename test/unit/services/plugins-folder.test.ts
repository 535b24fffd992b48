// Third-party plugins: the folder they are loaded from, and files that are not loaded because others could write them.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { distrust } from '../../../src/services/file-trust'
import { until } from '../../lib/gateway'
import { io, lines, tempDir } from './fake'
import { GOOD, make, plain, row, table } from './plugins-world'

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
