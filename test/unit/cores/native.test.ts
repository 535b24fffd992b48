// The compiled module of the native core matches its source, and without WebAssembly the pure core replaces it.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { coreProblem, createCore, createNativeCore } from '../../../src/cores'
import type { PureCoreOptions } from '../../../src/pipeline/pycore'
import { resolver, units } from '../pipeline/units'

const OPTIONS: PureCoreOptions = { resolver, units, registryDir: null }

test("rscore.wasm is the compiler's output for rscore.as", async () => {
  const { compile } = (await import(pathToFileURL('test/lib/rscore-compiler.mjs').href)) as {
    compile(source: string): Promise<Buffer>
  }
  const made = await compile(readFileSync('src/cores/rscore.as', 'utf8'))
  assert.deepEqual(made, readFileSync('src/cores/rscore.wasm'), 'run: node test/lib/rscore-compiler.mjs')
  await assert.rejects(compile('export function f(): i32 { return "x" }'), /^Error: E_COMPILE/)
})

test('without WebAssembly a configured rscore falls back to pycore, with a warning that says why', () => {
  const warnings: string[] = []
  const warn = (problem: string): unknown => warnings.push(problem)
  assert.equal(createCore('rscore', OPTIONS, warn).name, 'rscore')
  assert.equal(coreProblem('rscore'), null)
  const kept = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly')!
  Reflect.deleteProperty(globalThis, 'WebAssembly')
  try {
    assert.equal(createNativeCore(OPTIONS), null)
    const core = createCore('rscore', OPTIONS, warn)
    assert.equal(core.name, 'pycore')
    assert.equal(core.transmitFast([['a', 'OK', 1, 'K']], 'd', 'ONLINE', 1, 7, 'DIFF')[0], 0x3f)
    assert.match(coreProblem('rscore')!, /without WebAssembly/)
    assert.equal(coreProblem('pycore'), null)
  } finally {
    Object.defineProperty(globalThis, 'WebAssembly', kept)
  }
  assert.deepEqual(warnings, ['rscore is not available (this Node runs without WebAssembly); pycore makes the packets'])
  assert.equal(coreProblem('rscore'), null)
})
