// One list of sections for every output: order, filters, names, duplicates, and providers that misbehave.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type DisplayFormat,
  DisplayProvider,
  DisplayRegistry,
  RegistryReader,
  useDisplaySource,
} from '../../../src/display'
import type { DisplaySource } from '../../../src/display/node-source'
import { CORE_PLUGIN } from '../../../src/display/registry'
import { coreSections } from '../../../src/display/sections'
import {
  collectAllSections,
  getDisplayRegistry,
  Node,
  registerDisplayProvider,
  renderSection,
  unregisterDisplayProvider,
} from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { ManualClock, ManualTimers } from '../../lib/manual'

class Fixed extends DisplayProvider {
  asked = 0
  seen: unknown[] = []
  constructor(
    plugin: string,
    section: string,
    readonly give: () => object | Promise<object>,
    more: Partial<DisplayProvider> = {},
  ) {
    super(plugin, section)
    Object.assign(this, more)
  }
  extractData(node?: unknown, options?: Readonly<Record<string, unknown>>): object | Promise<object> {
    this.asked++
    this.seen = [node, options]
    return this.give()
  }
}

const refused = (code: string, message: RegExp | string) => (error: unknown) => {
  assert.ok(error instanceof OsError)
  assert.equal(error.code, code)
  if (typeof message === 'string') assert.equal(error.message, message)
  else assert.match(error.message, message)
  return true
}

test('sections are sorted by priority, then by name, whatever the order of registration', () => {
  const registry = new DisplayRegistry()
  const give = (): object => ({})
  for (const [name, priority] of [
    ['b', 50],
    ['low', 0],
    ['a', 50],
    ['top', 100],
  ] as const)
    assert.equal(registry.register(new Fixed('p', name, give, { priority })), true)
  assert.deepEqual(
    registry.list().map(([path]) => path),
    ['p:top', 'p:a', 'p:b', 'p:low'],
  )
})

test('a second section with the same name is refused and the first stays', async () => {
  const registry = new DisplayRegistry()
  assert.equal(registry.register(new Fixed('p', 's', () => ({ n: 1 }))), true)
  assert.equal(registry.register(new Fixed('p', 's', () => ({ n: 2 }))), false)
  assert.equal(registry.register(new Fixed('p2', 's', () => ({ n: 3 }))), true)
  assert.deepEqual((await registry.render('p:s')).data, { n: 1 })
  assert.deepEqual(await registry.collect(), { 'p:s': { n: 1 }, 'p2:s': { n: 3 } })
  assert.equal(registry.unregister('p', 's'), true)
  assert.equal(registry.unregister('p', 's'), false)
  assert.equal(registry.register(new Fixed('p', 's', () => ({ n: 2 }))), true)
})

test('an object that is no provider, an invalid name and a priority outside 0 to 100 are refused by name', () => {
  const registry = new DisplayRegistry()
  const give = (): object => ({})
  assert.throws(() => registry.register({} as never), refused('BAD_REQUEST', /extends DisplayProvider/))
  assert.throws(() => registry.register(null as never), refused('BAD_REQUEST', /extends DisplayProvider/))
  for (const name of ['', ' ', 'a:b', 'ä', '../x', '__proto__:x', 'x'.repeat(65)])
    assert.throws(() => registry.register(new Fixed(name, 's', give)), refused('BAD_REQUEST', /plugin_name/), name)
  for (const priority of [-1, 101, 1.5, Number.NaN, '5' as never])
    assert.throws(() => registry.register(new Fixed('p', 's', give, { priority })), refused('BAD_REQUEST', /0–100/))
  assert.equal(registry.metadata().total_providers, 0)
})

