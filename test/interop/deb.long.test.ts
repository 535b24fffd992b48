// The Debian packages: an earlier version is installed into a fresh Debian, where the command of the unit runs as its user; this version keeps its
// data, as does a next one, and leaves nothing after a purge; those for other processors run under qemu's user mode; and equal bytes from equal sources.
// Needs: x64 boards debs
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { type Board as Arch, BOARDS, nodeFor, run } from '../lib/board-nodes'
import { Debian } from '../lib/debian'
import { freePort, removeDir, root, until } from '../lib/gateway'
import { olderPackage } from '../lib/older'
import { QUARTER } from '../lib/random'

const skip = process.getuid?.() === 0 ? false : 'needs root to make a root file system'
const place = mkdtempSync(join(tmpdir(), 'os-node-deb-'))
const BUILT_AT = Date.parse('2026-01-02T03:04:05Z')
let packages: string[] = []
let debian: Debian
after(() => {
  debian?.remove()
  removeDir(place)
})

interface Maker {
  makePackages(root: string, options: object): string[]
}
const make = async (version: string, archs: string[], out = place): Promise<string[]> => {
  const { makePackages } = (await import(join(root, 'src/build/deb.mjs'))) as Maker
  mkdirSync(out, { recursive: true })
  return makePackages(root, { version, builtAt: BUILT_AT, archs, quick: true, out, say: () => undefined })
}

const CONFIG = 'etc/os-node/Config.json'
const SHIPPED = 'usr/share/os-node/Config.json'

/** A package like the one at `path`, of another version, with what `change` does to its files. */
function rework(path: string, version: string, change: (tree: string) => void): string {
  const tree = mkdtempSync(join(place, 'rework-'))
  execFileSync('dpkg-deb', ['-R', path, tree])
  const control = join(tree, 'DEBIAN/control')
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${version}`))
  change(tree)
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '--build', tree, `${tree}.deb`], { stdio: 'pipe' })
  removeDir(tree)
  return `${tree}.deb`
}

/** The Config.json that is shipped, with another default. */
function otherDefault(path: string): void {
  const config = JSON.parse(readFileSync(path, 'utf8')) as { RESOURCES: { service_plugins: { web_user: object } } }
  Object.assign(config.RESOURCES.service_plugins.web_user, { port: 8099 })
  writeFileSync(path, JSON.stringify(config, null, 2))
}

interface Status {
  device_id: string
  log: { records: number }
}

before(async () => {
  if (skip) return
  packages = await make('0.1.0', ['amd64', 'arm64', 'armhf'])
  debian = await Debian.make(join(place, 'amd64'), 'amd64')
})

test('the package is installed, runs as its user, is upgraded with its data, and purged', { skip }, t =>
  lifeOf(debian, packages[0]!, t),
)

// ten minutes the first time, for its Debian is installed by the emulator
if (!QUARTER)
  test('so is that of armhf in Debian 13', { skip }, async t => {
    const armhf = await Debian.make(join(place, 'armhf'), 'armhf')
    t.after(() => armhf.remove())
    assert.equal(armhf.inside('dpkg', '--print-architecture'), 'armhf\n')
    await lifeOf(armhf, packages[2]!, t)
  })

async function lifeOf(it: Debian, path: string, t: TestContext): Promise<void> {
  const fresh = it.root
  const inside = (...command: string[]): string => it.inside(...command)
  const ms = 300_000 // of an emulated processor
  // Debian 13's Node may use io_uring, so it cannot become another user
  const own = (...command: string[]): string =>
    it.arch === 'armhf' ? it.insideAs('os-node', ...command) : inside(...command)
  const osNode = (...args: string[]): string => own('os-node', ...args)
  const status = (): Status => JSON.parse(osNode('status', '--json')) as Status
  it.install(await olderPackage('0.0.9', BUILT_AT, place, it.arch))
  assert.match(inside('id', 'os-node'), /\(dialout\).*\(gpio\).*\(i2c\).*\(spi\)/)
  assert.ok(lstatSync(join(fresh, 'etc/systemd/system/multi-user.target.wants/os-node.service')).isSymbolicLink())
  for (const program of ['os-node', 'os-web', 'os-transmit', 'os-tui'])
    assert.equal(
      inside(program, '--version').trim(),
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version,
    )
  // files that root changes stay owned by the service
  const port = String(await freePort())
  osNode('config-set', '--key', 'RESOURCES.service_plugins.web_user.port', '--value', port)
  const first = it.startUnit()
  t.after(() => first.kill('SIGKILL'))
  const health = async (): Promise<number> => (await fetch(`http://127.0.0.1:${port}/health`)).status
  await until('it is listening', async () => (await health()) === 200, ms)
  const { device_id } = await until('readings are kept', () => (status().log.records > 3 ? status() : null), ms)
  const ended = new Promise(resolve => first.once('exit', resolve))
  first.kill('SIGTERM')
  assert.equal(await ended, 0)
  const { records } = status().log
  own(...it.unit('ExecStopPost').split(' '))

  // dpkg has no terminal here: a question would be an error
  const kept = readFileSync(join(fresh, CONFIG), 'utf8')
  it.install(rework(path, '0.1.1', tree => otherDefault(join(tree, SHIPPED))))
  assert.match(inside('dpkg-query', '-W', 'os-node'), /0\.1\.1/)
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)
  assert.match(
    readdirSync(join(fresh, 'usr/lib/os-node')).join(' '),
    /os-node\.\d+\.cache/,
    'bytecode for a quick start',
  )
  if (it.arch === 'armhf')
    assert.throws(() => inside('os-node', 'config-set', '--key', 'device_id', '--value', 'x'), /sudo -u '#\d+' os-node/)
  const second = it.startUnit()
  t.after(() => second.kill('SIGKILL'))
  await until('it listens on the same port', async () => (await health()) === 200, ms)
  const now = await until('kept records are present', () => (status().log.records > records ? status() : null), ms)
  assert.equal(now.device_id, device_id)
  second.kill('SIGKILL')

  inside('dpkg', '--purge', 'os-node')
  for (const left of ['etc/os-node', 'var/lib/os-node', 'usr/lib/os-node', 'usr/bin/os-node'])
    assert.equal(existsSync(join(fresh, left)), false, left)
  assert.throws(() => lstatSync(join(fresh, 'etc/systemd/system/multi-user.target.wants/os-node.service')), {
    code: 'ENOENT',
  })
}

