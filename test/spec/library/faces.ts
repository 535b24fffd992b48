// Specification, "Display provider and section", "Terminal UI service", "Test runner service", data queries of the library.
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import {
  collectAllSections,
  DatabaseManager,
  DisplayProvider,
  getDisplayRegistry,
  registerDisplayProvider,
  renderSection,
  TerminalUi,
} from '../../../src/index'
import { TestRunner } from '../../../src/services/test-plugin'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { closes, library, newFolder, newNode, ROWS, T } from '../world'

class Sample extends library.DisplayProvider {
  extractData(): object {
    return [
      { name: 'a', n: 1 },
      { name: 'b', n: 2 },
    ]
  }
}

/** Registered for the length of one row. */
async function shown(
  section: string,
  act: (path: string) => unknown,
  change: (provider: Sample) => void = () => undefined,
) {
  const provider = new Sample('spec', section, 'Of the specification')
  change(provider)
  assert.equal(library.registerDisplayProvider(provider), true)
  try {
    await act(`spec:${section}`)
  } finally {
    library.unregisterDisplayProvider('spec', section)
  }
}

const DISPLAY: readonly Row[] = [
  {
    name: 'provider: plugin name, section id, display title; extract_data required',
    observe: () => {
      const own = constructorParameters(DisplayProvider)
      sameParameters(own, ['pluginName', 'sectionId'], 'DisplayProvider')
      const { plugin_name, section_id, display_name } = new Sample('p', 's', 'Title')
      assert.deepEqual([plugin_name, section_id, display_name], ['p', 's', 'Title'])
      assert.equal('extractData' in library.DisplayProvider.prototype, false)
    },
  },
  {
    name: 'provider: format_json, format_html, format_text, format_table, format_tree have defaults',
    observe: () => {
      const provider = new Sample('p', 's')
      const data = provider.extractData()
      assert.deepEqual(provider.formatJson(data), data)
      assert.match(provider.formatHtml(data), /<table/)
      assert.match(provider.formatText(data), /a/)
      assert.deepEqual(provider.formatTable(data), data)
      is.object(provider.formatTree(data))
    },
  },
  {
    name: 'register_display_provider: one registry, no two of a name',
    observe: () =>
      shown('one', path => {
        sameParameters(parameters(registerDisplayProvider), ['provider'], 'registerDisplayProvider')
        is.exactly(false)(library.registerDisplayProvider(new Sample('spec', 'one')))
        assert.ok(library.getDisplayRegistry().resolve(path))
      }),
  },
  {
    name: 'get_display_registry',
    observe: () => {
      sameParameters(parameters(getDisplayRegistry), [], 'getDisplayRegistry')
      assert.equal(library.getDisplayRegistry(), library.getDisplayRegistry())
    },
  },
  {
    name: 'render_section(name, format): JSON unless said, HTML, TEXT, TABLE, TREE',
    observe: () =>
      shown('one', async path => {
        sameParameters(parameters(renderSection), ['name', "format = 'json'"], 'renderSection')
        is.listOf(is.dict)(await library.renderSection(path))
        for (const format of ['html', 'text']) is.string(await library.renderSection(path, format), format)
        for (const format of ['table', 'tree']) is.object(await library.renderSection(path, format), format)
        await assert.rejects(library.renderSection(path, 'pdf'), { code: 'BAD_REQUEST' })
        await assert.rejects(library.renderSection('spec:none'), { code: 'NOT_FOUND' })
      }),
  },
  {
    name: 'collect_all_sections(): every section by <plugin_name>:<section_id>',
    observe: () =>
      shown('one', async path => {
        assert.ok(parameters(collectAllSections).every(parameter => parameter.includes('=')))
        newNode()
        const all = await library.collectAllSections()
        is.dictOf(is.object)(all)
        const builtIn = ['identity', 'config', 'transport', 'pipeline', 'plugins', 'db'].map(id => `node_core:${id}`)
        for (const name of [...builtIn, path]) assert.ok(name in all, name)
      }),
  },
  {
    name: 'priority 0 to 100, higher earlier; filters by category and priority',
    observe: () =>
      shown('low', () =>
        shown(
          'high',
          async () => {
            const paths = async (filter: object) =>
              Object.keys(await library.collectAllSections('json', filter)).filter(path => path.startsWith('spec:'))
            assert.deepEqual(await paths({}), ['spec:high', 'spec:low'])
            assert.deepEqual(await paths({ minPriority: 90 }), ['spec:high'])
            assert.deepEqual(await paths({ category: 'mine' }), ['spec:high'])
            assert.throws(() => {
              const wrong = new Sample('spec', 'wrong')
              wrong.priority = 101
              library.registerDisplayProvider(wrong)
            })
          },
          provider => Object.assign(provider, { priority: 99, category: 'mine' }),
        ),
      ),
  },
]

