import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { realFiles } from '../../../src/lib/files'
import {
  ensureAndMountPlugin,
  ensurePluginDefaults,
  equip,
  listBuiltinPlugins,
  normalizePluginName,
  pluginFragments,
  ServiceManager,
  syncAllPluginDefaults,
} from '../../../src/services'
import { configIn, hostFor, tempDir } from './fake'

const saved = (config: ConfigStore): Record<string, Record<string, unknown>> =>
  JSON.parse(realFiles.read(config.path).toString()).RESOURCES?.service_plugins

test('plugins are found by names and aliases', () => {
  for (const [given, meant] of [
    ['web-user', 'web_user'],
    ['WEB-USER', 'web_user'],
    [' deps ', 'dependency_manager'],
    ['dependency', 'dependency_manager'],
    ['env-guard', 'env_guard'],
    ['port-forwarder', 'port_forwarder'],
    ['My-Own', 'my_own'],
  ])
    assert.equal(normalizePluginName(given!), meant)
  assert.deepEqual(
    [...listBuiltinPlugins()].sort(),
    ['dependency_manager', 'env_guard', 'port_forwarder', 'test_plugin', 'tui', 'web_user'].sort(),
  )
})

test('missing settings are merged and saved, existing ones stay', t => {
  const dir = tempDir(t)
  const config = configIn(dir, { RESOURCES: { service_plugins: { env_guard: { max_history: 7, mine: 'kept' } } } })
  const settings = ensurePluginDefaults(config, 'env-guard')
  assert.deepEqual(settings, {
    enabled: true,
    auto_start: true,
    mode: 'runtime',
    max_history: 7,
    check_interval_s: 60,
    mine: 'kept',
  })
  assert.deepEqual(saved(config).env_guard, settings)
  const again = ConfigStore.load({ path: config.path, dataDir: config.dataDir, env: {}, fragments: pluginFragments() })
  assert.equal(again.get('RESOURCES.service_plugins.env_guard.max_history'), 7)
  const text = realFiles.read(config.path).toString()
  ensurePluginDefaults(config, 'env-guard')
  assert.equal(realFiles.read(config.path).toString(), text, 'a second time nothing is written')
})

test('the defaults of all built-in plugins are saved in one write', t => {
  const config = configIn(tempDir(t), { RESOURCES: { service_plugins: { web_user: { port: 9000 } } } })
  const all = syncAllPluginDefaults(config)
  assert.deepEqual(Object.keys(all).sort(), [...listBuiltinPlugins()].sort())
  assert.equal(saved(config).web_user!.port, 9000)
  assert.equal(saved(config).tui!.default_section, 'identity')
  assert.equal(saved(config).port_forwarder!.auto_start, false)
})

test('a plain dict is changed in place', () => {
  const config: Record<string, unknown> = {}
  ensurePluginDefaults(config, 'mine', { a: 1, deep: { b: 2, c: 3 } })
  ;(config as { RESOURCES: { service_plugins: { mine: { deep: object } } } }).RESOURCES.service_plugins.mine.deep = {
    b: 9,
  }
  assert.deepEqual(ensurePluginDefaults(config, 'mine', { a: 1, deep: { b: 2, c: 3 } }), {
    enabled: true,
    auto_start: true,
    mode: 'runtime',
    a: 1,
    deep: { b: 9, c: 3 },
  })
})

test('settings are checked like any other key', t => {
  const config = configIn(tempDir(t))
  assert.throws(
    () => config.set('RESOURCES.service_plugins.env_guard.max_history', 0),
    /env_guard.max_history.*1–10000/,
  )
  assert.throws(() => config.set('RESOURCES.service_plugins.tui.default_interval', 'x'), { code: 'CONFIG_INVALID' })
})

test('a name is mounted as a service, once; with load it is loaded', async t => {
  const dir = tempDir(t)
  const config = configIn(dir)
  const serviceManager = new ServiceManager(config)
  let made = 0
  let loads = 0
  equip(serviceManager, {
    table: {
      env_guard: async () => ({
        name: 'env_guard',
        create: () => {
          made++
          return { autoLoad: () => void loads++ }
        },
      }),
    },
    host: name => hostFor(name, dir, { config }),
  })
  const node = { serviceManager }
  const service = await ensureAndMountPlugin(node, 'env-guard')
  assert.equal(await ensureAndMountPlugin(node, 'env_guard', true), service)
  assert.deepEqual([made, loads], [1, 1])
  await assert.rejects(ensureAndMountPlugin(node, 'env_gaurd'), /no plugin "env_gaurd"; did you mean env_guard/)
  config.set('RESOURCES.service_plugins.env_guard.enabled', false)
  serviceManager.unmount('env_guard')
  await assert.rejects(ensureAndMountPlugin(node, 'env_guard'), { code: 'FORBIDDEN' })
})
