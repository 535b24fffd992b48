import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AheadRanges } from '../../../../src/gateway/uplink/ahead-ranges'
import { MemLog } from '../../../lib/memlog'

test('a range that grows is stored beside seven others, and a start with eight stores no ninth', () => {
  const log = new MemLog()
  const before = new AheadRanges('up', log.asLog, 0)
  for (let k = 1; k <= 7; k++) before.add({ from: 100 * k, to: 100 * k + 10 + k })
  before.save({ from: 900, to: 950 }, 10_000)

  const after = new AheadRanges('up', log.asLog, 0)
  assert.deepEqual(after.list.at(-1), { from: 900, to: 950 })
  assert.equal(after.list.length, 8)
  const stored = new Map(log.counters)
  assert.equal(after.save({ from: 1000, to: 1001 }, 10_000), false)
  assert.deepEqual(log.counters, stored)

  after.add({ from: 1000, to: 1040 })
  assert.deepEqual(
    after.list.map(({ from }) => from),
    [300, 400, 500, 600, 700, 900, 1000],
    'the two shortest are forgotten',
  )
  assert.equal(after.save({ from: 1100, to: 1101 }, 10_000), true)
  assert.deepEqual(new AheadRanges('up', log.asLog, 0).list.at(-1), { from: 1100, to: 1101 })
})
