// The atoms of UCUM, as `node build.mjs --generate` (generate.mjs) takes them from UCUM's own table.
import rows from './atoms.generated.json'

/** code, factor to the base, dimensions, flags (m takes prefixes, a arbitrary, l level), offset to the base */
type AtomRow = readonly [code: string, factor: number, dims: string, flags: string, offset?: number]

export const ATOM_ROWS = rows as unknown as readonly AtomRow[]
