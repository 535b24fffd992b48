// The sources `line` and `nmea` over a cable in memory: readings, age, requests and answers, options.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lineSource, nmeaSource } from '../../../../drivers/lines'
import { lineOptions, nmeaOptions } from '../../../../drivers/lines/line-options'
import { createLineSource, createNmeaSource } from '../../../../drivers/lines/line-source'
import { silentLogger } from '../../../../src/lib/logger'
import type { Source } from '../../../../src/links/contracts'
import { checkOptions } from '../../../../src/links/driver-options'
import { LinePair } from '../../../lib/linepair'
import { ManualClock, ManualTimers } from '../../../lib/manual'

interface World {
  source: Source
  timers: ManualTimers
  lost: string[]
  /** what the device received */
  heard: string[]
  /** the device sends this answer to each request */
  answer: (question: string) => string
  says(text: string): Promise<void>
  /** a byte of the device arrives with a wrong parity or stop bit */
  damage(byte: number): void
}

async function world(type: 'line' | 'nmea', options: Record<string, unknown>): Promise<World> {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const pair = new LinePair({ timers, chunk: () => 5 })
  const context = { clock, timers, logger: silentLogger }
  const raw = { port: '/dev/null', ...options }
  const source =
    type === 'line'
      ? createLineSource('s', checkOptions(lineOptions, raw, 's'), pair.a, context)
      : createNmeaSource('s', checkOptions(nmeaOptions, raw, 's'), pair.a, context)
  const made: World = {
    source,
    timers,
    lost: [],
    heard: [],
    answer: () => '',
    says: async text => {
      await pair.b.write(Buffer.from(text, 'latin1'))
      await timers.advance(1)
    },
    damage: byte => pair.a.damage(byte),
  }
  pair.b.onData(chunk => {
    const question = Buffer.from(chunk).toString('latin1')
    made.heard.push(question)
    const answer = made.answer(question)
    if (answer !== '') void pair.b.write(Buffer.from(answer, 'latin1'))
  })
  await pair.b.open({ lost: () => undefined, degraded: () => undefined })
  await source.open({ lost: why => made.lost.push(why), degraded: () => undefined })
  return made
}

/** A read while the clock runs. */
async function reading(at: World): Promise<unknown> {
  const read = at.source.read()
  await at.timers.advance(1000)
  return read
}

test('named groups are channels; the newest line counts; a source silent too long is an error', async () => {
  const at = await world('line', {
    pattern: ['T=(?<temp>\\S+)', 'DOOR (?<door>\\w+)'],
    channels: {
      temp: { unit: 'Cel', scale: 0.1 },
      door: { id: 'gate', words: { OPEN: 1, SHUT: 0 }, status: [{ equals: 1, status: 'OPEN' }] },
    },
  })
  await at.says('T=200 H=55\r\nnoise\nT=-215 H=55\r\nDOOR OPEN\r\nT=1')
  assert.deepEqual(await at.source.read(), [
    ['s_temp', 'OK', -21.5, 'Cel'],
    ['gate', 'OPEN', 1, '1'],
  ])
  assert.deepEqual(at.source.counters.detail, {
    ...{ lines: 4, unmatched: 1, too_long: 0, bad_checksum: 0 },
    ...{ damaged_bytes: 0, damaged_lines: 0 },
  })
  await at.says('x\nT=oops\n')
  await at.timers.advance(9999)
  const raw = (await at.source.readRaw!())!
  assert.deepEqual(raw[0], {
    sensor_id: 's_temp',
    raw: 'T=oops',
    status: 'ERROR',
    value: null,
    unit: 'Cel',
    error: 'is no number: "oops"',
  })
  await at.timers.advance(10_000)
  assert.deepEqual(
    (await at.source.read()).map(row => row.slice(1, 3)),
    [['ERROR', null], ['ERROR', null]], // biome-ignore format: short
  )
})

test('a line with a damaged byte is dropped, wherever the byte is; a break between two lines belongs to neither', async () => {
  const at = await world('line', { pattern: 'T=(?<temp>-?\\d+)' })
  const temp = async (): Promise<unknown> => (await at.source.read())[0]![2]
  await at.says('T=1\n')
  for (const [before, after] of [
    ['T=', '2\n'],
    ['', 'T=2\n'],
    ['T=2', '\n'],
    ['T=2', 'T=3\n'], // the line end itself
  ] as const) {
    await at.says(before)
    at.damage(0x2d)
    await at.says(after)
    assert.equal(await temp(), 1, `${before}·${after}`)
  }
  at.damage(0)
  await at.says('T=4\nT=')
  assert.equal(await temp(), 4)
  at.damage(0)
  await at.says('5\n')
  assert.equal(await temp(), 4)
  await at.says('T=6\n')
  assert.equal(await temp(), 6)
  const { damaged_bytes, damaged_lines, lines } = at.source.counters.detail!
  assert.deepEqual([damaged_bytes, damaged_lines, lines], [6, 5, 3])
})

test('a sentence of NMEA with a damaged byte is dropped, also without a checksum', async () => {
  const at = await world('nmea', { read: ['depth'], require_checksum: false })
  await at.says('$SDDPT,1.5,0.0\r\n$SDDPT,2')
  at.damage(0x36)
  await at.says('.5,0.0\r\n')
  assert.equal((await at.source.read())[0]![2], 1.5)
  assert.equal(at.source.counters.detail?.damaged_lines, 1)
})

