// Two images of the same sources have equal bytes, whatever permissions the files of the caller get: a strict umask would make a system
// whose service can read none of it. Only `npm run test:image` makes them.
// Only: npm run test:image
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../lib/gateway'

interface Maker {
  makeImage(root: string, options: object): string
}

test('the same sources give the same image, under any umask', async t => {
  const { makeImage } = (await import(join(root, 'src/build/image/index.mjs'))) as Maker
  const dir = tempDir()
  const what = { board: 'qemu-virt', builtAt: Date.parse('2026-01-02T03:04:05Z'), quick: true, out: dir, say: () => {} }
  const sum = (umask: number): string => {
    process.umask(umask)
    const path = makeImage(root, { ...what, version: '1.2.3' })
    return createHash('sha256').update(readFileSync(path)).digest('hex')
  }
  const before = process.umask()
  t.after(() => process.umask(before))
  const sums = [0o022, 0o077].map(sum)
  t.diagnostic(`SHA-256 ${sums[0]}`)
  assert.equal(sums[1], sums[0])
})