/** A terminal that ends the live view with `q`. */
function terminal(written: string[]) {
  const input = Object.assign(new EventEmitter(), {
    isTTY: true,
    setRawMode: () => undefined,
    resume: () => undefined,
    pause: () => undefined,
  })
  const write = (text: string): boolean => written.push(text) > 0
  const output = Object.assign(new EventEmitter(), { isTTY: true, columns: 80, rows: 24, write })
  const ports = { input, output, errors: { write }, events: new EventEmitter(), env: {}, suspend: () => undefined }
  return { ports, type: (keys: string) => void input.emit('data', Buffer.from(keys)) }
}

const SECTIONS = ['identity', 'config', 'transport', 'pipeline', 'plugins', 'db']

const TUI: readonly Row[] = [
  {
    name: 'render_section',
    observe: async () => {
      sameParameters(parameters(TerminalUi.prototype.renderSection), ['name'], 'renderSection')
      const tui = new library.TerminalUi(newNode())
      for (const name of SECTIONS) is.dict(await tui.renderSection(name), name)
      await shown('one', async path => is.object(await tui.renderSection(path)))
    },
  },
  {
    name: 'render_sections',
    observe: async () => {
      sameParameters(parameters(TerminalUi.prototype.renderSections), ['sections = null'], 'renderSections')
      const tui = new library.TerminalUi(newNode())
      assert.deepEqual(Object.keys(await tui.renderSections(['identity', 'db'])), ['identity', 'db'])
      const all = await tui.renderSections()
      for (const name of SECTIONS) assert.ok(name in all, name)
    },
  },
  {
    name: 'build_snapshot',
    observe: async () => {
      const snapshot = await new library.TerminalUi(newNode()).buildSnapshot()
      is.record({ identity: is.dict, timestamp: is.integer })(snapshot)
    },
  },
  {
    name: 'render_text',
    observe: async () => {
      sameParameters(parameters(TerminalUi.prototype.renderText), ['sections = null'], 'renderText')
      is.record({ identity: is.dict })(JSON.parse(await new library.TerminalUi(newNode()).renderText()))
    },
  },
  {
    name: 'run_once',
    observe: async () => {
      sameParameters(parameters(TerminalUi.prototype.runOnce), ['sections = null'], 'runOnce')
      is.string(await new library.TerminalUi(newNode()).runOnce(['db']))
    },
  },
  {
    name: 'run_bios',
    observe: async () => {
      const [interval, section] = parameters(TerminalUi.prototype.runBios)
      assert.match(interval!, /^interval = /)
      assert.equal(section, 'section = null')
      const written: string[] = []
      const { ports, type } = terminal(written)
      const tui = new library.TerminalUi(newNode(), { terminal: () => ports as never })
      const run = tui.runBios()
      setTimeout(() => type('q'), 50)
      is.exactly(0)(await run)
      assert.match(written.join(''), /Identity/)
    },
  },
  {
    name: 'run_interactive: keys m s r a j q and section numbers',
    observe: async () => {
      const [interval, sections] = parameters(TerminalUi.prototype.runInteractive)
      assert.match(interval!, /^interval = /)
      assert.equal(sections, 'sections = null')
      const written: string[] = []
      const { ports, type } = terminal(written)
      const tui = new library.TerminalUi(newNode(), { terminal: () => ports as never })
      const run = tui.runInteractive()
      const since = async (keys: string): Promise<string> => {
        const from = written.length
        await new Promise(resolve => setTimeout(resolve, 60))
        type(keys)
        await new Promise(resolve => setTimeout(resolve, 120))
        return written.slice(from).join('')
      }
      assert.match(await since('2'), /Configuration/)
      assert.match(await since('m'), /node_core/)
      assert.match(await since('a'), /Identity/)
      assert.match(await since('j'), /"/)
      assert.notEqual(await since('s'), '')
      assert.notEqual(await since('db\r'), '')
      await since('r')
      type('q')
      is.exactly(0)(await run)
    },
  },
  {
    name: 'interval 2.0 by default',
    observe: async () => {
      const asked: number[] = []
      const { ports, type } = terminal([])
      const after = (ms: number): (() => void) => {
        asked.push(ms)
        return () => undefined
      }
      const timers = { after }
      const tui = new library.TerminalUi(newNode(), { terminal: () => ports as never, timers })
      const run = tui.runBios()
      await new Promise(resolve => setTimeout(resolve, 50))
      type('q')
      await run
      assert.ok(
        asked.some(ms => ms > 1500 && ms <= 2000),
        `asked for ${asked.join(', ')} ms`,
      )
    },
  },
  {
    name: 'get_cli_commands: render, interactive, bios',
    observe: () => {
      const commands = new library.TerminalUi(newNode()).getCliCommands()
      assert.deepEqual(Object.keys(commands), ['render', 'interactive', 'bios'])
    },
  },
  {
    name: 'get_available_sections',
    observe: async () => {
      const sections = await new library.TerminalUi(newNode()).getAvailableSections()
      is.listOf(is.record({ section_id: is.string, plugin_name: is.string, priority: is.number }))(sections)
    },
  },
]

const STRESS = [
  'total = 200',
  'workers = 8',
  'sources = 6',
  'progress = true',
  'core_backend = null',
  'require_rust = false',
  'header_probe_rate = 0',
  'batch_size = 1',
  'processes = 1',
  'threads_per_process = null',
  "chain_mode = 'core'",
]
const STANDARD: Record<string, string> = {
  'STRESS_DEFAULTS.total': '200',
  'STRESS_DEFAULTS.workers': '8',
  'STRESS_DEFAULTS.sources': '6',
}
const meant = (parameter: string): string => parameter.replace(/STRESS_DEFAULTS\.\w+/, name => STANDARD[name] ?? name)

type Runner = InstanceType<typeof TestRunner>
const runner = async (): Promise<Runner> =>
  (await library.ensureAndMountPlugin(newNode(), 'test_plugin', true)) as never as Runner

const outcome = is.tuple(is.integer, is.exactly(0), is.record({ suites: is.listOf(is.dict) }))
const summary = is.record({ ok: is.integer, fail: is.exactly(0), total: is.integer, core: is.exactly('pycore') })

const RUNNER: readonly Row[] = [
  {
    name: 'run_component',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runComponent), ['verbosity = 1'], 'runComponent')
      outcome(await (await runner()).runComponent())
    },
  },
  {
    name: 'run_integration',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runIntegration), [], 'runIntegration')
      outcome(await (await runner()).runIntegration())
    },
  },
  {
    name: 'run_stress',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runStress).map(meant), STRESS, 'runStress')
      const tests = await runner()
      is.tuple(summary, is.exactly(0))(await tests.runStress())
      is.tuple(
        is.record({ total: is.exactly(50), workers: is.exactly(2), sources: is.exactly(3) }),
        is.exactly(0),
      )(await tests.runStress(50, 2, 3, false, 'pycore', false, 1.0, 5, 1, null, 'e2e_inproc'))
    },
  },
  {
    name: 'run_stress: require_rust fails unless rscore is active',
    observe: async () => {
      const [, fail] = await (await runner()).runStress(10, 1, 1, false, null, true)
      // with the native core in place this row asks for the pure one, which is not it
      assert.ok(fail > 0)
    },
  },
  {
    name: 'run_all',
    observe: async () => {
      const wanted = [
        'stress_total = 200',
        'stress_workers = 8',
        'stress_sources = 6',
        'verbosity = 1',
        ...STRESS.slice(3),
      ]
      sameParameters(parameters(TestRunner.prototype.runAll).map(meant), wanted, 'runAll')
      is.record({ ok: is.exactly(true), component: is.dict, integration: is.dict, stress: is.dict })(
        await (await runner()).runAll(20, 2, 2, 0, false),
      )
    },
  },
  {
    name: 'CLI handlers: component, stress, all, compare, full_load, integration, audit',
    observe: async () => {
      const tests = await runner()
      const names = ['component', 'stress', 'all', 'compare', 'full_load', 'integration', 'audit']
      for (const name of names) assert.ok(name in tests.getCliCommands(), name)
      is.record({ ok: is.exactly(true), cores: is.listOf(is.dict) })(await tests.compare())
      is.record({ ok: is.exactly(true), runs: is.listOf(summary) })(
        await tests.fullLoad({ total: 20, workers: 1, threads_per_process: null }),
      )
      is.record({ items: is.listOf(is.dict) })(await tests.audit())
    },
  },
]

