import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timeLabels, timeSpace, timeSteps, valueLabels } from '../../../../../src/web/page/lib/axis'
import { quote, wordsOf } from '../../../../../src/web/page/lib/command-words'
import { afterSaving, fits, partsWith, shownValue, typedValue } from '../../../../../src/web/page/lib/edits'
import { EventParser } from '../../../../../src/web/page/lib/eventparser'
import { parseHex, parts, toHex } from '../../../../../src/web/page/lib/hex'
import { History } from '../../../../../src/web/page/lib/history'
import { Newest } from '../../../../../src/web/page/lib/newest'
import { comesIn, Meter, retryDelayMs } from '../../../../../src/web/page/lib/rates'
import { lineOf, statisticsOf } from '../../../../../src/web/page/lib/stored'
import type { Dashboard, LinkInfo, OptionField, Readings, Status } from '../../../../../src/web/page/lib/types'

test('after saving, unsaved input stays, and a refusal below a field is shown next to that field', () => {
  const edits = { 'gateway.uplinks': '[]', device_id: 'x', 'engine_settings.precision': '3' }
  const failed = [
    { key: 'gateway.uplinks.0.port', error: 'port' },
    { key: 'gateway.uplinks[1].host', error: 'host' },
    { key: 'gateway.uplinks_other', error: 'other' },
    { error: 'no key' },
  ]
  assert.deepEqual(afterSaving(edits, [{ key: 'device_id' }], failed), {
    edits: { 'gateway.uplinks': '[]', 'engine_settings.precision': '3' },
    errors: { 'gateway.uplinks': 'port; host' },
    others: ['other', 'no key'],
  })
})

test('a setting is found by its names, its help and the texts of its list elements', () => {
  const field = {
    key: 'gateway.sources',
    label: 'Sources',
    description: 'what is read',
    type: 'json',
    value: [{ name: 'boiler', type: 'w1' }],
    parts: [
      { key: 'type', help: 'driver: bme280, modbus_tcp', allowed: 'a text' },
      { key: 'interval_ms', help: 'ms between two readings' },
    ],
  } as unknown as OptionField
  const found = (text: string): boolean => fits(field, text.split(' '))
  for (const text of ['sources', 'bme280', 'gateway.sources', 'read bme', 'modbus_tcp', 'interval', 'boiler', 'w1'])
    assert.ok(found(text), text)
  // words, and prefixes of words
  for (const text of ['sources mqtt', 'ources', 'me280', 'readings two'])
    assert.equal(found(text), text === 'readings two')
  assert.equal(fits({ ...field, key: 'RESOURCES.x', label: 'X' }, ['sources']), false)
  const parts = (text: string): string[] => partsWith(field, text.split(' ')).map(({ key }) => key)
  assert.deepEqual(parts('gateway bme280'), ['type'])
  assert.deepEqual(parts('readings modbus_tcp'), ['type', 'interval_ms'])
  assert.deepEqual(partsWith(field, []), [])
})

/** a FULL packet of AID 52 with two readings, as the CLI sent it */
const FULL =
  '3f01000000340101a1ff1a062135323b54414e4b2d332e312e4161485f476759687c6c6576656c3e4b2e4330303a314a58797c70' +
  '726573737572653e4b2e50613a3165746d43737c986852'

const meaning = (hex: string): Record<string, string> =>
  Object.fromEntries(parts(parseHex(hex)!).fields.map(field => [field.name, field.text]))

test('a packet in hex is split into its fields, without a gap and with both checksums', () => {
  const { fields, problem } = parts(parseHex(FULL)!)
  assert.equal(problem, '')
  assert.deepEqual(
    fields.map(({ name, start, end }) => [name, start, end]),
    [
      ['CMD', 0, 1],
      ['ROUTES', 1, 2],
      ['AID', 2, 6],
      ['TID', 6, 7],
      ['TS', 7, 13],
      ['BODY', 13, 72],
      ['CRC8', 72, 73],
      ['CRC16', 73, 75],
    ],
  )
  const told = meaning(FULL)
  assert.equal(told.CMD, '0x3F DATA_FULL')
  assert.equal(told.AID, '52')
  assert.equal(told.TS, '1795281258017 (2026-11-21T17:14:18.017Z)')
  assert.match(told.BODY!, /^52;TANK-3\.1\./)
  assert.equal(told.CRC16, '0x6852 fits')
})

test('any changed byte of a packet is reported as damage', () => {
  const bytes = parseHex(FULL)!
  for (let k = 1; k < bytes.length; k++) {
    const broken = Uint8Array.from(bytes)
    broken[k] = broken[k]! ^ 0x10
    assert.notEqual(parts(broken).problem, '', `byte ${k}`)
  }
})

