import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NodeClock, type NodeClockOptions, type TimeStep } from '../../../src/protocol/time'
import { ManualClock } from '../../lib/manual'

const BUILD = Date.UTC(2026, 0, 1)
const TRUE = Date.UTC(2026, 10, 21)

function bench(wallMs: number, options: NodeClockOptions = {}) {
  const os = new ManualClock(wallMs, 5000)
  const steps: TimeStep[] = []
  const node = new NodeClock(os, { buildMs: BUILD, onStep: step => steps.push(step), ...options })
  return { os, node, steps }
}

test('the quality names the source of the time', () => {
  assert.equal(bench(0).node.quality, 'unsynced')
  assert.equal(bench(BUILD - 1).node.quality, 'unsynced')
  const { os, node } = bench(TRUE)
  assert.equal(node.quality, 'system')
  node.noteServerTime(TRUE / 1000)
  assert.equal(node.quality, 'server')
  os.wallMs = 0
  assert.equal(node.quality, 'unsynced', 'the OS clock jumped: until a time source confirms it again')
  assert.equal(node.now(), TRUE)
  node.noteServerTime(TRUE / 1000)
  assert.equal(node.quality, 'server')
})

test('before any sync the node follows the OS clock', () => {
  const { os, node, steps } = bench(0)
  os.wallMs = TRUE
  assert.equal(node.now(), TRUE)
  assert.equal(node.offsetMs, 0)
  assert.deepEqual(steps, [])
})

test('the first server time steps freely, in both directions', () => {
  for (const wall of [0, TRUE + 50 * 365 * 86_400_000, TRUE - 14 * 86_400_000]) {
    const { node, steps } = bench(wall)
    assert.equal(node.noteServerTime(TRUE / 1000), true)
    assert.equal(node.now(), TRUE + 500)
    assert.equal(steps.length, 1)
    assert.deepEqual(
      [steps[0]!.first, steps[0]!.heldBackMs, steps[0]!.movedMs],
      [true, 0, TRUE + 500 - Math.max(wall, BUILD)],
    )
  }
})

test('whole seconds and the transmission delay do not count as disagreement', () => {
  for (const off of [-1000, 0, 999, 1900]) {
    const { node } = bench(TRUE + off)
    node.noteServerTime(TRUE / 1000)
    assert.equal(node.offsetMs, 0, `${off}`)
  }
  const slow = bench(TRUE + 3000).node
  slow.noteServerTime(TRUE / 1000, 3000)
  assert.equal(slow.offsetMs, 0)
})

test('after the first sync the time moves at most 300 s an hour', () => {
  const { os, node, steps } = bench(TRUE)
  node.noteServerTime(TRUE / 1000)
  node.noteServerTime(TRUE / 1000 + 200)
  assert.equal(node.offsetMs, 200_500)
  node.noteServerTime(TRUE / 1000 - 1000)
  assert.equal(node.offsetMs, 101_000, 'both directions count')
  assert.equal(steps.at(-1)!.heldBackMs, -1_100_500)
  node.noteServerTime(TRUE / 1000 - 1000)
  assert.equal(node.offsetMs, 101_000)
  os.advance(3_600_001)
  node.noteServerTime(TRUE / 1000 + 3600 - 100_000)
  assert.equal(node.offsetMs, 101_000 - 300_000)
  assert.ok(steps.at(-1)!.heldBackMs < -99_000_000)
})

test('an invalid time is refused', () => {
  const { node } = bench(TRUE)
  for (const seconds of [0, -1, 1_000_000, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60])
    assert.equal(node.noteServerTime(seconds), false)
  assert.equal(node.quality, 'system')
})

test('a jump of the OS clock after a sync does not move the node', () => {
  const { os, node } = bench(0)
  node.noteServerTime(TRUE / 1000)
  os.advance(60_000)
  os.wallMs = TRUE + 60_000
  assert.equal(node.now(), TRUE + 60_000, 'NTP brought the OS clock to the same time')
  assert.equal(node.offsetMs, 0)
  os.wallMs -= 86_400_000
  assert.equal(node.now(), TRUE + 60_000)
  assert.equal(node.offsetMs, 86_400_000)
  node.noteServerTime(TRUE / 1000 + 7200)
  assert.equal(node.now(), TRUE + 7_200_500, 'and the next answer steps freely')
  node.noteServerTime(TRUE / 1000)
  assert.equal(node.now(), TRUE + 7_200_500 - 300_000, 'once')
})