const page = (list: string, row: is.Shape, limit: number) =>
  is.record({
    ok: is.exactly(true),
    [list]: is.listOf(row),
    total: is.integer,
    limit: is.exactly(limit),
    offset: is.exactly(0),
  })
const packet = is.record({
  packet_uuid: is.string,
  device_id: is.string,
  device_status: is.string,
  timestamp_raw: is.exactly(T),
  payload_json: is.dict,
  created_at: is.integer,
})
const sensor = is.record({
  sensor_index: is.integer,
  sensor_id: is.string,
  sensor_status: is.string,
  normalized_value: is.orNone(is.number),
  normalized_unit: is.orNone(is.string),
})

/** Over a log with one packet. */
async function database(dialect = 'sqlite') {
  const log = await library.FlashLog.open({ dir: newFolder(), commitIntervalMs: 5, ackCommitMs: 2 })
  const node = newNode({ storage: { sql: { dialect } } }, { log })
  closes(log)
  node.transmit(ROWS, null, 'ONLINE', { t: T })
  await log.flush()
  const db = new library.DatabaseManager(node.config, { log })
  closes(db)
  await db.connect()
  return db
}

const QUERIES: readonly Row[] = [
  {
    name: 'query_devices',
    observe: async () => {
      sameParameters(parameters(DatabaseManager.prototype.queryDevices), ['limit = 100', 'offset = 0'], 'queryDevices')
      const row = is.record({ device_id: is.exactly('DEV'), last_seen: is.exactly(T), packet_count: is.exactly(1) })
      page('devices', row, 100)(await (await database()).queryDevices())
    },
  },
  {
    name: 'query_packets, query_packet',
    observe: async () => {
      const filters = ['deviceId = null', 'status = null', 'since = null', 'until = null', 'limit = 50', 'offset = 0']
      sameParameters(parameters(DatabaseManager.prototype.queryPackets), filters, 'queryPackets')
      const db = await database()
      const found = await db.queryPackets()
      page('packets', packet, 50)(found)
      assert.equal((await db.queryPackets('other')).total, 0)
      assert.equal((await db.queryPackets(null, 'OFFLINE')).total, 0)
      assert.equal((await db.queryPackets(null, null, T, T)).total, 1)
      assert.equal((await db.queryPackets(null, null, T + 1)).total, 0)
      sameParameters(parameters(DatabaseManager.prototype.queryPacket), ['uuid'], 'queryPacket')
      is.record({ ok: is.exactly(true), packet, sensors: is.listOf(sensor) })(
        await db.queryPacket(found.packets[0]!.packet_uuid),
      )
      is.none(await db.queryPacket('00000000-0000-0000-0000-000000000000'))
    },
  },
  {
    name: 'query_sensors',
    observe: async () => {
      const filters = ['sensorId = null', 'deviceId = null', 'since = null', 'until = null', 'limit = 50', 'offset = 0']
      sameParameters(parameters(DatabaseManager.prototype.querySensors), filters, 'querySensors')
      const db = await database()
      const row: is.Shape = (value, at) => {
        sensor(value, at)
        is.record({ device_id: is.exactly('DEV'), timestamp_raw: is.exactly(T), packet_uuid: is.string })(value, at)
      }
      page('sensors', row, 50)(await db.querySensors())
      assert.equal((await db.querySensors('T1')).total, 1)
    },
  },
  {
    name: 'limit is 1 to 500',
    observe: async () => {
      const db = await database()
      assert.deepEqual([(await db.queryDevices(0)).limit, (await db.queryDevices(9999)).limit], [1, 500])
    },
  },
]

export const faceTables: readonly Table[] = [
  { title: 'Display providers', rows: DISPLAY },
  { title: 'Terminal UI service', rows: TUI },
  { title: 'Test runner service', rows: RUNNER },
  { title: 'Data queries', rows: QUERIES },
]
