// The symbol tables of the wire: lower-case unit name → token, state name → token, and the reverse. A class has a
// symbol, a name, and units numbered in hexadecimal from 00.

const letters = (prefix: string): string[] => Array.from('abcdefghijklmnopqrstuvwxyz', c => prefix + c)

const CLASSES: readonly (readonly [symbol: string, name: string, units: readonly string[]])[] = [
  ['0', 'amountofsubstance', ['mol', 'eq', 'osm', 'count']],
  [
    'D',
    'operations',
    [
      ...'cmd pow.on pow.off set.val get.val get.st rst mv.up mv.dn mv.lt mv.rt mv.fw mv.bk stp stp.e mv.to mv.by'.split(
        ' ',
      ),
      ...'rot.cw rot.cc'.split(' '),
      ...letters('cmd'),
      ...letters('mode'),
    ],
  ],
  ['1', 'electriccurrent', ['a', 'bi', 'gau']],
  ['2', 'electromagnetism', ['v', 'ohm', 'f']],
  ['3', 'energypower', ['w', 'j', 'cal', 'hp']],
  ['4', 'frequency', ['hz', 'rpm', 'deg/s', 'rad/s']],
  ['C', 'humidity', ['%']],
  ['5', 'informatics', ['bit', 'by', 'bd']],
  ['6', 'length', ['m', 'in', 'ft', 'nmi', 'au', 'ang']],
  ['7', 'luminousintensity', ['cd', 'cp', 'hk']],
  ['8', 'mass', ['g', 'lb', 'oz', 't', 'u']],
  ['9', 'pressure', ['pa', 'bar', 'psi', 'mm[hg]']],
  ['A', 'temperature', ['k', 'cel', 'degf', 'degre']],
  ['B', 'time', ['s', 'min', 'h', 'd', 'wk', 'ann']],
]

/** Unit name (lower case) → token. */
export const UNIT_TOKENS: ReadonlyMap<string, string> = buildUnits()

function buildUnits(): Map<string, string> {
  const map = new Map<string, string>()
  for (const [symbol, name, units] of CLASSES) {
    map.set(name, symbol)
    units.forEach((unit, k) => {
      map.set(unit, symbol + k.toString(16).toUpperCase().padStart(2, '0'))
    })
  }
  // shares 900 with pa; the later entry wins in the reverse direction, as in the reference
  map.set('atm', '900')
  return map
}

/** Token → unit name. */
export const UNIT_NAMES: ReadonlyMap<string, string> = new Map([...UNIT_TOKENS].map(([name, token]) => [token, name]))

/** State name (lower case) → token. */
export const STATE_TOKENS: ReadonlyMap<string, string> = new Map([
  ['online', '1'],
  ['offline', '0'],
  ['ok', 'K'],
  ['unknown', 'Z'],
  ['error', 'E'],
])

/** Token → state name in upper case. */
const STATE_NAMES: ReadonlyMap<string, string> = new Map(
  [...STATE_TOKENS].map(([name, token]) => [token, name.toUpperCase()]),
)

/** A state on the wire; unknown text is unchanged. */
export const stateToken = (state: string): string => STATE_TOKENS.get(state.toLowerCase()) ?? state
/** A state token as the decoder reads it: known tokens by name, others in upper case. */
export const stateName = (token: string): string => STATE_NAMES.get(token) ?? token.toUpperCase()
