// The progress bar of long commands.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { progressBar } from '../../../src/lib/progress'

test('the progress bar: on a terminal only, one line that is erased at the end', () => {
  let written = ''
  let now = 0
  const terminal = { isTTY: true, columns: 60, write: (text: string) => (written += text) }
  const bar = progressBar(terminal, 1000, () => now)
  bar.show(0)
  now = 50
  bar.show(100)
  now = 1000
  bar.show(500)
  bar.end()
  const lines = written.split('\r').filter(Boolean)
  assert.equal(lines.length, 3)
  assert.match(lines[1]!, /^\[#+\.+\] {2}50 % {2}500\/1000 {2}500\/s/)
  assert.ok(lines.every(line => line.replace('\x1b[K', '').length < 60))
  assert.equal(lines[2], '\x1b[K')
  const silent = { isTTY: false, write: () => assert.fail('no terminal') }
  progressBar(silent, 10).show(5)
})

test('the progress bar: counts in their unit, a total that becomes known later, and no work at all', () => {
  let written = ''
  const terminal = { isTTY: true, columns: 60, write: (text: string) => (written += text) }
  let now = 0
  const bar = progressBar(
    terminal,
    0,
    () => now,
    n => `${n} B`,
  )
  bar.show(0)
  now = 1000
  bar.show(30, 40)
  assert.match(written, /100 % {2}0 B\/0 B.* 75 % {2}30 B\/40 B {2}30 B\/s/s)
})
