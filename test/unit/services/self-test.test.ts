// The self-test is a file next to the bundle: without it, or with one of another version, the program says so and does
// everything else.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openSelfTest } from '../../../src/services/self-test'
import { removeDir, root, script, tempDir } from '../../lib/gateway'

const dir = tempDir()
const lone = join(dir, 'os-node.js')
const file = join(dir, 'os-node-selftest.js')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
after(() => removeDir(dir))

test('the bundle alone answers E_SELFTEST_MISSING with what to do', () => {
  copyFileSync(script, lone)
  const { status, stdout } = spawnSync(
    process.execPath,
    [lone, 'plugin-test', '--suite', 'component', '--json', '--data-dir', dir],
    { encoding: 'utf8' },
  )
  const { code, error, hint } = JSON.parse(stdout)
  assert.deepEqual([status, code], [1, 'E_SELFTEST_MISSING'])
  assert.ok(error.includes(file), error)
  assert.match(hint, /os-node-selftest\.js .* beside os-node\.js/)
})

test('a self-test of another version, or without one, is refused', () => {
  copyFileSync(join(root, 'dist/os-node-selftest.js'), file)
  assert.equal(typeof openSelfTest(lone, version).load, 'function')
  assert.throws(() => openSelfTest(lone, '9.9.9'), {
    code: 'E_SELFTEST_VERSION',
    message: new RegExp(`is of os-node ${version.replaceAll('.', '\\.')}, this is os-node 9\\.9\\.9`),
  })
  const bare = join(tempDir(), 'os-node.js')
  after(() => removeDir(join(bare, '..')))
  writeFileSync(join(bare, '../os-node-selftest.js'), '')
  assert.throws(() => openSelfTest(bare, version), { code: 'E_SELFTEST_VERSION', message: /without a version/ })
})

test('the self-test contains no second copy of the program, and the bundle no part of the self-test', () => {
  const sources = (name: string): string[] =>
    JSON.parse(readFileSync(join(root, 'dist', `${name}.map`), 'utf8')).sources
  const ours = sources('os-node-selftest.js').filter(path => !path.startsWith('from-program:'))
  const inside = (path: string): boolean => /src\/services\/test-plugin\/|\.build\/(vectors|audit)\.b64$/.test(path)
  assert.deepEqual(
    ours.filter(path => !inside(path)),
    [],
  )
  assert.ok(ours.some(path => path.endsWith('stress/runners.ts')))
  // names and limits of stress options are the same in plugin-test --help and the configuration
  assert.deepEqual(
    sources('os-node.js')
      .filter(inside)
      .map(path => path.replace(/.*test-plugin\//, ''))
      .sort(),
    ['program.ts', 'role.ts', 'stress/options.ts'],
  )
})

test('the stack of a crash names the sources of the self-test', () => {
  const code = `
    const { ensureAndMountPlugin, Node } = require(${JSON.stringify(script)})
    ensureAndMountPlugin(new Node(), 'test_plugin', true).then(runner => setImmediate(() => runner.stress.call({})))`
  const { status, stderr } = spawnSync(process.execPath, ['-e', code], { cwd: dir, encoding: 'utf8' })
  assert.equal(status, 1)
  assert.match(stderr, /src\/services\/test-plugin\/runner\.ts:\d+/)
})
