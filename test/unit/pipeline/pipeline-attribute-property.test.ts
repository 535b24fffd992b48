// Dialect `attribute` over the wire: what is sent in it is decoded as the standardized value in the units that the
// reference accepts, and the plans of the core write the bytes of standardize, compress and fuse. Seeded.
// Long: 200,000 facts
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Engine } from '../../../src/pipeline/compress'
import type { Core } from '../../../src/pipeline/core'
import type { Reading } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { Receiver } from '../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { Standardizer } from '../../../src/pipeline/standardize'
import { attributeUnits } from '../../../src/units/attribute'
import { roundHalfEven } from '../../../src/wire/base62'
import { ManualClock } from '../../lib/manual'
import { rounds } from '../../lib/random'
import { ATTRIBUTE_KEYS } from '../units/attribute-keys'
import { bothCores } from './both-cores'
import { random } from './units'

const T0 = 1_710_000_000_000
const clock = new ManualClock()
const PREFIXED = 'km mm uPa kPa MHz mA kV GW daW mg kg ug KiBy Mibit ms ns kcal mol mmol hPa m2 km2 s3 1/s 1/min'.split(
  ' ',
)
const UNITS = [...ATTRIBUTE_KEYS, ...PREFIXED]
const LISTS = [
  ['km', 'h'],
  ['m', 's', 's'],
  ['m', 'm'],
  ['g', 'ms', 'kV'],
  ['Pa', 'Cel'],
]
const STATES = ['OK', 'WARN', 'ERROR', 'UNKNOWN', 'Idle', '']

const core = (precision: number): Core =>
  bothCores({ resolver: attributeUnits, unitDialect: 'attribute', clock, precision })
const standardizer = (precision: number): Standardizer =>
  new Standardizer('', { clock, settings: { precision, unit_dialect: 'attribute' } })

function value(next: () => number): number {
  const kind = next()
  const sign = next() < 0.5 ? -1 : 1
  if (kind < 0.3) return Math.round(next() * 2000 - 1000)
  if (kind < 0.5) return (sign * Math.round(next() * 1e6)) / 1e4 + 5e-5 * (next() < 0.5 ? 1 : 0)
  if (kind < 0.6) return (sign * Math.round(next() * 4096)) / 4096
  return sign * next() * 10 ** Math.floor(next() * 14 - 6)
}

test('plans give the bytes of standardize, compress and fuse, for numbers, text and lists of units', () => {
  const next = random(31)
  const pick = <T>(list: readonly T[]): T => list[(next() * list.length) | 0]!
  for (const precision of [4, 0, 2, 8]) {
    const fast = core(precision)
    const slow = new Fusion(null, { unitDialect: 'attribute', clock, precision, localId: 77 })
    const units = standardizer(precision)
    for (let k = 0; k < 1500; k++) {
      const rows = Array.from({ length: 1 + ((next() * 4) | 0) }, (_, i): Reading => {
        const v = value(next)
        const odd = next()
        const given = odd < 0.05 ? String(v) : odd < 0.08 ? true : v
        return [`s${i}`, pick(STATES), given as number, next() < 0.1 ? pick(LISTS) : pick(UNITS)]
      })
      const strategy = next() < 0.1 ? 'FULL' : 'DIFF'
      const fact = units.standardize('D', 'ONLINE', rows, { t_raw: T0 + k })
      assert.deepEqual(units.lastRejected, [])
      const fits = rows.every((_, i) => Math.abs(fact[`s${i + 1}_v`] as number) * 10 ** precision < 2 ** 63)
      if (!fits) continue
      const want = slow.runEngine(`77;${slow.engine.compress(fact)}`, strategy)
      const got = fast.transmitFast(rows, 'D', 'ONLINE', T0 + k, 77, strategy)
      assert.equal(got.toString('hex'), want.toString('hex'), JSON.stringify(rows))
    }
  }
})

/** A name that the wire restores; compound units with factors do not survive. */
const survives = (unit: string): boolean => !/\d/.test(unit)

