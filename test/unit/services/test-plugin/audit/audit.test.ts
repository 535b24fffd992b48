import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { inventory } from '../../../../../src/index'
import { audit, builtInList, type TestList } from '../../../../../src/services/test-plugin/audit'
import { digestOf, type Inventory, inventoryOf, KINDS } from '../../../../../src/services/test-plugin/audit/inventory'
// @ts-expect-error: a part of the build, in plain JavaScript
import * as scanner from '../../../../../src/services/test-plugin/audit/scan.mjs'

const { propertyPaths, readSource, scanTests, unambiguousNames, testSources } = scanner

let files = 0
const source = (text: string, file = `unit/${files++}.test.ts`) => {
  const read = readSource(text)
  return { file, ...read, paths: propertyPaths(read) }
}
const scan = (names: Partial<Inventory>, ...sources: ReturnType<typeof source>[]) => scanTests(names, sources)

test('a route counts by its path as a text, with its method next to it unless it is GET', () => {
  const routes = ['DELETE /users/:username', 'GET /api/config', 'GET /health', 'GET /users', 'POST /users']
  const found = scan(
    { routes },
    source(`await get('/api/config?key=a'); await call('POST', \`http://127.0.0.1:\${port}/users\`)`),
    source(`// GET /health is not tested\nawait get('/api/health')`),
  )
  assert.deepEqual(found.routes, [[0], [1, 0], [0], [1, 0], [1, 0]])
  const other = scan(
    { routes },
    source(`await fetch(\`$\{url}/users/$\{name}\`, { method: "DELETE" })`, 'net/y.test.ts'),
  )
  assert.deepEqual(other.routes[0], [1, 0])
  assert.deepEqual(other.files, ['net/y.test.ts'])
})

test('a command counts as the first word of a command line, in a file that runs commands', () => {
  const commands = ['decode', 'log export', 'log verify', 'status']
  const runs = source(`const m = new Machine(); m.json('log', 'verify'); runCli(['decode', '--hex', '3f'])`)
  assert.deepEqual(scan({ commands }, runs).commands, [[1, 0], [0], [1, 0], [0]])
  assert.deepEqual(scan({ commands }, source(`assert.equal(x.get('status'), 'decode')`)).commands, [[0], [0], [0], [0]])
})

test('a key counts by its dotted name, inside its own object, or by a name that no other key has', () => {
  const keys = [
    'gateway.log.commit_bytes',
    'gateway.log.enabled',
    'gateway.uplinks[].port',
    'gateway.watchdog.enabled',
    'web_user.read_only',
  ]
  assert.deepEqual([...unambiguousNames(keys)], ['commit_bytes', 'read_only'])
  const found = scan(
    { keys },
    source(`open({ commit_bytes: 4 })`),
    source(`start({ gateway: { log: { enabled: false }, uplinks: [{ name: 'a', port: 1 }] } })`),
    source(`config.set('web_user.read_only', true) // gateway.watchdog.enabled`),
  )
  assert.deepEqual(found.keys, [[1, 0], [1, 1], [1, 1], [0], [1, 2]])
})

test('an option of a medium counts in a test of that medium', () => {
  const keys = [
    'RESOURCES.physical_config.lora.region',
    'RESOURCES.physical_config.can.region',
    'gateway.uplinks[].region',
  ]
  const found = scan({ keys: [...keys].sort() }, source(`open({ region: 'EU' })`, 'unit/drivers/lora/radio.test.ts'))
  assert.deepEqual(found.keys, [[0], [1, 0], [1, 0]])
  assert.deepEqual(scan({ keys }, source(`open({ region: 'EU' })`, 'unit/web/x.test.ts')).keys, [[0], [0], [0]])
})

test('comments, regular expressions and nested templates are parsed correctly', () => {
  const nested = `x $\{b('y')} z`
  const { code, literals } = readSource(`a(\`${nested}\`) /* 'no' */ ; (/it's/.test(c)) + 'd' // 'no'`)
  assert.ok(!code.includes('no'))
  assert.deepEqual(
    literals.map(({ text }: { text: string }) => text),
    [nested, "it's", 'd'],
  )
})

test('a plugin counts by the import of its folder, or where it is loaded or run', () => {
  const plugins = ['env_guard', 'port_forwarder', 'tui', 'web_user']
  const found = scan(
    { plugins },
    source(`import x from '../../src/services/env-guard'; cli(['web-user', 'add', 'bob'])`),
    source(`await ensureAndMountPlugin(node, 'port_forwarder', true); assert.deepEqual(names, ['tui'])`),
  )
  assert.deepEqual(found.plugins, [[1, 0], [1, 1], [0], [1, 0]])
})

