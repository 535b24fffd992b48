// Specification, "Service manager", "Plugin registry functions", "Web service object", "Dependency manager plugin commands".
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import {
  ensureAndMountPlugin,
  ensurePluginDefaults,
  listBuiltinPlugins,
  normalizePluginName,
  ServiceManager,
  syncAllPluginDefaults,
} from '../../../src/index'
import { WebUserService } from '../../../src/services/web-user'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { library, newNode, quietGateway } from '../world'

const PLUGINS = ['web_user', 'tui', 'dependency_manager', 'env_guard', 'port_forwarder', 'test_plugin']

/** A service that records its calls. */
function fake() {
  const calls: string[] = []
  const service = {
    autoLoad: () => void calls.push('autoLoad'),
    start: () => void calls.push('start'),
    stop: () => void calls.push('stop'),
    getCliCommands: () => ({
      greet: { summary: 'greets', run: () => ({ value: { ok: true }, exitCode: 3 }) },
    }),
  }
  return { calls, service, manager: new library.ServiceManager({ a: 1 }) }
}

interface Method {
  readonly name: string
  readonly method: keyof ServiceManager
  readonly parameters: readonly string[]
  readonly returns: is.Shape
  call(): unknown
}

const METHODS: readonly Method[] = [
  {
    name: 'mount',
    method: 'mount',
    parameters: ['name', 'service', 'config = null', 'mode = null'],
    returns: is.object,
    call: () => {
      const { manager, service } = fake()
      assert.equal(manager.mount('one', service), service)
      return service
    },
  },
  {
    name: 'get',
    method: 'get',
    parameters: ['name', 'default = null'],
    returns: is.none,
    call: () => {
      const { manager, service } = fake()
      manager.mount('one', service)
      assert.equal(manager.get('one'), service)
      assert.equal(manager.get('none', 5), 5)
      return manager.get('none')
    },
  },
  {
    name: 'load',
    method: 'load',
    parameters: ['name'],
    returns: is.object,
    call: async () => {
      const { manager, service, calls } = fake()
      manager.mount('one', service)
      const loaded = await manager.load('one')
      await manager.load('one')
      assert.deepEqual([loaded, calls], [service, ['autoLoad']], 'once')
      return loaded
    },
  },
  {
    name: 'start_all, stop_all',
    method: 'startAll',
    parameters: [],
    returns: is.anything,
    call: async () => {
      const { manager, service, calls } = fake()
      manager.mount('one', service)
      await manager.startAll()
      await manager.stopAll()
      assert.deepEqual(calls, ['autoLoad', 'start', 'stop'])
    },
  },
  {
    name: 'snapshot',
    method: 'snapshot',
    parameters: [],
    returns: is.exactly({
      mode: 'runtime',
      mount_index: ['one'],
      runtime_index: [],
      config_index: { one: { size: 1 } },
    }),
    call: () => {
      const { manager, service } = fake()
      manager.mount('one', service, { size: 1 })
      return manager.snapshot()
    },
  },
  {
    name: 'collect_cli_commands',
    method: 'collectCliCommands',
    parameters: [],
    returns: is.record({ one: is.record({ greet: is.dict }) }),
    call: () => {
      const { manager, service } = fake()
      manager.mount('one', service)
      return manager.collectCliCommands()
    },
  },
  {
    name: 'dispatch_plugin_cli',
    method: 'dispatchPluginCli',
    parameters: ['pluginName', 'argv'],
    returns: is.exactly(3),
    call: () => {
      const { manager, service } = fake()
      manager.mount('one', service)
      return manager.dispatchPluginCli('one', ['greet'], { print: () => undefined })
    },
  },
]

const method = ({ name, method: ours, parameters: wanted, returns, call }: Method): Row => ({
  name,
  observe: async () => {
    const actual = parameters(ServiceManager.prototype[ours] as never).map(given =>
      // `default` cannot be a name here
      given.replace(/^fallback\b/, 'default'),
    )
    sameParameters(actual, wanted, name)
    returns(await call(), name)
  },
})