test('control packets, unknown bytes and short ones have fields too, and never throw', () => {
  assert.deepEqual(meaning('05002a'), { CMD: '0x05 HANDSHAKE_ACK', SEQ: '42' })
  assert.equal(parts(parseHex('0500')!).problem, 'too short for a control packet')
  assert.equal(parts(parseHex('ee01')!).problem, 'not a command of this protocol')
  assert.equal(parts(new Uint8Array()).problem, 'empty')
  const bytes = parseHex(FULL)!
  for (let n = 1; n < bytes.length; n++) {
    const { fields } = parts(bytes.subarray(0, n))
    assert.equal(fields[0]!.start, 0)
    assert.equal(fields.at(-1)!.end, n)
  }
})

test('hex is accepted with blanks, colons and 0x, and nothing else is', () => {
  assert.equal(toHex(parseHex('0x3F:01 00-ff')!), '3f 01 00 ff')
  for (const wrong of ['', '3', '3g', 'hello', '3f 0']) assert.equal(parseHex(wrong), null)
})

test('events are parsed completely from a stream split anywhere', () => {
  const text =
    'retry: 2000\n\n: alive\n\nevent: link\ndata: {"name":"up"}\n\nevent: reading\r\ndata: [1,\r\ndata: 2]\r\n\r\ndata: no json\n\n'
  for (let cut = 0; cut <= text.length; cut++) {
    const parser = new EventParser()
    const events = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]
    assert.deepEqual(
      events,
      [
        { name: 'link', data: { name: 'up' } },
        { name: 'reading', data: [1, 2] },
      ],
      `cut at ${cut}`,
    )
  }
})

const field = (type: string, more: Partial<OptionField> = {}): OptionField => ({
  key: 'a.b',
  label: '',
  description: '',
  type,
  value: null,
  writable: true,
  choices: null,
  ...more,
})

test('typed text is converted to a value of its type, or an error says what is needed', () => {
  assert.deepEqual(typedValue(field('int'), ' 42 '), { value: 42 })
  assert.deepEqual(typedValue(field('int'), '4.5'), { error: 'a whole number is needed' })
  assert.deepEqual(typedValue(field('int', { min: 0, max: 10 }), '11'), { error: 'at most 10' })
  assert.deepEqual(typedValue(field('int', { min: 0 }), '-1'), { error: 'at least 0' })
  assert.deepEqual(typedValue(field('float'), '1,5'), { value: 1.5 })
  assert.deepEqual(typedValue(field('float'), ''), { error: 'a number is needed' })
  assert.deepEqual(typedValue(field('bool'), 'true'), { value: true })
  assert.deepEqual(typedValue(field('str'), ' as it is '), { value: ' as it is ' })
  assert.deepEqual(typedValue(field('json'), '[1]'), { value: [1] })
  assert.ok('error' in typedValue(field('json'), '[1'))
  assert.equal(shownValue(field('json', { value: { a: 1 } })), '{\n  "a": 1\n}')
  assert.equal(shownValue(field('str', { value: null })), '')
})

test('words of a command line keep their content', () => {
  assert.equal(quote('PUMPHOUSE-7'), 'PUMPHOUSE-7')
  assert.equal(quote('two words'), "'two words'")
  assert.equal(quote(''), "''")
  assert.equal(quote('[["a","OK",1,"%"]]'), `'[["a","OK",1,"%"]]'`)
  assert.equal(quote("it's; rm"), `'it'\\''s; rm'`)
})

const reading = (t_raw: number, value: number | null): Readings => ({
  device_id: 'd',
  t_raw,
  medium: 'local',
  source_aid: 1,
  sensors: [{ id: 's', status: 'OK', unit: 'V', value }],
})

test('the values of a sensor are in order of time, without duplicates and without gaps for missing values', () => {
  const history = new History()
  for (const [t, v] of [
    [1000, 1],
    [1000, 1],
    [3000, null],
    [2000, 2],
    [1500, 9],
  ] as const)
    history.add(reading(t, v))
  assert.deepEqual(history.of('d', 's'), { t: [1000, 2000], v: [1, 2] })
  assert.deepEqual(history.of('d', 'x'), { t: [], v: [] })
  for (let k = 0; k < 1000; k++) history.add(reading(10_000 + k, k))
  assert.equal(history.of('d', 's').t.length, 600)
})

