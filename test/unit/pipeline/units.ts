// A small set of units for the tests of this room: a few conversions, prefixes of A and F, tokens unchanged.
import type { UnitResolver, WireUnits } from '../../../src/pipeline/wireunit'

const CONVERSIONS: Record<string, { canonical: string; factor: number; offset: number }> = {
  Cel: { canonical: 'K', factor: 1, offset: 273.15 },
  K: { canonical: 'K', factor: 1, offset: 0 },
  kPa: { canonical: 'Pa', factor: 1000, offset: 0 },
  Pa: { canonical: 'Pa', factor: 1, offset: 0 },
  A: { canonical: 'A', factor: 1, offset: 0 },
  mA: { canonical: 'A', factor: 0.001, offset: 0 },
  '%': { canonical: '%', factor: 1, offset: 0 },
}
const PREFIXES = [
  ['m', 1e-3],
  ['u', 1e-6],
  ['n', 1e-9],
  ['p', 1e-12],
] as const

export const resolver: UnitResolver = { resolve: unit => CONVERSIONS[unit] ?? null }

const plain: WireUnits['fromPlain'] = token => ({ unit: token, factor: 1, offset: 0, ambiguous: false })

export const units: WireUnits = {
  fromPlain: plain,
  toToken: unit => (unit === 'A' ? '100' : unit === '%' ? 'C00' : unit),
  fromToken: token => {
    if (token === '100') return { unit: 'A', factor: 1, offset: 0, ambiguous: false }
    if (token === 'C00') return { unit: '%', factor: 1, offset: 0, ambiguous: false }
    const prefix = PREFIXES.find(([letter]) => token === `${letter}A` || token === `${letter}F`)
    return prefix
      ? { unit: token.slice(1), factor: prefix[1], offset: 0, ambiguous: false }
      : { unit: token, factor: 1, offset: 0, ambiguous: token === '??' }
  },
  prefixed: unit => (unit === 'A' || unit === 'F' ? PREFIXES.map(([p, scale]) => ({ code: p + unit, scale })) : []),
}

/** A small seeded random generator (mulberry32): the same numbers in every run. */
export function random(seed: number): () => number {
  let a = seed
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