test('a command of a plugin counts after the name of its plugin, or where a test of the plugin calls it', () => {
  const plugin_commands = ['dependency_manager check', 'port_forwarder add-rule', 'port_forwarder test', 'web_user add']
  const found = scan(
    { plugin_commands },
    source(`import x from '../../src/services/port-forwarder'; await run('add-rule', {})`),
    source(`cli(['deps', '--cmd', 'check']); assert.deepEqual(names, ['test', 'add'])`),
    source(`await plugins.command('web_user', ['add', 'bob']); run('test')`),
    source(`new Machine(); // json('web-user', 'add')`),
  )
  assert.deepEqual(found.plugin_commands, [[1, 0], [1, 1], [0], [0]])
  const called = scan({ plugin_commands }, source(`runCli(); await plugins.command('web_user', ['add', 'bob'])`))
  assert.deepEqual(called.plugin_commands, [[0], [0], [0], [1, 0]])
})

const small: Inventory = {
  routes: ['GET /a'],
  commands: ['run', 'stop'],
  keys: ['a.b'],
  plugins: [],
  plugin_commands: [],
}
const list = (more: Partial<TestList> = {}): TestList => ({
  files: ['unit/a.test.ts'],
  digest: digestOf(small),
  routes: [[2, 0]],
  commands: [[1, 0], [0]],
  keys: [[1, 0]],
  plugins: [],
  plugin_commands: [],
  ...more,
})

test('an item that no test names is a gap, and a gap fails the audit', () => {
  const report = audit(small, list())
  assert.equal(report.ok, false)
  assert.deepEqual(report.gaps, ['commands: stop'])
  assert.deepEqual(report.counts.commands, { tested: 1, gaps: 1 })
  assert.deepEqual(report.items[0], {
    kind: 'routes',
    name: 'GET /a',
    status: 'tested',
    tests: 2,
    file: 'unit/a.test.ts',
  })
  assert.equal(
    audit(
      small,
      list({
        commands: [
          [1, 0],
          [3, 0],
        ],
      }),
    ).ok,
    true,
  )
})

test('a list of another build makes everything a gap', () => {
  const report = audit(
    { ...small, keys: ['a.c'] },
    list({
      commands: [
        [1, 0],
        [3, 0],
      ],
    }),
  )
  assert.equal(report.ok, false)
  assert.equal(report.gaps.length, 4)
  assert.match(report.note, /another build/)
})

test('the list inside the program is of this build, and names existing test files', async () => {
  const names = await inventory()
  assert.equal(builtInList().digest, digestOf(names))
  assert.deepEqual(
    names,
    inventoryOf({
      routes: names.routes.map(route => ({ method: route.split(' ')[0]!, path: route.split(' ')[1]! })),
      commands: names.commands.map(name => ({ name })),
      keys: names.keys.map(key => ({ key })),
      plugins: names.plugins,
      plugin_commands: Object.fromEntries(
        names.plugins.map(plugin => [
          plugin,
          Object.fromEntries(
            names.plugin_commands.filter(name => name.startsWith(`${plugin} `)).map(name => [name.split(' ')[1]!, {}]),
          ),
        ]),
      ),
    }),
  )
  const { items } = audit(names)
  assert.equal(
    items.length,
    KINDS.reduce((sum, kind) => sum + names[kind].length, 0),
  )
  const own = items.find(({ name }) => name === 'plugin-test')
  assert.equal(own?.status, 'tested', join('unit', String(own?.file)))
  assert.ok(items.some(({ name, file }) => name === 'test_plugin' && file?.endsWith('.test.ts')))
})

test('every route, command, key, plugin and command of a plugin of this tree is named by a test', async () => {
  assert.deepEqual(audit(await inventory()).gaps, [])
})

test('an item of any kind that no test names is a gap of this tree', { timeout: 60_000 }, async () => {
  const made: Inventory = {
    routes: ['GET /api/made-up'],
    commands: ['made-up'],
    keys: ['gateway.made_up_key'],
    plugins: ['made_up'],
    plugin_commands: ['web_user made-up', 'made_up list'],
  }
  const names = await inventory()
  const more = Object.fromEntries(
    KINDS.map(kind => [kind, [...names[kind], ...made[kind]].sort()]),
  ) as unknown as Inventory
  const found = scanTests(more, testSources(process.env.OS_NODE_TEST_ROOT ?? process.cwd()))
  assert.deepEqual(
    audit(more, { ...found, digest: digestOf(more) }).gaps,
    KINDS.flatMap(kind => [...made[kind]].sort().map(name => `${kind}: ${name}`)),
  )
})