test('a time confirmed by NTP continues over every jump until a time source confirms it again', () => {
  const { os, node } = bench(TRUE, { timeSource: 'ntp' })
  assert.equal(node.quality, 'ntp')
  for (const wall of [86_400_000, TRUE + 50 * 365 * 86_400_000, TRUE - 3_600_000]) {
    os.wallMs = wall
    assert.equal(node.now(), TRUE)
    assert.equal(node.quality, 'unsynced')
  }
  os.wallMs = TRUE
  assert.equal(node.now(), TRUE, 'corrected again')
  os.wallMs = TRUE + 10_000
  node.confirmTime('ntp')
  assert.equal(node.now(), TRUE + 10_000)
  assert.equal(node.quality, 'ntp')
})

test('a slewed OS clock is followed', () => {
  const { os, node, steps } = bench(TRUE)
  node.noteServerTime(TRUE / 1000)
  for (let k = 0; k < 100; k++) {
    os.advance(1000)
    os.wallMs += 100
    assert.equal(node.now(), os.wallMs)
  }
  assert.equal(steps.length, 1)
})

test('timestamps strictly increase per device, whatever the clock does', () => {
  const { os, node } = bench(TRUE)
  assert.deepEqual([node.stamp('a'), node.stamp('a'), node.stamp('b')], [TRUE, TRUE + 1, TRUE])
  os.wallMs -= 1_000_000
  assert.equal(node.stamp('a'), TRUE + 2)
  assert.equal(node.stamp('c'), TRUE - 1_000_000)
  os.wallMs += 2_000_000
  assert.equal(node.stamp('a'), TRUE + 1_000_000)
  node.noteStamp('d', TRUE + 9_000_000)
  assert.equal(node.stamp('d'), TRUE + 9_000_001)
  node.noteStamp('d', 5)
  assert.equal(node.stamp('d'), TRUE + 9_000_002)
  node.noteStamp('e', TRUE + 9_000_000.4)
  assert.equal(node.stamp('e'), TRUE + 9_000_002, 'an integer, after the correction of a fraction, too')
})

test('a step of the time moves the last stamps that it corrects, and no others', () => {
  const { os, node } = bench(TRUE, { timeSource: null })
  node.noteStamp('before', TRUE - 1000)
  assert.equal(node.stamp('open'), TRUE)
  os.wallMs += 7_200_000
  assert.equal(node.now(), TRUE + 7_200_000, 'an unconfirmed time follows the jump')
  os.wallMs -= 3_600_000
  assert.equal(node.stamp('before'), TRUE + 3_600_000, 'a stamp of the run before waits for no jump')
  node.confirmTime('ntp')
  assert.equal(node.stamp('open'), TRUE + 3_600_001, 'the log corrects the stamp of an unconfirmed time as much')
  os.wallMs += 3_600_000
  assert.equal(node.now(), TRUE + 3_600_000, 'a confirmed time continues')
  node.noteServerTime((TRUE + 1_800_000) / 1000)
  assert.equal(node.stamp('open'), TRUE + 3_600_002, 'the stamp of a confirmed time is final')
  os.wallMs -= 7_200_000
  assert.ok(!node.synced)
  node.stamp('open')
  node.confirmTime('ntp')
  assert.equal(node.stamp('open'), TRUE + 3_600_003, 'and no correction of a later one takes its place')
})

test('the number of devices with a timestamp is limited', () => {
  const { os, node } = bench(TRUE, { maxDevices: 2 })
  node.noteStamp('a', TRUE + 100)
  node.stamp('b')
  node.stamp('a')
  node.stamp('c')
  os.wallMs += 1
  assert.equal(node.stamp('a'), TRUE + 102)
})