test('category and minimum priority filter list, metadata and collection', async () => {
  const registry = new DisplayRegistry()
  registry.register(new Fixed('a', 'x', () => ({ x: 1 }), { category: 'metrics', priority: 80 }))
  registry.register(new Fixed('a', 'y', () => ({ y: 1 }), { category: 'metrics', priority: 20 }))
  registry.register(new Fixed('a', 'z', () => ({ z: 1 }), { priority: 90 }))
  assert.deepEqual(Object.keys(await registry.collect('json', { category: 'metrics' })), ['a:x', 'a:y'])
  assert.deepEqual(Object.keys(await registry.collect('json', { minPriority: 80 })), ['a:z', 'a:x'])
  assert.deepEqual(await registry.collect('json', { category: 'metrics', minPriority: 80 }), { 'a:x': { x: 1 } })
  assert.deepEqual(await registry.collect('json', { category: 'none' }), {})
  const { total_providers, categories, providers } = registry.metadata({ category: 'metrics' })
  assert.equal(total_providers, 2)
  assert.deepEqual(categories, ['metrics', 'plugin'])
  assert.deepEqual(
    providers.map(p => p.section_id),
    ['x', 'y'],
  )
})

test('metadata has every field of the display API', () => {
  const registry = new DisplayRegistry()
  registry.register(new Fixed('weather', 'now', () => ({}), { refresh_interval_s: 7, preferred_format: 'table' }))
  assert.deepEqual(registry.metadata().providers, [
    {
      plugin_name: 'weather',
      section_id: 'now',
      section_path: 'weather:now',
      display_name: 'now',
      category: 'plugin',
      priority: 50,
      refresh_interval_s: 7,
      supported_formats: ['json', 'html', 'text', 'table', 'tree'],
      preferred_format: 'table',
      render_mode: 'safe_html',
    },
  ])
})

test("invalid fields of a plugin's section are corrected, and the other sections are still listed", () => {
  const registry = new DisplayRegistry()
  const odd = new Fixed('odd', 's', () => ({}))
  registry.register(odd)
  registry.register(new Fixed('fine', 's', () => ({})))
  Object.assign(odd, {
    priority: 'high',
    refresh_interval_s: -3,
    preferred_format: 'pdf',
    render_mode: 'evil',
    category: 7,
  })
  odd.supportsFormat = () => {
    throw new Error('no idea')
  }
  const meta = registry.metadata().providers.find(p => p.plugin_name === 'odd')!
  assert.deepEqual(
    [meta.priority, meta.refresh_interval_s, meta.preferred_format, meta.render_mode, meta.category],
    [50, 2, 'json', 'safe_html', '7'],
  )
  assert.deepEqual(meta.supported_formats, ['json'])
  assert.equal(registry.metadata().total_providers, 2)
})

test('an unknown format is 400, an unknown section 404; no provider is called in either case', async () => {
  const registry = new DisplayRegistry()
  const section = new Fixed('p', 's', () => ({ a: 1 }))
  registry.register(section)
  await assert.rejects(registry.render('p:s', 'pdf'), refused('BAD_REQUEST', 'unknown format'))
  await assert.rejects(registry.collect('pdf'), refused('BAD_REQUEST', 'unknown format'))
  for (const name of ['p:t', 'p', ':', '', 'q:s', 'p:s:t', 'toString', '__proto__'])
    await assert.rejects(registry.render(name), refused('NOT_FOUND', 'section not found'), name)
  for (const name of [undefined, null, 7, {}])
    await assert.rejects(registry.render(name as never), { code: 'BAD_ARGUMENT' })
  assert.equal(section.asked, 0)
  for (const format of ['JSON', 'Html', 'text', 'TABLE', 'tree']) await registry.render('p:s', format)
})

test('a format that the provider does not offer is answered as JSON, and the answer says so', async () => {
  const registry = new DisplayRegistry()
  const section = new Fixed('p', 's', () => ({ a: 1 }))
  section.supportsFormat = format => format === 'text'
  registry.register(section)
  assert.deepEqual(await registry.render('p:s', 'html'), {
    section: 'p:s',
    format: 'html',
    resolved_format: 'json',
    render_mode: 'safe_html',
    data: { a: 1 },
  })
  assert.equal((await registry.render('p:s', 'text')).data, 'a  1')
})

test('a provider gets the node and the options of its caller', async () => {
  const registry = new DisplayRegistry()
  const section = new Fixed('p', 's', () => ({}))
  registry.register(section)
  await registry.render('p:s')
  assert.deepEqual(section.seen, [null, {}])
  const gateway = { name: 'the gateway' }
  registry.defaultNode = gateway
  await registry.render('p:s')
  assert.deepEqual(section.seen, [gateway, {}])
  await registry.render('p:s', 'json', { node: 'mine', options: { days: 3 } })
  assert.deepEqual(section.seen, ['mine', { days: 3 }])
})

