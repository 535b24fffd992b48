// How often a device without a clock is answered with the time (X11), and for how many devices that is remembered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TimeReplies } from '../../../../src/gateway/receive/time-replies'

test('one answer in ten seconds for each AID', () => {
  const told = new TimeReplies()
  assert.equal(told.due(7, 0), true)
  assert.equal(told.due(7, 9999), false)
  assert.equal(told.due(8, 9999), true)
  assert.equal(told.due(7, 10_000), true)
  assert.equal(told.due(7, 19_999), false, 'from the last answer on')
})

test('32,768 AIDs are remembered; the one answered longest ago is evicted first', () => {
  const told = new TimeReplies()
  for (let aid = 0; aid < 32_768; aid++) told.due(aid, 0)
  told.due(0, 10_000)
  told.due(40_000, 10_000)
  assert.equal(told.size, 32_768)
  assert.equal(told.due(0, 10_001), false)
  assert.equal(told.due(1, 10_001), true, 'forgotten')
  assert.equal(told.size, 32_768)
})
