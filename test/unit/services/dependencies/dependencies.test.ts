import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DependencyManager } from '../../../../src/services/dependencies'
import { diagnose } from '../../../../src/services/dependencies/doctor'
import { problemsOf, readManifest, sha256, splitBundle } from '../../../../src/services/dependencies/manifest-parts'
import { run as runProgram } from '../../../../src/services/dependencies/program'
import { hostFor, io, tempDir } from '../fake'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
const PLATFORM = 'linux-x64'

/** A private release: a bundle of one line, a file of an npm package, one that was compiled. */
function release(t: TestContext) {
  const dir = tempDir(t)
  const dist = join(dir, 'dist')
  mkdirSync(join(dist, 'native', PLATFORM), { recursive: true })
  mkdirSync(join(dist, 'native/linux-arm'), { recursive: true })
  const code = `#!/usr/bin/env node\nmodule.exports = 1\n`
  const files: Record<string, string> = { 'quic.node': 'quic bytes', 'os_node.node': 'addon bytes' }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dist, 'native', PLATFORM, name), text)
  writeFileSync(join(dist, 'native/linux-arm/usb.node'), 'of another machine')
  const part = (name: string, file: string, text: string, more: object = {}) => ({
    name,
    kind: 'native',
    version: '1.0.8',
    file,
    platform: PLATFORM,
    sha256: sha256(Buffer.from(text)),
    bytes: text.length,
    ...more,
  })
  const parts = [
    { ...part('os-node', 'os-node.js', code), kind: 'bundle', platform: undefined, version: '0.1.0' },
    part('os_node-linux-x64', `native/${PLATFORM}/os_node.node`, files['os_node.node']!),
    part('quic-linux-x64', `native/${PLATFORM}/quic.node`, files['quic.node']!, {
      package: { name: '@scope/quic-linux-x64', version: '1.0.8', file: 'node.napi.node' },
    }),
    part('usb-linux-arm', 'native/linux-arm/usb.node', 'of another machine', { platform: 'linux-arm' }),
  ]
  const line = Buffer.from(JSON.stringify({ version: '0.1.0', parts })).toString('base64')
  writeFileSync(join(dist, 'os-node.js'), `${code}\n//# osNodeManifest=${line}\n`)
  // a substitute for npm: installs the package where npm would, or fails as npm does
  const npm = join(dir, 'npm')
  writeFileSync(
    npm,
    `#!/bin/sh
echo "$@" >> ${dir}/npm.log
while [ "$1" != --prefix ]; do shift; done
[ -f ${dir}/offline ] && { echo "npm error code ENOTFOUND" >&2; exit 1; }
mkdir -p "$2/node_modules/@scope/quic-linux-x64"
cat ${dir}/served > "$2/node_modules/@scope/quic-linux-x64/node.napi.node"
`,
  )
  chmodSync(npm, 0o755)
  writeFileSync(join(dir, 'served'), 'quic bytes')
  const host = hostFor('dependency_manager', dir)
  const manager = new DependencyManager(host, { dist, platform: PLATFORM, npm })
  const quic = join(dist, 'native', PLATFORM, 'quic.node')
  const addon = join(dist, 'native', PLATFORM, 'os_node.node')
  const asked = (): string => (existsSync(join(dir, 'npm.log')) ? readFileSync(join(dir, 'npm.log'), 'utf8') : '')
  return { dir, dist, manager, quic, addon, npm, host, asked, bundle: join(dist, 'os-node.js') }
}

test('check: every part for this machine is as it was built; other platforms are ignored', t => {
  const { manager } = release(t)
  const report = manager.check()
  assert.deepEqual(
    report.details.map(({ name, state }) => `${name} ${state}`),
    ['os-node ok', 'os_node-linux-x64 ok', 'quic-linux-x64 ok'],
  )
  assert.deepEqual([report.ok, report.declared_total, report.missing_total, report.missing], [true, 3, 0, []])
})

test('check names parts that are missing, damaged or unreadable', t => {
  const { manager, quic, addon, bundle } = release(t)
  rmSync(quic)
  writeFileSync(addon, 'something else')
  writeFileSync(bundle, readFileSync(bundle, 'utf8').replace('exports = 1', 'exports = 2'))
  const report = manager.check()
  assert.deepEqual(
    [report.ok, report.missing, report.damaged],
    [false, ['quic-linux-x64'], ['os-node', 'os_node-linux-x64']],
  )
  rmSync(addon)
  mkdirSync(addon)
  const unreadable = manager.check().details.find(({ name }) => name === 'os_node-linux-x64')!
  assert.deepEqual([unreadable.state, unreadable.errno], ['unreadable', 'EISDIR'])
})

