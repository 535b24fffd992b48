// Bytes of a terminal are converted to keys, however they are split.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyReader } from '../../../src/tui/keys'
import { prng } from '../../lib/random'

const INPUT = 'aq1\x1b[A\x1b[B\x1bOC\x1b[5~\x1b[6~\x1b[Z\x1b[1;5C\r\t\x7f\x03\x1aü漢😀\x1b[200~x'
const KEYS = ['a', 'q', '1', 'up', 'down', 'right', 'pageup', 'pagedown', 'backtab', 'enter', 'tab', 'backspace']
const REST = ['ctrl-c', 'ctrl-z', 'ü', '漢', '😀', 'x']

test('letters, arrows, pages and control keys are named; unknown sequences are skipped completely', () => {
  assert.deepEqual(new KeyReader().feed(Buffer.from(INPUT)), [...KEYS, ...REST])
})

test('any split of the bytes gives the same keys', () => {
  const next = prng(3)
  const bytes = Buffer.from(INPUT)
  for (let round = 0; round < 500; round++) {
    const reader = new KeyReader()
    const keys: string[] = []
    for (let at = 0; at < bytes.length; ) {
      const to = Math.min(bytes.length, at + 1 + Math.floor(next() * 4))
      keys.push(...reader.feed(bytes.subarray(at, to)))
      at = to
    }
    assert.deepEqual(keys, [...KEYS, ...REST])
  }
})

test('Escape alone waits for following bytes, and is the Escape key when none arrive', () => {
  const reader = new KeyReader()
  assert.deepEqual(reader.feed(Buffer.from('\x1b')), [])
  assert.equal(reader.waiting, true)
  assert.deepEqual(reader.flush(), ['escape'])
  assert.equal(reader.waiting, false)
  reader.feed(Buffer.from('\x1b['))
  assert.deepEqual(reader.flush(), [])
  assert.deepEqual(reader.feed(Buffer.from('\x1b\x1b[A')), ['escape', 'up'])
  assert.deepEqual(reader.feed(Buffer.from('\x1bq')), ['escape', 'q'])
})

test('no input makes it throw, grow or store more than one sequence', () => {
  const next = prng(9)
  const reader = new KeyReader()
  for (let round = 0; round < 20_000; round++) {
    const bytes = Buffer.from(Array.from({ length: 1 + Math.floor(next() * 6) }, () => Math.floor(next() * 256)))
    for (const key of reader.feed(bytes)) assert.ok(key.length > 0 && key.length < 12)
  }
  reader.feed(Buffer.from(`\x1b[${'1;'.repeat(5000)}`))
  reader.flush()
  assert.equal(reader.waiting, false)
})