test('an upgrade of a package whose Config.json was a conffile leaves it as the service wrote it; keys it lacks have their defaults', {
  skip,
}, () => {
  const older = rework(packages[0]!, '0.0.9', tree => {
    const { web_user: _, ...config } = JSON.parse(readFileSync(join(tree, SHIPPED), 'utf8')) as Record<string, unknown>
    writeFileSync(join(tree, CONFIG), JSON.stringify(config, null, 2))
    removeDir(join(tree, SHIPPED))
    const conffiles = join(tree, 'DEBIAN/conffiles')
    writeFileSync(conffiles, `/${CONFIG}\n${readFileSync(conffiles, 'utf8')}`)
    const script = readFileSync(join(tree, 'DEBIAN/postinst'), 'utf8')
    writeFileSync(join(tree, 'DEBIAN/postinst'), script.replace(/^if \[ ! -e \$config \][\s\S]*?^fi$/m, ''))
  })
  const { root: fresh } = debian
  const inside = (...command: string[]): string => debian.inside(...command)
  debian.install(older)
  inside('os-node', 'config-set', '--key', 'gateway.sources', '--value', '[{"name":"cpu","type":"cpu"}]')
  const kept = readFileSync(join(fresh, CONFIG), 'utf8')
  debian.install(packages[0]!)
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)
  assert.doesNotMatch(kept, /redirect_port|auth_enabled/)
  assert.match(inside('os-node', 'config-get', 'web_user.auth_enabled', '--json'), /true/)
  debian.install(rework(packages[0]!, '0.1.1', tree => otherDefault(join(tree, SHIPPED))))
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)

  // one that a person removed is there again, readable by no other user
  removeDir(join(fresh, CONFIG))
  debian.install(packages[0]!)
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), readFileSync(join(fresh, SHIPPED), 'utf8'))
  assert.equal(inside('stat', '-c', '%U:%G %a', `/${CONFIG}`).trim(), 'os-node:os-node 640')
  inside('dpkg', '--purge', 'os-node')
  assert.equal(existsSync(join(fresh, 'etc/os-node')), false)
})

test('the arm64 package contains Node and runs; the armhf package runs on nodejs of Debian 13', { skip }, async () => {
  const [, arm64, armhf] = packages as [string, string, string]
  const field = (path: string, name: string): string =>
    execFileSync('dpkg-deb', ['-f', path, name], { encoding: 'utf8' }).trim()
  assert.deepEqual([field(arm64, 'Architecture'), field(armhf, 'Architecture')], ['arm64', 'armhf'])
  assert.match(field(armhf, 'Depends'), /nodejs \(>= 20\.19\)/)
  assert.doesNotMatch(field(arm64, 'Depends'), /nodejs/)
  const unpacked = (path: string, name: string): string => {
    execFileSync('dpkg-deb', ['-x', path, join(place, name)])
    return join(place, name, 'usr/lib/os-node')
  }
  const [arm64Node, armhfNode] = BOARDS as [Arch, Arch]
  const base = await nodeFor(armhfNode)
  const program = [unpacked(arm64, 'arm64'), unpacked(armhf, 'armhf')] as const
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  for (const [emulator, libraries, node, files] of [
    [arm64Node.emulator, arm64Node.libraries, join(program[0], 'node'), program[0]],
    [armhfNode.emulator, join(base, armhfNode.libraries), join(base, armhfNode.node), program[1]],
  ] as const) {
    const ask = (...args: string[]) =>
      run(emulator, ['-L', libraries, node, join(files, 'os-node.js'), ...args], {
        env: { PATH: process.env.PATH, HOME: place },
        cwd: place,
      })
    assert.deepEqual(await ask('--version'), { status: 0, output: `${version}\n` })
    const { status, output } = await ask('doctor', '--json', '--data-dir', place)
    assert.equal(status, 0, output)
    assert.match(output, /native addon loaded/)
  }
  for (const [path, arch] of [
    [arm64, 'arm64'],
    [armhf, 'arm'],
  ] as const) {
    const names = execFileSync('dpkg-deb', ['-c', path], { encoding: 'utf8' })
    const native = [...names.matchAll(/native\/linux-(\w+)\/./g)].map(match => match[1])
    assert.deepEqual([...new Set(native)], [arch])
  }
})

test('the same sources give the same bytes, under any umask', { skip }, async t => {
  const umask = process.umask(0o077)
  t.after(() => process.umask(umask))
  const [again] = await make('0.1.0', ['armhf'], join(place, 'again'))
  assert.ok(readFileSync(again!).equals(readFileSync(packages[2]!)))
})
