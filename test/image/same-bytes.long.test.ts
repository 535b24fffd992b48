// Two images of the same sources have equal bytes, wherever the tree is and whatever permissions the files of the caller get: a strict umask would
// make a system whose service can read none of it. Only `npm run test:image` makes them.
// Only: npm run test:image
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root, tempDir } from '../lib/gateway'

interface Maker {
  makeImage(root: string, options: object): string
}

/** The tree at another path, with the same packages of Debian. */
function copyOfTree(): string {
  const copy = join(tempDir(), 'another')
  mkdirSync(copy)
  for (const name of readdirSync(root).filter(name => !['.cache', '.git', '.build'].includes(name)))
    cpSync(join(root, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
  symlinkSync(join(root, '.cache'), join(copy, '.cache'))
  return copy
}

for (const board of ['qemu-virt', 'rpi-4'])
  test(`the same sources give the same image of ${board}, in any folder and under any umask`, async t => {
    const before = process.umask()
    t.after(() => process.umask(before))
    const sum = async (tree: string, umask: number): Promise<string> => {
      const { makeImage } = (await import(join(tree, 'src/build/image/index.mjs'))) as Maker
      const what = { board, version: '1.2.3', builtAt: Date.parse('2026-01-02T03:04:05Z'), quick: true, say: () => {} }
      process.umask(umask)
      const path = makeImage(tree, { ...what, out: tempDir() })
      const hash = createHash('sha256').update(readFileSync(path)).digest('hex')
      rmSync(path)
      return hash
    }
    const first = await sum(root, 0o022)
    t.diagnostic(`SHA-256 ${first}`)
    assert.equal(await sum(copyOfTree(), 0o077), first)
  })
