// Any unit → its canonical unit and the conversion: value × factor + offset (decision 0005). Every dimension has one spelling: a
// named unit if the table has one, else base units in the order kg m s A K mol cd rad bit, positive powers first. `%`,
// the parts per …, counts, arbitrary units and levels keep their own spelling. An unknown text gives null. Results are
// cached, bounded, because a unit is resolved once and used for every reading.
import { remembered } from './cache'
import { combine, isSound, parseUnit, type Quantity } from './grammar'
import { understand } from './spellings'

export interface Resolved {
  readonly canonical: string
  /** value in the canonical unit = value × factor + offset */
  readonly factor: number
  readonly offset: number
}

const ORDER = ['kg', 'm', 's', 'A', 'K', 'mol', 'cd', 'rad', 'bit']
const NAMED = 'K Pa m kg s A V Ohm W J N mol cd lx lm C F S Wb T H rad sr bit'.split(' ')

/** One text per dimension, whatever the order of its symbols. */
const dimensionKey = (q: Quantity): string =>
  [...q.dims]
    .map(([name, e]) => `${name} ${e}`)
    .sort()
    .join(' ')

const NAMES: ReadonlyMap<string, string> = new Map(NAMED.map(code => [dimensionKey(parseUnit(code)!), code]))

const rank = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
const raised = (name: string, e: number): string => (e === 1 ? name : `${name}${e}`)

/** `kg.m2/s3/A`; without a positive power `m-1`, never `1/m`. */
function inBaseUnits(dims: ReadonlyMap<string, number>): string {
  const sorted = [...dims].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
  const above = sorted.filter(([, e]) => e > 0).map(([name, e]) => raised(name, e))
  const below = sorted.filter(([, e]) => e < 0)
  if (above.length === 0) return below.map(([name, e]) => raised(name, e)).join('.')
  return above.join('.') + below.map(([name, e]) => `/${raised(name, -e)}`).join('')
}

/** 999999999999.9999 → 1e12: replaces a value by a short decimal within a few rounding errors. */
function tidy(factor: number): number {
  const short = Number(factor.toPrecision(13))
  return Math.abs(short - factor) <= factor * 4 * Number.EPSILON ? short : factor
}

/** A quantity in its canonical spelling. */
export function canonicalOf(q: Quantity): Resolved {
  if (q.dims.size === 0)
    return q.kept ? { canonical: q.kept, factor: 1, offset: 0 } : { canonical: '1', factor: tidy(q.factor), offset: 0 }
  const key = dimensionKey(q)
  const canonical = q.hertz && key === 's -1' ? 'Hz' : (NAMES.get(key) ?? inBaseUnits(q.dims))
  return { canonical, factor: tidy(q.factor), offset: q.offset }
}

/** The canonical unit of a UCUM expression or a common spelling, or null if it is unknown (decision 0005). */
export const resolve = remembered((unit): Resolved | null => {
  const q = understand(unit)
  return q && canonicalOf(q)
})

/**
 * The canonical unit of a list: the first is the numerator, one of the same dimension multiplies, any other divides
 * (`['km','h']` is km/h). Null if the list is empty or one of its units is unknown.
 */
export const resolveList = (units: readonly string[]): Resolved | null =>
  units.length === 1 ? resolve(units[0]!) : listed(JSON.stringify(units))

const listed = remembered((units): Resolved | null => {
  let sum: Quantity | null = null
  let first = ''
  for (const unit of JSON.parse(units) as string[]) {
    const q = understand(unit)
    if (!q) return null
    if (sum) sum = combine(sum, q, dimensionKey(q) !== first)
    else {
      sum = q
      first = dimensionKey(q)
    }
  }
  return sum && isSound(sum) ? canonicalOf(sum) : null
})
