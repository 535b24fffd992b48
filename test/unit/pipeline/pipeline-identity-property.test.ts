// Encode and decode are inverse in dialect `ucum`: a million random facts in all, over both paths (the uplink's encoder to the
// gateway's receiver, the core to fusion), precision 0 to 10. Texts and units are decoded as sent, values exactly where they
// are on the fixed-point grid and within the bound of decision 0006 elsewhere; refused values could not have been preserved.
// Long: the million; `npm test` runs a tenth of it
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contentHash } from '../../../src/gateway/receive/content-hash'
import { OsError } from '../../../src/lib/errors'
import type { Core } from '../../../src/pipeline/core'
import type { Fact, Reading, SensorFact } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { Receiver } from '../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { resolve, resolveList } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ManualClock } from '../../lib/manual'
import { dictToFact } from '../../lib/packets'
import { rounds } from '../../lib/random'
import { canonicals } from '../units/canonicals'
import { BothEncoders, bothCores } from './both-cores'
import { random } from './units'

const T0 = 1_710_000_000_000
const UPLINK_FACTS = rounds(30_000, 650_000)
const CORE_FACTS = rounds(15_000, 300_000)
const TEXT_FACTS = rounds(5_000, 50_000)
const units = wireUnits()
const clock = new ManualClock(T0)

const next = random(20260)
const below = (n: number): number => Math.floor(next() * n)
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!

const UNITS = [...canonicals]
const COMMON = [
  'K',
  'Pa',
  'A',
  'V',
  '%',
  'm/s',
  'kg/m3',
  'Hz',
  '1',
  'C',
  'A/m',
  '[ppm]',
  '{rpm}',
  'dBm',
  'lx',
  'Ohm',
  'F',
]
const STATES = ['ONLINE', 'OFFLINE', 'OK', 'UNKNOWN', 'ERROR', 'WARN', 'U', 'N/A']
const LETTERS = 'abcXYZ019_- /\\%+~\u00e9\u4e2d\u{1f321}'
const letters = Array.from(LETTERS)
const word = (most: number): string => Array.from({ length: 1 + below(most) }, () => pick(letters)).join('')
/** statuses may contain characters that ids may not; they are decoded in upper case */
const status = (): string => (next() < 0.9 ? pick(STATES) : `S${word(4).toUpperCase()}${pick(['', ':', '>', ';'])}`)
const name = (most: number): string => `n${word(most)}`

/** A number on the grid, of any magnitude, and numbers of all magnitudes off it. */
function value(pow: number): number {
  const kind = next()
  if (kind < 0.1) return 0
  const sign = next() < 0.5 ? -1 : 1
  if (kind < 0.75) return (sign * Math.floor(2 ** (next() * 50))) / Math.min(pow, 1e8)
  return sign * next() * 10 ** (next() * 36 - 18)
}

function extras(): Fact['extras'] {
  if (next() < 0.8) return undefined
  const made: Record<string, string> = {}
  if (next() < 0.5) made.geohash = `u${below(1e6).toString(36)}`
  if (next() < 0.5) made.url = `https://${word(20)}?a=1|b>c:d`
  if (next() < 0.5) made.msg = `${word(20)}|@;>:.#&\n`
  return Object.keys(made).length > 0 ? made : undefined
}

interface Tally {
  full: number
  diff: number
  heart: number
  exact: number
  scaled: number
  refused: number
}
const tally = (): Tally => ({ full: 0, diff: 0, heart: 0, exact: 0, scaled: 0, refused: 0 })
const count = (told: Tally, cmd: number): void => {
  if (cmd === 0x3f) told.full++
  else if (cmd === 0xaa) told.diff++
  else told.heart++
}