test('a section that throws fails alone, and appears as {error, code} in a collection', async () => {
  const registry = new DisplayRegistry()
  registry.register(
    new Fixed('bad', 's', () => {
      throw new OsError('LINK_DOWN', 'no bus')
    }),
  )
  registry.register(new Fixed('worse', 's', () => Promise.reject(new Error('boom'))))
  const own = new Fixed('format', 's', () => ({}))
  own.formatText = () => {
    throw new Error('cannot draw')
  }
  registry.register(own)
  registry.register(new Fixed('fine', 's', () => ({ ok: 1 })))
  await assert.rejects(registry.render('bad:s'), refused('LINK_DOWN', 'no bus'))
  assert.deepEqual(await registry.collect('text'), {
    'bad:s': { error: 'no bus', code: 'LINK_DOWN' },
    'fine:s': 'ok  1',
    'format:s': { error: 'cannot draw', code: 'INTERNAL' },
    'worse:s': { error: 'boom', code: 'INTERNAL' },
  })
})

test('concurrent calls for two nodes give two answers; for one node they share one', async () => {
  const registry = new DisplayRegistry()
  let open: (() => void)[] = []
  class ByNode extends DisplayProvider {
    asked = 0
    async extractData(node?: unknown): Promise<object> {
      this.asked++
      await new Promise<void>(resolve => open.push(resolve))
      return { node }
    }
  }
  const section = new ByNode('by', 'node')
  registry.register(section)
  const all = [registry.render('by:node', 'json', { node: 1 }), registry.render('by:node', 'json', { node: 2 })]
  all.push(registry.render('by:node', 'json', { node: 2 }))
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(section.asked, 2)
  for (const go of open) go()
  open = []
  assert.deepEqual(
    (await Promise.all(all)).map(({ data }) => data),
    [{ node: 1 }, { node: 2 }, { node: 2 }],
  )
})

test('a section that hung for a minute is called again', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const registry = new DisplayRegistry(timers, clock)
  const stuck = new Fixed('stuck', 's', () =>
    stuck.asked === 1 ? new Promise<object>(() => undefined) : { again: true },
  )
  registry.register(stuck)
  const first = assert.rejects(registry.render('stuck:s'), refused('TIMEOUT', /5 s/))
  await timers.advance(5000)
  await first
  const second = assert.rejects(registry.render('stuck:s'), refused('TIMEOUT', /5 s/))
  await timers.advance(54_000)
  await second
  assert.equal(stuck.asked, 1)
  await timers.advance(1000)
  assert.deepEqual((await registry.render('stuck:s')).data, { again: true })
})

test('a section that hangs delays only itself, by five seconds, and is not called again while it hangs', async () => {
  const timers = new ManualTimers(new ManualClock())
  const registry = new DisplayRegistry(timers)
  let answer: (data: object) => void = () => undefined
  const slow = new Fixed('slow', 's', () => new Promise<object>(resolve => (answer = resolve)))
  registry.register(slow)
  registry.register(new Fixed('fast', 's', () => ({ ok: 1 })))
  const all = registry.collect()
  await timers.advance(5000)
  const collected = await all
  assert.deepEqual(collected['fast:s'], { ok: 1 })
  assert.equal((collected['slow:s'] as { code: string }).code, 'TIMEOUT')
  const again = registry.render('slow:s')
  await timers.advance(1)
  assert.equal(slow.asked, 1)
  answer({ late: true })
  assert.deepEqual((await again).data, { late: true })
  const third = registry.render('slow:s')
  await timers.advance(1)
  assert.equal(slow.asked, 2)
  answer({ late: false })
  await third
  assert.equal(timers.pending, 0)
})

