// Writes of the configuration: unknown keys, list elements, removed keys, a page without login, and how the work grows.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { newUnknownKey, unknownKeys } from '../../../src/config/check'
import { parseDocument } from '../../../src/config/document'
import { rewritten } from '../../../src/config/rewrite'
import { type AnySchema, assemble } from '../../../src/config/schema'
import { mask } from '../../../src/config/secrets'
import type { LoadOptions } from '../../../src/config/store-types'
import { fragments } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { type Files, realFiles } from '../../../src/lib/files'
import { silentLogger } from '../../../src/lib/logger'
import { PART } from '../../../src/lib/slices'

const made: string[] = []
after(() => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true })
})

function place(text: string) {
  const cwd = mkdtempSync(join(tmpdir(), 'os-node-write-'))
  made.push(cwd)
  const file = join(cwd, 'Config.json')
  writeFileSync(file, text)
  const load = (more: LoadOptions = {}) => ConfigStore.load({ cwd, env: {}, ...more })
  return { file, load, text: () => readFileSync(file, 'utf8') }
}

function fails(run: () => unknown, code: string, text: RegExp): OsError {
  let thrown: unknown
  try {
    run()
  } catch (error) {
    thrown = error
  }
  assert.ok(thrown instanceof OsError, `nothing was refused: ${code} ${text}`)
  assert.equal(thrown.code, code, thrown.message)
  assert.match(thrown.message, text)
  return thrown
}

const UPLINK = { name: 'up', medium: 'UDP', host: 'a' }

test('an unknown key is refused in every write with the nearest known name, and nothing is changed', () => {
  const before = JSON.stringify({ gateway: { uplinks: [UPLINK] } })
  const { load, text } = place(before)
  const store = load()
  const error = fails(() => store.set('engine_settings.precison', 4), 'UNKNOWN_KEY', /did you mean precision/)
  assert.deepEqual(error.details, { key: 'engine_settings.precison', did_you_mean: 'precision' })
  fails(() => store.set('gatway.log_level', 'info'), 'UNKNOWN_KEY', /^gatway is not a known key; did you mean gateway/)
  fails(() => store.update({ gateway: { lg: { max_bytes: 1 } } }), 'UNKNOWN_KEY', /gateway\.lg/)
  fails(
    () => store.update({ gateway: { uplinks: [{ ...UPLINK, hots: 'b' }] } }),
    'UNKNOWN_KEY',
    /uplinks\.0\.hots.*host/,
  )
  fails(() => store.set('gateway.uplinks[0].hots', 'b'), 'UNKNOWN_KEY', /uplinks\.0\.hots/)
  fails(() => store.set('gateway.receivers', [{ ...UPLINK, nam: 'x' }]), 'UNKNOWN_KEY', /receivers\.0\.nam/)
  fails(() => store.set('gateway.sources[99999999]', {}), 'CONFIG_KEY', /the list is empty; 0 appends one/)
  fails(() => store.set('gateway.sources[x]', {}), 'UNKNOWN_KEY', /sources\[x\]/)
  assert.equal(text(), before)
})

test('plugin keys and older spellings are known; unknown keys of a hand-written file stay until they are removed', () => {
  const { load, text, file } = place(
    '{"mine": {"x": 1}, "gateway": {"uplinks": [{"name": "up", "medium": "UDP", "own": 1}]}}',
  )
  const store = load()
  assert.deepEqual(
    store.warnings.map(line => line.replace(/^.*?: /, '')),
    ['mine is not a known key', 'gateway.uplinks.0.own is not a known key'],
  )
  store.update({ gateway: { uplinks: store.get<object[]>('gateway.uplinks') } })
  store.set('RESOURCES.service_plugins.relay.depth', 3)
  store.set('OpenSynaptic_Setting.default_medium', 'TCP')
  store.set('RESOURCES.service_plugins.web_user.read_only', true)
  assert.deepEqual([store.get('Node_Setting.default_medium'), store.get('web_user.read_only')], ['TCP', true])
  fails(() => store.set('mine.x', 2), 'UNKNOWN_KEY', /^mine is not/)
  assert.deepEqual(store.unset('mine').new, null)
  assert.ok(!text().includes('mine'))
  const { repaired, backup } = store.repair(true)
  assert.deepEqual(repaired, [{ key: 'gateway.uplinks.0.own', old: 1, new: null }])
  assert.ok(backup === `${file}.bak` && existsSync(backup) && readFileSync(backup, 'utf8').includes('own'))
  assert.deepEqual(load().warnings, [])
  assert.deepEqual(store.repair(true), { repaired: [] })
})