/** The decoded value for the sent one, at this precision. */
function compare(sent: number | null, got: number | null, pow: number, what: string, told: Tally): void {
  if (sent === null) {
    assert.equal(got, null, what)
    return
  }
  const grid = Math.min(pow, 1e8)
  const steps = Math.abs(sent) * grid
  // from 550 steps on it is sent in its own unit; where its steps are whole, nothing may be lost
  if (sent === 0 || (steps >= 551 && steps < 2 ** 50 && Math.round(steps) / grid === Math.abs(sent))) {
    told.exact++
    if (got !== sent) assert.equal(got, sent, what)
  } else {
    told.scaled++
    if (!(Math.abs(got! - sent) <= 1e-3 * Math.abs(sent))) assert.fail(`${what}: ${got} for ${sent}`)
  }
}

/** Whether no unit of the wire preserves this value at this precision. */
function cannotGo(unit: string, x: number, precision: number): boolean {
  const scales = [1, ...units.prefixed(unit).map(p => p.scale)]
  const grid = 10 ** Math.min(precision, 8)
  return scales.every(scale => {
    const steps = (Math.abs(x) / scale) * grid
    // half a step is a thousandth of 500 steps, 550 at precision 9; fewer could be on the grid by chance, which is not checked
    // here
    return (Math.abs(x) / scale) * 10 ** precision >= 2 ** 62.99 || steps < 550.001
  })
}

// ---- the path of the uplink

interface Device {
  encoder: UplinkEncoder
  receiver: Receiver
  precision: number
  sticky: boolean
  fact: Fact
  left: number
}

function freshShape(device: Device): void {
  const ids = new Set(Array.from({ length: 1 + below(next() < 0.9 ? 3 : 12) }, () => name(6)))
  const own = extras()
  device.fact = {
    id: name(8),
    state: next() < 0.9 ? pick(STATES) : `X${word(3).toUpperCase()}`,
    tRaw: device.fact.tRaw,
    aid: device.fact.aid,
    sensors: [...ids].map(id => ({ id, status: status(), unit: next() < 0.5 ? pick(COMMON) : pick(UNITS), value: 1 })),
    ...(own && { extras: own }),
  }
  device.left = 10 + below(100)
}

function change(sensor: SensorFact, pow: number): void {
  if (next() < 0.03) sensor.status = status()
  if (next() < 0.01) sensor.unit = pick(COMMON)
  sensor.value = next() < 0.04 ? null : value(pow)
  if (sensor.value === null) sensor.status = 'ERROR'
}

function sameFact(sent: Fact, got: Fact, pow: number, told: Tally): void {
  assert.equal(got.id, sent.id)
  assert.equal(got.state, sent.state)
  assert.equal(got.tRaw, sent.tRaw)
  assert.equal(got.aid, sent.aid)
  assert.equal(got.sensors.length, sent.sensors.length)
  if (sent.extras || got.extras) assert.deepEqual(got.extras, sent.extras)
  for (let i = 0; i < sent.sensors.length; i++) {
    const a = sent.sensors[i]!
    const b = got.sensors[i]!
    if (a.id !== b.id || a.unit !== b.unit || a.status !== b.status) assert.deepEqual(b, { ...a, value: b.value })
    compare(a.value, b.value, pow, `${a.unit} at precision ${Math.log10(pow)}`, told)
  }
}

