// How the supervisor reads sources: on their grid, one read at a time, with failed sensors, and reads that hang or throw.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import type { SourceReading } from '../../../src/links/contracts'
import { FakeSource, rig } from './supervisor-world'

test('a source is read immediately and then on its grid, however long a read takes', async () => {
  const { supervisor, timers, got, clock } = rig()
  const source = new FakeSource('cpu', 1000)
  source.onRead = async n => {
    await new Promise<void>(resolve => timers.after(300, resolve))
    return [['a', 'OK', n, '%']]
  }
  const start = clock.wall()
  supervisor.add(source)
  await timers.advance(4500)
  assert.deepEqual(
    got.map(g => g.at - start),
    [0, 1000, 2000, 3000, 4000],
  )
  assert.equal(supervisor.links()['cpu']?.reads, 5)
  assert.deepEqual([supervisor.links()['cpu']?.kind, supervisor.links()['cpu']?.type], ['source', 'fake'])
})

test('after a suspend of the machine the grid continues without a burst', async () => {
  const { supervisor, timers, got, clock } = rig()
  const source = new FakeSource('cpu', 1000)
  const start = clock.wall()
  supervisor.add(source)
  await timers.advance(1500)
  clock.advance(10_200)
  await timers.advance(1400)
  assert.deepEqual(
    got.map(g => g.at - start),
    [0, 1000, 11_700, 12_000, 13_000],
  )
  assert.equal(supervisor.links()['cpu']?.skipped, 9)
})

test('a read that hangs degrades its source, never overlaps, and does not affect the others', async () => {
  const { supervisor, timers, got, clock } = rig()
  const slow = new FakeSource('slow', 1000)
  let finish: (rows: readonly SourceReading[]) => void = () => undefined
  slow.onRead = n =>
    n === 2
      ? new Promise(resolve => {
          finish = resolve
        })
      : Promise.resolve([['a', 'OK', n, 'Cel']])
  const other = new FakeSource('other', 1000)
  supervisor.add(slow)
  supervisor.add(other)
  await timers.advance(5500)
  const link = supervisor.links()['slow']!
  assert.deepEqual([link.state, link.reason], ['degraded', 'a read takes longer than 1 s'])
  assert.equal(link.errors, 1)
  assert.equal(slow.reads, 2)
  assert.equal(other.reads, 6)
  assert.equal(supervisor.links()['other']?.state, 'up')
  finish([['a', 'OK', 77, 'Cel']])
  await timers.advance(0)
  const late = got.filter(g => g.source === 'slow').at(-1)
  assert.deepEqual([late?.value, late?.at], [77, clock.wall()])
  await timers.advance(500)
  assert.equal(supervisor.links()['slow']?.state, 'up')
  assert.equal(slow.reads, 3)
})

test('a read still pending after a reopening is not overlapped, its late readings are dropped, and that is reported', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('slow', 1000)
  let finish: (rows: readonly SourceReading[]) => void = () => undefined
  source.onRead = n =>
    n === 1
      ? new Promise(resolve => {
          finish = resolve
        })
      : Promise.resolve([['a', 'OK', n, 'Cel']])
  supervisor.add(source)
  await timers.advance(500)
  supervisor.reopen('slow')
  await timers.advance(2000)
  assert.equal(source.reads, 1)
  assert.equal(supervisor.links()['slow']?.state, 'degraded')
  finish([['a', 'OK', 1, 'Cel']])
  await timers.advance(1000)
  assert.deepEqual(
    got.map(g => g.value),
    [2],
  )
  assert.equal(supervisor.links()['slow']?.state, 'up')
})

test('a failed sensor keeps its slot; a group without any value is degraded; NaN counts as failed', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('i2c', 1000)
  source.onRead = async n => [
    ['a', n < 3 ? 'OK' : 'ERROR', n < 3 ? 1 : null, 'Cel'],
    ['b', 'OK', n === 1 ? 5 : Number.NaN, 'Pa'],
  ]
  supervisor.add(source)
  await timers.advance(1000)
  assert.deepEqual(
    got.map(g => [g.status, g.value]),
    [
      ['OK', 1],
      ['OK', 5],
      ['OK', 1],
      ['ERROR', null],
    ],
  )
  assert.equal(supervisor.links()['i2c']?.state, 'up')
  await timers.advance(1000)
  assert.equal(got.length, 6)
  assert.equal(supervisor.links()['i2c']?.reason, 'no sensor answers')
})

