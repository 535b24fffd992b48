import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { chooseChannels, type Sample, ValueChannel } from '../../../../drivers/kit/channel'
import { channelEntries, fixedChannels, interval, strict } from '../../../../drivers/kit/common-options'
import { type Feed, LatestSource, type Take } from '../../../../drivers/kit/latest-source'
import { PolledSource } from '../../../../drivers/kit/polled-source'
import { statusOf } from '../../../../drivers/kit/status'
import { Deadband } from '../../../../src/gateway/intake/deadband'
import type { OpenableEvents } from '../../../../src/links/contracts'
import { checkOptions } from '../../../../src/links/driver-options'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { prng } from '../../../lib/random'

function heard(): { events: OpenableEvents; reasons: string[] } {
  const reasons: string[] = []
  return { reasons, events: { lost: reason => reasons.push(`lost ${reason}`), degraded: r => reasons.push(r) } }
}

const schema = v.optional(
  strict({ interval_ms: interval(1000), channels: fixedChannels(['temperature', 'humidity']), ...channelEntries }),
  {},
)

test('an unknown option is refused with the nearest name', () => {
  const check = (raw: unknown) => () => checkOptions(schema as v.GenericSchema<unknown, unknown>, raw, 'cellar')
  assert.throws(check({ intervall_ms: 5000 }), {
    code: 'UNKNOWN_KEY',
    message: 'options of cellar: intervall_ms: no such option; did you mean interval_ms?',
  })
  assert.throws(check({ channels: { temprature: {} } }), /channels\.temprature: .*did you mean temperature\?/)
  assert.throws(check({ channels: { humidity: { ofset: 1 } } }), /channels\.humidity\.ofset: .*did you mean offset\?/)
  assert.throws(check({ zzzzzzzzzz: 1 }), /zzzzzzzzzz: no such option; there are interval_ms, channels/)
  assert.throws(check({ interval_ms: 'fast' }), /interval_ms: .*number/)
  assert.throws(check({ scale: 0 }), /scale: must not be 0/)
  assert.throws(check({ status: [{ above: 3 }] }), /status\.0\.status: is required/)
  assert.throws(check({ status: [{ status: 'HIGH' }] }), /status\.0: needs one of above, below/)
  assert.throws(check({ status: [{ above: 1, status: 'too high' }] }), /status\.0\.status: a word/)
  assert.throws(check([1]), /no such option/)
  assert.deepEqual(checkOptions(schema as v.GenericSchema<unknown, unknown>, {}, 'x'), { interval_ms: 1000 })
})

test('the first rule whose limits all match gives the status', () => {
  const rules = [
    { above: 90, status: 'CRITICAL' },
    { above: 80, status: 'ALARM' },
    { from: 10, to: 20, status: 'LOW' },
    { below: 0, status: 'FROST' },
    { equals: [50, 51.3], status: 'MARK' },
  ]
  const words = [91, 90, 80.5, 80, 20, 10, 9.99, 0, -0.1, 50, 0.1 * 513].map(value => statusOf(rules, value))
  assert.deepEqual(words, ['CRITICAL', 'ALARM', 'ALARM', 'OK', 'LOW', 'LOW', 'OK', 'OK', 'FROST', 'MARK', 'MARK'])
})

test('a channel is scaled, shifted and renamed; decimals come out exact', () => {
  const tenths = new ValueChannel({ id: 't', unit: 'Cel', scale: 0.1, offset: -40 })
  assert.deepEqual(tenths.reading(634), ['t', 'OK', 23.4, 'Cel'])
  const random = prng(1)
  for (let k = 0; k < 2000; k++) {
    const raw = Math.floor(random() * 65_536) - 32_768
    const digits = Math.floor(random() * 7)
    const [, , value] = new ValueChannel({ id: 'x', unit: 'm', scale: Number(`1e-${digits}`) }).reading(raw)
    assert.equal(value, Number(`${raw}e-${digits}`))
    const scale = 1 + random() * 1000
    assert.equal(new ValueChannel({ id: 'x', unit: 'm', scale }).reading(raw)[2], raw * scale)
  }
})

test('a missing value, NaN and a value that a rule calls ERROR keep their slot without a value', () => {
  const channel = new ValueChannel({ id: 't', unit: 'Cel', scale: 0.1, status: [{ equals: 3276.8, status: 'ERROR' }] })
  for (const raw of [null, Number.NaN, Number.POSITIVE_INFINITY, 0x8000])
    assert.deepEqual(channel.reading(raw), ['t', 'ERROR', null, 'Cel'])
  assert.match(channel.raw({ value: 0x8000, raw: '80 00' }).error!, /32768 counts as an error/)
  assert.deepEqual(channel.raw({ value: null, raw: '', error: 'no answer' }), {
    sensor_id: 't',
    raw: '',
    status: 'ERROR',
    value: null,
    unit: 'Cel',
    error: 'no answer',
  })
})

test('channels of a known device are named after their source, renamed or omitted', () => {
  const specs = [
    { key: 'temperature', unit: 'Cel' },
    { key: 'humidity', unit: '%' },
  ]
  const ids = (options?: object) => chooseChannels('cellar', specs, options as never).channels.map(({ id }) => id)
  assert.deepEqual(ids(), ['cellar_temperature', 'cellar_humidity'])
  assert.deepEqual(ids({ humidity: { enabled: false } }), ['cellar_temperature'])
  assert.deepEqual(ids({ humidity: { enabled: true, id: 'rh' } }), ['cellar_temperature', 'rh'])
  assert.deepEqual(chooseChannels('hall', specs.slice(0, 1)).channels[0]!.id, 'hall')
  assert.throws(() => ids({ humidity: { enabled: true, id: 'cellar_temperature' } }), { code: 'CONFIG_INVALID' })
  assert.throws(() => ids({ humidity: { enabled: false }, temperature: { enabled: false } }), /no channel is enabled/)
})