test('a truncated bundle is reported', t => {
  const { manager, bundle } = release(t)
  writeFileSync(bundle, readFileSync(bundle).subarray(0, -40))
  assert.throws(() => manager.check(), { code: 'NOT_FOUND' })
})

test('sync fetches missing parts by npm, exactly the version, without its scripts', async t => {
  const { manager, quic, asked } = release(t)
  rmSync(quic)
  const report = await manager.sync()
  assert.deepEqual([report.ok, report.restored], [true, [{ name: 'quic-linux-x64', ok: true, from: 'npm' }]])
  assert.equal(readFileSync(quic, 'utf8'), 'quic bytes')
  assert.equal(statSync(quic).mode & 0o777, 0o755)
  assert.match(asked(), /^install .*--ignore-scripts.* @scope\/quic-linux-x64@1\.0\.8\n$/)
  assert.equal(manager.check().ok, true)
})

test('the registry is the configured one, and npm has a time limit', async t => {
  const { dir, dist, quic, npm, asked } = release(t)
  rmSync(quic)
  const settings = { registry: 'https://npm.example/', timeout_s: 30 }
  const host = hostFor('dependency_manager', dir, { settings: () => settings })
  assert.equal((await new DependencyManager(host, { dist, platform: PLATFORM, npm }).sync()).ok, true)
  assert.match(asked(), / --registry=https:\/\/npm\.example\/ /)
  rmSync(quic)
  rmSync(join(dir, 'data/parts'), { recursive: true })
  writeFileSync(npm, '#!/bin/sh\nexec sleep 9\n')
  settings.timeout_s = 0.1
  const [late] = (await new DependencyManager(host, { dist, platform: PLATFORM, npm }).repair()).restored
  assert.match(late!.error ?? '', /npm: ETIMEDOUT/)
})

test('bytes with another SHA-256 are never installed', async t => {
  const { manager, quic, dir } = release(t)
  rmSync(quic)
  writeFileSync(join(dir, 'served'), 'evil bytes')
  const [restored] = (await manager.sync()).restored
  assert.equal(restored!.ok, false)
  assert.match(restored!.error ?? '', /npm: its SHA-256 is/)
  assert.equal(existsSync(quic), false)
})

test('without npm, or without a network, the message says which file to copy where', async t => {
  const { manager, quic, dir, host, dist } = release(t)
  rmSync(quic)
  writeFileSync(join(dir, 'offline'), '')
  const [restored] = (await manager.sync()).restored
  assert.match(restored!.error ?? '', /npm: code ENOTFOUND/)
  assert.deepEqual(restored!.copy, {
    from: 'node.napi.node of the npm package @scope/quic-linux-x64@1.0.8',
    to: quic,
    sha256: sha256(Buffer.from('quic bytes')),
  })
  const none = new DependencyManager(host, { dist, platform: PLATFORM, npm: join(dir, 'no-such-npm') })
  assert.match((await none.repair()).restored[0]!.error ?? '', /npm is not on this machine/)
  // the user did so
  const copied = join(dir, 'copied.node')
  writeFileSync(copied, 'quic bytes')
  assert.deepEqual(await none.install('quic', { file: copied }), { name: 'quic-linux-x64', ok: true, from: 'file' })
  writeFileSync(copied, 'other bytes')
  assert.equal((await none.install('quic', { file: copied })).ok, false)
  assert.equal(readFileSync(quic, 'utf8'), 'quic bytes')
})

test('repair restores damaged files, also the bundle and compiled ones, from the copies that sync kept', async t => {
  const { manager, addon, quic, bundle, dir } = release(t)
  assert.equal((await manager.sync()).copies, 3)
  const older = join(dir, 'data/parts/of-an-older-release')
  writeFileSync(older, 'old')
  assert.equal((await manager.sync()).copies, 0, 'they are there already')
  assert.equal(existsSync(older), false)
  const good = readFileSync(bundle)
  writeFileSync(join(dir, 'offline'), '')
  for (const path of [addon, quic]) writeFileSync(path, 'damaged')
  writeFileSync(bundle, readFileSync(bundle, 'utf8').replace('exports = 1', 'exports = 2'))
  const report = await manager.repair()
  assert.deepEqual(
    report.restored.map(({ name, from }) => `${name} ${from}`),
    ['os-node copy', 'os_node-linux-x64 copy', 'quic-linux-x64 copy'],
  )
  assert.deepEqual(readFileSync(bundle), good)
  assert.deepEqual((await manager.repair()).restored, [])
})

