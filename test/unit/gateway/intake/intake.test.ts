// The small parts of intake, uplink and receive, each alone.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Deadband } from '../../../../src/gateway/intake/deadband'
import { Intake } from '../../../../src/gateway/intake/intake'
import { contentHash } from '../../../../src/gateway/receive/content-hash'
import type { SourceReading } from '../../../../src/links/contracts'
import type { Fact } from '../../../../src/pipeline/fact'
import { Standardizer } from '../../../../src/pipeline/standardize'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { NodeClock } from '../../../../src/protocol/time'
import { wireUnits } from '../../../../src/units/wire'
import { ManualClock } from '../../../lib/manual'

describe('a deadband', () => {
  const rows = (value: number | null, status = 'OK'): SourceReading[] => [
    ['T1', status, value, 'Cel'],
    ['T2', 'OK', 5, 'Cel'],
  ]

  test('a deadband of zero passes every group', () => {
    const band = new Deadband(0)
    assert.equal(band.passes(rows(1), 0), true)
    assert.equal(band.passes(rows(1), 1), true)
  })

  test('a group passes when a value moved enough since the last record, a status changed, or a minute has passed', () => {
    const band = new Deadband(0.5)
    assert.equal(band.passes(rows(20), 0), true)
    assert.equal(band.passes(rows(20.3), 1000), false)
    assert.equal(band.passes(rows(20.5), 2000), true)
    assert.equal(band.passes(rows(20.1), 3000), false, 'compared with the last record')
    assert.equal(band.passes(rows(null, 'ERROR'), 4000), true)
    assert.equal(band.passes(rows(null, 'ERROR'), 5000), false)
    assert.equal(band.passes(rows(20.5), 6000), true)
    assert.equal(band.passes(rows(20.5), 65_999), false)
    assert.equal(band.passes(rows(20.5), 66_000), true)
  })

  test('each sensor may have its own deadband; a sensor without one always passes', () => {
    const band = new Deadband({ T1: 10, T2: 10 })
    assert.equal(band.passes(rows(20), 0), true)
    assert.equal(band.passes(rows(25), 1), false)
    assert.equal(new Deadband({ T1: 10 }).passes(rows(20), 0), true)
    const part = new Deadband({ T1: 10 })
    part.passes(rows(20), 0)
    assert.equal(part.passes(rows(20), 1), true)
  })
})

const pickers = new WirePickers({ ...wireUnits() }, 4)

test('the content hash of a fact is stable, and any change changes it', () => {
  const fact: Fact = {
    id: 'D',
    state: 'ONLINE',
    tRaw: 1,
    aid: 1,
    sensors: [
      { id: 'a', status: 'OK', unit: 'K', value: 1 },
      { id: 'b', status: 'OK', unit: 'Pa', value: null },
    ],
  }
  const hash = contentHash(fact, pickers)
  assert.equal(contentHash(structuredClone(fact), pickers), hash)
  const change = (edit: (copy: Fact) => void): number => {
    const copy = structuredClone(fact)
    edit(copy)
    return contentHash(copy, pickers)
  }
  const others = [
    change(copy => (copy.id = 'E')),
    change(copy => (copy.state = 'OFFLINE')),
    change(copy => (copy.sensors[0]!.id = 'c')),
    change(copy => (copy.sensors[0]!.status = 'WARN')),
    change(copy => (copy.sensors[0]!.unit = 'm')),
    change(copy => (copy.sensors[0]!.value = 1.0001)),
    change(copy => (copy.sensors[1]!.value = 0)),
    change(copy => copy.sensors.pop()),
    change(copy => copy.sensors.reverse()),
    change(copy => (copy.extras = { msg: 'x' })),
    change(copy => (copy.extras = { url: 'x' })),
  ]
  assert.equal(new Set([hash, ...others]).size, others.length + 1)
})

