// A release without images: the content of its folder, that its signature is valid and covers every file, that two of them and two builds
// give equal bytes, and what it refuses. The images are those of test/image.
// Needs: boards debs openssl
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { before, test } from 'node:test'
import { buildCommit } from '../lib/build-commit'
import { removeDir, root, tempDir } from '../lib/gateway'

interface Maker {
  makeRelease(root: string, about: object): string[]
}
const dir = tempDir()
const key = join(dir, 'key.pem')
execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', key], { stdio: 'pipe' })
let makeRelease: Maker['makeRelease']
before(async () => {
  ;({ makeRelease } = (await import(join(root, 'src/build/release.mjs'))) as Maker)
})
const version = (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version
const about = { version, builtAt: Date.parse('2026-01-02T03:04:05Z'), key, boards: [], archs: ['armhf'], say: () => {} }
const make = (out: string, more: object = {}, from = root): string[] =>
  makeRelease(from, { ...about, out: join(dir, out), ...more })
const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .sort()
const bytesOf = (out: string) => (name: string) => readFileSync(join(dir, out, name))

test('tarball, package, NOTICE and bill of materials are signed, and two releases have equal bytes', () => {
  const files = make('one')
  assert.deepEqual(
    files,
    [
      'NOTICE',
      'SHA256SUMS',
      'SHA256SUMS.sig',
      `os-node-${version}.tgz`,
      `os-node_${version}_armhf.deb`,
      'release.pub',
      'sbom.cdx.json',
    ].sort(),
  )
  const here = { cwd: join(dir, 'one'), encoding: 'utf8', stdio: 'pipe' } as const
  assert.equal(execFileSync('sha256sum', ['-c', 'SHA256SUMS'], here).match(/: OK$/gm)!.length, 4)
  const verify = ['pkeyutl', '-verify', '-pubin', '-inkey', 'release.pub', '-rawin', '-in', 'SHA256SUMS']
  assert.match(execFileSync('openssl', [...verify, '-sigfile', 'SHA256SUMS.sig'], here), /Verified Successfully/)
  make('two')
  assert.deepEqual(files.map(bytesOf('two')), files.map(bytesOf('one')))
})

test('two builds of a commit in two folders give equal bytes', t => {
  const [one, two] = ['one', 'two'].map(name => {
    const folder = mkdtempSync(join(root, '.build', `same-${name}-`))
    t.after(() => removeDir(folder))
    buildCommit('HEAD', folder, { SOURCE_DATE_EPOCH: '1767323045' })
    return join(folder, 'dist')
  }) as [string, string]
  const files = filesBelow(one)
  assert.ok(files.includes('os-node.js') && files.includes('native/linux-arm/quic.node'), files.join(' '))
  assert.deepEqual(filesBelow(two), files)
  for (const file of files) assert.ok(readFileSync(join(one, file)).equals(readFileSync(join(two, file))), file)
})

test('a missing addon, a missing or foreign key, an unknown board and a used folder are refused', () => {
  const bare = join(dir, 'bare')
  mkdirSync(join(bare, 'dist'), { recursive: true })
  cpSync(join(root, 'dist/native/linux-x64'), join(bare, 'dist/native/linux-x64'), { recursive: true })
  assert.throws(() => make('three', {}, bare), /E_RELEASE: no addon for linux-arm64, linux-arm: /)
  assert.throws(() => make('three', { key: undefined }), /E_USAGE: give --key FILE/)
  const rsa = join(dir, 'rsa.pem')
  execFileSync('openssl', ['genrsa', '-out', rsa, '2048'], { stdio: 'pipe' })
  assert.throws(() => make('three', { key: rsa }), /E_USAGE: .*rsa\.pem is no private Ed25519 key/)
  assert.throws(() => make('three', { boards: ['rpi-9'] }), /E_USAGE: no image for rpi-9; there are .*rpi-4/)
  mkdirSync(join(dir, 'used'))
  writeFileSync(join(dir, 'used/x'), '')
  assert.throws(() => make('used'), /E_USAGE: .*used is not empty/)
  assert.deepEqual(
    readdirSync(dir).filter(name => name === 'three'),
    [],
  )
})

test('the command says what is missing before it builds', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'src/build/release.mjs')], { encoding: 'utf8' })
  assert.equal(status, 2)
  assert.match(stderr, /^E_USAGE: give --key FILE/)
})
