// The factory reset's script `erase` on cards whose discard erases all, a part or nothing: files replace the partition and blkdiscard.
// Needs: linux rigtools
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runWith } from '../lib/busybox'
import { root, tempDir } from '../lib/gateway'

const ERASE = join(root, 'src/build/image/erase')
const BLOCKS = 200
const BLOCK = 65_536

/** zeros from a block on, so many of them */
const zeros = (from: number, blocks: number): string =>
  `busybox dd if=/dev/zero of="$card" bs=${BLOCK} seek=${from} count=${blocks} conv=notrunc 2>/dev/null`

/** Erases a partition with `content` in each block; `discard` and `zeroout` are the lines of the card's blkdiscard. What it was called for, and what is left. */
function erase({ content = 'secret', discard = zeros(0, BLOCKS), zeroout = zeros(0, BLOCKS) }) {
  const dir = tempDir()
  const [script, card, calls] = ['erase', 'card', 'calls'].map(name => join(dir, name)) as [string, string, string]
  writeFileSync(script, readFileSync(ERASE, 'utf8').replaceAll('/bin/blkdiscard', 'blkdiscard'))
  writeFileSync(card, Buffer.alloc(BLOCKS * BLOCK, content))
  writeFileSync(calls, '')
  const blkdiscard = `#!/bin/sh
card=${card}
if [ "$2" = --zeroout ]; then echo zeros >>${calls}; ${zeroout}; else echo discard >>${calls}; ${discard}; fi
`
  let fails = false
  try {
    runWith({ blkdiscard }, script, card, String(BLOCKS))
  } catch {
    fails = true
  }
  const left = readFileSync(card)
  assert.equal(left.length, BLOCKS * BLOCK)
  return { fails, calls: readFileSync(calls, 'utf8').split('\n').slice(0, -1), blank: left.every(byte => byte === 0) }
}

test('a card that discards everything is erased by that alone', () => {
  assert.deepEqual(erase({}), { fails: false, calls: ['discard'], blank: true })
})

test('a card that discards only a part, nothing, or fails to is written with zeros, whatever was on it', () => {
  const parts = [
    zeros(0, BLOCKS - 1),
    zeros(1, BLOCKS - 1),
    `${zeros(0, 100)}; ${zeros(104, BLOCKS - 104)}`,
    'true',
    'false',
  ]
  for (const content of ['secret', '\0'])
    for (const discard of parts)
      assert.deepEqual(erase({ content, discard }), { fails: false, calls: ['discard', 'zeros'], blank: true }, discard)
})

test('a card that keeps what it has is reported', () => {
  assert.equal(erase({ discard: 'true', zeroout: 'true' }).fails, true)
  assert.equal(erase({ discard: 'false', zeroout: 'false' }).fails, true)
})
