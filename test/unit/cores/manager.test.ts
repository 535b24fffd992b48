// The core manager: which core is active, what it provides, and which core a node gets.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { CoreManager, Node, type OsError } from '../../../src/index'

const dir = mkdtempSync(join(tmpdir(), 'os-node-cores-'))
after(() => rmSync(dir, { recursive: true, force: true }))
const configOf = (name: string, core_backend?: string): string => {
  const path = join(dir, name)
  writeFileSync(path, JSON.stringify({ assigned_id: 7, engine_settings: core_backend ? { core_backend } : {} }))
  return path
}

test('cores are discovered, and those that can run here are listed as available', () => {
  const manager = new CoreManager()
  assert.deepEqual(manager.discoverCores(), { pycore: 'os-node.cores.pycore', rscore: 'os-node.cores.rscore' })
  assert.deepEqual(Object.keys(new CoreManager('mine').discoverCores()), ['pycore', 'rscore'])
  assert.deepEqual(manager.availableCores(), ['pycore', 'rscore'])
  const kept = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly')!
  Reflect.deleteProperty(globalThis, 'WebAssembly')
  try {
    assert.deepEqual(manager.availableCores(), ['pycore'])
  } finally {
    Object.defineProperty(globalThis, 'WebAssembly', kept)
  }
})

test('the active core is the one that was set, otherwise the configured one, otherwise the default', () => {
  const manager = new CoreManager('os-node.cores', 'rscore')
  assert.equal(manager.getActiveCoreName(), 'rscore')
  manager.setConfig({ engine_settings: { core_backend: 'pycore' } })
  assert.equal(manager.getActiveCoreName(), 'pycore')
  manager.setConfigPath(configOf('native.json', 'rscore'))
  assert.equal(manager.getActiveCoreName(), 'rscore')
  assert.equal(manager.setActiveCore('pycore'), 'pycore')
  assert.equal(manager.getActiveCoreName(), 'pycore')
  manager.setConfig({})
  assert.equal(manager.getActiveCoreName(), 'pycore')
  manager.setConfigPath(join(dir, 'no-such-file.json'))
  for (const wrong of [
    () => new CoreManager('os-node.cores', 'gocore'),
    () => manager.setActiveCore('gocore'),
    () => manager.setConfig({ engine_settings: { core_backend: 'gocore' } }),
    () => manager.loadCore('gocore'),
    () => manager.createNode(null, 'gocore'),
    () => manager.getSymbol('Pigeon'),
  ])
    assert.throws(wrong, (error: OsError) => error.code === 'NOT_FOUND' && error.hint !== undefined)
})

test('a core provides the classes of the library, including nodes on that core', async () => {
  const manager = new CoreManager()
  assert.deepEqual(manager.listSymbols(), manager.listSymbols('rscore'))
  for (const name of manager.listSymbols()) assert.ok(manager.getSymbol(name, 'rscore'), name)
  assert.equal(manager.loadCore(), manager.loadCore('pycore'))
  assert.notEqual(manager.loadCore(), manager.loadCore('rscore'))
  const OnNative = manager.getSymbol('Node', 'rscore') as typeof Node
  const node = new OnNative(configOf('plain.json'))
  assert.equal(node.coreName, 'rscore')
  assert.ok(node instanceof Node)
  const createCore = manager.getSymbol('createCore', 'rscore') as () => { name: string }
  assert.equal(createCore().name, 'rscore')
  await node.close()
})

test('createNode uses the named core, otherwise the active one, otherwise that of the configuration', async () => {
  const manager = new CoreManager()
  const native = configOf('native.json', 'rscore')
  const cores: string[] = []
  const made = async (configPath: string | null, name: string | null = null): Promise<void> => {
    const node = manager.createNode(configPath, name)
    cores.push(`${node.coreName} ${node.assignedId}`)
    await node.close()
  }
  await made(native)
  await made(native, 'pycore')
  manager.setConfigPath(native)
  await made(null)
  manager.setActiveCore('pycore')
  await made(native)
  assert.deepEqual(cores, ['rscore 7', 'pycore 7', 'rscore 7', 'pycore 7'])
})
