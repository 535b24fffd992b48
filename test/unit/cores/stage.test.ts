// P3: both cores give identical bytes for every input. A million random calls through both, in every dialect, diff_base and
// precision, with and without keys, and without sensor ids: whole packets from one, batches of every size from the other, single packets between.
// Long: the million; `npm test` takes a hundredth of it
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createNativeCore } from '../../../src/cores'
import { OsError } from '../../../src/lib/errors'
import type { Core, Strategy } from '../../../src/pipeline/core'
import type { Reading } from '../../../src/pipeline/fact'
import { createPureCore, type PureCoreOptions } from '../../../src/pipeline/pycore'
import { attributeUnits } from '../../../src/units/attribute'
import { resolve, resolveList } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ManualClock } from '../../lib/manual'
import { prng, rounds } from '../../lib/random'

const units = wireUnits()
const CALLS = rounds(9_000, 1_000_000)
const UNITS = ['Cel', '[degF]', 'K', 'kPa', 'Pa', 'A', 'mA', '%', 'm/s', 'dBm', '{rpm}', 'lx', 'uV', 'bogus', 'By', 'h']
const STATUSES = ['OK', 'OK', 'OK', 'WARN', 'ERROR', 'E', 'x'.repeat(250), 'b|d', '\u00e9\u4e2d']
const STATES = ['ONLINE', 'ONLINE', 'OFFLINE', 'WARN', '', 'a;b']

interface Pair {
  readonly pure: Core
  readonly native: Core
  readonly clock: ManualClock
  readonly keys: Map<number, Uint8Array>
  readonly expected: Buffer[]
  readonly shapes: Reading[][]
  t: number
}

function pair(dialect: 'ucum' | 'attribute', diffBase: 'last' | 'sticky', precision: number, sensorIds = true): Pair {
  const clock = new ManualClock(1_710_000_000_000)
  const keys = new Map<number, Uint8Array>()
  const options = (): PureCoreOptions => ({
    resolver: dialect === 'attribute' ? attributeUnits : { resolve, resolveList },
    ...{ units, clock, precision, unitDialect: dialect, registryDir: null, sensorIds },
    keys: { outbound: aid => keys.get(aid) ?? null, inbound: () => null },
    policy:
      diffBase === 'last'
        ? { diffBase, fullEvery: 0, fullIntervalMs: 0 }
        : { diffBase, fullEvery: 40, fullIntervalMs: 60_000 },
  })
  const native = createNativeCore(options())
  assert.ok(native)
  return { pure: createPureCore(options()), native, clock, keys, expected: [], shapes: [], t: 1_710_000_000_000 }
}

const outcome = <T>(core: Core, run: () => T): { value: T | null; error: string; rejected: unknown } => {
  try {
    return { value: run(), error: '', rejected: core.lastRejected }
  } catch (error) {
    if (!(error instanceof OsError)) throw error
    return { value: null, error: `${error.code} ${error.message}`, rejected: null }
  }
}

const ends = new Int32Array(4096)
const memory = Buffer.alloc(1 << 21)

/** Takes the staged packets of the native core, in one of its two modes. */
function settle(p: Pair, into: boolean): void {
  assert.equal(p.native.staged, p.expected.length)
  let got: Buffer[]
  if (into) {
    const count = p.native.staged
    const end = p.native.takeInto(memory, 5, ends)
    got = Array.from({ length: count }, (_, k) => memory.subarray(k === 0 ? 5 : ends[k - 1]!, ends[k]!))
    assert.equal(end, count === 0 ? 5 : ends[count - 1])
  } else got = p.native.take()
  assert.equal(p.native.staged, 0)
  assert.equal(got.length, p.expected.length)
  for (const [k, packet] of p.expected.entries())
    if (!packet.equals(got[k]!)) assert.fail(`${got[k]!.toString('hex')} is not ${packet.toString('hex')}`)
  p.expected.length = 0
}

