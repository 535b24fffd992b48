// One file for the boards' processors: the addon, cross-compiled as in the build, is loaded by Node for that processor under
// qemu's user mode and passes the tests it passes here, and the QUIC library as well; then the bundle alone in an empty folder
// unpacks its own copy. Calls that the emulator does not translate are reported and left out.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BOARDS, nodeFor, type Ran, run } from '../../lib/board-nodes'
import { removeDir, root } from '../../lib/gateway'

const UNITS = ['native/native-loader', 'native/embedded-addon', 'native/socket', 'native/native-thread']
const QUIC = ['quic', 'quic-handshake', 'quic-streams'].map(name => `media/quic/${name}`)
const FILES = [...UNITS, ...QUIC].map(name => join(root, '.build/test/unit', `${name}.test.js`))

for (const board of BOARDS) {
  test(`one file works on ${board.arch}: the addon passes its tests on that processor, and the bundle unpacks it`, {
    concurrency: true,
  }, async t => {
    const dir = await nodeFor(board)
    const libraries = board.libraries.startsWith('/') ? board.libraries : join(dir, board.libraries)
    const emulated = (args: readonly string[], env: NodeJS.ProcessEnv, cwd = root): Promise<Ran> =>
      run(board.emulator, ['-L', libraries, join(dir, board.node), ...args], { env, cwd })
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_OPTIONS: undefined }
    let passed = 0
    for (const file of FILES) {
      const { status, output } = await emulated(['--test-reporter=tap', file], {
        ...env,
        OS_NODE_ADDON_DIR: join(root, 'dist/native'),
        OS_NODE_EMULATED: '1',
      })
      assert.equal(status, 0, output)
      assert.doesNotMatch(output, /# SKIP (?!the emulator)/)
      passed += Number(/^# pass (\d+)$/m.exec(output)?.[1])
    }
    t.diagnostic(`${passed} tests on ${board.arch}`)
    assert.ok(passed >= 50, `only ${passed} ran`)

    const alone = mkdtempSync(join(tmpdir(), 'os-node-alone-'))
    try {
      copyFileSync(join(root, 'dist/os-node.js'), join(alone, 'os-node.js'))
      mkdirSync(join(alone, 'data'))
      const doctor = ['os-node.js', 'doctor', '--json', '--data-dir', 'data']
      const { output } = await emulated(doctor, { ...env, OS_NODE_TEST_ROOT: undefined }, alone)
      assert.match(output, /native addon loaded/)
      assert.match(readdirSync(join(alone, 'data/native')).join(' '), /^os_node-[0-9a-f]{16}\.node$/)
    } finally {
      removeDir(alone)
    }
  })
}
