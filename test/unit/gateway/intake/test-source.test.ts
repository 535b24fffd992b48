import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfiguredSources, testRunning } from '../../../../src/gateway/intake/test-source'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents, RawReading, Source, SourceReading } from '../../../../src/links/contracts'
import { Registry } from '../../../../src/links/registry'
import { Supervisor } from '../../../../src/links/supervisor'
import { ManualClock, ManualTimers } from '../../../lib/manual'

class Fake implements Source {
  readonly name = 'boiler'
  readonly type = 'fake'
  readonly intervalMs = 1000
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly calls: string[] = []
  events: OpenableEvents | undefined
  problem: OsError | undefined
  raw: () => Promise<readonly RawReading[]> = async () => [
    { sensor_id: 't', raw: '02 7a', status: 'OK', value: 63.4, unit: 'Cel' },
  ]
  async open(events: OpenableEvents): Promise<void> {
    this.calls.push('open')
    this.events = events
    if (this.problem) throw this.problem
  }
  async close(): Promise<void> {
    this.calls.push('close')
  }
  async read(): Promise<readonly SourceReading[]> {
    this.calls.push('read')
    return [['t', 'OK', 63.4, 'Cel']]
  }
  readRaw(): Promise<readonly RawReading[]> {
    this.calls.push('readRaw')
    return this.raw()
  }
}

const entries = [{ name: 'boiler', type: 'fake' }]

function running() {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const logged: (readonly SourceReading[])[] = []
  const supervisor = new Supervisor({ clock, timers, onReadings: (_, readings) => logged.push(readings) })
  const source = new Fake()
  return { clock, timers, supervisor, source, logged, parts: { clock, timers } }
}

test('a test reads an open link once more, without effect on its schedule and the log', async () => {
  const { supervisor, source, timers, logged, parts } = running()
  supervisor.add(source)
  await timers.advance(0)
  const { readings, type } = await testRunning(entries, supervisor, 'boiler', parts)
  assert.equal(type, 'fake')
  assert.equal(readings[0]!.raw, '02 7a')
  assert.deepEqual(source.calls, ['open', 'read', 'readRaw'])
  await timers.advance(1000)
  assert.deepEqual(source.calls, ['open', 'read', 'readRaw', 'read'])
  assert.equal(logged.length, 2)
  await supervisor.stop()
})

test('a test of a link that is down opens it immediately: it stays open, or reports why not', async () => {
  const { supervisor, source, timers, parts } = running()
  source.problem = new OsError('NOT_FOUND', 'no chip at 0x76', { hint: 'check the wires' })
  supervisor.add(source)
  await timers.advance(0)
  await assert.rejects(testRunning(entries, supervisor, 'boiler', parts), {
    code: 'LINK_DOWN',
    message: 'boiler is down: no chip at 0x76',
    hint: 'check the wires',
  })
  source.problem = undefined
  assert.equal((await testRunning(entries, supervisor, 'boiler', parts)).readings.length, 1)
  assert.equal(supervisor.get('boiler')!.state.state, 'up')
  await supervisor.stop()
})

test('an unknown unit is reported in the test, since the gateway would refuse the value', async () => {
  const { supervisor, source, timers, parts } = running()
  source.raw = async () => [
    { sensor_id: 't', raw: '02 7a', status: 'OK', value: 63.4, unit: 'celsus' },
    { sensor_id: 'u', raw: '', status: 'ERROR', value: null, unit: 'celsus', error: 'no value' },
  ]
  supervisor.add(source)
  await timers.advance(0)
  const errors = async (dialect?: string) =>
    (await testRunning(entries, supervisor, 'boiler', { ...parts, dialect })).readings.map(({ error }) => error)
  const told = 'unit "celsus" is not understood: the gateway refuses this value'
  assert.deepEqual(await errors(), [told, 'no value'])
  assert.deepEqual(await errors('attribute'), [undefined, 'no value'], 'whose units are others')
  await supervisor.stop()
})

test('a test waits for a link that is opening, and does not open it twice', async () => {
  const { supervisor, source, timers, parts } = running()
  supervisor.add(source)
  assert.equal(supervisor.get('boiler')!.state.state, 'opening')
  const tested = testRunning(entries, supervisor, 'boiler', parts)
  await timers.advance(0)
  assert.equal((await tested).readings.length, 1)
  assert.deepEqual(
    source.calls.filter(call => call === 'open' || call === 'close'),
    ['open'],
  )
  await supervisor.stop()
})

test('a device that hangs ends the test, not the link', async () => {
  const { supervisor, source, timers, parts } = running()
  supervisor.add(source)
  await timers.advance(0)
  source.raw = () => new Promise(() => undefined)
  const tested = testRunning(entries, supervisor, 'boiler', parts)
  const refused = assert.rejects(tested, { code: 'TIMEOUT', message: 'boiler did not answer within 15 s' })
  await timers.advance(15_000)
  await refused
  assert.equal(supervisor.get('boiler')!.state.state, 'up')
  await supervisor.stop()
})

function configured(source: Source, list = entries) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const registry = new Registry({ sources: { fake: async () => ({ type: 'fake', create: () => source }) } })
  return {
    timers,
    sources: new ConfiguredSources(async () => list, registry, { clock, logger: silentLogger }, timers),
  }
}

test('without a gateway the test opens, reads and closes the source, also after an error', async () => {
  const source = new Fake()
  const { sources, timers } = configured(source)
  assert.equal((await sources.test('boiler')).readings[0]!.value, 63.4)
  assert.deepEqual(source.calls.splice(0), ['open', 'readRaw', 'close'])
  source.raw = async () => {
    source.events!.lost('unplugged')
    return new Promise(() => undefined)
  }
  await assert.rejects(sources.test('boiler'), { code: 'LINK_DOWN', message: 'unplugged' })
  assert.deepEqual(source.calls.splice(0), ['open', 'readRaw', 'close'])
  source.problem = new OsError('NOT_FOUND', 'no such port')
  await assert.rejects(sources.test('boiler'), { code: 'NOT_FOUND', message: 'no such port' })
  assert.deepEqual(source.calls, ['open', 'close'])
  assert.equal(timers.pending, 0)
})

test('a driver without raw bytes is read; unknown names and types list the known ones', async () => {
  const source = new Fake()
  Object.defineProperty(source, 'readRaw', { value: undefined })
  const { sources } = configured(source, [...entries, { name: 'odd', type: 'nothing' }])
  assert.deepEqual((await sources.test('boiler')).readings, [
    { sensor_id: 't', raw: '', status: 'OK', value: 63.4, unit: 'Cel' },
  ])
  await assert.rejects(sources.test('bioler'), (error: OsError) => {
    assert.equal(error.message, 'no source is named bioler; did you mean boiler?')
    assert.equal(error.hint, 'sources: boiler, odd')
    return true
  })
  await assert.rejects(sources.test('odd'), { code: 'NO_DRIVER' })
})