test('random calls: bytes, errors and refused rows of both cores are equal', () => {
  const next = prng(1717)
  const below = (n: number): number => Math.floor(next() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const value = (): number => {
    const kind = next()
    if (kind < 0.05) return pick([0, -0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 63, -(2 ** 63), 2 ** 53, -1])
    if (kind < 0.5) return Math.round(next() * 1e6) / 1e3 - 300
    if (kind < 0.8) return (next() < 0.5 ? -1 : 1) * Math.floor(2 ** (next() * 64))
    return (next() - 0.5) * 10 ** (next() * 40 - 20)
  }
  const row = (i: number): Reading =>
    next() < 0.002 ? (['', 'OK', 1] as unknown as Reading) : [`s${i}`, pick(STATUSES), value(), pick(UNITS)]
  const pairs: Pair[] = []
  for (const dialect of ['ucum', 'attribute'] as const)
    for (const diffBase of ['last', 'sticky'] as const)
      for (const precision of [0, 2, 4, 7, 8, 9, 10]) pairs.push(pair(dialect, diffBase, precision))
  // payload_switches.SensorId off
  for (const diffBase of ['last', 'sticky'] as const) pairs.push(pair('attribute', diffBase, 4, false))
  const seen = new Map<number, number>()
  let refused = 0
  for (let k = 0; k < CALLS; k++) {
    const p = pairs[k % pairs.length]!
    if (p.shapes.length < 4 || next() < 0.01) {
      const count = next() < 0.9 ? 1 + below(5) : next() < 0.98 ? below(40) : below(400)
      p.shapes[below(6)] = Array.from({ length: count }, (_, i) => row(i))
    }
    const shape = pick(p.shapes.filter(Boolean))
    const at = p.shapes.indexOf(shape)
    for (let i = 0; i < shape.length; i++) {
      if (next() < 0.5) continue
      const [id, status, , unit] = shape[i]!
      shape[i] = next() < 0.03 ? row(i) : [id, status, value(), unit]
    }
    const aid = 1 + below(3)
    if (next() < 0.006) {
      if (p.keys.has(aid)) p.keys.delete(aid)
      else p.keys.set(aid, Buffer.from(Array.from({ length: pick([32, 32, 7, 0]) }, () => below(256))))
    }
    if (next() < 0.1) p.clock.advance(below(20_000))
    p.t += pick([0, 1, 1000, -5, 10_000_000])
    const strategy: Strategy = next() < 0.03 ? 'FULL' : 'DIFF'
    const call = [[...shape], `dev${at}`, at === 3 ? pick(STATES) : 'ONLINE', p.t, aid, strategy] as const
    const pure = outcome(p.pure, () => p.pure.transmitFast(...call))
    const single = next() < 0.02
    const native = outcome(p.native, () => (single ? p.native.transmitFast(...call) : p.native.stage(...call)))
    assert.deepEqual([native.error, native.rejected], [pure.error, pure.rejected])
    if (pure.value === null) {
      refused++
      continue
    }
    seen.set(pure.value[0]!, (seen.get(pure.value[0]!) ?? 0) + 1)
    if (single) assert.deepEqual(native.value, pure.value)
    else {
      assert.equal(native.value, pure.value[0])
      p.expected.push(pure.value)
    }
    if (next() < 1 / 40) settle(p, next() < 0.5)
  }
  for (const p of pairs) settle(p, false)
  assert.deepEqual([...seen.keys()].sort(), [0x3f, 0x40, 0x7f, 0x80, 0xaa, 0xab].sort(), 'every kind of frame was made')
  assert.ok(refused > CALLS / 2000)
})

test('a frame larger than the memory of the module, and more frames than fit it, come out in order', () => {
  const p = pair('ucum', 'last', 4)
  const large: Reading[] = Array.from({ length: 9000 }, (_, i) => [`sensor-${i}`, 'OK', i, 'K'])
  const call = (rows: readonly Reading[], t: number): void => {
    const args = [rows, `d${rows.length}`, 'ONLINE', t, 7, 'DIFF'] as const
    p.expected.push(p.pure.transmitFast(...args))
    p.native.stage(...args)
  }
  for (let k = 0; k < 9000; k++) {
    if (k === 100 || k === 4500) call(large, k)
    call([['a', 'OK', k, 'K']], k)
  }
  settle(p, false)
  for (let k = 0; k < 3; k++) {
    call([['a', 'OK', k, 'K']], k)
    call(large, k)
  }
  settle(p, true)
})

test("packets that do not fit the caller's buffer stay staged and are taken next", () => {
  const p = pair('ucum', 'last', 4)
  for (let k = 0; k < 3; k++) {
    const args = [[['a', 'OK', k, 'K']], 'd', 'ONLINE', k, 7, 'DIFF'] as [
      Reading[],
      string,
      string,
      number,
      number,
      'DIFF',
    ]
    p.expected.push(p.pure.transmitFast(...args))
    p.native.stage(...args)
    p.pure.stage(...args)
  }
  for (const core of [p.native, p.pure]) {
    assert.throws(() => core.takeInto(Buffer.alloc(20), 0, ends), { code: 'PACKET_TOO_LARGE' })
    assert.throws(() => core.takeInto(memory, 0, new Int32Array(2)), { code: 'PACKET_TOO_LARGE' })
    assert.equal(core.staged, 3)
  }
  settle(p, true)
})