test('values are hashed as rounded on the wire, so the copy of another gateway has the same hash', () => {
  const hash = (value: number, unit = 'K'): number =>
    contentHash(
      { id: 'D', state: 'ONLINE', tRaw: 1, aid: 1, sensors: [{ id: 'a', status: 'OK', unit, value }] },
      pickers,
    )
  assert.equal(hash(269.4833333333), hash(269.4833))
  assert.notEqual(hash(269.4833), hash(269.4834))
  assert.notEqual(hash(1.5e-6, 'A'), hash(1.6e-6, 'A'), 'small values keep their digits')
  assert.notEqual(hash(1.5e-6, 'A'), hash(1.5e-3, 'A'))
  const all = new Set(Array.from({ length: 20_000 }, (_, k) => hash(k / 10)))
  assert.ok(all.size > 19_990, `${all.size} of 20000`)
})

describe('the intake', () => {
  function made(limit = 1200) {
    const clock = new ManualClock()
    const written: Fact[] = []
    const intake = new Intake({
      log: {
        appendFact: (fact: Fact) => {
          written.push(structuredClone(fact))
          return written.length
        },
      } as never,
      standardizer: new Standardizer('', { clock, settings: { precision: 4 } }),
      time: new NodeClock(clock),
      identity: { deviceId: 'GW', assignedId: 5 } as never,
      maxPacket: () => limit,
      sizeOf: fact => 20 + 30 * fact.sensors.length,
      onFact: () => undefined,
    })
    return { intake, written, clock }
  }

  test('times of a device strictly increase, also when the clock stops or goes back', () => {
    const { intake, written, clock } = made()
    for (const step of [0, 0, -5000, 10]) {
      clock.wallMs += step
      intake.submit([['T1', 'OK', 1, 'Cel']])
    }
    const times = written.map(fact => fact.tRaw)
    assert.equal(new Set(times).size, 4)
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    )
  })

  test('a supplied time is kept; one before any plausible clock is replaced', () => {
    const { intake, written, clock } = made()
    for (const t of [1_600_000_000, 1_600_000_000_123, 0, 999_999]) intake.submit([['T1', 'OK', 1, 'Cel']], { t })
    assert.deepEqual(
      written.map(fact => fact.tRaw),
      [1_600_000_000_000, 1_600_000_000_123, clock.wallMs, clock.wallMs + 1],
    )
    assert.throws(() => intake.submit([['T1', 'OK', 1, 'Cel']], { t: -1 }), { code: 'BAD_TIME' })
  })

  test('invalid rows are named and counted, the others are kept; if all are invalid, nothing is kept', () => {
    const { intake, written } = made()
    const { rejected, seqs } = intake.submit([
      ['T1', 'OK', 20, 'Cel'],
      ['T2', 'OK', 1, 'bogus'],
      ['T3', 'ERROR', null, 'Cel'],
    ])
    assert.deepEqual(seqs, [1])
    assert.deepEqual(
      rejected.map(row => [row.index, row.code]),
      [[1, 'UNKNOWN_UNIT']],
    )
    assert.deepEqual(
      written[0]!.sensors.map(sensor => [sensor.id, sensor.value]),
      [
        ['T1', 293.15],
        ['T3', null],
      ],
    )
    assert.throws(() => intake.submit([['T2', 'OK', 1, 'bogus']]), { code: 'ALL_READINGS_REFUSED' })
    assert.equal(written.length, 1)
    assert.equal(intake.counters.rejected_rows, 2)
  })

  test('a group that does not fit a packet is split in order; a single sensor that cannot fit is refused', () => {
    const { intake, written } = made(80)
    const rows = Array.from({ length: 5 }, (_, k): SourceReading => [`S${k}`, 'OK', k, 'm'])
    intake.submit(rows)
    assert.deepEqual(
      written.map(fact => fact.sensors.map(sensor => sensor.id)),
      [['S0', 'S1'], ['S2', 'S3'], ['S4']],
    )
    assert.equal(new Set(written.map(fact => fact.tRaw)).size, 3)
    assert.throws(() => made(40).intake.submit(rows), { code: 'PACKET_TOO_LARGE' })
  })
})