test('facts are preserved from uplink encoder to receiver', t => {
  const told = tally()
  const devices = Array.from({ length: 44 }, (_, k): Device => {
    const precision = k % 11
    const sticky = k % 2 === 0
    const device: Device = {
      encoder: new BothEncoders({
        aid: k + 1,
        units,
        precision,
        clock,
        diffBase: sticky ? 'sticky' : 'last',
        fullEvery: 40,
      }),
      receiver: new Receiver({ units, precision, clock }),
      precision,
      sticky,
      fact: { id: '', state: '', tRaw: below(2 ** 41) + 1e11, aid: k + 1, sensors: [] },
      left: 0,
    }
    freshShape(device)
    return device
  })
  let again = 0
  let wavering = 0
  for (let k = 0; k < UPLINK_FACTS; k++) {
    const device = devices[k % devices.length]!
    if (device.left-- === 0) freshShape(device)
    const { fact, encoder, receiver, precision } = device
    const pow = 10 ** precision
    fact.tRaw += 1 + below(5000)
    if (next() < 0.7) for (const sensor of fact.sensors) if (next() < 0.5) change(sensor, pow)
    let frame: ReturnType<UplinkEncoder['encode']>
    for (;;) {
      try {
        frame = encoder.encode(fact)
        break
      } catch (thrown) {
        assert.ok(thrown instanceof OsError && thrown.code === 'E_PRECISION', String(thrown))
        const bad = fact.sensors.find(sensor => sensor.id === thrown.details.sensor)!
        assert.ok(cannotGo(bad.unit, bad.value!, precision), thrown.message)
        told.refused++
        bad.value = value(pow) === 0 ? 1 : 1000
      }
    }
    count(told, frame.cmd)
    const got = receiver.receive(frame.bytes)
    if (got.kind === 'error') assert.fail(got.message)
    sameFact(fact, got.fact, pow, told)
    if (device.sticky && next() < 0.5) encoder.acknowledged(frame.tid, frame.ordinal)
    // a decoded fact stays equal when it is forwarded: duplicates are recognized after any number of hops. Only numbers
    // beyond 2^51 steps may change in their last bit.
    if (k % 16 === 0) {
      const hop = new UplinkEncoder({ aid: fact.aid, units, precision, clock, engine: encoder.engine })
      const onward = new Receiver({ engine: encoder.engine, clock }).receive(hop.encode(got.fact).bytes)
      assert.ok(onward.kind === 'fact')
      let exact = true
      for (const [i, { value: x, unit }] of got.fact.sensors.entries()) {
        const y = onward.fact.sensors[i]!.value
        if (y === x) continue
        exact = false
        const steps = Math.abs(x!) * Math.min(pow, 1e8)
        const why = `${fact.sensors[i]!.value} ${unit} at precision ${precision}: ${x}, then ${y}`
        assert.ok((steps < 551 || steps >= 2 ** 51) && Math.abs(y! - x!) <= 4e-16 * Math.abs(x!), why)
      }
      const { pickers } = encoder.engine
      if (exact) assert.equal(contentHash(onward.fact, pickers), contentHash(got.fact, pickers))
      else wavering++
      again++
    }
  }
  t.diagnostic(`${UPLINK_FACTS} facts, ${again} sent on, ${wavering} wavering: ${JSON.stringify(told)}`)
  const least = { full: 0.023, diff: 0.15, heart: 0.03, exact: 0.46, scaled: 0.07, refused: 0.0015 }
  for (const [kind, share] of Object.entries(least) as [keyof typeof least, number][])
    assert.ok(told[kind] > share * UPLINK_FACTS, JSON.stringify(told))
})

// ---- the path of the core

const GIVEN = [
  'Cel',
  '[degF]',
  'kPa',
  'mA',
  'km/h',
  'psi',
  'rpm',
  'percent',
  '°C',
  'g/L',
  'kWh',
  'W/(m2.K)',
  '{count}',
  'dBm',
  'bar',
  'mbar',
]
  .concat(['uA', 'mmHg', 'L/min', '[in_i]', 'Bd', 'By', '10*3/uL', 'nmol/L', 'Cel/h', 'm-1', '/min', 'A2', 'mol/m3'])
  .concat(COMMON)