test('list elements in either spelling are changed, appended and removed; a list missing from the file is first written out', async () => {
  const { load, text } = place('{\n  // lists\n  "gateway": { "uplinks": [{ "name": "up", "medium": "UDP" }] }\n}\n')
  const store = load()
  store.set('gateway.uplinks.0.host', 'a')
  store.set('gateway.uplinks[0].port', 9)
  store.set('gateway.uplinks[1]', { name: 'two', medium: 'TCP' })
  fails(() => store.set('gateway.uplinks[3]', {}), 'CONFIG_KEY', /has the elements 0 to 1; 2 appends one/)
  assert.deepEqual(
    store.get<{ name: string; host?: string }[]>('gateway.uplinks').map(({ name, host }) => [name, host]),
    [
      ['up', 'a'],
      ['two', undefined],
    ],
  )
  store.unset('gateway.uplinks[0]')
  assert.equal(store.get('gateway.uplinks.0.name'), 'two')
  assert.match(text(), /\/\/ lists/)
  // null: the value that this machine determines itself
  const standard = [
    { name: 'cpu', type: 'cpu', interval_ms: 1000 },
    { name: 'memory', type: 'memory', interval_ms: 1000 },
  ]
  store.lists = async () => ({ 'gateway.sources': standard })
  await store.approved(limits => store.setting('gateway.sources[1].interval_ms', 5000, undefined, limits))
  await store.approved(limits => store.setting('gateway.sources.2', { name: 'disk', type: 'disk' }, undefined, limits))
  const sources = JSON.parse(text().replace('// lists', '')).gateway.sources
  assert.deepEqual(sources, [standard[0], { ...standard[1], interval_ms: 5000 }, { name: 'disk', type: 'disk' }])
  // a list with its own default
  store.set('gateway.alarm_statuses.4', 'HOT')
  assert.deepEqual(store.get('gateway.alarm_statuses.0'), 'ALARM')
})

test('unset restores the default of a key; required keys stay', () => {
  const { load, text } = place(
    '{"engine_settings": {"precision": 6, "full_every": 3}, "gateway": {"uplinks": [{"name": "up", "medium": "UDP"}]}}',
  )
  const store = load()
  assert.deepEqual(store.unset('engine_settings.precision'), {
    key: 'engine_settings.precision',
    old: 6,
    new: 4,
    restart: true,
  })
  assert.deepEqual(JSON.parse(text()).engine_settings, { full_every: 3 })
  fails(() => store.unset('gateway.uplinks.0.name'), 'CONFIG_INVALID', /name is missing/)
  fails(() => store.unset('gateway.uplinks.0.host'), 'CONFIG_KEY', /is not set/)
  fails(() => store.unset('engine_settings.nothing'), 'UNKNOWN_KEY', /not a known key/)
  fails(() => store.unset('gateway.foo'), 'UNKNOWN_KEY', /^gateway\.foo is not a known key$/)
  fails(() => store.unset('gateway.lgo'), 'UNKNOWN_KEY', /did you mean log\?$/)
  fails(() => store.unset('web_user.tls', { prefixes: ['gateway'] }), 'FORBIDDEN', /blocked/)
})

test('an unknown key is warned about once, whatever is written and however its line moves, and again when it returns', () => {
  const { file, load, text } = place('{"mine": 1, "device_id": "A"}')
  const lines: string[] = []
  const say = (line: string): void => void lines.push(line.replace(/^.*?: /, ''))
  const store = load({ logger: { ...silentLogger, warn: say } })
  store.set('engine_settings.precision', 6)
  writeFileSync(file, text().replace('{', '{\n\n'))
  store.reload()
  assert.deepEqual(lines, ['mine is not a known key'])
  writeFileSync(file, '{"mine": 1, "yours": 2, "device_id": "A"}')
  store.reload()
  assert.deepEqual(lines.splice(0), ['mine is not a known key', 'yours is not a known key'])
  store.unset('mine')
  writeFileSync(file, '{"mine": 1, "yours": 2, "device_id": "A"}')
  store.reload()
  assert.deepEqual(lines, ['mine is not a known key'])
})