const REGISTRY: readonly Row[] = [
  {
    name: 'normalize_plugin_name',
    observe: () => {
      sameParameters(parameters(normalizePluginName), ['name'], 'normalizePluginName')
      const { normalizePluginName: normalize } = library
      assert.deepEqual(['web-user', 'Web_User', 'deps', 'tui', 'my-plugin'].map(normalize), [
        'web_user',
        'web_user',
        'dependency_manager',
        'tui',
        'my_plugin',
      ])
    },
  },
  {
    name: 'list_builtin_plugins',
    observe: () => {
      sameParameters(parameters(listBuiltinPlugins), [], 'listBuiltinPlugins')
      assert.deepEqual(library.listBuiltinPlugins().sort(), [...PLUGINS].sort())
    },
  },
  {
    name: 'ensure_plugin_defaults',
    observe: () => {
      sameParameters(parameters(ensurePluginDefaults), ['config', 'pluginName'], 'ensurePluginDefaults')
      const config = { RESOURCES: { service_plugins: { web_user: { port: 9000 } } } }
      const settings = library.ensurePluginDefaults(config, 'web-user')
      is.record({ enabled: is.boolean, mode: is.string, host: is.exactly('127.0.0.1'), port: is.exactly(9000) })(
        settings,
      )
      assert.deepEqual(config.RESOURCES.service_plugins.web_user, settings)
    },
  },
  {
    name: 'sync_all_plugin_defaults',
    observe: () => {
      sameParameters(parameters(syncAllPluginDefaults), ['config'], 'syncAllPluginDefaults')
      const { store, configPath } = newNode()
      const all = library.syncAllPluginDefaults(store)
      assert.deepEqual(Object.keys(all).sort(), [...PLUGINS].sort())
      const saved = JSON.parse(readFileSync(configPath, 'utf8'))
      assert.deepEqual(Object.keys(saved.RESOURCES.service_plugins).sort(), [...PLUGINS].sort())
      assert.equal(saved.RESOURCES.service_plugins.web_user.port, 8765)
    },
  },
  {
    name: 'ensure_and_mount_plugin',
    observe: async () => {
      const wanted = ['node', 'pluginName', 'load = false', "mode = 'runtime'"]
      sameParameters(parameters(ensureAndMountPlugin), wanted, 'ensureAndMountPlugin')
      const node = newNode()
      for (const name of PLUGINS) is.object(await library.ensureAndMountPlugin(node, name))
      assert.deepEqual(node.serviceManager.snapshot().runtime_index, [], 'mounted only')
      await library.ensureAndMountPlugin(node, 'deps', true)
      assert.deepEqual(node.serviceManager.snapshot().runtime_index, ['dependency_manager'])
      assert.deepEqual(node.serviceManager.snapshot().mount_index, PLUGINS)
    },
  },
]

interface Web {
  start(host?: string | null, port?: number | null): Promise<boolean>
  stop(): Promise<boolean>
  status(): unknown
  buildDashboard(sections?: readonly string[]): Promise<unknown>
  getDisplayProvidersMetadata(): unknown
  renderDisplaySection(section: string, format?: string): Promise<unknown>
  collectAllDisplaySections(format?: string): Promise<unknown>
  getCliCommands(): object
}

const status = (running: boolean) =>
  is.record({
    running: is.exactly(running),
    users: is.integer,
    data_file: is.string,
    uptime_s: is.number,
  })

