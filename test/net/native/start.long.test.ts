// `npm start` in a fresh clone, with npm's own registry: what it installs, how much memory its largest process takes, and
// that the clone is clean after it; then the content of a tarball of that folder.
// Needs: git
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { freePort, removeDir, root, tempDir, until } from '../../lib/gateway'

const git = (cwd: string, ...args: string[]) => spawnSync('git', args, { cwd, encoding: 'utf8' })
const tracked = git(root, 'ls-files', '-z').stdout.split('\0').filter(Boolean)

/** The parent of each process seen so far. */
const parents = new Map<number, number>()

/** Peak memory in KB of each process below `pid`, by command line; read while they run. */
function peaks(pid: number, into: Map<string, number>): void {
  for (const name of readdirSync('/proc').filter(entry => /^\d+$/.test(entry) && !parents.has(Number(entry)))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0]))
    } catch {
      // it ended meanwhile
    }
  }
  const below = (at: number): boolean => at === pid || (parents.has(at) && below(parents.get(at)!))
  for (const at of [...parents.keys()].filter(below)) {
    try {
      const command = readFileSync(`/proc/${at}/cmdline`, 'utf8').replaceAll('\0', ' ')
      const peak = Number(readFileSync(`/proc/${at}/status`, 'utf8').match(/VmHWM:\s+(\d+)/)?.[1] ?? 0)
      into.set(command, Math.max(peak, into.get(command) ?? 0))
    } catch {
      // it ended meanwhile
    }
  }
}

test('npm start in a fresh clone stays small, and leaves the clone unchanged', {
  skip: tracked.length > 0 ? false : 'this is no git repository',
}, async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  for (const path of tracked.filter(path => existsSync(join(root, path)))) {
    mkdirSync(join(dir, dirname(path)), { recursive: true })
    cpSync(join(root, path), join(dir, path))
  }
  const commit = ['-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-qm', 'all']
  for (const args of [['init', '-q'], ['add', '-A'], commit]) assert.equal(git(dir, ...args).status, 0)

  const port = await freePort()
  const child = spawn('npm', ['start', '--', '--port', String(port)], {
    cwd: dir,
    env: { ...process.env, OS_NODE_CONFIG: undefined, OS_NODE_DATA_DIR: undefined },
    detached: true, // its own process group, so that Ctrl-C can be sent to all of it
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (said += chunk))
  const ended = new Promise(resolve => child.once('close', resolve))
  t.after(() => child.exitCode ?? child.signalCode ?? process.kill(-child.pid!, 'SIGKILL'))
  const memory = new Map<string, number>()
  const polls = setInterval(() => peaks(child.pid!, memory), 200)
  try {
    await until(
      'the gateway says what it does',
      () => {
        if (child.exitCode !== null) assert.fail(said)
        return said.includes('stop with    Ctrl-C')
      },
      400_000,
    ) // npm fetches one package at a time
  } finally {
    clearInterval(polls)
  }
  const [largest] = [...memory].sort((a, b) => b[1] - a[1])
  t.diagnostic(`largest process: ${(largest![1] / 1024).toFixed(0)} MB, ${largest![0]}`)
  assert.ok(largest![1] < 200 * 1024, `${largest![0]} took ${largest![1]} KB`)
  for (const name of ['typescript', '@biomejs', 'playwright-core', 'aedes', 'cbor-x', '@lhncbc'])
    assert.ok(!existsSync(join(dir, 'node_modules', name)), `${name} was installed`)

  // a second terminal finds the gateway by the folder alone
  const run = (...args: string[]) =>
    spawnSync(process.execPath, ['dist/os-node.js', ...args], { cwd: dir, encoding: 'utf8' })
  const status = JSON.parse(run('status', '--json').stdout)
  assert.equal(status.via, 'gateway')
  const config = JSON.parse(readFileSync(join(dir, 'data/Config.json'), 'utf8'))
  assert.notEqual(config.device_id, '')
  assert.match(said, /data\/Config\.json was made from .*\/Config\.json, .* git checkout -- Config\.json/)
  assert.equal(run('config-set', '--key', 'web_user.ui.ui_theme', '--value', 'dark').status, 0)
  process.kill(-child.pid!, 'SIGINT')
  await ended
  assert.equal(git(dir, 'status', '--porcelain').stdout, '', 'the clone is as it was')

  // the tarball contains nothing of this machine
  const packed = spawnSync('npm', ['pack', '--json', '--ignore-scripts'], { cwd: dir, encoding: 'utf8' })
  const [{ filename, files }] = JSON.parse(packed.stdout)
  const names = files.map((file: { path: string }) => file.path) as string[]
  const texts = ['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'SECURITY.md']
  const shipped = git(dir, 'ls-files', 'board', 'docs', 'rootfs', 'Config.json', 'package.json', ...texts)
  const bytecode = [readdirSync(join(dir, 'dist')), names].map(list => list.some(name => name.endsWith('.cache')))
  assert.deepEqual(bytecode, [true, false], 'the start left some, and none is packed')
  for (const bill of ['dist/NOTICE', 'dist/sbom.cdx.json', 'dist/os-node.1']) assert.ok(names.includes(bill), bill)
  assert.deepEqual(names.filter(name => !name.startsWith('dist/')).sort(), shipped.stdout.trim().split('\n').sort())
  const unpacked = join(dir, 'unpacked')
  mkdirSync(unpacked)
  assert.equal(spawnSync('tar', ['xzf', join(dir, filename), '-C', unpacked]).status, 0)
  assert.equal(
    readFileSync(join(unpacked, 'package/Config.json'), 'utf8'),
    readFileSync(join(root, 'Config.json'), 'utf8'),
  )
})