test('without auth the page stays on the local machine, whichever of the two keys is set first and by whichever route', () => {
  const open = { web_user: { auth_enabled: false } }
  const all = (host: string) => ({ RESOURCES: { service_plugins: { web_user: { host } } } })
  const rule = /auth_enabled must be true while .*host is "0\.0\.0\.0"/
  const first = place(JSON.stringify(all('0.0.0.0')))
  fails(() => first.load().set('web_user.auth_enabled', false), 'CONFIG_INVALID', rule)
  fails(() => first.load().update(open), 'CONFIG_INVALID', rule)
  fails(() => first.load().set('RESOURCES.service_plugins.web_user.auth_enabled', false), 'CONFIG_INVALID', rule)
  const second = place(JSON.stringify(open))
  const store = second.load()
  fails(() => store.set('RESOURCES.service_plugins.web_user.host', '0.0.0.0'), 'CONFIG_INVALID', rule)
  store.set('RESOURCES.service_plugins.web_user.host', 'localhost')
  fails(() => store.update(all('::')), 'CONFIG_INVALID', /host is "::"/)
  // a hand-edited file is not applied
  writeFileSync(second.file, JSON.stringify({ ...open, ...all('0.0.0.0') }))
  assert.deepEqual(store.reload(), [])
  assert.match(store.problem?.message ?? '', rule)
  assert.equal(store.get('RESOURCES.service_plugins.web_user.host'), 'localhost')
})

test('a large change walks over text and tree once', () => {
  const many = (n: number, value: number) => Object.fromEntries(Array.from({ length: n }, (_, k) => [`key${k}`, value]))
  const { load, text } = place(JSON.stringify({ RESOURCES: { service_plugins: { own: many(1000, 1) } } }))
  const store = load()
  const changes = store.update({ RESOURCES: { service_plugins: { own: many(1999, 2) } } })
  assert.equal(changes.length, 1999)
  assert.equal(Object.keys(JSON.parse(text()).RESOURCES.service_plugins.own).length, 1999)
  fails(
    () => store.update({ RESOURCES: { service_plugins: { own: many(2001, 3) } } }),
    'CONFIG_INVALID',
    /at most 2000/,
  )
  fails(() => store.update(many(60_000, 1)), 'CONFIG_INVALID', /larger than/)
  fails(() => store.update(many(2001, 1)), 'CONFIG_INVALID', /2001 keys in one change/)
  fails(
    () => store.set('RESOURCES.service_plugins.own.key0', 'x'.repeat(600_000)),
    'CONFIG_INVALID',
    /larger than 262144 characters/,
  )
})

const sourcesOf = (n: number, type: string): object[] =>
  Array.from({ length: n }, (_, k) => ({ name: `s${k}`, type, registers: [{ id: `r${k}`, address: k }] }))

/** A schema that counts reads of its parts; the same part is always the same object. */
function counted(schema: object): { schema: AnySchema; reads: () => number } {
  let reads = 0
  const known = new WeakMap<object, object>()
  const wrap = <T>(value: T): T => {
    if (typeof value !== 'object' || value === null) return value
    const get = (at: object, name: string | symbol): unknown => {
      reads++
      return wrap(Reflect.get(at, name))
    }
    const made = known.get(value) ?? new Proxy(value, { get })
    known.set(value, made)
    return made as T
  }
  return { schema: wrap(schema) as AnySchema, reads: () => reads }
}