test('a request is sent before every reading; an old answer does not count', async () => {
  const at = await world('line', { pattern: '(?<level>\\d+)', poll: 'READ?\\r\\n', interval_ms: 5000 })
  at.answer = () => '42\r\n'
  assert.deepEqual(await reading(at), [['s', 'OK', 42, '1']])
  at.answer = () => ''
  assert.deepEqual(await reading(at), [['s', 'ERROR', null, '1']])
  at.answer = () => '43\r\n'
  assert.deepEqual(await reading(at), [['s', 'OK', 43, '1']])
  assert.equal(at.heard.join(''), 'READ?\r\nREAD?\r\nREAD?\r\n')
  const raw = at.source.readRaw!()
  await at.timers.advance(10)
  assert.equal((await raw)![0]!.raw, '43')
})

test('a test of a source with requests takes as long as one answer may take, not twice as long', async () => {
  const at = await world('line', { pattern: '(?<a>\\d+)', poll: '?', timeout_ms: 9000, interval_ms: 10_000 })
  const raw = at.source.readRaw!()
  await at.timers.advance(9000)
  await at.timers.advance(1)
  assert.deepEqual([(await raw)![0]!.error, at.timers.pending], ['was not heard yet', 0])
})

test('a request that cannot be written loses the link', async () => {
  const at = await world('line', { pattern: '(?<a>\\d)', poll: '?' })
  await at.source.close()
  await assert.rejects(at.source.read(), { code: 'LINK_DOWN' })
})

test('lines with a wrong checksum do not count', async () => {
  const at = await world('line', { pattern: '(?<a>\\d+)', checksum: 'xor' })
  await at.says('12*03\n99*03\n')
  assert.deepEqual(await at.source.read(), [['s', 'OK', 12, '1']])
  assert.equal(at.source.counters.detail!.bad_checksum, 1)
})

const RMC = '$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n'

test('a GNSS receiver: position in degrees, other values in the units of the table, checksums required', async () => {
  const at = await world('nmea', { read: ['lat', 'course', 'fix'] })
  await at.says(RMC)
  assert.deepEqual(await at.source.read(), [
    ['s_lat', 'OK', 48.1173, '{deg}'],
    ['s_course', 'OK', 84.4, 'deg'],
    ['s_fix', 'ERROR', null, '1'],
  ])
  await at.says(RMC.replace('4807', '4907').replace(/\*../, '') + RMC.replace('4807', '5007'))
  assert.equal((await at.source.read())[0]![2], 48.1173)
  assert.equal(at.source.counters.detail!.bad_checksum, 2)
  await at.says('$GPGGA,123519,,,,,0,00,,,M,,M,,*6B\r\n')
  assert.deepEqual(
    (await at.source.read()).map(row => row.slice(1, 3)),
    [['ERROR', null], ['OK', 84.4], ['OK', 0]], // biome-ignore format: short
  )
})

test('transducers are reported in the requested unit, or not at all', async () => {
  const at = await world('nmea', {
    read: [],
    require_checksum: false,
    transducers: { AIR: { unit: 'K' }, Barometer: { unit: 'hPa', id: 'air' }, PITCH: { unit: 'V' } },
  })
  await at.says('$YXXDR,C,19.5,C,AIR,P,1.02481,B,Barometer,A,-12,D,PITCH\n')
  const rows = await at.source.read()
  assert.deepEqual(rows.map(row => row[0]), ['s_AIR', 'air', 's_PITCH']) // biome-ignore format: short
  assert.ok(Math.abs(rows[0]![2]! - 292.65) < 1e-9 && Math.abs(rows[1]![2]! - 1024.81) < 1e-9)
  assert.equal((await at.source.readRaw!())![2]!.error, 'comes in deg, not in V')
})

test('nonsensical options are refused', () => {
  const context = { clock: new ManualClock(), logger: silentLogger }
  const refused = (
    driver: typeof lineSource,
    options: Record<string, unknown>,
    message: RegExp,
    code = 'CONFIG_INVALID',
  ) => assert.throws(() => driver.create('s', { port: '/dev/ttyX', ...options }, context), { code, message })
  refused(lineSource, {}, /pattern/)
  refused(lineSource, { pattern: '(' }, /pattern: is not a regular expression/)
  refused(lineSource, { pattern: '\\d+' }, /needs a named group/)
  refused(lineSource, { pattern: '^(?<a>(x+)+)$' }, /takes too long/)
  refused(lineSource, { pattern: '(?<a>1)', channels: { b: {} } }, /channels.b: pattern has no group of this name/)
  refused(lineSource, { pattern: '(?<a>1)', port: '' }, /port/)
  refused(lineSource, { pattern: '(?<a>1)', seperator: ';' }, /did you mean separator/, 'UNKNOWN_KEY')
  refused(nmeaSource, { read: ['latitude'] }, /read/)
  refused(nmeaSource, { read: [] }, /read names no channel/)
  refused(nmeaSource, { transducers: { A: { unit: 'wumms' } } }, /wumms is no unit/)
  const made = nmeaSource.create('gps', { port: '/dev/ttyX' }, context)
  assert.deepEqual([made.type, made.intervalMs], ['nmea', 1000])
})
