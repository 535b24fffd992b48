// Folders: made with their parents, and an error where none can be made, never a loop.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { realFiles } from '../../../src/lib/files'

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