const two = [new ValueChannel({ id: 'a', unit: 'V' }), new ValueChannel({ id: 'b', unit: 'A', scale: 0.001 })]

test('a polled source keeps the slot of a failed channel and reports why', async () => {
  let samples: Sample[] = [
    { value: 3, raw: '03' },
    { value: 1500, raw: '05 dc' },
  ]
  const probe = { open: async () => undefined, close: async () => undefined, sample: async () => samples }
  const source = new PolledSource('meter', { type: 'x', intervalMs: 1000, channels: two }, probe)
  const { events, reasons } = heard()
  await source.open(events)
  assert.deepEqual(await source.read(), [
    ['a', 'OK', 3, 'V'],
    ['b', 'OK', 1.5, 'A'],
  ])
  samples = [samples[0]!, { value: null, raw: '', error: 'no answer from slave 7' }]
  assert.deepEqual((await source.read())[1], ['b', 'ERROR', null, 'A'])
  assert.deepEqual(
    ['a', 'b', 'c'].map(id => source.whyNot(id)),
    [undefined, 'no answer from slave 7', undefined],
  )
  assert.deepEqual(reasons, ['', '1 of 2 sensors: no answer from slave 7'])
  assert.deepEqual({ ...source.counters }, { rx: 3, tx: 0, errors: 1 })
  const [, b] = await source.readRaw()
  assert.equal(b!.error, 'no answer from slave 7')
})

test('a test and the schedule never sample at the same time, and a failed sample blocks no other', async () => {
  let running = 0
  let most = 0
  let calls = 0
  const sample = async (): Promise<Sample[]> => {
    most = Math.max(most, ++running)
    await new Promise(resolve => setImmediate(resolve))
    running--
    if (++calls === 1) throw new Error('lost')
    return []
  }
  const probe = { open: async () => undefined, close: async () => undefined, sample }
  const source = new PolledSource('meter', { type: 'x', intervalMs: 1000, channels: two }, probe)
  const all = await Promise.allSettled([source.read(), source.readRaw(), source.read()])
  assert.deepEqual(
    all.map(({ status }) => status),
    ['rejected', 'fulfilled', 'fulfilled'],
  )
  assert.equal(most, 1)
})

function latest(maxAgeMs = 5000) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  let take: Take = () => undefined
  const feed: Feed = {
    open: async (_, t) => {
      take = t
    },
    close: async () => undefined,
    raw: index => `raw ${index}`,
  }
  const source = new LatestSource('tag', { type: 'x', intervalMs: 1000, maxAgeMs, channels: two, clock, timers }, feed)
  return { source, clock, timers, take: ((...args) => take(...args)) as Take }
}

test('values that arrive unrequested count until they are too old', async () => {
  const { source, clock, take } = latest()
  const { events, reasons } = heard()
  await source.open(events)
  assert.deepEqual(
    (await source.read()).map(row => row[1]),
    ['ERROR', 'ERROR'],
  )
  take(0, 3)
  assert.deepEqual(
    ['a', 'b', 'c'].map(id => source.whyNot(id)),
    [undefined, 'was not heard yet', undefined],
  )
  take(1, 2500)
  clock.advance(5000)
  assert.deepEqual(await source.read(), [
    ['a', 'OK', 3, 'V'],
    ['b', 'OK', 2.5, 'A'],
  ])
  take(1, null, 'says it is broken')
  clock.advance(1)
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [null, null],
  )
  assert.deepEqual(reasons, ['2 of 2 sensors: a was not heard yet', '', '2 of 2 sensors: a was not heard for 5 s'])
  assert.deepEqual(
    (await source.readRaw()).map(row => row.error),
    ['was not heard for 5 s', 'says it is broken'],
  )
  // after a reopening the old values do not count
  await source.close()
  await source.open(events)
  take(0, 1)
  assert.deepEqual(
    (await source.read()).map(row => row[2]),
    [1, null],
  )
})

test('a test of such a source waits for channels not heard yet, but not forever', async () => {
  const { source, timers, take } = latest(60_000)
  await source.open(heard().events)
  const first = source.readRaw()
  take(0, 7)
  take(1, 1)
  assert.deepEqual(
    (await first).map(row => [row.raw, row.value]),
    [
      ['raw 0', 7],
      ['raw 1', 0.001],
    ],
  )
  await source.open(heard().events)
  const second = source.readRaw()
  take(0, 8)
  await timers.advance(10_000)
  assert.deepEqual(
    (await second).map(row => [row.raw, row.error]),
    [
      ['raw 0', undefined],
      ['', 'was not heard yet'],
    ],
  )
  assert.equal(timers.pending, 0)
})

test('the deadband of the gateway applies to readings of the kit: a changed status passes immediately', () => {
  const channel = new ValueChannel({ id: 't', unit: 'Cel', scale: 0.1, status: [{ above: 80, status: 'ALARM' }] })
  const band = new Deadband({ t: 5 })
  const passes = [700, 740, 760, 801, 805, null, null, 805].map((raw, k) =>
    band.passes([channel.reading(raw)], k * 1000),
  )
  assert.deepEqual(passes, [true, false, true, true, false, true, false, true])
})
