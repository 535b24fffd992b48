// The Debian packages: an earlier version is installed into a fresh Debian, where the command of the unit runs as its user; this version keeps its
// data, as does a next one, and leaves nothing after a purge; those for other processors run under qemu's user mode; and equal bytes from equal sources.
// Needs: x64 boards debs
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Board as Arch, BOARDS, nodeFor, run } from '../lib/board-nodes'
import { freePort, removeDir, root, until } from '../lib/gateway'
import { olderPackage } from '../lib/older'

const skip = process.getuid?.() === 0 ? false : 'needs root to make a root file system'
const place = mkdtempSync(join(tmpdir(), 'os-node-deb-'))
const fresh = join(place, 'root')
const BUILT_AT = Date.parse('2026-01-02T03:04:05Z')
let packages: string[] = []
after(() => {
  try {
    execFileSync('umount', ['-q', join(fresh, 'proc')])
  } catch {} // was not mounted
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

/** A separate Debian with its standard packages: downloaded once, kept in the user's cache. */
function freshDebian(): void {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'os-node-boards')
  const kept = join(cache, 'bookworm-1.tar')
  if (!existsSync(kept)) {
    mkdirSync(cache, { recursive: true })
    const more = '--include=init-system-helpers,systemd-standalone-sysusers'
    const key = '--keyring=/usr/share/keyrings/debian-archive-keyring.gpg'
    const tar = `${kept}.${process.pid}.tar`
    const mirror = 'http://deb.debian.org/debian'
    execFileSync('mmdebstrap', ['--variant=minbase', more, key, 'bookworm', tar, mirror], { stdio: 'pipe' })
    renameSync(tar, kept)
  }
  mkdirSync(fresh)
  execFileSync('tar', ['xf', kept, '-C', fresh])
  execFileSync('mount', ['-t', 'proc', 'proc', join(fresh, 'proc')])
}

const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive' }
const inside = (...command: string[]): string =>
  execFileSync('chroot', [fresh, ...command], { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] })
const install = (path: string): string => {
  execFileSync('cp', [path, join(fresh, 'tmp/os-node.deb')])
  return inside('dpkg', '-i', '/tmp/os-node.deb')
}

/** Lines `KEY=…` of the installed unit. */
function unit(key: string): string {
  const text = readFileSync(join(fresh, 'usr/lib/systemd/system/os-node.service'), 'utf8')
  return new RegExp(`^${key}=(.*)$`, 'm').exec(text)![1]!
}

/** The unit's command, run as its user and groups. */
function startUnit(): ChildProcess {
  const groups = `--groups=${unit('SupplementaryGroups').replaceAll(' ', ',')}`
  const user = `--userspec=${unit('User')}:${unit('User')}`
  return spawn('chroot', [user, groups, fresh, ...unit('ExecStart').split(' ')], { env, stdio: 'ignore' })
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
const status = (): Status => JSON.parse(inside('os-node', 'status', '--json')) as Status

before(async () => {
  if (skip) return
  freshDebian()
  packages = await make('0.1.0', ['amd64', 'arm64', 'armhf'])
})

test('the package is installed, runs as its user, is upgraded with its data, and purged', { skip }, async t => {
  install(await olderPackage('0.0.9', BUILT_AT, place))
  assert.match(inside('id', 'os-node'), /\(dialout\).*\(gpio\).*\(i2c\).*\(spi\)/)
  assert.ok(lstatSync(join(fresh, 'etc/systemd/system/multi-user.target.wants/os-node.service')).isSymbolicLink())
  for (const program of ['os-node', 'os-web', 'os-transmit', 'os-tui'])
    assert.equal(
      inside(program, '--version').trim(),
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version,
    )
  // files that root changes stay owned by the service
  const port = String(await freePort())
  inside('os-node', 'config-set', '--key', 'RESOURCES.service_plugins.web_user.port', '--value', port)
  const first = startUnit()
  t.after(() => first.kill('SIGKILL'))
  const health = async (): Promise<number> => (await fetch(`http://127.0.0.1:${port}/health`)).status
  await until('it is listening', async () => (await health()) === 200)
  const { device_id } = await until('readings are kept', () => (status().log.records > 3 ? status() : null))
  const ended = new Promise(resolve => first.once('exit', resolve))
  first.kill('SIGTERM')
  assert.equal(await ended, 0)
  const { records } = status().log
  inside(...(unit('ExecStopPost').split(' ') as [string]))

  // dpkg has no terminal here: a question would be an error
  const kept = readFileSync(join(fresh, CONFIG), 'utf8')
  install(rework(packages[0]!, '0.1.1', tree => otherDefault(join(tree, SHIPPED))))
  assert.match(inside('dpkg-query', '-W', 'os-node'), /0\.1\.1/)
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)
  assert.match(
    readdirSync(join(fresh, 'usr/lib/os-node')).join(' '),
    /os-node\.\d+\.cache/,
    'bytecode for a quick start',
  )
  const second = startUnit()
  t.after(() => second.kill('SIGKILL'))
  await until('it listens on the same port', async () => (await health()) === 200)
  const now = await until('kept records are present', () => (status().log.records > records ? status() : null))
  assert.equal(now.device_id, device_id)
  second.kill('SIGKILL')

  inside('dpkg', '--purge', 'os-node')
  for (const left of ['etc/os-node', 'var/lib/os-node', 'usr/lib/os-node', 'usr/bin/os-node'])
    assert.equal(existsSync(join(fresh, left)), false, left)
  assert.throws(() => lstatSync(join(fresh, 'etc/systemd/system/multi-user.target.wants/os-node.service')), {
    code: 'ENOENT',
  })
})

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
  install(older)
  inside('os-node', 'config-set', '--key', 'gateway.sources', '--value', '[{"name":"cpu","type":"cpu"}]')
  const kept = readFileSync(join(fresh, CONFIG), 'utf8')
  install(packages[0]!)
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)
  assert.doesNotMatch(kept, /redirect_port|auth_enabled/)
  assert.match(inside('os-node', 'config-get', 'web_user.auth_enabled', '--json'), /true/)
  install(rework(packages[0]!, '0.1.1', tree => otherDefault(join(tree, SHIPPED))))
  assert.equal(readFileSync(join(fresh, CONFIG), 'utf8'), kept)

  // one that a person removed is there again, readable by no other user
  removeDir(join(fresh, CONFIG))
  install(packages[0]!)
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
        env: { ...env, HOME: place },
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
