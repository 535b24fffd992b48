// Devices written in C, preloaded before the C library: a test file compiles them and runs itself again with them loaded.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { nativeOrNull } from '../../src/native'

const INSIDE = 'OS_NODE_PRELOADED'
const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** True if the devices are loaded. `source`: their C file. */
export const isPreloaded = (source: string): boolean => process.env[INSIDE] === source

/** A test that runs this file again with the devices: all its tests, at least `least`, must pass there. */
export function testPreloaded(source: string, least: number): void {
  const skip = nativeOrNull() ? false : 'this machine has no C compiler'
  test(`the tests pass with ${basename(source)} preloaded`, { skip }, t => {
    const dir = mkdtempSync(join(tmpdir(), 'os-node-fake-'))
    t.after(() => rmSync(dir, { recursive: true }))
    const library = join(dir, 'fake.so')
    const flags = ['-O1', '-fPIC', '-shared', '-Wall', '-Wextra', '-Werror']
    const made = spawnSync(process.env.CC ?? 'cc', [...flags, '-o', library, join(root, source)], { encoding: 'utf8' })
    assert.equal(made.status, 0, made.stderr)
    const env = {
      ...process.env,
      [INSIDE]: source,
      // the sanitizers must be first
      LD_PRELOAD: [process.env.LD_PRELOAD, library].filter(Boolean).join(':'),
      NODE_TEST_CONTEXT: undefined,
    }
    const ran = spawnSync(process.execPath, ['--test-reporter=tap', process.argv[1]!], { env, encoding: 'utf8' })
    assert.equal(ran.status, 0, ran.stdout + ran.stderr)
    assert.ok(Number(/^# pass (\d+)$/m.exec(ran.stdout)?.[1]) >= least, ran.stdout)
  })
}