test('a failing source gets one WARN line with the message of its driver, none on recovery, and one more for a new reason', async () => {
  const { supervisor, timers, lines } = rig()
  const source = new FakeSource('plc', 1000)
  const says = [
    '',
    'slave 1 is silent',
    'slave 1 is silent',
    '',
    '',
    'slave 2 is silent; a wire is loose',
    'a wire is loose',
  ]
  source.onRead = async n => {
    source.events!.degraded(says[n] ?? '')
    return [['a', 'ERROR', n === 1 || n === 2 || n === 5 ? null : n, 'Cel']]
  }
  supervisor.add(source)
  await timers.advance(0)
  assert.equal(supervisor.links()['plc']?.reason, 'slave 1 is silent')
  await timers.advance(2000)
  assert.equal(supervisor.links()['plc']?.state, 'up')
  await timers.advance(3000)
  assert.equal(supervisor.links()['plc']?.reason, 'a wire is loose')
  assert.deepEqual(
    lines.filter(line => /WARN/.test(line)).map(line => line.trim().replace(/.* plc: /, '')),
    ['degraded: slave 1 is silent', 'degraded: slave 2 is silent; a wire is loose'],
  )
})

test('a read that throws loses the group, which reopens after a backoff', async () => {
  const { supervisor, timers } = rig()
  const source = new FakeSource('hwmon', 1000)
  source.onRead = async n => {
    if (n === 2) throw new OsError('LINK_DOWN', 'the chip is gone')
    return [['a', 'OK', n, 'Cel']]
  }
  supervisor.add(source)
  await timers.advance(1000)
  assert.deepEqual(
    [supervisor.links()['hwmon']?.state, supervisor.links()['hwmon']?.reason],
    ['down', 'the chip is gone'],
  )
  await timers.advance(1000)
  assert.equal(supervisor.links()['hwmon']?.state, 'up')
  assert.deepEqual([source.opens, source.reads], [2, 3])
})

test('a source that is disabled or stopped is no longer read', async () => {
  const { supervisor, timers, got } = rig()
  const source = new FakeSource('cpu', 1000)
  supervisor.add(source)
  await timers.advance(1000)
  await supervisor.disable('cpu')
  await timers.advance(5000)
  assert.equal(got.length, 2)
  supervisor.enable('cpu')
  await timers.advance(0)
  assert.equal(got.length, 3)
  await supervisor.stop()
  await timers.advance(5000)
  assert.equal(got.length, 3)
  assert.equal(timers.pending, 0)
})

test('an exception in the consumer of the readings is counted, and the source continues', async () => {
  const { supervisor, timers } = rig()
  const source = new FakeSource('cpu', 1000)
  supervisor.onReadings(() => {
    throw new Error('disk full')
  })
  supervisor.add(source)
  await timers.advance(2000)
  assert.deepEqual([source.reads, supervisor.links()['cpu']?.errors, supervisor.links()['cpu']?.state], [3, 3, 'up'])
})

test('a source that reports due readings is read immediately, once more after a pending read, and not while it is down', async () => {
  const { timers, supervisor, got } = rig()
  const source = new FakeSource('s', 60_000)
  supervisor.add(source)
  await timers.advance(0)
  assert.equal(got.length, 1)
  source.events?.due?.()
  await timers.advance(0)
  assert.equal(got.length, 2)
  let answer: (rows: readonly SourceReading[]) => void = () => undefined
  source.onRead = () =>
    new Promise(resolve => {
      answer = resolve
    })
  for (let k = 0; k < 5; k++) source.events?.due?.()
  assert.equal(source.reads, 3)
  source.onRead = async n => [['a', 'OK', n, 'Cel']]
  answer([['a', 'OK', 3, 'Cel']])
  await timers.advance(0)
  assert.deepEqual([source.reads, got.length], [4, 4])
  const old = source.events
  await supervisor.disable('s')
  old?.due?.()
  await timers.advance(0)
  assert.equal(source.reads, 4)
})
