import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UcumLhcUtils, UnitTables } from '@lhncbc/ucum-lhc'
import { PREFIXES, parseUnit } from '../../../src/units/grammar'

const AVOGADRO = 6.0221367e23
const oracle = UcumLhcUtils.getInstance()

/** mulberry32 */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

// left out: temperatures and levels have no factor; the package has [diop], [mesh_i] and Bd inverted and eq without its
// mole, and has no prefixes beyond yotta
const ODD = new Set(['[diop]', '[mesh_i]', 'Bd', 'eq', '10^'])
const atoms = UnitTables.getInstance()
  .allUnitsByDef()
  .filter(unit => unit.source_ === 'UCUM' && !unit.isSpecial_ && !unit.isArbitrary_ && !ODD.has(unit.csCode_))
const prefixes = [...PREFIXES.keys()].filter(prefix => !'QRqr'.includes(prefix))
const base = new Set(['m', 's', 'g', 'rad', 'K', 'C', 'cd'])

/** The package's unit in our base: kilogram and mole. */
function expected(code: string) {
  const { unit } = oracle.getSpecifiedUnit(code)
  if (!unit) return null
  const [m = 0, s = 0, g = 0, rad = 0, K = 0, C = 0, cd = 0] = unit.dim_?.dimVec_ ?? []
  const factor = (unit.magnitude_ * 0.001 ** g) / AVOGADRO ** unit.moleExp_
  return { factor, dims: { kg: g, m, s: s + C, A: C, K, mol: unit.moleExp_ + 0, cd, rad } as Record<string, number> }
}

function compare(code: string): boolean {
  const want = expected(code)
  if (!want || !(want.factor > 1e-200 && want.factor < 1e200)) return false
  const got = parseUnit(code)
  assert.ok(got, `${code} is not understood`)
  assert.ok(Math.abs(got.factor / want.factor - 1) < 1e-9, `${code}: ${got.factor}, should be ${want.factor}`)
  for (const [name, e] of Object.entries(want.dims))
    assert.equal(got.dims.get(name) ?? 0, e === 0 ? 0 : e, `${code}: power of ${name}`)
  return true
}

test('every atom, with every allowed prefix, means what UCUM says', () => {
  let compared = 0
  for (const atom of atoms) {
    if (compare(atom.csCode_)) compared++
    if (atom.isMetric_ || base.has(atom.csCode_))
      for (const prefix of prefixes) {
        if (compare(prefix + atom.csCode_)) compared++
      }
  }
  assert.ok(compared > 2000, `only ${compared} compared`)
})

test('random expressions have the factors and dimensions of the oracle', () => {
  const next = random(20261121)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const symbol = (): string => {
    const atom = pick(atoms)
    const prefix = (atom.isMetric_ || base.has(atom.csCode_)) && next() < 0.5 ? pick(prefixes) : ''
    const exponent = next() < 0.5 ? pick(['2', '3', '-1', '-2', '+2', '-3']) : ''
    return prefix + atom.csCode_ + exponent + (next() < 0.1 ? '{note}' : '')
  }
  const term = (depth: number): string => {
    let text = next() < 0.1 ? pick(['2', '10', '24', '10*3', '10*-2']) : symbol()
    for (let k = Math.floor(next() * 3); k > 0; k--) {
      const inner = depth < 2 && next() < 0.2 ? `(${term(depth + 1)})` : symbol()
      text += pick(['.', '/']) + inner
    }
    return text
  }
  let compared = 0
  for (let k = 0; k < 4000; k++) if (compare((next() < 0.05 ? '/' : '') + term(0))) compared++
  assert.ok(compared > 3000, `only ${compared} compared`)
})

test('expressions that the oracle refuses for their syntax are refused', () => {
  const bad = [
    '',
    ' ',
    'm//s',
    'm.',
    '/',
    'foo',
    'm{',
    '(m',
    'm)',
    'm2x',
    '2m',
    'kmin',
    'm m',
    '[in_i',
    '-1',
    'm+',
    '0',
    'm^2',
  ]
  for (const code of [...bad, 'm'.repeat(300), '((((', '[]', '{é}'])
    assert.equal(parseUnit(code), null, JSON.stringify(code))
})
