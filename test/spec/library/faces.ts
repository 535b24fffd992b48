// Specification, "Display provider and section", "Terminal UI service".
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import {
  collectAllSections,
  DisplayProvider,
  getDisplayRegistry,
  registerDisplayProvider,
  renderSection,
  TerminalUi,
} from '../../../src/index'
import { until } from '../../lib/gateway'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { closes, library, newNode } from '../world'

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
      const registry = library.getDisplayRegistry()
      assert.equal(library.getDisplayRegistry(), registry)
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
            }, /priority/)
          },
          provider => Object.assign(provider, { priority: 99, category: 'mine' }),
        ),
      ),
  },
]

/** The live view on a terminal that the test plays. */
function live(options: object = {}) {
  const written: string[] = []
  const input = Object.assign(new EventEmitter(), {
    isTTY: true,
    setRawMode: () => undefined,
    resume: () => undefined,
    pause: () => undefined,
  })
  const write = (text: string): boolean => written.push(text) > 0
  const output = Object.assign(new EventEmitter(), { isTTY: true, columns: 80, rows: 24, write })
  const ports = { input, output, errors: { write }, events: new EventEmitter(), env: {}, suspend: () => undefined }
  // a row that fails leaves no live view running
  const end = new AbortController()
  closes({ close: () => end.abort() })
  const tui = new library.TerminalUi(newNode(), { terminal: () => ports as never, signal: end.signal, ...options })
  const type = (keys: string): void => void input.emit('data', Buffer.from(keys))
  /** types, until the later output contains the text */
  const shows = (keys: string, wanted: RegExp): Promise<unknown> => {
    const from = written.length
    type(keys)
    return until(`${wanted} after ${JSON.stringify(keys)}`, () => wanted.test(written.slice(from).join('')))
  }
  /** the exit code after `q` */
  const quit = async (run: Promise<number>): Promise<number> => {
    let code: number | undefined
    void run.then(given => {
      code = given
    })
    await until('the end', () => {
      type('q')
      return code !== undefined
    })
    return code!
  }
  const started = (): Promise<unknown> => until('a first picture', () => /Identity/.test(written.join('')))
  return { tui, type, shows, quit, started }
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
      const tui = new library.TerminalUi(newNode())
      is.record({ identity: is.dict })(JSON.parse(await tui.renderText()))
      const one = JSON.parse(await tui.renderText(['db']))
      assert.deepEqual(['db' in one, 'identity' in one], [true, false])
    },
  },
  {
    name: 'run_once',
    observe: async () => {
      sameParameters(parameters(TerminalUi.prototype.runOnce), ['sections = null'], 'runOnce')
      const one = JSON.parse(await new library.TerminalUi(newNode()).runOnce(['db']))
      assert.deepEqual(['db' in one, 'identity' in one], [true, false])
    },
  },
  {
    name: 'run_bios',
    observe: async () => {
      const [interval, section] = parameters(TerminalUi.prototype.runBios)
      assert.match(interval!, /^interval = /)
      assert.equal(section, 'section = null')
      const { tui, quit, started } = live()
      const run = tui.runBios()
      await started()
      is.exactly(0)(await quit(run))
    },
  },
  {
    name: 'run_interactive: keys m s r a j q and section numbers',
    observe: async () => {
      const [interval, sections] = parameters(TerminalUi.prototype.runInteractive)
      assert.match(interval!, /^interval = /)
      assert.equal(sections, 'sections = null')
      const { tui, shows, quit, started } = live()
      const run = tui.runInteractive()
      await started()
      await shows('2', /engine_settings/)
      await shows('m', /node_core/)
      await shows('a', /Identity/)
      await shows('j', /"[a-z_]+":/)
      await shows('s', /db|search/i)
      await shows('db\r', /Database/)
      await shows('r', /./)
      is.exactly(0)(await quit(run))
    },
  },
  {
    name: 'interval 2.0 by default',
    observe: async () => {
      const asked: number[] = []
      const after = (ms: number): (() => void) => {
        asked.push(ms)
        return () => undefined
      }
      const { tui, quit } = live({ timers: { after } })
      const run = tui.runBios()
      await until('a pause of 2 s', () => asked.some(ms => ms > 1500 && ms <= 2000))
      await quit(run)
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

export const faceTables: readonly Table[] = [
  { title: 'Display providers', rows: DISPLAY },
  { title: 'Terminal UI service', rows: TUI },
]
