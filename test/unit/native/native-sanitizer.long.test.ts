// The C code again with address and undefined-behaviour sanitizers: every finding ends the process that runs the tests. The
// leak sanitizer reports memory that our C code leaked when a process ends.
// Needs: cc
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { nativeOrNull } from '../../../src/native'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** The libraries to preload; none if the compiler has no sanitizers. */
function libraries(): string[] {
  if (!nativeOrNull()) return []
  const found = ['libasan.so', 'libubsan.so'].map(name =>
    execFileSync(process.env.CC ?? 'cc', [`-print-file-name=${name}`], { encoding: 'utf8' }).trim(),
  )
  return found.every(path => path.startsWith('/') && existsSync(path)) ? found : []
}

/** The environment of a process with the sanitizers; each process that leaks memory writes a report into `dir`. */
const sanitized = (dir: string): NodeJS.ProcessEnv => ({
  ...process.env,
  LD_PRELOAD: libraries().join(':'),
  // memory that is freed late must not look like a leak, and leaks of node itself are no failure
  ASAN_OPTIONS: 'detect_leaks=1:quarantine_size_mb=1',
  LSAN_OPTIONS: `exitcode=0:log_path=${join(dir, 'leaks')}`,
  NODE_TEST_CONTEXT: undefined,
})

/** The calls in C files under `folder` whose memory was leaked, from all reports in `dir`. */
function forgotten(dir: string, folder: string): string[] {
  const reports = readdirSync(dir).map(name => readFileSync(join(dir, name), 'utf8'))
  return reports.flatMap(report =>
    report
      .split(/^(?=(?:Direct|Indirect) leak of )/m)
      // the allocator is the first line of the stack, its caller the second
      .map(leak => /#1 0x\S+ in (.*)/.exec(leak)?.[1] ?? '')
      .filter(caller => caller.includes(join(root, folder))),
  )
}

const tempDir = (t: TestContext): string => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sanitizer-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

const skip = libraries().length > 0 ? false : 'this machine has no C sanitizers'

test('memory that a module leaks is found', { skip }, t => {
  const dir = tempDir(t)
  const module_ = join(dir, 'leak.node')
  const headers = `-I${join(root, 'node_modules/node-api-headers/include')}`
  const source = join(root, 'test/unit/native/leak.c')
  execFileSync('cc', [
    '-g',
    '-fPIC',
    '-shared',
    '-fsanitize=address',
    headers,
    '-o',
    module_,
    source,
    '-Wl,-z,nodelete',
  ])
  const ran = spawnSync(process.execPath, ['-e', `require(${JSON.stringify(module_)})`], { env: sanitized(dir) })
  assert.equal(ran.status, 0, String(ran.stderr))
  rmSync(module_)
  assert.equal(forgotten(dir, 'test/unit/native').length, 1)
})

test('the tests of the addon and of UDP pass with sanitizers', { skip }, t => {
  const dir = tempDir(t)
  const built = spawnSync(process.execPath, ['build.mjs', '--sanitize', '--quiet'], { cwd: root, encoding: 'utf8' })
  assert.equal(built.status, 0, built.stderr)
  // every test of the addon, in any room
  const own = readdirSync(join(root, '.build/test/unit/native')).filter(
    name => name.endsWith('.test.js') && ![basename(__filename), 'native-both.test.js'].includes(name),
  )
  const media = ['udp', 'udp-request', 'batch'].map(name => `media/udp/${name}.test.js`)
  const files = [...own.map(name => `native/${name}`), ...media].map(name => join(root, '.build/test/unit', name))
  const env = { ...sanitized(dir), OS_NODE_ADDON_DIR: built.stdout.trim() }
  const ran = spawnSync(process.execPath, ['--test', ...files], { cwd: root, env, encoding: 'utf8' })
  assert.equal(ran.status, 0, `${ran.stdout}\n${ran.stderr}`)
  assert.match(ran.stdout, /ten thousand sockets/)
  assert.match(ran.stdout, /a thousand buses/)
  assert.doesNotMatch(ran.stdout, /this machine has no C compiler/)
  assert.deepEqual(forgotten(dir, 'drivers/native'), [])
})
