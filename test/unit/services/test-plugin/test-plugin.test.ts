// test_plugin as a plugin: mounted by name on a node, configured by its settings, inside a running gateway.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Engine, Fusion, inventory, Node } from '../../../../src/index'
import { ensureAndMountPlugin, type GatewayAccess, type PluginHost } from '../../../../src/services'
import { type TestRunner, testPlugin } from '../../../../src/services/test-plugin'

const script = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'dist/os-node.js')
const dir = mkdtempSync(join(tmpdir(), 'os-node-test-plugin-'))
after(() => rmSync(dir, { recursive: true, force: true }))

let nodes = 0
function nodeWith(settings: Record<string, unknown>, more: Record<string, unknown> = {}): Node {
  const path = join(dir, `Config-${nodes++}.json`)
  const RESOURCES = { service_plugins: { test_plugin: settings } }
  writeFileSync(path, JSON.stringify({ device_id: 'T', assigned_id: 7, RESOURCES, ...more }))
  const node = new Node(path)
  after(() => node.close())
  return node
}

const hostOf = (node: Node, gateway?: GatewayAccess): PluginHost =>
  ({
    config: node.store,
    clock: { wall: () => 1_710_000_000_000, mono: () => 0 },
    settings: () => node.store.get('RESOURCES.service_plugins.test_plugin'),
    ...(gateway && { gateway }),
  }) as unknown as PluginHost

const runnerOf = async (
  node: Node,
  gateway?: GatewayAccess,
  terminal?: { isTTY: boolean; write(text: string): void },
) =>
  (await testPlugin({ script, library: { Engine, Fusion, Node }, inventory, ...(terminal && { terminal }) }).create(
    hostOf(node, gateway),
  )) as TestRunner

test('it is mounted by its name and its alias, with the methods and commands of the specification', async () => {
  const node = nodeWith({})
  const service = (await ensureAndMountPlugin(node, 'plugin-test', true)) as unknown as TestRunner
  assert.equal(service, await ensureAndMountPlugin(node, 'test_plugin'))
  for (const method of [
    'runComponent',
    'runStress',
    'runAll',
    'runIntegration',
    'compare',
    'fullLoad',
    'audit',
  ] as const)
    assert.equal(typeof service[method], 'function', method)
  const [, fail] = await service.runStress(20)
  assert.equal(fail, 0)
  const { last } = service.status() as { last: Record<string, { ok: boolean }> }
  assert.equal(last.stress?.ok, true)
})

test('stress_total, stress_workers and stress_sources apply where a command has no values of its own; the method has its own defaults', async () => {
  const node = nodeWith({ stress_total: 30, stress_workers: 3, stress_sources: 2 })
  const runner = await runnerOf(node)
  const [mine] = await runner.stress()
  assert.deepEqual([mine.total, mine.workers, mine.sources], [30, 3, 2])
  const { value } = await runner
    .getCliCommands()
    .stress!.run({ total: 12 }, { signal: new AbortController().signal, print: () => undefined })
  const { summary } = value as { summary: { total: number; workers: number } }
  assert.deepEqual([summary.total, summary.workers], [12, 3])
  assert.equal((await runner.runStress())[0].total, 200)
  node.store.set('RESOURCES.service_plugins.test_plugin.stress_total', 5)
  assert.equal((await runner.stress())[0].total, 5)
})

test('precision and core_backend are those of the configuration', async () => {
  const sizes = await Promise.all(
    [0, 8].map(async precision => {
      const runner = await runnerOf(nodeWith({}, { engine_settings: { precision, core_backend: 'pycore' } }))
      const [summary] = await runner.stress({ total: 100 })
      return summary.bytes
    }),
  )
  assert.ok(sizes[0]! < sizes[1]!, sizes.join())
})

test('a disabled plugin is not mounted', async () => {
  const node = nodeWith({ enabled: false })
  await assert.rejects(ensureAndMountPlugin(node, 'test_plugin'), { code: 'FORBIDDEN' })
})

test('inside a gateway stress runs in a separate thread, and draws no bar', async () => {
  const terminal = { isTTY: true, write: () => assert.fail('the terminal is not the gateway’s to draw on') }
  const runner = await runnerOf(nodeWith({}), {} as GatewayAccess, terminal)
  let turns = 0
  const ticking = setInterval(() => turns++, 1)
  const [summary, fail] = await runner.stress({ total: 50_000 })
  clearInterval(ticking)
  assert.deepEqual([summary.threads_per_process, summary.ok, fail], [1, 50_000, 0])
  assert.ok(turns > 0, 'the event loop turned')
})

test('the last run is shown as a section', async () => {
  const runner = await runnerOf(nodeWith({}))
  await runner.stress({ total: 1 })
  const [section] = runner.displayProviders() as {
    plugin_name: string
    section_id: string
    data(): Record<string, never>
  }[]
  assert.equal(`${section!.plugin_name}:${section!.section_id}`, 'test_plugin:results')
  assert.deepEqual(Object.keys(section!.data()), ['running', 'last', 'cores', 'cpus'])
})
