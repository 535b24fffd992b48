// The C code again with address and undefined-behaviour sanitizers: whatever they find ends the process that runs the tests.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
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
  // every test of the addon, whoever wrote it
  const own = readdirSync(join(root, '.build/test/unit/native')).filter(
    name => name.endsWith('.test.js') && !/^(sanitizer|both)\./.test(name),
  )
  const files = [...own.map(name => `native/${name}`), 'media/udp.test.js', 'media/udp-batch.test.js'].map(name =>
    join(root, '.build/test/unit', name),
  )
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
  assert.match(ran.stdout, /a thousand buses/)
  assert.doesNotMatch(ran.stdout, /this machine has no C compiler/)
})
