// What we send has the same meaning for every peer: frames of the gateway's encoder are read by peers written from the
// papers alone, and their results are checked with the UCUM package that is the oracle.
// Long: every power of ten
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UcumLhcUtils } from '@lhncbc/ucum-lhc'
import { OsError } from '../../../src/lib/errors'
import type { Fact } from '../../../src/pipeline/fact'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { wireUnits } from '../../../src/units/wire'
import { PeerReceiver, type PeerSensor, peerDecode, peerOpen, smallPeer } from '../../lib/peer'
import { rounds } from '../../lib/random'
import { canonicals } from './canonicals'

const AID = 42
const T0 = 1_710_000_000_000
const units = wireUnits()
const oracle = UcumLhcUtils.getInstance()

/** Factor and dimensions of a unit by the oracle, null where it has none (levels, counts, unknown texts). */
const weights = new Map<string, { factor: number; dims: string } | null>()
function weigh(code: string): { factor: number; dims: string } | null {
  let known = weights.get(code)
  if (known === undefined) {
    const { unit } = oracle.getSpecifiedUnit(code)
    const plain = unit && !unit.isSpecial_ && !unit.isArbitrary_
    known = plain ? { factor: unit.magnitude_, dims: `${unit.dim_?.dimVec_ ?? ''};${unit.moleExp_}` } : null
    weights.set(code, known)
  }
  return known
}

/** The seven names of the symbol table that we send, in UCUM's spelling; any other name would be a mistake. */
const SENT: Record<string, string> = {
  '100': 'A',
  '600': 'm',
  '700': 'cd',
  '000': 'mol',
  '500': 'bit',
  B00: 's',
  C00: '%',
}
const inUcum = ({ token, unit }: PeerSensor): string => {
  if (token === unit) return token
  assert.ok(Object.hasOwn(SENT, token), `${token} is read as ${unit}`)
  assert.equal(unit, SENT[token]!.toLowerCase())
  return SENT[token]!
}

/** The size of one unit that the peer reads, in our unit; null where it cannot be computed. */
function ratio(sensor: PeerSensor, canonical: string): number | null {
  const code = inUcum(sensor)
  if (code === canonical || code.replaceAll('{u}', '') === canonical) return 1
  const read = weigh(code)
  const ours = weigh(canonical)
  if (!read || !ours) return byPrefix(code, canonical)
  assert.equal(read.dims, ours.dims, `${canonical} is read as ${code}`)
  return read.factor / ours.factor
}

const PREFIXES: Record<string, number> = { E: 1e18, P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3, d: 0.1, c: 0.01, m: 1e-3 }
Object.assign(PREFIXES, { u: 1e-6, n: 1e-9, p: 1e-12, f: 1e-15, a: 1e-18, '': 1 })

/** Where the oracle has no answer: the unit with a prefix before its first symbol, raised to that symbol's power. */
function byPrefix(code: string, canonical: string): number | null {
  const mass = canonical.startsWith('kg')
  const bare = mass ? canonical.slice(1) : canonical
  const marked = code.replaceAll('{u}', '')
  if (!marked.endsWith(bare)) return null
  const scale = PREFIXES[marked.slice(0, marked.length - bare.length)]
  const power = Number(/^(?:[A-Za-z]+|\[[^\]]+\])(-?\d+)/.exec(bare)?.[1] ?? 1)
  return scale === undefined ? null : (scale / (mass ? 1000 : 1)) ** power
}

const one = (unit: string, value: number | null, tRaw = T0): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw,
  aid: AID,
  sensors: [{ id: 's', status: 'OK', unit, value }],
})
const encode = (encoder: UplinkEncoder, fact: Fact, full = true): Buffer | null => {
  try {
    return encoder.encode(fact, { full }).bytes
  } catch (thrown) {
    if (thrown instanceof OsError && thrown.code === 'E_PRECISION') return null
    throw thrown
  }
}

