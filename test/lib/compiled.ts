// Small C programs of the tests, compiled at first use and cached by the hash of their source.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './gateway'

/** Path of test/lib/<name>.c as a program. */
export function compiled(name: string, libraries: readonly string[] = []): string {
  const source = join(root, `test/lib/${name}.c`)
  const stamp = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12)
  const path = join(root, '.build/tools', `${name}-${stamp}`)
  if (existsSync(path)) return path
  mkdirSync(join(root, '.build/tools'), { recursive: true })
  const fresh = `${path}.${process.pid}`
  const { status, stderr, error } = spawnSync('cc', ['-O1', '-Wall', '-o', fresh, source, ...libraries], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, `${error?.message ?? stderr}: this test needs a C compiler (apt-get install gcc)`)
  renameSync(fresh, path)
  return path
}