test('a compiled part without a copy is reported as one to copy by hand', async t => {
  const { manager, addon } = release(t)
  rmSync(addon)
  const [restored] = (await manager.repair()).restored
  assert.equal(restored!.ok, false)
  assert.match(restored!.copy?.from ?? '', /^dist\/native\/linux-x64\/os_node\.node of os-node/)
})

test('install brings exactly one part', async t => {
  const { manager, quic, addon, asked } = release(t)
  rmSync(quic)
  rmSync(addon)
  assert.equal((await manager.install('@scope/quic-linux-x64')).ok, true)
  assert.equal(existsSync(addon), false)
  assert.deepEqual(await manager.install('quic-linux-x64'), { name: 'quic-linux-x64', ok: true, already: true })
  assert.equal(asked().split('\n').length, 2)
  assert.throws(() => manager.install('qiuc-linux-x64'), /did you mean quic-linux-x64/)
  assert.throws(() => manager.install('usb-linux-arm'), { code: 'NOT_FOUND' })
  const outcome = await manager.getCliCommands().install!.run({ name: 'quic' }, io)
  assert.match(outcome.text ?? '', /is unchanged/)
})

test('two operations never run at the same time', async t => {
  const { manager, quic } = release(t)
  rmSync(quic)
  const first = manager.sync()
  await assert.rejects(manager.repair(), { code: 'LOCKED' })
  await first
  assert.equal((await manager.repair()).ok, true)
})

test('doctor loads each part in a separate process and reports errno and hint', async t => {
  const { manager, quic, addon } = release(t)
  rmSync(quic)
  const report = await manager.doctor()
  const of = (name: string) => report.details.find(detail => detail.name === name)!
  assert.equal(of('os-node').ok, true)
  assert.deepEqual([of('quic-linux-x64').errno, of('quic-linux-x64').ok], ['ENOENT', false])
  assert.match(of('quic-linux-x64').hint ?? '', /deps sync/)
  assert.equal(of('os_node-linux-x64').errno, 'ERR_DLOPEN_FAILED')
  assert.match(of('os_node-linux-x64').hint ?? '', /damaged or for another processor/)
  copyFileSync(join(root, 'package.json'), addon)
  assert.equal((await diagnose({ name: 'x', kind: 'bundle', file: 'x', path: addon })).errno, 'SyntaxError')
})

test('the build of this repository has a valid manifest, and loads', { timeout: 60_000 }, async () => {
  const dist = join(root, 'dist')
  const manifest = readManifest(dist)
  assert.ok(manifest, 'dist/os-node.js ends with its manifest')
  const self = manifest.parts.find(({ file }) => file === 'os-node-selftest.js')
  assert.equal(self?.sha256, sha256(readFileSync(join(dist, 'os-node-selftest.js'))))
  assert.equal((await diagnose({ ...self!, path: join(dist, self!.file) })).ok, true)
  assert.deepEqual(problemsOf(dist), [])
  const { code } = splitBundle(readFileSync(join(dist, 'os-node.js')))
  assert.equal(sha256(code), manifest.parts[0]!.sha256)
  assert.equal(manifest.version, JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version)
  assert.match(execFileSync(process.execPath, [join(dist, 'os-node.js'), '--version'], { encoding: 'utf8' }), /^\d/)
})

test('programs are run without a shell', async () => {
  const echoed = await runProgram('/bin/echo', ['$(id)', '; ls', '`x`'], { timeoutMs: 60_000 })
  assert.equal(echoed.stdout, '$(id) ; ls `x`\n')
  assert.equal((await runProgram('/no/such/program', [], { timeoutMs: 60_000 })).errno, 'ENOENT')
  assert.equal((await runProgram('/bin/sleep', ['9'], { timeoutMs: 50 })).errno, 'ETIMEDOUT')
})