test('every canonical unit at every size is read as the value and unit that were sent', () => {
  const encoder = new UplinkEncoder({ aid: AID, units })
  let k = 0
  let prefixed = 0
  for (const unit of canonicals) {
    for (const sign of [1, -1])
      for (let e = -18; e <= 14; e += rounds(2, 1)) {
        const sent = sign * 3.2415 * 10 ** e
        const frame = encode(encoder, one(unit, sent, T0 + ++k))
        if (!frame) continue
        const sensor = peerDecode(peerOpen(frame).body.toString('utf8')).sensors[0]!
        assert.equal(sensor.state, 'OK')
        const scale = ratio(sensor, unit)
        assert.ok(scale !== null, `${unit} as ${sensor.token}`)
        if (scale !== 1) prefixed++
        const got = (Number(sensor.scaled) / 10_000) * scale
        assert.ok(Math.abs(got / sent - 1) <= 1e-3, `${sent} ${unit} is read as ${got} by ${sensor.token}`)
      }
  }
  assert.ok(prefixed > rounds(1500, 3000), `prefixed units were used: ${prefixed}`)
})

test('the oracle reads each rewritten unit as its original', () => {
  for (const [unit, token] of [
    ['1', '{1}'],
    ['C', 'A.s'],
    ['A/m', 'A{u}/m'],
    ['A2', 'A2{u}'],
  ] as const) {
    assert.equal(units.toToken(unit), token)
    assert.deepEqual(weigh(token), weigh(unit))
  }
})

test('a peer with templates decodes FULL, DIFF and HEART, with either base', () => {
  for (const diffBase of ['last', 'sticky'] as const) {
    const encoder = new UplinkEncoder({ aid: AID, units, diffBase, fullEvery: 50 })
    const peer = new PeerReceiver()
    let seed = 5
    const next = (n: number): number => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
      return Math.floor((seed / 2 ** 32) * n)
    }
    const sensors = ['K', 'Pa', 'A', 'm/s', '%', 'V', 'kg/m3', 'A/m', 'lx'].map((unit, k) => ({
      id: `s${k}`,
      status: 'OK',
      unit,
      value: k as number | null,
    }))
    const kinds = new Set<number>()
    for (let k = 1; k <= 600; k++) {
      for (const sensor of sensors) {
        if (next(4) === 0) sensor.value = next(100_000_000) / 10_000
        if (next(60) === 0) sensor.value = null
        if (next(60) === 0) sensor.status = sensor.status === 'OK' ? 'WARN' : 'OK'
      }
      const fact: Fact = {
        id: 'D',
        state: 'ONLINE',
        tRaw: T0 + k,
        aid: AID,
        sensors,
        extras: { msg: 'a', geohash: 'u33' },
      }
      const { bytes } = encoder.encode(fact)
      // nothing changed: a HEART with base last
      const frames = diffBase === 'last' ? [bytes, encoder.encode({ ...fact, tRaw: T0 + k + 0.5 }).bytes] : [bytes]
      for (const frame of frames) {
        kinds.add(frame[0]!)
        const read = peer.receive(frame)
        assert.deepEqual([read.id, read.state, Math.floor(read.ms)], ['D', 'ONLINE', T0 + k])
        sensors.forEach((sensor, i) => {
          const got = read.sensors[i]!
          if (sensor.value === null) assert.deepEqual([got.state, got.scaled], ['ERROR', 0n])
          else {
            const scale = ratio(got, sensor.unit)!
            assert.equal(got.state, sensor.status)
            assert.ok(Math.abs((Number(got.scaled) / 10_000) * scale - sensor.value) <= 1e-3 * sensor.value)
          }
        })
      }
    }
    assert.deepEqual(kinds, new Set(diffBase === 'last' ? [0x3f, 0xaa, 0x7f] : [0x3f, 0xaa]))
  }
})

test('the smallest peer reads a FULL of one sensor within its sizes, and refuses larger ones', () => {
  const encoder = new UplinkEncoder({ aid: AID, units })
  let k = 0
  let readable = 0
  for (const unit of canonicals) {
    const sent = 123.4567
    const frame = encode(encoder, one(unit, sent, T0 + ++k))
    if (!frame) continue
    const read = smallPeer(frame)
    const token = units.toToken(unit)
    assert.equal(read !== null, token.length <= 8 && frame.length - 16 <= 64, `${unit}: ${token}`)
    if (!read) continue
    readable++
    assert.deepEqual([read.id, read.token, read.scaled], ['s', token, 1_234_567n])
  }
  assert.ok(readable > 400, `${readable} units`)
  // from 214748.3648 on its 32 bits overflow: such values are for peers with more of them
  assert.equal(smallPeer(encode(encoder, one('Pa', 214_748.3647, T0 + ++k))!)!.scaled, 2_147_483_647n)
  assert.notEqual(smallPeer(encode(encoder, one('Pa', 214_748.3648, T0 + ++k))!)!.scaled, 2_147_483_648n)
})