test('a walk over a configuration visits each value once, whatever its depth and siblings', () => {
  const walks: Record<string, (schema: AnySchema, tree: object) => unknown> = {
    mask,
    unknownKeys,
    newUnknownKey: (schema, tree) => newUnknownKey(schema, {}, tree),
  }
  for (const [name, walk] of Object.entries(walks)) {
    const cost = (n: number): number => {
      const { schema, reads } = counted(assemble(fragments()))
      walk(schema, { gateway: { sources: sourcesOf(n, 'modbus_tcp') } })
      return reads()
    }
    const [one, ten] = [cost(100), cost(1000)]
    assert.ok(ten <= 10 * one, `${name}: ${one} reads for 100 sources, ${ten} for 1000`)
    // five values and two containers of each source
    assert.ok(ten <= 1000 * 7 * 12, `${name}: ${ten} reads for 7000 values`)
  }
})

test('a large change is one pass in slices, approved before it is saved, and concurrent writes run one after the other', async () => {
  const { load, file } = place('{}')
  let reads = 0
  const read = (path: string): ReturnType<Files['read']> => {
    if (path === file) reads++
    return realFiles.read(path)
  }
  const files: Files = { ...realFiles, read }
  const store = load({ files })
  const nested = { gateway: { sources: sourcesOf(1000, 'modbus_tcp') } }
  reads = 0
  const steps = store.updating(nested)
  let parts = 0
  let waits = 0
  for (let step = steps.next(); !step.done; step = steps.next()) {
    parts++
    if (step.value) waits++
    if (waits === 0) assert.equal(readFileSync(file, 'utf8'), '{}')
  }
  // once to change it, once to verify that nothing else changed
  assert.deepEqual([reads, waits], [2, 1])
  const tokens = readFileSync(file, 'utf8').match(/"[^"]*"|[\d]+|[{}[\]:,]/g)!.length
  assert.ok(parts >= tokens / 2 / PART + 8, `${parts} parts for ${tokens} tokens`)

  const order: string[] = []
  const write = (name: string): Promise<unknown> =>
    store.approved(function* () {
      order.push(`${name} begins`)
      yield () => new Promise<void>(resolve => setImmediate(resolve))
      order.push(`${name} ends`)
    })
  await Promise.all([write('one'), write('two')])
  assert.deepEqual(order, ['one begins', 'one ends', 'two begins', 'two ends'])
})

test('a file keeps its comments, indentation and line ends whatever one write changes', () => {
  const text =
    '{\r\n\t// one\r\n\t"a": 1, // two\r\n\t"b": { "x": 1, "y": [1, 2, 3] },\r\n\t"c": [\r\n\t\t// three\r\n\t\t{ "n": 1 },\r\n\t\t{ "n": 2 }, /* four */\r\n\t],\r\n}\r\n'
  const target = { a: 5, b: { y: [1, 3], z: null }, c: [{ n: 2, m: 0 }, { n: 3 }, { n: 4 }], d: { deep: { er: [1] } } }
  const next = rewritten(parseDocument('', text), target)
  assert.deepEqual(parseDocument('', next).value, target)
  for (const note of ['// one', '// two', '// three', '/* four */']) assert.ok(next.includes(note), note)
  assert.ok(!/[^\r]\n/.test(next) && next.includes('\r\n\t"d": {\r\n\t\t"deep": {'), next)
  assert.deepEqual(parseDocument('', rewritten(parseDocument('', next), {})).value, {})
  assert.deepEqual(parseDocument('', rewritten(parseDocument('', '{}'), target)).value, target)
})

test('an update that changes nothing writes nothing; a change by another program is overwritten', () => {
  const { load, file, text } = place('{"device_id": "A"}')
  const opened = load()
  let saved = 0
  const rename = (from: string, to: string): void => {
    saved += Number(to === file)
    realFiles.rename(from, to)
  }
  const files: Files = { ...realFiles, rename }
  const store = load({ files })
  const told: unknown[] = []
  store.onChange(changes => told.push(...changes))
  const log = { gateway: { log_level: 'warn' } }
  assert.equal(store.update(log).length, 1)
  const [written, before] = [text(), store.config]
  assert.deepEqual([store.update(log), store.config === before, saved, told.length], [[], true, 1, 1])
  opened.reload()
  opened.set('gateway.log_level', 'error')
  assert.deepEqual(store.update(log), [], 'it had this value all along')
  assert.deepEqual([text(), saved, told.length], [written, 2, 1])
  rmSync(file)
  store.update(log)
  assert.equal(text(), written, 'a missing file is back')
})
