// Canonical units a gateway may send: every atom, its powers, and its ratios and products with base units.
import { ATOM_ROWS } from '../../../src/units/atoms'
import { resolve } from '../../../src/units/canonical'

export const canonicals: ReadonlySet<string> = make()

function make(): Set<string> {
  const units = new Set<string>(['1', '%', '{u}', '{particles}', 'dBm', 'K-1', 'A', 'A2', 'A3', 'A-1', 'A/m'])
  for (const [code] of ATOM_ROWS) {
    for (const power of ['', '2', '3', '-1', '-2']) units.add(resolve(code + power)!.canonical)
    for (const other of ['m', 's', 'A', 'A2', 'C', 'kg', 'K', 'bit', 'mol', '%', 'B', 'Cel']) {
      units.add(resolve(`${code}/${other}`)!.canonical)
      units.add(resolve(`${other}/${code}`)!.canonical)
      units.add(resolve(`${code}.${other}`)!.canonical)
    }
  }
  return units
}
