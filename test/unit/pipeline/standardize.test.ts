import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { OsError } from '../../../src/lib/errors'
import { Engine } from '../../../src/pipeline/compress'
import { fitsWire, Standardizer } from '../../../src/pipeline/standardize'
import { wireUnits } from '../../../src/units/wire'
import { makeFifo } from '../../lib/fifo'
import { ManualClock } from '../../lib/manual'

const folder = mkdtempSync(join(tmpdir(), 'os-node-standardize-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const config = (content: string): string => {
  const path = join(folder, `Config-${Math.random()}.json`)
  writeFileSync(path, content)
  return path
}
const clock = new ManualClock(1_710_000_000_123)
const make = (settings = {}): Standardizer => new Standardizer('Config.json', { clock, settings })
const refused = (s: Standardizer) => s.lastRejected.map(r => [r.index, r.code])
const throwsCode = (code: string, run: () => unknown): void => {
  assert.throws(run, (error: OsError) => error.code === code, code)
}

test('readings become a fact with canonical UCUM units, keys in the order v, u, id, s', () => {
  const fact = make().standardize(
    'HUB',
    'ONLINE',
    [
      ['T1', 'OK', 25, 'Cel'],
      ['P1', 'WARN', 1.01325, 'bar'],
      ['H1', 'OK', 40.5, '%'],
    ],
    { t: 1_710_000_000 },
  )
  assert.deepEqual(fact, {
    id: 'HUB',
    s: 'ONLINE',
    t: 1_710_000_000,
    s1_v: 298.15,
    s1_u: 'K',
    s1_id: 'T1',
    s1_s: 'OK',
    s2_v: 101325,
    s2_u: 'Pa',
    s2_id: 'P1',
    s2_s: 'WARN',
    s3_v: 40.5,
    s3_u: '%',
    s3_id: 'H1',
    s3_s: 'OK',
  })
  assert.deepEqual(Object.keys(fact).slice(3, 7), ['s1_v', 's1_u', 's1_id', 's1_s'])
})

test('a unit may be a list: the same dimension multiplies, another divides', () => {
  const s = make()
  const fact = s.standardize(
    'D',
    'ONLINE',
    [
      ['v', 'OK', 36, ['km', 'h']],
      ['a', 'OK', 2, ['m', 'm']],
    ],
    { t: 1 },
  )
  assert.deepEqual([fact.s1_v, fact.s1_u, fact.s2_v, fact.s2_u], [10, 'm/s', 2, 'm2'])
  assert.deepEqual(s.lastRejected, [])
})

test('without a time the fact is stamped in milliseconds; a supplied time is kept', () => {
  const s = make()
  assert.deepEqual(s.standardize('D', 'ONLINE', []), {
    id: 'D',
    s: 'ONLINE',
    t: 1_710_000_000,
    t_raw: 1_710_000_000_123,
  })
  assert.deepEqual(s.standardize('D', 'ONLINE', [], { t: 5 }), { id: 'D', s: 'ONLINE', t: 5 })
  assert.equal(s.standardizeToFact('D', 'ONLINE', []).tRaw, 1_710_000_000_123)
  assert.equal(s.standardizeToFact('D', 'ONLINE', [], { t: 1_710_000_000 }).tRaw, 1_710_000_000_000)
  assert.equal(s.standardizeToFact('D', 'ONLINE', [], { t: 1.5 }).tRaw, 1500)
  assert.equal(s.standardizeToFact('D', 'ONLINE', [], { t: 1_710_000_000_999 }).tRaw, 1_710_000_000_999)
  assert.equal(s.standardizeToFact('D', 'ONLINE', [], { t_raw: 1_710_000_000_777 }).tRaw, 1_710_000_000_777)
  assert.equal(s.standardize('D', 'ONLINE', [], { t_raw: 1_710_000_000_777 }).t, 1_710_000_000)
  for (const t of [-1, Number.NaN, Number.POSITIVE_INFINITY, '5', 2 ** 48, {}])
    throwsCode('BAD_TIME', () => s.standardize('D', 'ONLINE', [], { t: t as number }))
})

test('extra arguments are passed into the fact, but not over its own keys', () => {
  const fact = make().standardize('D', 'ONLINE', [], { t: 1, geohash: 'u33', url: 'https://x', note: 7 })
  assert.deepEqual(fact, { id: 'D', s: 'ONLINE', t: 1, geohash: 'u33', url: 'https://x', note: 7 })
  const record = make().standardizeToFact('D', 'ONLINE', [], { t: 1, geohash: 'u33', note: 7 }, 9)
  assert.deepEqual(record, { id: 'D', state: 'ONLINE', tRaw: 1000, aid: 9, sensors: [], extras: { geohash: 'u33' } })
  for (const key of ['id', 's', 's1_v'])
    throwsCode('BAD_READING', () => make().standardize('D', 'O', [], { [key]: 'x' }))
  throwsCode('BAD_ID', () => make().standardize('D', 'O', [], { geohash: 'a|b' }))
})

test('an invalid row is dropped with its reason, the others move up and are sent', () => {
  const s = make()
  const rows = [
    ['A', 'OK', 1, 'Pa'],
    ['B', 'OK', 1],
    ['C', 'OK', '1', 'Pa'],
    ['D', 'OK', null, 'Pa'],
    ['E', 'OK', 1, 'furlongs per fortnight'],
    ['F', 'OK', 1, ''],
    ['G', 'OK', 1, []],
    ['H', 'OK', 1, ['m', 3]],
    ['I.1', 'OK', 1, 'Pa'],
    ['', 'OK', 1, 'Pa'],
    ['&j', 'OK', 1, 'Pa'],
    ['K', 'OK.', 1, 'Pa'],
    ['L', 'OK', Number.NaN, 'Pa'],
    ['M', 'OK', Number.POSITIVE_INFINITY, 'Pa'],
    ['N', 'OK', 1e15, 'Pa'],
    ['O', 'OK', 1e-5, '%'],
    'text',
    ['P', 'OK', 3, 'kPa'],
  ]
  const fact = s.standardize('D', 'ONLINE', rows, { t: 1 })
  assert.deepEqual([fact.s1_id, fact.s2_id, fact.s2_v, fact.s3_id], ['A', 'P', 3000, undefined])
  assert.deepEqual(refused(s), [
    [1, 'BAD_READING'],
    [2, 'BAD_READING'],
    [3, 'BAD_READING'],
    [4, 'UNKNOWN_UNIT'],
    [5, 'UNKNOWN_UNIT'],
    [6, 'UNKNOWN_UNIT'],
    [7, 'UNKNOWN_UNIT'],
    [8, 'BAD_ID'],
    [9, 'BAD_ID'],
    [10, 'BAD_ID'],
    [11, 'BAD_ID'],
    [12, 'E_PRECISION'],
    [13, 'E_PRECISION'],
    [14, 'E_PRECISION'],
    [15, 'E_PRECISION'],
    [16, 'BAD_READING'],
  ])
  assert.equal(s.lastRejected[0]?.row, rows[1])
  for (const r of s.lastRejected) assert.ok(r.reason.length > 5)
  s.standardize('D', 'ONLINE', [])
  assert.deepEqual(s.lastRejected, [])
})

test('names with characters that delimit packets are refused in every position', () => {
  const s = make()
  for (const bad of ['a.b', 'a|b', 'a;b', 'a>b', 'a:b', 'a@b', '&a', '#a', 'a\u0001', 'a\nb', 'a\u007f', '\ud800']) {
    throwsCode('BAD_ID', () => s.standardize(bad, 'ONLINE', []))
    throwsCode('BAD_ID', () => s.standardize('D', bad, []))
    s.standardize('D', 'ONLINE', [[bad, 'OK', 1, 'm']])
    assert.deepEqual(refused(s), [[0, 'BAD_ID']], JSON.stringify(bad))
  }
  for (const bad of ['O.K', 'O|K', 'O@K', 'O\u0001K', '\ud800', 7, null]) {
    s.standardize('D', 'ONLINE', [['a', bad, 1, 'm']])
    assert.deepEqual(refused(s), [[0, 'BAD_ID']], JSON.stringify(bad))
  }
  s.standardize('D', 'ONLINE', [['a', 'FAULT:3>2', 1, 'm']])
  assert.deepEqual(s.lastRejected, [])
  throwsCode('BAD_ID', () => s.standardize('D', '', []))
  throwsCode('BAD_ID', () => s.standardize('', 'ONLINE', []))
  throwsCode('BAD_ID', () => s.standardize(5 as never, 'ONLINE', []))
  throwsCode('BAD_READING', () => s.standardize('D', 'ONLINE', 'no' as never))
  s.standardize('Küche 1/2', 'ONLINE', [['温度', 'OK', 1, 'm']])
  assert.deepEqual(s.lastRejected, [])
})

test('a failed sensor keeps its slot in the record form only', () => {
  const s = make()
  const rows = [
    ['a', 'ERROR', null, 'Cel'],
    ['b', 'OK', null, 'Cel'],
    ['c', 'OK', 1, 'Cel'],
  ] as const
  const fact = s.standardizeToFact('D', 'ONLINE', rows, { t: 1 })
  assert.deepEqual(fact.sensors, [
    { id: 'a', status: 'ERROR', unit: 'K', value: null },
    { id: 'c', status: 'OK', unit: 'K', value: 274.15 },
  ])
  assert.deepEqual(refused(s), [[1, 'BAD_READING']])
  s.standardize('D', 'ONLINE', rows)
  assert.deepEqual(refused(s), [
    [0, 'BAD_READING'],
    [1, 'BAD_READING'],
  ])
})

test('small values are sent where a prefixed unit preserves them, and are refused where none does', () => {
  for (const [value, unit, precision, fits] of [
    [0, 'A', 0, true],
    [0.05, 'A', 4, true],
    [0.0512345, 'A', 4, true],
    [1.2e-8, 'kg/m3', 4, true],
    [1.5e-12, 'F', 4, true],
    [0.00012, '%', 4, false],
    [0.0001, '%', 4, true],
    [0.0512345, '%', 4, true],
    [0.00512345, '%', 4, false],
    [0.00512345, '%', 6, true],
    [1e-9, '%', 10, false],
    [0.4, '%', 0, false],
    [-0.05, '1', 4, true],
    [9.2e14, 'Pa', 4, true],
    [9.3e14, 'Pa', 4, false],
    [-9.3e14, 'Pa', 4, false],
    [9.3e14, 'Pa', 3, true],
  ] as const)
    assert.equal(fitsWire(value, unit, precision), fits, `${value} ${unit} at ${precision}`)
  const s = make()
  s.standardize('D', 'O', [['i', 'OK', 3.3, 'uA']])
  assert.deepEqual(s.lastRejected, [])
})

test('the largest value and the largest time of the wire are accepted, the next are refused', () => {
  const most = 2 ** 63
  for (const unit_dialect of ['ucum', 'attribute']) {
    const s = make({ unit_dialect, precision: 0 })
    for (const sign of [1, -1]) {
      const fact = s.standardizeToFact('D', 'O', [['x', 'OK', sign * (most - 1024), 'm']])
      assert.equal(fact.sensors[0]?.value, sign * (most - 1024), unit_dialect)
      assert.deepEqual(s.lastRejected, [])
      s.standardizeToFact('D', 'O', [['x', 'OK', sign * most, 'm']])
      assert.deepEqual(refused(s), [[0, 'E_PRECISION']], unit_dialect)
    }
  }
  const s = make()
  for (const [key, least, last, over] of [
    ['t_raw', 0, 2 ** 48 - 1, 2 ** 48],
    ['t', 0, 2 ** 48 - 1, 2 ** 48],
  ] as const) {
    assert.equal(s.standardizeToFact('D', 'O', [], { [key]: least }).tRaw, 0)
    assert.equal(s.standardizeToFact('D', 'O', [], { [key]: last }).tRaw, 2 ** 48 - 1)
    for (const t of [over, -1, Number.NaN, '5'])
      throwsCode('BAD_TIME', () => s.standardizeToFact('D', 'O', [], { [key]: t as number }))
  }
})

test('values keep their full double precision', () => {
  const fact = make({ precision: 1 }).standardize('D', 'O', [['x', 'OK', 1.23456789012, 'm']])
  assert.equal(fact.s1_v, 1.23456789012)
})

test('settings come from the file; a missing file means defaults', t => {
  assert.equal(new Standardizer(join(folder, 'none.json')).precision, 4)
  assert.equal(new Standardizer(config('{"engine_settings":{"precision":7}}')).precision, 7)
  assert.equal(new Standardizer(config('\uFEFF{"other":1}')).precision, 4)
  throwsCode('CONFIG_SYNTAX', () => new Standardizer(config('{"engine_settings":')))
  throwsCode('CONFIG_INVALID', () => new Standardizer(folder))
  const fifo = makeFifo(join(folder, 'fifo'))
  t.after(fifo.end)
  throwsCode('CONFIG_INVALID', () => new Standardizer(join(folder, 'fifo')))
  assert.equal(fifo.waitedFor(), false)
  for (const precision of [-1, 11, 1.5, '4', null])
    throwsCode('CONFIG_INVALID', () => new Standardizer(config(JSON.stringify({ engine_settings: { precision } }))))
  const attribute = (switches: object): unknown =>
    new Standardizer(
      config(JSON.stringify({ engine_settings: { unit_dialect: 'attribute' }, ...switches })),
    ).standardize('D', 'ONLINE', [['T1', 'OK', 1, 'Cel']]).s1_id
  assert.equal(attribute({}), 'T1')
  assert.equal(attribute({ payload_switches: { DeviceId: true } }), 'T1')
  assert.equal(attribute({ payload_switches: { SensorId: false } }), undefined)
  for (const unit_dialect of ['x', 3])
    throwsCode('CONFIG_INVALID', () => new Standardizer(config(JSON.stringify({ engine_settings: { unit_dialect } }))))
})

test('an accepted value is decoded from the compressed text in the same unit, within 1e-3', () => {
  const s = make()
  const engine = new Engine(null, { unitDialect: 'ucum', units: wireUnits() })
  const units =
    'Cel K [degF] Pa hPa psi % V mV uA pF um A A/m A2 C s Hz rpm 1 1/m kWh dBm B m/s km/h m3/h ug/m3 By lx {x} bar'
  for (const unit of units.split(' '))
    for (const value of [0, 1, -3.7, 0.25, 12.5, 98.6, 1234.5, 70000]) {
      const fact = s.standardize('D', 'ONLINE', [['a', 'OK', value, unit]], { t: 1_710_000_000 })
      if (s.lastRejected.length > 0) {
        assert.deepEqual(refused(s), [[0, 'E_PRECISION']], `${value} ${unit}`)
        continue
      }
      const back = engine.decompress(engine.compress(fact))
      const [sent, got] = [fact.s1_v as number, back.s1_v as number]
      assert.equal(back.s1_u, fact.s1_u, unit)
      assert.ok(Math.abs(got - sent) <= Math.abs(sent) * 1e-3, `${value} ${unit}: ${sent} came back as ${got}`)
    }
})