test('an absent gateway is polled immediately while it may be starting, within two seconds for ten minutes, then rarely', () => {
  let ms = 0
  for (let failures = 1; ms < 400_000; failures++) {
    const [short, long] = [retryDelayMs(failures, 0), retryDelayMs(failures, 0.999)]
    assert.ok(short >= 200 && long <= (ms < 20_000 ? 300 : 2000), `${failures}`)
    assert.ok(failures < 200 || short >= 800, `${failures}`)
    ms += short
  }
  assert.ok(retryDelayMs(2000, 0) >= 10_000)
})

const bucket = (t: number, values: readonly number[]) => ({
  t,
  count: values.length,
  min: values.length ? Math.min(...values) : null,
  mean: values.length ? values.reduce((a, b) => a + b, 0) / values.length : null,
  max: values.length ? Math.max(...values) : null,
})

test('a plot continues where the stored values end, and its statistics cover all values', () => {
  const seen = { t: [9_500, 10_200, 11_100, 12_300], v: [100, 200, 3, 4] }
  const stored = { buckets: [bucket(9, [7]), bucket(10, [8])], since: 9, until: 10, units: ['V'] }
  assert.deepEqual(lineOf(stored, seen, 0), {
    t: [9, 10, 11.1, 12.3],
    mean: [7, 8, 3, 4],
    min: [7, 8, 3, 4],
    max: [7, 8, 3, 4],
  })
  assert.deepEqual(statisticsOf(stored, seen, 0), { count: 4, min: 3, mean: 5.5, max: 8 })
  const none = { buckets: [], since: 0, until: 0, units: [] }
  assert.deepEqual(lineOf(none, seen, 12).t, [12.3])
  assert.equal(statisticsOf(none, { t: [], v: [] }, 0), undefined)
  // a peak among many values is the maximum, the mean is weighted by the counts
  const many = { buckets: [bucket(0, [1, 21, 1, 1]), bucket(10, [5])], since: 0, until: 19, units: ['V'] }
  assert.deepEqual(statisticsOf(many, { t: [], v: [] }, 0), { count: 5, min: 1, mean: 29 / 5, max: 21 })
})

test('a gap in the values is a gap in the line; a slow sensor in short buckets has none', () => {
  const stored = (counts: readonly number[], width: number) => ({
    buckets: counts.map((n, k) => bucket(k * width, Array(n).fill(k))),
    since: 0,
    until: counts.length * width - 1,
    units: [],
  })
  const none = { t: [], v: [] }
  const nulls = (counts: readonly number[], width = 10): number =>
    lineOf(stored(counts, width), none, 0).mean.filter(v => v === null).length
  assert.equal(nulls([5, 5, 5, 0, 5, 5]), 1)
  assert.equal(nulls([5, 5, 5, 5]), 0)
  // one value every five buckets
  const slow = Array.from({ length: 60 }, (_, k) => (k % 5 === 0 ? 1 : 0))
  assert.equal(nulls(slow), 0)
  assert.equal(nulls(slow.map((n, k) => (k > 10 && k < 40 ? 0 : n))), 1)
  // the interval is about a bucket: now two, now none
  assert.equal(nulls([1, 2, 0, 1, 1, 0, 2, 1]), 0)
})

test('labels of an axis neither overlap nor repeat, in four languages, for any range', () => {
  const width = (text: string): number => [...text].length * 8
  const start = 1_710_000_000
  for (const locale of ['de', 'en', 'hi', 'ar'])
    for (const range of [600, 3600, 21_600, 86_400, 604_800])
      for (const pixels of [260, 330, 1100])
        for (let shift = 0; shift < 7200; shift += 2700) {
          const [from, to] = [start + shift, start + shift + range]
          const space = timeSpace(from, to, width, locale)
          const step = timeSteps(range).find(seconds => (seconds / range) * pixels >= space)
          const at = `${locale} ${range} ${pixels} ${from}`
          assert.ok(step !== undefined, at)
          const ticks = []
          for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t)
          const labels = timeLabels(ticks, range, locale)
          assert.equal(new Set(labels).size, labels.length, `${at}: ${labels}`)
          for (const label of labels) assert.ok(width(label) + 8 <= (step / range) * pixels, `${at}: ${label}`)
        }
  const steps = [0.25, 0.1, 1, 2.5, 1000, 1e-9, 1e9]
  for (const step of steps)
    for (const base of [0, 1, -40, 101_325, 5e9]) {
      // more digits than a number has
      if (step < Math.abs(base) * 1e-14) continue
      const labels = valueLabels(
        [0, 1, 2, 3, 4].map(k => base + k * step),
        step,
      )
      assert.equal(new Set(labels.filter(Boolean)).size, 5, `${step} from ${base}: ${labels}`)
    }
  assert.deepEqual(valueLabels([20.5, 20.75, 21], 0.25), ['20.50', '20.75', '21.00'])
  assert.deepEqual(valueLabels([-5, 0, 5], 5), ['-5', '0', '5'])
})

