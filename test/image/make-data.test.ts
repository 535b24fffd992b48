// The script `make-data`: the data partition is made once, and a torn superblock never makes it anew. A file replaces the partition; boot.long.test.ts
// has the same on a board.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runWith } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const MAKE = join(root, 'src/build/image/root/usr/lib/os-node/make-data')
const MARK = 'os-node data'

/** A partition that has `content` first. `blkid`: whether it sees a file system; `e2fsck`: the exit code. */
function make({
  content = '',
  blkid = true,
  e2fsck = 0,
  makefs = 'printf fs | dd of="$2" bs=1 seek=1080 conv=notrunc 2>/dev/null',
}) {
  const dir = tempDir()
  const [card, calls] = ['card', 'calls'].map(name => join(dir, name)) as [string, string]
  writeFileSync(card, content)
  truncateSync(card, 4096)
  let fails = false
  try {
    const called = (name: string, then: string): [string, string] => [
      name,
      `#!/bin/sh\necho ${name} >>${calls}\n${then}\n`,
    ]
    runWith(
      Object.fromEntries([
        called('systemd-makefs', makefs),
        called('blkid', `exit ${blkid ? 0 : 2}`),
        called('e2fsck', `exit ${e2fsck}`),
      ]),
      MAKE,
      card,
    )
  } catch {
    fails = true
  }
  const left = readFileSync(card)
  return {
    fails,
    calls: existsSync(calls) ? readFileSync(calls, 'utf8').split('\n').slice(0, -1) : [],
    marked: left.toString('latin1', 0, MARK.length + 1) === `${MARK}\0`,
    made: left.toString('latin1', 1080, 1082) === 'fs',
  }
}

test('a blank partition, one of a start that was cut, and one of an earlier image get a file system or keep it, then the mark', () => {
  for (const content of ['', '\xff'.repeat(600), 'os-node dat'])
    assert.deepEqual(make({ content, blkid: false }), {
      fails: false,
      calls: ['systemd-makefs'],
      marked: true,
      made: true,
    })
})

test('a start that is cut, or fails, before the file system is on the card leaves no mark', () => {
  assert.deepEqual(make({ makefs: 'exit 1' }), { fails: true, calls: ['systemd-makefs'], marked: false, made: false })
})

test('a marked partition is never made again: one without a readable superblock is repaired', () => {
  const marked = { fails: false, marked: true, made: false }
  assert.deepEqual(make({ content: MARK }), { ...marked, calls: ['blkid'] })
  for (const e2fsck of [0, 1])
    assert.deepEqual(make({ content: MARK, blkid: false, e2fsck }), { ...marked, calls: ['blkid', 'e2fsck'] })
  assert.deepEqual(make({ content: MARK, blkid: false, e2fsck: 4 }), {
    ...marked,
    fails: true,
    calls: ['blkid', 'e2fsck'],
  })
})