test('random facts are decoded as they were standardized', () => {
  const next = random(7)
  const pick = <T>(list: readonly T[]): T => list[(next() * list.length) | 0]!
  const sender = core(4)
  const units = standardizer(4)
  const receiver = new Receiver({ dialect: 'attribute', clock })
  const engine = new Engine(null, { unitDialect: 'attribute' })
  const shapes = Array.from({ length: 40 }, (_, k) =>
    Array.from({ length: 1 + (k % 4) }, (_, i): Reading => [`s${i}`, pick(STATES), 0, pick(UNITS)]),
  )
  let facts = 0
  for (let k = 0; facts < rounds(50_000, 200_000); k++) {
    const shape = pick(shapes)
    const rows = shape.map(([id, status, , unit]): Reading => [id, status, value(next), unit])
    const t = T0 + k
    const sent = units.standardizeToFact('D', 'ONLINE', rows, { t_raw: t }, 9)
    if (sent.sensors.length === 0) continue
    const packet = sender.transmitFast(rows, 'D', 'ONLINE', t, 9, 'DIFF')
    assert.deepEqual(
      units.lastRejected.map(row => row.index),
      sender.lastRejected.map(row => row.index),
    )
    const received = receiver.receive(packet)
    assert.ok(received.kind === 'fact')
    const { fact } = received
    assert.equal(fact.tRaw, t)
    assert.equal(fact.sensors.length, sent.sensors.length)
    for (let i = 0; i < fact.sensors.length; i++) {
      const [got, want] = [fact.sensors[i]!, sent.sensors[i]!]
      if (got.value !== want.value && got.value !== onWire(want.value!))
        assert.fail(`${want.value} ${want.unit} came back as ${got.value}`)
      if (survives(want.unit) && got.unit !== want.unit) assert.fail(`${want.unit} came back as ${got.unit}`)
    }
    facts++
    if (k % 5000 === 0) {
      const { __packet_meta__: _, ...dict } = new Fusion(null, { unitDialect: 'attribute', clock }).decompress(
        sender.transmitFast(rows, 'D', 'ONLINE', t, 9, 'FULL'),
      )
      const text = engine.compress(dict, false)
      assert.equal(engine.compress(engine.decompress(text), false), text, 'what was decoded is written the same way')
    }
  }
})

/** What the product of value and power of ten leaves of a large value. */
const onWire = (value: number): number => roundHalfEven(value * 1e4) / 1e4

test('an uplink and its receiver use the dialect too: the fact of the log arrives, failed sensors without a value', () => {
  const units = standardizer(4)
  const encoder = new UplinkEncoder({ aid: 5, dialect: 'attribute', clock })
  const receiver = new Receiver({ dialect: 'attribute', clock })
  const next = random(3)
  for (let k = 0; k < 500; k++) {
    const rows = [
      ['T1', 'OK', value(next), 'Cel'],
      ['P1', 'WARN', value(next), 'kPa'],
      ['V1', 'OK', value(next), ['km', 'h']],
      ['F1', 'ERROR', null, 'A'],
    ]
    const fact = units.standardizeToFact('GW', 'ONLINE', rows, { t_raw: T0 + k }, 5)
    const received = receiver.receive(encoder.encode(fact).bytes)
    assert.ok(received.kind === 'fact')
    assert.deepEqual(
      received.fact.sensors.map(s => s.unit),
      ['temperature', 'pressure', 'length/3600datime', 'electric current'],
      'the factor of a compound unit does not survive, in the reference neither',
    )
    assert.deepEqual(
      received.fact.sensors.map(s => s.value),
      fact.sensors.map(s => s.value),
    )
  }
})

test('without the switch SensorId no field of a sensor is sent, as in the reference', () => {
  const units = new Standardizer('', { clock, settings: { unit_dialect: 'attribute', payload_switches: {} } })
  const fact = units.standardize('D', 'ONLINE', [['T1', 'OK', 1, 'Cel']], { t: 1_710_000_000 })
  assert.deepEqual(fact, { id: 'D', s: 'ONLINE', t: 1_710_000_000, s1_v: 274.15, s1_u: 'temperature', s1_s: 'OK' })
  const off = bothCores({ resolver: attributeUnits, unitDialect: 'attribute', clock, sensorIds: false })
  const engine = new Engine(null, { unitDialect: 'attribute' })
  const fusion = new Fusion(null, { unitDialect: 'attribute', clock, localId: 3 })
  const rows: Reading[] = [['T1', 'OK', 1, 'Cel']]
  assert.deepEqual(
    off.transmitFast(rows, 'D', 'ONLINE', T0, 3, 'FULL'),
    fusion.runEngine(`3;${engine.compress(fact)}`, 'FULL'),
  )
})

test("rows are dropped with their reason, and a value beyond the wire's range is refused when it is sent", () => {
  const units = standardizer(4)
  const rows = [
    ['a', 'OK', 1, 'm/s'],
    ['b', 'OK', 1],
    ['c', 'OK', 'x', 'm'],
    ['d', 'OK', 1, []],
    ['e', 'OK', 1e30, 'm'],
  ]
  const fact = units.standardize('a.b', 'x|y', rows, { t: 1 })
  assert.deepEqual(fact, { id: 'a.b', s: 'x|y', t: 1, s1_v: 1e30, s1_u: 'length', s1_id: 'e', s1_s: 'OK' })
  assert.deepEqual(
    units.lastRejected.map(row => `${row.index} ${row.code}`),
    ['0 UNKNOWN_UNIT', '1 BAD_READING', '2 BAD_READING', '3 UNKNOWN_UNIT'],
  )
  assert.equal(units.standardizeToFact('D', 'ONLINE', rows).sensors.length, 0)
  assert.equal(units.lastRejected.at(-1)!.code, 'E_PRECISION')
  assert.throws(() => units.standardizeToFact('a.b', 'ONLINE', []), { code: 'BAD_ID' })
  assert.throws(() => core(4).transmitFast(rows as never, 'D', 'ONLINE', T0, 3, 'FULL'), {
    code: 'ALL_READINGS_REFUSED',
  })
})
