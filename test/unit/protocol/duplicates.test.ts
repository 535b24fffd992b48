import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DuplicateFilter } from '../../../src/protocol/duplicates'

test('a duplicate is the same source, time and content', () => {
  const filter = new DuplicateFilter()
  assert.equal(filter.seen(1, 1000, 7), false)
  assert.equal(filter.seen(1, 1000, 7), true)
  assert.equal(filter.seen(2, 1000, 7), false)
  assert.equal(filter.seen(1, 1001, 7), false)
  assert.equal(filter.seen(1, 1000, 8), false)
  assert.equal(filter.has(1, 1000, 8), true)
  assert.equal(filter.has(9, 1000, 8), false)
  assert.equal(filter.seen(1, 5, 7), false, 'old data is no duplicate')
  assert.equal(filter.duplicates, 1)
})

test('the last 4096 packets of a device are remembered, no more', () => {
  const filter = new DuplicateFilter()
  for (let t = 0; t < 4097; t++) assert.equal(filter.seen(1, t, 0), false)
  assert.equal(filter.has(1, 0, 0), false)
  for (let t = 1; t < 4097; t++) assert.equal(filter.seen(1, t, 0), true)
})

test('the least recently heard device is evicted first', () => {
  const filter = new DuplicateFilter({ maxDevices: 2 })
  filter.seen(1, 0, 0)
  filter.seen(2, 0, 0)
  filter.seen(1, 1, 0)
  filter.seen(3, 0, 0)
  assert.equal(filter.devices, 2)
  assert.deepEqual([filter.has(1, 0, 0), filter.has(2, 0, 0)], [true, false])
})

test('rebuilt from the log the memory of duplicates is the same as before', () => {
  const filter = new DuplicateFilter({ depth: 64 })
  for (let t = 0; t < 100; t++) {
    assert.equal(filter.restore(7, t, -t), false)
    assert.equal(filter.restore(7, t, -t), true)
  }
  assert.deepEqual(
    [35, 36, 99, 100].map(t => filter.has(7, t, -t)),
    [false, true, true, false],
  )
  assert.equal(filter.duplicates, 0)
})

test('it agrees with a simple list for any sequence', () => {
  let state = 12345
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % n
  }
  const filter = new DuplicateFilter({ depth: 256 })
  const list: string[] = []
  for (let k = 0; k < 20_000; k++) {
    const t = 1_700_000_000_000 + random(600)
    const hash = random(3) * 0x40000000
    const known = list.includes(`${t} ${hash}`)
    assert.equal(filter.seen(1, t, hash), known, `step ${k}`)
    if (!known) list.push(`${t} ${hash}`)
    if (list.length > 256) list.shift()
  }
})

test('a packet that did not reach the log counts as new again, and its memory slot is free for another', () => {
  const filter = new DuplicateFilter({ depth: 64 })
  for (let t = 0; t < 64; t++) filter.seen(1, t, t)
  for (let t = 0; t < 64; t += 3) filter.forget(1, t, t)
  filter.forget(1, 999, 0)
  filter.forget(9, 0, 0)
  for (let t = 0; t < 64; t++) assert.equal(filter.has(1, t, t), t % 3 !== 0, String(t))
  for (let t = 64; t < 300; t++) assert.equal(filter.seen(1, t, t), false)
  for (let t = 0; t < 300; t++) assert.equal(filter.has(1, t, t), t >= 236, String(t))
})