test('facts are preserved from core to fusion', t => {
  const told = tally()
  const resolver = { resolve, resolveList }
  const nodes = Array.from({ length: 22 }, (_, k) => {
    const precision = k % 11
    const policy = {
      diffBase: k % 2 === 0 ? ('last' as const) : ('sticky' as const),
      fullEvery: k % 2 === 0 ? 0 : 40,
      fullIntervalMs: 0,
    }
    const core: Core = bothCores({ precision, units, clock, resolver, localId: k + 1, registryDir: null, policy })
    const fusion = new Fusion(null, { precision, units, clock, localId: 0, registryDir: null })
    return {
      core,
      fusion,
      precision,
      left: 0,
      rows: [] as [string, string, number, string | string[]][],
      id: '',
      state: '',
      t: T0 + below(1e12),
    }
  })
  let packets = 0
  for (let k = 0; k < CORE_FACTS; k++) {
    const node = nodes[k % nodes.length]!
    const pow = 10 ** node.precision
    if (node.left-- === 0) {
      node.left = 20 + below(200)
      node.id = name(8)
      node.state = pick(STATES)
      const ids = new Set(Array.from({ length: 1 + below(3) }, () => name(6)))
      node.rows = [...ids].map(id => [id, status(), 1, next() < 0.95 ? pick(GIVEN) : ['km', 'h']])
    }
    node.t += 1 + below(5000)
    if (next() < 0.7) for (const row of node.rows) if (next() < 0.6) row[2] = value(pow)
    let packet: Buffer
    try {
      packet = node.core.transmitFast(node.rows as Reading[], node.id, node.state, node.t, 7, 'DIFF')
    } catch (thrown) {
      assert.ok(thrown instanceof OsError && thrown.code === 'ALL_READINGS_REFUSED', String(thrown))
      told.refused++
      continue
    }
    packets++
    count(told, packet[0]!)
    const refusedRows = new Set(
      node.core.lastRejected.map(({ index, code }) => {
        assert.equal(code, 'E_PRECISION')
        return index
      }),
    )
    told.refused += refusedRows.size
    const got = node.fusion.decompress(packet)
    assert.equal(got.error, undefined)
    assert.deepEqual([got.id, got.s, got.t_raw, got.t], [node.id, node.state, node.t, Math.floor(node.t / 1000)])
    let n = 0
    for (const [index, [id, given, x, unit]] of node.rows.entries()) {
      const law = typeof unit === 'string' ? resolve(unit)! : resolveList(unit)!
      const sent = x * law.factor + law.offset
      if (refusedRows.has(index)) {
        assert.ok(cannotGo(law.canonical, sent, node.precision))
        continue
      }
      n++
      assert.equal(got[`s${n}_id`], id)
      assert.equal(got[`s${n}_u`], law.canonical)
      assert.equal(got[`s${n}_s`], given)
      const back = got[`s${n}_v`] as number | null
      compare(sent, back, pow, `${x} ${String(unit)} at ${node.precision}`, told)
    }
    assert.equal(got[`s${n + 1}_id`], undefined)
  }
  t.diagnostic(`${packets} packets of ${CORE_FACTS} facts: ${JSON.stringify(told)}`)
  for (const [kind, share] of [
    ['full', 0.003],
    ['diff', 0.16],
    ['heart', 0.03],
  ] as const)
    assert.ok(told[kind] > share * CORE_FACTS, JSON.stringify(told))
})

test('facts are preserved from dict to text, frame and back, with every character a text can have', () => {
  const told = tally()
  const fusions = Array.from({ length: 11 }, (_, precision) =>
    [1, 2].map(localId => new Fusion(null, { precision, units, clock, localId, registryDir: null })),
  )
  const device: Device = { fact: { id: '', state: '', tRaw: T0, aid: 1, sensors: [] }, left: 0 } as unknown as Device
  for (let k = 0; k < TEXT_FACTS; k++) {
    if (device.left-- <= 0) freshShape(device)
    const { fact } = device
    const [from, to] = fusions[k % 11] as [Fusion, Fusion]
    const pow = 10 ** (k % 11)
    fact.tRaw += 1000
    for (const sensor of fact.sensors) {
      change(sensor, pow)
      if (sensor.value !== null && !from.engine.pickers.fits(sensor.unit, sensor.value)) sensor.value = 0.5 * 1000
    }
    const dict: Record<string, unknown> = { id: fact.id, s: fact.state, t_raw: fact.tRaw, ...fact.extras }
    for (const [i, { id, status: s, unit, value: v }] of fact.sensors.entries())
      Object.assign(dict, { [`s${i + 1}_id`]: id, [`s${i + 1}_s`]: s, [`s${i + 1}_u`]: unit, [`s${i + 1}_v`]: v })
    const packet = from.runEngine(`1;${from.engine.compress(dict)}`, 'DIFF')
    count(told, packet[0]!)
    const got = to.decompress(packet)
    assert.equal(got.error, undefined)
    sameFact(fact, dictToFact(got, 1), pow, told)
  }
})
