// Units: known conversions, refused units, and that every canonical unit is unchanged after encoding and decoding.

import assert from 'node:assert/strict'
import type { PluginCheck } from '../checks'
import { resolve, wireUnits } from '../program'

/** a common spelling, its canonical unit, and the canonical value of 1 */
const CONVERSIONS: readonly (readonly [unit: string, canonical: string, one: number])[] = [
  ['Cel', 'K', 274.15],
  ['°C', 'K', 274.15],
  ['[degF]', 'K', 255.927_777_777_8],
  ['kPa', 'Pa', 1000],
  ['psi', 'Pa', 6894.757_293_168_36],
  ['mm[Hg]', 'Pa', 133.322],
  ['km/h', 'm/s', 1 / 3.6],
  ['metre', 'm', 1],
  ['volt', 'V', 1],
  ['mA', 'A', 0.001],
  ['rpm', 'Hz', 1 / 60],
  ['percent', '%', 1],
  ['dBm', 'dBm', 1],
  ['kW.h', 'J', 3_600_000],
  ['g/L', 'kg/m3', 1],
  ['min', 's', 60],
]
const REFUSED = ['', 'bogus', 'Cel2/', 'm//s']

export const unitChecks: readonly PluginCheck[] = [
  ...CONVERSIONS.map(
    ([unit, canonical, one]): PluginCheck => [
      `1 ${unit} in ${canonical}`,
      () => {
        const conversion = resolve(unit)
        assert.ok(conversion, `${unit} is not understood`)
        const got = conversion.factor + conversion.offset
        assert.equal(conversion.canonical, canonical)
        assert.ok(Math.abs(got - one) <= Math.abs(one) * 1e-9, `1 ${unit} became ${got} ${canonical}, not ${one}`)
      },
    ],
  ),
  ...REFUSED.map(
    (unit): PluginCheck => [`${JSON.stringify(unit)} is refused`, () => assert.equal(resolve(unit), null)],
  ),
  ...[...new Set(CONVERSIONS.map(([, canonical]) => canonical))].map(
    (canonical): PluginCheck => [
      `${canonical} over the wire`,
      () => {
        const units = wireUnits()
        const text = units.toToken(canonical)
        const { unit, factor, offset, ambiguous } = units.fromToken(text)
        assert.deepEqual([unit, factor, offset, ambiguous], [canonical, 1, 0, false], `sent as ${text}`)
      },
    ],
  ),
]