test('secrets in the data of a provider are masked in every format', async () => {
  const registry = new DisplayRegistry()
  registry.register(new Fixed('p', 's', () => ({ mqtt: { password: 'hunter2', url: 'mqtt://me:hunter2@host' } })))
  for (const format of ['json', 'html', 'text', 'table', 'tree'] satisfies DisplayFormat[])
    assert.doesNotMatch(JSON.stringify((await registry.render('p:s', format)).data), /hunter2/, format)
})

const SOURCE: DisplaySource = {
  identity: () => ({ device_id: 'gw', assigned_id: 7 }),
  config: () => ({ engine_settings: { precision: 4 } }),
  transport: () => ({ items: [{ name: 'UDP', enabled: true }] }),
  pipeline: async () => ({ core: 'pycore' }),
  plugins: () => ({ mount_index: [] }),
  db: () => ({ enabled: false }),
}

test('the built-in sections show the data that main passes in, under each of their names', async () => {
  const registry = new DisplayRegistry()
  for (const section of coreSections()) registry.register(section)
  useDisplaySource(SOURCE)
  try {
    assert.deepEqual(Object.keys(await registry.collect()), [
      'node_core:identity',
      'node_core:config',
      'node_core:transport',
      'node_core:pipeline',
      'node_core:plugins',
      'node_core:db',
    ])
    for (const name of ['identity', 'node_core:identity', 'opensynaptic_core:identity'])
      assert.deepEqual((await registry.render(name)).data, { device_id: 'gw', assigned_id: 7 }, name)
    assert.equal(registry.register(new Fixed('opensynaptic_core', 'identity', () => ({}))), false)
    assert.equal(registry.get('opensynaptic_core', 'db')?.plugin_name, CORE_PLUGIN)
  } finally {
    useDisplaySource(null)
  }
})

test('built-in sections are found by their bare name and others by plugin:section', async () => {
  const registry = new DisplayRegistry()
  for (const section of coreSections()) registry.register(section)
  registry.register(new Fixed('weather', 'now', () => ({ t: 3 }), { priority: 99 }))
  useDisplaySource(SOURCE)
  try {
    const reader = new RegistryReader(registry)
    assert.deepEqual(
      (await reader.available()).map(({ name }) => name),
      ['identity', 'weather:now', 'config', 'transport', 'pipeline', 'plugins', 'db'],
    )
    assert.deepEqual(await reader.read(['db', 'weather:now', 'nope']), {
      db: { enabled: false },
      'weather:now': { t: 3 },
      nope: { error: 'section not found', code: 'NOT_FOUND' },
    })
    assert.equal(Object.keys(await reader.read(null, 'text')).length, 7)
  } finally {
    useDisplaySource(null)
  }
})

test('the library registers, renders, collects and removes sections; a node shows itself', async () => {
  const node = new Node(null)
  assert.equal(registerDisplayProvider(new Fixed('lib', 'one', () => [{ a: 1 }, { a: 2 }])), true)
  assert.equal(registerDisplayProvider(new Fixed('lib', 'one', () => ({}))), false)
  try {
    assert.equal(getDisplayRegistry().get('lib', 'one')?.section_id, 'one')
    assert.deepEqual(await renderSection('lib:one'), [{ a: 1 }, { a: 2 }])
    assert.equal(await renderSection('lib:one', 'text'), 'a\n1\n2')
    const all = await collectAllSections('json', { node })
    assert.deepEqual(Object.keys(all), [
      'node_core:identity',
      'node_core:config',
      'node_core:transport',
      'node_core:pipeline',
      'node_core:plugins',
      'node_core:db',
      'lib:one',
    ])
    for (const [name, data] of Object.entries(all)) assert.equal((data as { error?: string }).error, undefined, name)
    assert.equal((all['node_core:identity'] as { assigned_id: number }).assigned_id, node.assignedId)
    assert.deepEqual(Object.keys(await collectAllSections('json', { category: 'plugin' })), ['lib:one'])
    // without a node: the newest node of the process
    assert.deepEqual(await renderSection('identity'), all['node_core:identity'])
    getDisplayRegistry().defaultNode = null
    await assert.rejects(renderSection('identity'), refused('BAD_REQUEST', /needs a node/))
  } finally {
    assert.equal(unregisterDisplayProvider('lib', 'one'), true)
    await node.close()
  }
})
