// Folders: created with their parents, and an error where that fails, never a loop.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs, {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { readRegular, realFiles, tightenDirs } from '../../../src/lib/files'

test('mkdir creates the parents, accepts an existing folder, and refuses a file in its place', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  realFiles.mkdir(join(dir, 'a/b/c'))
  realFiles.mkdir(join(dir, 'a/b/c'))
  assert.ok(existsSync(join(dir, 'a/b/c')))
  writeFileSync(join(dir, 'file'), '')
  assert.throws(() => realFiles.mkdir(join(dir, 'file')), { code: 'EEXIST' })
  assert.throws(() => realFiles.mkdir(join(dir, 'file/under')), { code: 'ENOTDIR' })
})

test('mkdir on a file system that creates no folders is an error', t => {
  if (!existsSync('/proc/self')) return t.skip('this machine has no /proc')
  assert.throws(() => realFiles.mkdir('/proc/os-node-test/data'), { code: 'ENOENT' })
})

test('folders are 0750 whatever the umask', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  for (const umask of [0, 0o022, 0o077]) {
    const old = process.umask(umask)
    realFiles.mkdir(join(dir, `u${umask}/under`))
    process.umask(old)
    for (const made of [`u${umask}`, `u${umask}/under`])
      assert.equal(statSync(join(dir, made)).mode & 0o777, 0o750, made)
  }
})

test('S21: only regular files are read, nothing else is opened, and no more bytes than requested are read', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const fifo = join(dir, 'fifo')
  execFileSync('mkfifo', [fifo])
  // the open alone would unblock a writer of the FIFO, or start a watchdog
  const opens = t.mock.method(fs, 'openSync')
  for (const path of [fifo, '/dev/zero', '/dev/null'])
    for (const read of [readRegular, realFiles.read]) assert.throws(() => read(path), { code: 'E_NOT_REGULAR' }, path)
  assert.throws(() => realFiles.read(dir), { code: 'EISDIR' })
  assert.deepEqual(opens.mock.calls, [])
  for (const at of [fifo, '/dev/null']) {
    assert.throws(() => realFiles.size(at), { code: 'E_NOT_REGULAR' })
    assert.throws(() => realFiles.readAt(at, 0, 1), { code: 'E_NOT_REGULAR' })
    for (const flags of ['a', 'w', 'r+'] as const)
      assert.throws(() => realFiles.open(at, flags), { code: /E_NOT_REGULAR|ENXIO/ }, flags)
  }
  writeFileSync(join(dir, 'file'), 'twelve bytes')
  assert.throws(() => readRegular(join(dir, 'file'), 11), { code: 'E_TOO_LARGE' })
  assert.equal(readRegular(join(dir, 'file'), 12).toString(), 'twelve bytes')
})

test('data folders that an older version left more open than 0750 are restricted, and only they', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-tight-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const data = join(dir, 'data')
  for (const name of ['', 'log', 'device_registry/spill', 'close']) mkdirSync(join(data, name), { recursive: true })
  mkdirSync(join(dir, 'elsewhere'))
  symlinkSync(join(dir, 'elsewhere'), join(data, 'link'))
  writeFileSync(join(data, 'log/file'), '')
  const modes: [string, number][] = [
    ['data', 0o755],
    ['data/log', 0o777],
    ['data/device_registry', 0o750],
    ['data/device_registry/spill', 0o775],
    ['data/close', 0o700],
    ['data/log/file', 0o644],
    ['elsewhere', 0o777],
  ]
  for (const [name, mode] of modes) chmodSync(join(dir, name), mode)
  assert.equal(tightenDirs(data), 3)
  assert.deepEqual(
    modes.map(([name]) => (statSync(join(dir, name)).mode & 0o777).toString(8)),
    ['750', '750', '750', '750', '700', '644', '777'],
  )
  assert.equal(tightenDirs(data), 0)
  const before = process.cwd()
  chmodSync(data, 0o755)
  process.chdir(data)
  t.after(() => process.chdir(before))
  assert.equal(tightenDirs(data), 0, 'the folder one works in stays as it is')
})
