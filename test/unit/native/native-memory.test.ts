// Freed memory that the C library keeps: without limitMalloc() and trimMalloc() a process never shrinks.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const addon = join(process.env.OS_NODE_TEST_ROOT ?? '.', `dist/native/${process.platform}-${process.arch}/os_node.node`)

/** Runs `text` in a separate process, with the addon as `native`; returns its JSON output. */
function run(text: string): Record<string, number> {
  const program = `const m = { exports: {} }; process.dlopen(m, ${JSON.stringify(addon)}); const native = m.exports; ${text}`
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--expose-gc', '-e', program], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return JSON.parse(stdout)
}

/** 100 MB in blocks of 20 kB, one in fifty alive to the end: freed pages are between used ones. */
const CHURN = `
  let blocks = Array.from({ length: 5000 }, () => Buffer.alloc(20_000, 1))
  const kept = blocks.filter((_, k) => k % 50 === 0)
  blocks = null
  for (let k = 0; k < 100 && process.memoryUsage().arrayBuffers > 10e6; k++) gc() // freed by a thread of V8
  const rss = () => process.memoryUsage.rss() / 1e6
  const before = rss()`

const without = existsSync(addon) ? false : 'no addon was built'
const skip = without || run('console.log(JSON.stringify({ glibc: native.limitMalloc(2, 131072) }))')['glibc'] !== 0

test('memory freed between used blocks is returned to the kernel', { skip }, () => {
  const { before, after, told, alive } = run(`${CHURN}
    const told = native.trimMalloc()
    console.log(JSON.stringify({ before, after: rss(), told, alive: kept.every(block => block[19_999] === 1) ? 1 : 0 }))`)
  assert.equal(told, 1)
  assert.equal(alive, 1)
  assert.ok(before! - after! > 50, `${before} MB before, ${after} MB after`)
})

test('wrong limits are refused', { skip: without }, () => {
  const { none, zero, small, text } = run(`console.log(JSON.stringify({
    none: native.limitMalloc(), zero: native.limitMalloc(0, 131072), small: native.limitMalloc(2, 1),
    text: native.limitMalloc('2', 131072) }))`)
  for (const refused of [none, zero, small, text]) assert.equal(refused, -22)
})
