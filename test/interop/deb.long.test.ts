// The Debian packages: installed into a fresh Debian, where the command of the unit runs as its user, keeps its data over an
// upgrade and leaves nothing after a purge; the content of those for other processors; and equal bytes from equal sources.
// Needs: x64 boards debs
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, removeDir, root, until } from '../lib/gateway'

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
  install(packages[0]!)
  assert.match(inside('id', 'os-node'), /\(dialout\).*\(gpio\).*\(i2c\).*\(spi\)/)
  assert.ok(lstatSync(join(fresh, 'etc/systemd/system/multi-user.target.wants/os-node.service')).isSymbolicLink())
  for (const program of ['os-node', 'os-web', 'os-transmit', 'os-tui'])
    assert.equal(
      inside(program, '--version').trim(),
      JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version,
    )
  assert.match(
    readdirSync(join(fresh, 'usr/lib/os-node')).join(' '),
    /os-node\.\d+\.cache/,
    'bytecode for a quick start',
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

  install((await make('0.1.1', ['amd64']))[0]!)
  assert.match(inside('dpkg-query', '-W', 'os-node'), /0\.1\.1/)
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

test('the arm64 package contains Node and runs; armhf uses Node of Debian 13', { skip }, () => {
  const [, arm64, armhf] = packages as [string, string, string]
  const field = (path: string, name: string): string =>
    execFileSync('dpkg-deb', ['-f', path, name], { encoding: 'utf8' }).trim()
  assert.deepEqual([field(arm64, 'Architecture'), field(armhf, 'Architecture')], ['arm64', 'armhf'])
  assert.match(field(armhf, 'Depends'), /nodejs \(>= 20\.19\)/)
  assert.doesNotMatch(field(arm64, 'Depends'), /nodejs/)
  const unpacked = join(place, 'arm64')
  execFileSync('dpkg-deb', ['-x', arm64, unpacked])
  const node = [join(unpacked, 'usr/lib/os-node/node'), join(unpacked, 'usr/lib/os-node/os-node.js')]
  const said = execFileSync(
    'qemu-aarch64-static',
    ['-L', '/usr/aarch64-linux-gnu', ...node, 'doctor', '--json', '--data-dir', place],
    {
      encoding: 'utf8',
      env: { ...env, HOME: place },
      cwd: place,
    },
  )
  assert.match(said, /native addon loaded/)
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
