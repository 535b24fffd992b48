// Needs: cc
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { brotliCompressSync } from 'node:zlib'
import { type EmbeddedAddon, embeddedFor, loadEmbedded, noexecMount } from '../../../src/native/embedded-addon'
import { tempDir } from '../services/fake'

const bytes = Buffer.from('the addon')
const sha256 = createHash('sha256').update(bytes).digest('hex')
const embedded: EmbeddedAddon = { sha256, packed: brotliCompressSync(bytes).toString('base64') }
const NAME = `os_node-${sha256.slice(0, 16)}.node`

function world(t: TestContext) {
  const data = tempDir(t)
  const native = join(data, 'native')
  const loads: string[] = []
  /** loads a file equal to the addon, byte by byte; refuses in the named folders */
  const load = (...refused: string[]): string | null =>
    loadEmbedded(
      embedded,
      path => {
        if (refused.some(dir => path.startsWith(dir))) throw new Error(`${path} does not load`)
        assert.deepEqual(readFileSync(path), bytes)
        assert.equal(statSync(path).mode & 0o777, 0o700)
        assert.equal(statSync(dirname(path)).mode & 0o777, 0o700)
        loads.push(path)
      },
      native,
    )
  return { native, loads, load, file: join(native, NAME) }
}

test('the addon is unpacked once into the data directory, and files of older versions are removed', t => {
  const { native, loads, load, file } = world(t)
  mkdirSync(native, { mode: 0o700 })
  writeFileSync(join(native, 'os_node-0123456789abcdef.node'), 'of an older version')
  assert.equal(load(), null)
  const { mtimeNs } = statSync(file, { bigint: true })
  assert.equal(load(), null)
  assert.deepEqual(
    [loads, statSync(file, { bigint: true }).mtimeNs, readdirSync(native)],
    [[file, file], mtimeNs, [NAME]],
  )
})

test('a file that differs from the bundle is rewritten before it is loaded', t => {
  const { loads, load, file } = world(t)
  load()
  for (const other of ['the addoN', 'the add', '']) {
    writeFileSync(file, other)
    assert.equal(load(), null)
  }
  assert.deepEqual(loads, [file, file, file, file])
})

test('a folder that others can write is not used: the temporary one is, and nothing stays there', t => {
  const { native, loads, load } = world(t)
  const inTemp = (): void => {
    assert.equal(load(), null)
    const path = loads.at(-1)!
    assert.equal(dirname(dirname(path)), tmpdir())
    assert.throws(() => statSync(dirname(path)), { code: 'ENOENT' })
  }
  mkdirSync(native, { mode: 0o700 })
  chmodSync(native, 0o770)
  inTemp()
  chmodSync(native, 0o700)
  if (process.getuid?.() === 0) {
    chownSync(native, 1234, 0)
    inTemp()
    chownSync(native, 0, 0)
    chownSync(dirname(native), 1234, 0)
    inTemp()
    chownSync(dirname(native), 0, 0)
  }
  assert.equal(load(), null)
  assert.equal(basename(loads.at(-1)!), NAME)
})

test('a symbolic link in place of the folder is not followed', t => {
  const { native, loads, load } = world(t)
  symlinkSync(tempDir(t), native)
  assert.equal(load(), null)
  assert.notEqual(dirname(loads[0]!), native)
})

test('when it loads nowhere, each folder is named with its reason', t => {
  const { native, load } = world(t)
  const why = load(native, tmpdir())
  assert.match(
    why!,
    new RegExp(`^${native}/${NAME} does not load; ${tmpdir()}/os-node-\\w+/os_node.node does not load$`),
  )
})

test('the mount of a file is the one with the longest matching path', () => {
  const mounts: [string, string][] = [
    ['/', 'rw,noexec'],
    ['/var', 'rw,noexecutable'],
    ['/var/lib', 'rw,nosuid,noexec'],
  ]
  const on = (path: string): string | undefined => noexecMount(path, mounts)
  assert.deepEqual(
    [on('/tmp/a'), on('/var/a'), on('/var/lib/a'), on('/var/library')],
    ['/', undefined, '/var/lib', undefined],
  )
})

test('the bundle contains the addon that is next to it', () => {
  const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
  const platform = `${process.platform}-${process.arch}`
  const beside = readFileSync(join(root, 'dist/native', platform, 'os_node.node'))
  assert.equal(embeddedFor(platform)?.sha256, createHash('sha256').update(beside).digest('hex'))
  assert.equal(embeddedFor('plan9-vax'), undefined)
})
