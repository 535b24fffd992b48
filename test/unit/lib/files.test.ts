// Folders: made with their parents, and an error where none can be made, never a loop.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { readRegular, realFiles } from '../../../src/lib/files'

test('mkdir makes the parents, takes a folder that is there, and refuses a file in its place', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  realFiles.mkdir(join(dir, 'a/b/c'))
  realFiles.mkdir(join(dir, 'a/b/c'))
  assert.ok(existsSync(join(dir, 'a/b/c')))
  writeFileSync(join(dir, 'file'), '')
  assert.throws(() => realFiles.mkdir(join(dir, 'file')), { code: 'EEXIST' })
  assert.throws(() => realFiles.mkdir(join(dir, 'file/under')), { code: 'ENOTDIR' })
})

test('mkdir on a file system that makes no folders is an error', t => {
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

test('S21: only regular files are read, without waiting for a writer, and no more than asked for', t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const fifo = join(dir, 'fifo')
  execFileSync('mkfifo', [fifo])
  for (const path of [fifo, '/dev/zero', '/dev/null'])
    for (const read of [readRegular, realFiles.read]) assert.throws(() => read(path), { code: 'E_NOT_REGULAR' }, path)
  assert.throws(() => realFiles.read(dir), { code: 'EISDIR' })
  writeFileSync(join(dir, 'file'), 'twelve bytes')
  assert.throws(() => readRegular(join(dir, 'file'), 11), { code: 'E_TOO_LARGE' })
  assert.equal(readRegular(join(dir, 'file'), 12).toString(), 'twelve bytes')
})
