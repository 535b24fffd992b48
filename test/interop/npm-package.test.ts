// The npm package: what the packed file holds, also where images and packages of earlier builds lie in dist, and what `npm i -g` of it
// installs: every program of package.json, which works, the man page and the completions.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freeUdpPort, root, tempDir } from '../lib/gateway'

const dir = tempDir()
const prefix = join(dir, 'prefix')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string
  bin: Record<string, string>
}
/** what `npm run image`, `deb` and `release` leave in dist */
const ARTEFACTS = [
  'os-node-rpi-4-0.0.1.img.xz',
  'os-node-rpi-4-0.0.1.img.xz.sha256',
  'os-node-rpi-4-0.0.1.packages.txt',
  'os-node-rpi-4-10.20.30-rc.1.update',
  'os-node_0.0.1_arm64.deb',
].map(name => join(root, 'dist', name))
let packed = ''
/** paths in the packed file, below its folder `package` */
let files: string[] = []

const npm = (cwd: string, ...args: string[]): string =>
  execFileSync('npm', [...args, '--loglevel=error'], { cwd, encoding: 'utf8' })

before(() => {
  for (const path of ARTEFACTS) writeFileSync(path, '')
  packed = join(dir, npm(root, 'pack', '--ignore-scripts', '--pack-destination', dir).trim().split('\n').at(-1)!)
  const names = execFileSync('tar', ['tzf', packed], { encoding: 'utf8' }).trim().split('\n')
  files = names.map(name => name.replace(/^package\//, ''))
})
after(() => {
  for (const path of ARTEFACTS) rmSync(path, { force: true })
})

test('the packed file has the addon of each processor that the build has, and nothing of other builds or of this machine', async () => {
  const { ARTEFACT } = (await import(join(root, 'src/build/dist-folder.mjs'))) as { ARTEFACT: RegExp }
  for (const path of ARTEFACTS) assert.match(path.slice(join(root, 'dist/').length), ARTEFACT)
  const built = ['x64', 'arm64', 'arm'].filter(arch => existsSync(join(root, `dist/native/linux-${arch}/os_node.node`)))
  assert.ok(built.includes(process.arch), 'the build has the addon of this machine')
  const addons = files.filter(name => name.endsWith('/os_node.node'))
  assert.deepEqual(addons.sort(), built.map(arch => `dist/native/linux-${arch}/os_node.node`).sort())
  for (const name of ['dist/os-node.js', 'dist/os-node-update.js', 'dist/os-node.1', 'Config.json', 'board/rpi-4.json'])
    assert.ok(files.includes(name), name)
  for (const folder of ['docs/', 'rootfs/usr/lib/systemd/system/'])
    assert.ok(
      files.some(name => name.startsWith(folder)),
      folder,
    )
  const inDist = files.filter(name => name.startsWith('dist/')).map(name => name.slice('dist/'.length))
  const foreign = (name: string): boolean => ARTEFACT.test(name) || name.endsWith('.cache')
  assert.deepEqual(inDist.filter(foreign), [])
  assert.deepEqual(
    files.filter(name => /^(data|node_modules|\.build|test)\//.test(name)),
    [],
  )
})

test('npm i -g of the packed file installs every program of package.json, its man page and completions', async () => {
  const place = join(dir, 'work')
  mkdirSync(place)
  npm(place, 'install', '-g', '--prefix', prefix, '--offline', '--omit=optional', '--no-audit', '--no-fund', packed)
  const programs = Object.keys(manifest.bin)
  assert.deepEqual(readdirSync(join(prefix, 'bin')).sort(), programs.sort())
  const run = (program: string, ...args: string[]): string =>
    execFileSync(join(prefix, 'bin', program), args, {
      cwd: place,
      encoding: 'utf8',
      env: { ...process.env, OS_NODE_CONFIG: '' },
    })
  for (const program of programs) assert.equal(run(program, '--version').trim(), manifest.version)
  assert.match(readFileSync(join(prefix, 'share/man/man1/os-node.1'), 'utf8'), /^\.TH OS\\-NODE 1/m)
  assert.match(run('os-node', 'completion', 'bash'), /^complete .*\bos-node\b/m)
  assert.match(run('os-transmit', '--help'), /^os-node transmit:/)
  assert.match(run('os-web', '--help'), /^os-node web-user:/)
  const config = join(dir, 'Config.json')
  const server = { server_host: '127.0.0.1', server_port: await freeUdpPort() }
  writeFileSync(config, JSON.stringify({ device_id: 'gw', assigned_id: 7, Client_Core: server }))
  const local = ['--config', config, '--data-dir', join(dir, 'data')]
  assert.equal(JSON.parse(run('os-web', '--cmd', 'status', '--json', ...local)).running, false)
  assert.match(run('os-tui', 'render', '--section', 'identity', ...local), /^assigned_id +7$/m)
  assert.equal(JSON.parse(run('os-transmit', '--value', '3', ...local)).sent, true)
  assert.equal(JSON.parse(run('os-node', 'id-info', '--json', '--config', config)).assigned_id, 7)
})