const WEB: readonly Row[] = [
  {
    name: 'start, status, build_dashboard, stop',
    observe: async () => {
      sameParameters(parameters(WebUserService.prototype.start), ['host = null', 'port = null'], 'start')
      const node = newNode(quietGateway)
      const web = (await library.ensureAndMountPlugin(node, 'web_user', true)) as never as Web
      status(false)(web.status())
      is.exactly(false)(await web.stop())
      is.exactly(true)(await web.start('127.0.0.1', 0))
      try {
        status(true)(web.status())
        const { url } = web.status() as { url: string }
        assert.equal((await fetch(`${url}/health`)).status, 200)
        const parts = {
          identity: is.dict,
          plugins: is.dict,
          transport: is.dict,
          pipeline: is.dict,
          users: is.listOf(is.dict),
        }
        is.record(parts)(await web.buildDashboard())
        is.record({ users: parts.users })(await web.buildDashboard(['users']))
      } finally {
        is.exactly(true)(await web.stop())
      }
      status(false)(web.status())
    },
  },
  {
    name: 'get_display_providers_metadata, render_display_section, collect_all_display_sections',
    observe: async () => {
      const web = (await library.ensureAndMountPlugin(newNode(), 'web_user', true)) as never as Web
      is.record({ total_providers: is.integer, providers: is.listOf(is.dict) })(web.getDisplayProvidersMetadata())
      is.dict(await web.renderDisplaySection('node_core:identity'))
      is.record({ 'node_core:identity': is.dict })(await web.collectAllDisplaySections())
    },
  },
  {
    name: 'CLI handlers: start, stop, status, dashboard, list, add, update, delete',
    observe: async () => {
      const node = newNode()
      const web = (await library.ensureAndMountPlugin(node, 'web_user', true)) as never as Web
      const names = ['start', 'stop', 'status', 'dashboard', 'list', 'add', 'update', 'delete']
      assert.deepEqual(Object.keys(web.getCliCommands()), names)
      const manager = node.serviceManager as InstanceType<typeof library.ServiceManager>
      const printed: string[] = []
      const run = (...argv: string[]): Promise<number> =>
        manager.dispatchPluginCli('web_user', argv, { print: text => void printed.push(text) })
      assert.equal(await run('add', '--username', 'bob', '--password', 'a good one'), 0)
      assert.equal(await run('update', '--username', 'bob', '--role', 'operator'), 0)
      assert.equal(await run('list'), 0)
      assert.match(printed.at(-1)!, /bob\s+operator/)
      assert.equal(await run('delete', '--username', 'bob'), 0)
      assert.equal(await run('status'), 0)
      assert.equal(await run('stop'), 0)
      assert.notEqual(await run('delete', '--username', 'bob'), 0)
    },
  },
]

const DEPENDENCIES: readonly Row[] = [
  {
    name: 'check, doctor, sync, repair, install',
    observe: async () => {
      const deps = (await library.ensureAndMountPlugin(newNode(), 'dependency_manager', true)) as never as Record<
        'check' | 'doctor' | 'sync' | 'repair' | 'install' | 'getCliCommands',
        (...given: unknown[]) => unknown
      >
      const commands = deps.getCliCommands() as object
      for (const name of ['check', 'doctor', 'sync', 'repair', 'install']) assert.ok(name in commands, name)
      is.record({ ok: is.boolean, missing: is.listOf(is.string), damaged: is.listOf(is.string) })(deps.check())
      is.record({ ok: is.boolean, details: is.listOf(is.dict) })(await deps.doctor())
      await assert.rejects(async () => deps.install('no such part'), { code: 'NOT_FOUND' })
      const first = (deps.check() as { details: { name: string; state: string }[] }).details.find(
        ({ state }) => state === 'ok',
      )!
      is.record({ ok: is.exactly(true), already: is.exactly(true) })(await deps.install(first.name))
    },
  },
]

export const serviceTables: readonly Table[] = [
  {
    title: 'Service manager',
    rows: [
      {
        name: "constructor(config=None, mode='runtime')",
        observe: () => {
          const wanted = ['config = null', "mode = 'runtime'"]
          sameParameters(constructorParameters(ServiceManager), wanted, 'ServiceManager')
          assert.equal(new library.ServiceManager().snapshot().mode, 'runtime')
          assert.equal(new library.ServiceManager(null, 'test').snapshot().mode, 'test')
        },
      },
      ...METHODS.map(method),
    ],
  },
  { title: 'Plugin registry functions', rows: REGISTRY },
  { title: 'Web service object', rows: WEB },
  { title: 'Dependency manager', rows: DEPENDENCIES },
]