test('seven days on a phone have at least two labels, wherever the week begins and in any language', () => {
  const week = 604_800
  const width = (text: string): number => [...text].length * 8
  const midnight = Date.UTC(2026, 10, 17) / 1000
  for (const locale of ['de-DE', 'ru-RU', 'ar-EG', 'en-US', 'ja', 'fi'])
    for (const pixels of [250, 265, 280])
      for (let begin = 0; begin < 86_400; begin += 3600) {
        const from = midnight + begin
        const space = timeSpace(from, from + week, width, locale)
        const step = timeSteps(week).find(seconds => (seconds / week) * pixels >= space)!
        // the first label is that of the first midnight
        const first = midnight + (begin === 0 ? 0 : 86_400)
        const labels = Math.floor((from + week - first) / step) + 1
        assert.ok(labels >= 2, `${locale} ${pixels} ${begin}: ${labels}`)
      }
})

test('a gateway without its own sources shows the packets that it receives', () => {
  const from = (links: string[], readings: number, packets: number): Status =>
    ({
      ...status(readings, 0, 0, packets),
      links: Object.fromEntries(links.map((kind, k) => [k, { kind }])),
      received: { packets },
    }) as unknown as Status
  assert.equal(comesIn(from(['medium'], 0, 5549)), 'packets')
  assert.equal(comesIn(from(['medium', 'source'], 0, 5549)), 'readings')
  assert.equal(comesIn(from(['medium'], 3, 5549)), 'readings', 'readings that a program put in')
  const meter = new Meter()
  meter.add(from(['medium'], 0, 100), 0)
  meter.add(from(['medium'], 0, 200), 2000)
  assert.equal(meter.rates!.packets, 50)
})

const status = (readings: number, acked: number, bytes: number, uptime: number, sent = 0): Status =>
  ({
    uptime_s: uptime,
    intake: { readings },
    uplinks: { up: { acked, sent }, older: { acked: 0 } },
    log: { bytes_written_today: bytes, last_seq: 0 },
  }) as unknown as Status

test('rates are computed between two polls; a restart and a new day give none below zero', () => {
  const meter = new Meter()
  meter.add(status(100, 10, 1000, 50), 0)
  assert.equal(meter.rates, undefined)
  meter.add(status(120, 14, 3000, 52, 6), 2000)
  assert.deepEqual(meter.rates, { readings: 10, packets: 0, acked: 2, sent: 3, bytes: 1000 })
  meter.add(status(130, 14, 100, 54), 4000)
  assert.deepEqual(meter.rates, { readings: 5, packets: 0, acked: 0, sent: 0, bytes: 0 })
  meter.add(status(3, 0, 100, 1), 6000)
  assert.deepEqual(meter.rates, { readings: 5, packets: 0, acked: 0, sent: 0, bytes: 0 })
})

test('values from events override those of the last poll, the newest of each reading and link', () => {
  const link = (state: string): LinkInfo => ({ kind: 'medium', state, delivery: null, rx: 1, tx: 0, errors: 0 })
  const dashboard = {
    latest: [reading(1000, 1)],
    status: { links: { a: link('up'), b: link('up') } },
    timestamp: 1,
  } as unknown as Dashboard
  const newest = new Newest()
  newest.round(dashboard)
  assert.equal(newest.putReading(reading(2000, 2)), true)
  assert.equal(newest.putReading({ ...reading(2500, 3), device_id: 'e' }), true)
  assert.equal(newest.putReading({} as Readings), false)
  assert.equal(newest.putLink({ name: 'a', ...link('down') }), true)
  assert.equal(newest.putLink({ name: 'b', state: 'removed' } as never), true)
  assert.equal(newest.putLink({} as never), false)
  const over = newest.over(dashboard)
  assert.deepEqual(
    over.latest.map(({ device_id, t_raw }) => [device_id, t_raw]),
    [
      ['d', 2000],
      ['e', 2500],
    ],
  )
  assert.deepEqual(over.status.links, { a: link('down') })
  // a poll without readings keeps them
  const { latest: _, ...status } = dashboard
  newest.round(status)
  assert.equal(newest.over(status).latest.length, 2)
  newest.round(dashboard)
  assert.deepEqual(newest.over(dashboard), dashboard)
})

test('a line is split into words; quotes keep blanks together', () => {
  assert.deepEqual(wordsOf(` add-rule north  --name 'two words' --to="a b"c '' `), [
    'add-rule',
    'north',
    '--name',
    'two words',
    '--to=a bc',
    '',
  ])
  assert.deepEqual(wordsOf('  '), [])
})
