// Wrong arguments anywhere in the library: every exported function, constructor and method is called with arguments of
// wrong types. It returns a result or an error with a code, never an internal TypeError.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import * as library from '../../src/index'

const dir = mkdtempSync(join(tmpdir(), 'os-node-arguments-'))
const cwd = process.cwd()
process.chdir(dir)
after(() => {
  process.chdir(cwd)
  rmSync(dir, { recursive: true, force: true })
})

const WRONG: readonly unknown[] = [
  ...[undefined, null, 42, -1, Number.NaN, 1e300, 7n, 'x', '', true, Symbol('s')],
  ...[[], [1], ['x'], [null], {}, { a: 1 }, () => 1, new Date(0), new Map(), Buffer.of(1)],
]
const exports = library as unknown as Record<string, unknown>
type Call = (...args: unknown[]) => unknown
const isClass = (value: unknown): boolean =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value))

/** What is wrong with how a call ended; '' where nothing is wrong. */
async function fault(what: string, call: () => unknown): Promise<string> {
  try {
    const result = call()
    if (result instanceof Promise || (typeof result === 'object' && result !== null && 'then' in result))
      await Promise.race([result, new Promise(setImmediate)])
    return ''
  } catch (error) {
    if (error instanceof library.OsError && error.code !== 'INTERNAL') return ''
    return `${what}: ${String(error)}${error instanceof Error ? String(error.stack).split('\n')[1] : ''}`
  }
}

const kind = (value: unknown): string =>
  typeof value === 'object' && value !== null ? `${value.constructor.name} ${JSON.stringify(value)}` : String(value)

/**
 * The first fault among calls with one wrong argument in each position (the others valid), and with all arguments
 * wrong.
 */
async function faults(name: string, call: Call, right: readonly unknown[], places: number): Promise<string[]> {
  for (const value of WRONG)
    for (let place = -1; place < places; place++) {
      const args = Array.from({ length: places }, (_, k) => (place === -1 || k === place ? value : right[k]))
      const said = await fault(`${name}(${args.map(kind).join(', ')})`, () => call(...args))
      if (said) return [said]
    }
  return []
}

const config = join(dir, 'Config.json')
writeFileSync(config, JSON.stringify({ device_id: 'N', assigned_id: 7, storage: { sql: { enabled: true } } }))
mkdirSync(join(dir, 'data'))
const quiet = { request: async () => null }

/** Valid arguments, where a call without them fails at the first one. */
const RIGHT: Record<string, readonly unknown[]> = {
  renderSection: ['node_core:identity', 'json'],
  ensurePluginDefaults: [{}, 'tui'],
  ensureAndMountPlugin: [null, 'tui'],
}

test('exported functions called with wrong arguments give a result or a coded error', async () => {
  const found: string[] = []
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value !== 'function' || isClass(value)) continue
    found.push(...(await faults(name, value as Call, RIGHT[name] ?? [], Math.max(3, value.length))))
  }
  assert.equal(found.join('\n'), '')
})

test('constructors called with wrong arguments give an object or a coded error', async () => {
  const found: string[] = []
  for (const [name, value] of Object.entries(exports)) {
    // only FlashLog.open makes one
    if (!isClass(value) || value === library.FlashLog) continue
    const Class = value as new (...args: unknown[]) => { close?(): unknown; stop?(): unknown }
    const make: Call = (...args) => {
      const made = new Class(...args)
      return Promise.all([made.close?.(), made.stop?.length === 0 && made.stop()]).then(() => null)
    }
    found.push(...(await faults(`new ${name}`, make, [], 3)))
  }
  assert.equal(found.join('\n'), '')
})

test('methods called with wrong arguments give a result or a coded error', async () => {
  const node = new library.Node(config, quiet as never)
  const { standardizer, engine, fusion, protocol, idAllocator, transporterManager, serviceManager, dbManager } = node
  after(() => node.close())
  // excludes the objects whose methods run for each packet: core, encoder, receiver, log
  const objects: Record<string, object> = {
    ...{ node, standardizer, engine, fusion, protocol, idAllocator, transporterManager, serviceManager, dbManager },
    terminal: new library.TerminalUi(node),
    registry: library.getDisplayRegistry(),
    provider: new (library.DisplayProvider as unknown as new (...names: string[]) => object)('a', 'b', 'c'),
    client: new library.SecureClient(),
    server: new library.SecureServer(),
    sessions: new library.SecureSessions(),
  } as never
  const found: string[] = []
  for (const [name, object] of Object.entries(objects))
    for (
      let type = Object.getPrototypeOf(object);
      type && type !== Object.prototype;
      type = Object.getPrototypeOf(type)
    )
      for (const [method, { value }] of Object.entries(Object.getOwnPropertyDescriptors(type))) {
        if (method === 'constructor' || typeof value !== 'function' || ENDLESS.has(method)) continue
        const call: Call = (...args) => (object as Record<string, Call>)[method]!(...args)
        found.push(...(await faults(`${name}.${method}`, call, [], Math.max(2, value.length))))
      }
  assert.equal(found.join('\n'), '')
})

/** methods that run until they are stopped, or that close what the others need */
const ENDLESS = new Set(['runBios', 'runInteractive', 'close', 'stop', 'startAll', 'stopAll'])
