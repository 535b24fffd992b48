// Units in dialect `attribute`: a unit's text → its physical attribute and the conversion to the attribute's standard
// unit, exactly as in the reference. A power or an inverse changes the factor and keeps offset and attribute, which is
// wrong but the reference's behaviour; dialect `ucum` does it correctly. An unknown text gives null. Results are
// cached, bounded.

import { pyGeneral } from '../wire/number'
import { ATTRIBUTE_PREFIXES, type AttributeConversion, atomConversion } from './attribute-conversions'
import { remembered } from './cache'
import type { Resolved } from './canonical'

/** x to the power of a digit, rounded once, like C's pow(); `**` may differ in the last bit. */
function digitPower(x: number, power: number): number {
  if (power < 2) return power === 0 ? 1 : x
  let mantissa = x
  let exponent = 0
  for (; !Number.isInteger(mantissa); exponent--) mantissa *= 2
  let result = Number(BigInt(mantissa) ** BigInt(power))
  for (let left = exponent * power; left < 0; left += 1000) result *= 2 ** Math.max(left, -1000)
  return result
}

/** The conversion of an atom with or without prefix. */
function conversionOf(text: string): Pick<AttributeConversion, 'attribute' | 'factor' | 'offset'> | null {
  const atom = atomConversion(text)
  if (atom) return atom
  for (const [prefix, factor] of ATTRIBUTE_PREFIXES) {
    if (!text.startsWith(prefix)) continue
    const conversion = atomConversion(text.slice(prefix.length))
    if (conversion?.prefixes) return { ...conversion, factor: conversion.factor * factor }
  }
  return null
}

function understand(label: string): Resolved | null {
  if (label === '' || label === 'Unknown') return null
  const inverse = label.startsWith('1/')
  let text = inverse ? label.slice(2) : label
  let power = 1
  if (/.\d$/s.test(text)) {
    power = Number(text.at(-1))
    text = text.slice(0, -1)
  }
  const conversion = conversionOf(text)
  if (!conversion) return null
  const raised = digitPower(conversion.factor, power)
  const factor = inverse ? 1 / raised : raised
  return Number.isFinite(raised) && Number.isFinite(factor)
    ? { canonical: conversion.attribute, factor, offset: conversion.offset }
    : null
}

/** The attribute of one unit and the conversion to it, or null if the reference does not know the unit. */
export const resolveAttribute = remembered(understand)

/**
 * The same for a list: units of the first one's attribute are counted (`length2`), others divide, with their factor as
 * a prefix (`length/3600time`). Only the first one scales the value. Null if the list is empty or one unit is unknown.
 */
export const resolveAttributeList = (units: readonly string[]): Resolved | null =>
  units.length === 1 ? resolveAttribute(units[0]!) : listed(JSON.stringify(units))

const listed = remembered((units): Resolved | null => {
  const conversions = (JSON.parse(units) as string[]).map(resolveAttribute)
  const first = conversions[0]
  if (!first) return null
  let count = 0
  let below = ''
  for (const conversion of conversions) {
    if (!conversion) return null
    if (conversion.canonical === first.canonical) count++
    else below += `/${conversion.factor === 1 ? '' : pyGeneral(conversion.factor)}${conversion.canonical}`
  }
  return { ...first, canonical: `${first.canonical}${count > 1 ? count : ''}${below}` }
})

/** The resolver of a core in dialect `attribute`; `canonical` is the attribute's name. */
export const attributeUnits = { resolve: resolveAttribute, resolveList: resolveAttributeList } as const
