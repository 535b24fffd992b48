// The C code again with address and undefined-behaviour sanitizers: whatever they find ends the process that runs the tests.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { nativeOrNull } from '../../../src/native'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** The libraries to load first; none when the compiler has no sanitizers. */
function libraries(): string[] {
  if (!nativeOrNull()) return []
  const found = ['libasan.so', 'libubsan.so'].map(name =>
    execFileSync(process.env.CC ?? 'cc', [`-print-file-name=${name}`], { encoding: 'utf8' }).trim(),
  )
  return found.every(path => path.startsWith('/') && existsSync(path)) ? found : []
}

test('the tests of the addon and of UDP pass with sanitizers', {
  skip: libraries().length > 0 ? false : 'this machine has no C sanitizers',
}, () => {
  const built = spawnSync(process.execPath, ['build.mjs', '--sanitize', '--quiet'], { cwd: root, encoding: 'utf8' })
  assert.equal(built.status, 0, built.stderr)
  const tests = ['native/socket', 'native/loader', 'native/gpio', 'media/udp', 'media/udp-batch']
  const files = tests.map(name => join(root, '.build/test/unit', `${name}.test.js`))
  const env = {
    ...process.env,
    OS_NODE_ADDON_DIR: built.stdout.trim(),
    LD_PRELOAD: libraries().join(':'),
    // node itself leaves memory behind when it ends; what is freed late must not look like a leak
    ASAN_OPTIONS: 'detect_leaks=0:quarantine_size_mb=1',
    NODE_TEST_CONTEXT: undefined,
  }
  const ran = spawnSync(process.execPath, ['--test', ...files], { cwd: root, env, encoding: 'utf8' })
  assert.equal(ran.status, 0, `${ran.stdout}\n${ran.stderr}`)
  assert.match(ran.stdout, /ten thousand sockets/)
  assert.doesNotMatch(ran.stdout, /this machine has no C compiler/)
})
