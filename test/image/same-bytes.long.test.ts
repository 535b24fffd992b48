// Two images of the same sources have equal bytes, wherever the tree is, whatever permissions the files of the caller get, and whether root makes
// them or a user without rights, who also unpacks Debian's packages: a strict umask would make a system whose service can read none of it.
// Only: npm run test:image
// Needs: x64 boards debs image
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { removeDir, root } from '../lib/gateway'

/** of root that runs the tests; a user that has no file */
const OTHER_USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
const MAKE = `process.umask(Number(process.argv[3]))
const { makeImage } = await import(process.argv[1] + '/src/build/image/index.mjs')
const what = { board: 'rpi-4', version: '1.2.3', builtAt: Date.parse('2026-01-02T03:04:05Z'), quick: true, say: () => {} }
console.log(makeImage(process.argv[1], { ...what, out: process.argv[2] }))`

/** A folder that any user can reach, unlike those of a run of the tests. */
function openFolder(t: TestContext): string {
  const dir = mkdtempSync('/var/tmp/os-node-image-')
  chmodSync(dir, 0o755)
  t.after(() => removeDir(dir))
  return dir
}

/** Makes the image of `tree` in `out`. Returns its SHA-256. */
function sumOf(tree: string, out: string, umask: number, user: object = {}): string {
  const args = ['--input-type=module', '-e', MAKE, tree, out, String(umask)]
  const env = { ...process.env, HOME: out, TMPDIR: out }
  const path = execFileSync(process.execPath, args, { ...user, cwd: out, env, encoding: 'utf8' }).trim()
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

test('the same sources give the same image of Raspberry Pi 4, in any folder, under any umask and for any user', t => {
  const [own, other] = [openFolder(t), openFolder(t)]
  const first = sumOf(root, own, 0o022)
  t.diagnostic(`SHA-256 ${first}`)
  const tree = join(other, 'another')
  mkdirSync(join(tree, '.cache'), { recursive: true })
  for (const name of readdirSync(root).filter(name => !['.cache', '.git', '.build'].includes(name)))
    cpSync(join(root, name), join(tree, name), { recursive: true, verbatimSymlinks: true })
  for (const name of readdirSync(join(root, '.cache')).filter(name => !name.startsWith('image-')))
    cpSync(join(root, '.cache', name), join(tree, '.cache', name), { recursive: true, verbatimSymlinks: true })
  if ('uid' in OTHER_USER) execFileSync('chown', ['-R', `${OTHER_USER.uid}:${OTHER_USER.gid}`, other])
  assert.equal(sumOf(tree, other, 0o077, OTHER_USER), first)
})
