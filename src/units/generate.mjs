// Generates the atom table of the unit grammar: `node build.mjs --generate` writes it to
// src/units/atoms.generated.json, and a test compares that file with a new one. The definitions come from
// @lhncbc/ucum-lhc (UCUM's own table); the conversion changes the base: kilogram instead of gram, ampere instead of
// coulomb, mole and bit as separate dimensions. It throws when the package contains something that this file cannot
// convert.
import ucum from '@lhncbc/ucum-lhc'

/** Dimension vector of the package, by position. */
const VECTOR = ['m', 's', 'g', 'rad', 'K', 'C', 'cd']
const ORDER = ['kg', 'm', 's', 'A', 'K', 'mol', 'cd', 'rad', 'bit']
const AVOGADRO = 6.0221367e23
const OFFSETS = { Cel: 273.15, '[degF]': 255.37222222222223, '[degRe]': 273.15 }
/** Whole numbers of moles or bits, which the package stores as plain numbers. */
const OWN = { mol: ['mol', 1], eq: ['mol', 1], osm: ['mol', 1], bit: ['bit', 1], By: ['bit', 8] }
/** The base units of the package, which accept prefixes although it does not say so. */
const METRIC_BASE = new Set(VECTOR)

/** 0.025400000000000002 → 0.0254: replaces a value by a short decimal within a few rounding errors. */
function tidy(x) {
  const short = Number(x.toPrecision(13))
  return Math.abs(short - x) <= Math.abs(x) * 4 * Number.EPSILON ? short : x
}

/** One unit of the package → [code, factor, dimensions, flags, offset?]; flags: m accepts prefixes, a arbitrary, l level. */
function carry(unit) {
  const code = unit.csCode_
  let magnitude = unit.magnitude_
  const vector = unit.dim_?.dimVec_ ?? [0, 0, 0, 0, 0, 0, 0]
  const dims = new Map()
  const add = (name, power) => dims.set(name, (dims.get(name) ?? 0) + power)
  const sign = unit.cnv_ === 'inv' ? -1 : 1
  if (sign < 0) magnitude = 1 / magnitude
  vector.forEach((raw, at) => {
    const power = raw * sign
    if (power === 0) return
    const name = VECTOR[at]
    if (name === 'g') {
      add('kg', power)
      magnitude = power > 0 ? magnitude / 1000 ** power : magnitude * 1000 ** -power
    } else if (name === 'C') {
      add('A', power)
      add('s', power)
    } else add(name, power)
  })
  let flags = unit.isMetric_ || METRIC_BASE.has(code) ? 'm' : ''
  const offset = OFFSETS[code]
  if (code in OWN) {
    const [name, factor] = OWN[code]
    dims.clear()
    add(name, 1)
    magnitude = factor
  } else if (unit.isSpecial_ && offset === undefined) {
    flags += 'l'
    dims.clear()
    magnitude = 1
  } else if (unit.isArbitrary_ || (dims.size === 0 && magnitude === 1 && !unit.moleExp_)) {
    flags += 'a'
    magnitude = 1
  } else if (unit.moleExp_) {
    add('mol', unit.moleExp_)
    magnitude /= AVOGADRO ** unit.moleExp_
  }
  if (!Number.isFinite(magnitude) || magnitude <= 0) throw new Error(`atom ${code}: factor ${magnitude}`)
  const text = ORDER.filter(name => dims.get(name))
    .map(name => `${name}${dims.get(name)}`)
    .join(' ')
  if ([...dims.keys()].some(name => !ORDER.includes(name))) throw new Error(`atom ${code}: unknown dimension`)
  return offset === undefined
    ? [code, tidy(magnitude), text, flags]
    : [code, tidy(magnitude), text, flags, tidy(offset)]
}

/** The text of src/units/atoms.generated.json. */
export function generateAtoms() {
  ucum.UcumLhcUtils.getInstance()
  const rows = ucum.UnitTables.getInstance()
    .allUnitsByDef()
    .filter(unit => unit.source_ === 'UCUM')
    .map(carry)
  return `[\n${rows.map(row => `  ${JSON.stringify(row)}`).join(',\n')}\n]\n`
}
