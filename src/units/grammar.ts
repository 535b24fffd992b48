// UCUM expressions → quantities. The grammar is UCUM's: symbols with prefixes and exponents, `.` and `/`, parentheses,
// whole factors, annotations `{…}`; case-sensitive. A text that is not an expression gives null, never an exception;
// the caller decides what to do then. The input length is bounded, so the work is too.
import { ATOM_ROWS } from './atoms'

/**
 * The value of an expression: `factor` × a product of base symbols. Base symbols are kg m s A K mol cd rad bit, and
 * every arbitrary unit or level (`[IU]`, `dB`, `B[W]`) under its own name.
 */
export interface Quantity {
  readonly factor: number
  readonly dims: ReadonlyMap<string, number>
  /** only for a single temperature with power 1 */
  readonly offset: number
  /** a fraction or count without other factors keeps this spelling (`%`, `[ppm]`, `{particles}`) */
  readonly kept?: string
  /** derived from the atom Hz: may be written as `Hz` again */
  readonly hertz: boolean
}

/** Called for every symbol: once before UCUM's own table (`unknown` false), and again if that does not contain it. */
type Speller = (symbol: string, unknown: boolean) => Quantity | null

interface Atom {
  readonly quantity: Quantity
  readonly metric: boolean
  readonly level: boolean
}

const MAX_LENGTH = 200
const MAX_POWER = 64
const NONE: ReadonlyMap<string, number> = new Map()

const DECIMAL = 'Q30 R27 Y24 Z21 E18 P15 T12 G9 M6 k3 h2 da1 d-1 c-2 m-3 u-6 n-9 p-12 f-15 a-18 z-21 y-24 r-27 q-30'

/** Prefix → scale, decimal and binary. */
export const PREFIXES: ReadonlyMap<string, number> = new Map([
  ...DECIMAL.split(' ').map((row): [string, number] => {
    const at = row.search(/[-\d]/)
    return [row.slice(0, at), Number(`1e${row.slice(at)}`)]
  }),
  ['Ki', 2 ** 10],
  ['Mi', 2 ** 20],
  ['Gi', 2 ** 30],
  ['Ti', 2 ** 40],
])

const KEPT = new Set(['%', '[ppth]', '[ppm]', '[ppb]', '[pptr]'])

const ATOMS: ReadonlyMap<string, Atom> = new Map(
  ATOM_ROWS.map(([code, factor, dims, flags, offset = 0]): [string, Atom] => {
    const own = flags.includes('a') || flags.includes('l')
    const powers = dims.match(/[A-Za-z]+|-?\d+/g) ?? []
    const map = new Map<string, number>()
    for (let k = 0; k < powers.length; k += 2) map.set(powers[k]!, Number(powers[k + 1]))
    if (own) map.set(code === '[iU]' ? '[IU]' : code, 1)
    const kept = KEPT.has(code) ? code : undefined
    const quantity: Quantity = { factor, dims: map, offset, hertz: code === 'Hz', ...(kept && { kept }) }
    return [code, { quantity, metric: flags.includes('m'), level: flags.includes('l') }]
  }),
)

/** True for symbols that accept SI prefixes. */
export const takesPrefix = (symbol: string): boolean => ATOMS.get(symbol)?.metric ?? false

export const pure = (factor: number): Quantity => ({ factor, dims: NONE, offset: 0, hertz: false })

/** `q` to an integer power. Only power 1 keeps offsets and spellings. */
export function power(q: Quantity, exponent: number): Quantity {
  if (exponent === 1) return q
  const dims = new Map<string, number>()
  for (const [name, e] of q.dims) if (e * exponent !== 0) dims.set(name, e * exponent)
  const factor = exponent < 0 ? 1 / q.factor ** -exponent : q.factor ** exponent
  return { factor, dims, offset: 0, hertz: q.hertz }
}

/** `a` × `b`, or `a` / `b`. Offsets and kept spellings are lost. */
export function combine(a: Quantity, b: Quantity, divide: boolean): Quantity {
  const dims = new Map(a.dims)
  for (const [name, e] of b.dims) {
    const sum = (dims.get(name) ?? 0) + (divide ? -e : e)
    if (sum === 0) dims.delete(name)
    else dims.set(name, sum)
  }
  const factor = divide ? a.factor / b.factor : a.factor * b.factor
  return { factor, dims, offset: 0, hertz: a.hertz || b.hertz }
}

/** Bels are stored as decibels; other levels are never rescaled: their prefix is part of the name. */
function prefixed(code: string, prefix: string, scale: number, atom: Atom): Quantity {
  if (code === 'B') return { factor: scale * 10, dims: new Map([['dB', 1]]), offset: 0, hertz: false }
  if (atom.level) return { factor: 1, dims: new Map([[prefix + code, 1]]), offset: 0, hertz: false }
  const { factor, dims, offset, hertz } = atom.quantity
  return { factor: scale * factor, dims, offset, hertz }
}

function known(symbol: string): Quantity | null {
  const atom = ATOMS.get(symbol)
  if (atom) return symbol === 'B' ? prefixed('B', '', 1, atom) : atom.quantity
  for (const length of [2, 1]) {
    const scale = PREFIXES.get(symbol.slice(0, length))
    const code = symbol.slice(length)
    const base = scale === undefined ? undefined : ATOMS.get(code)
    if (base?.metric) return prefixed(code, symbol.slice(0, length), scale!, base)
  }
  return null
}

class Parser {
  #at = 0
  constructor(
    readonly text: string,
    readonly spell: Speller,
  ) {}

  whole(): Quantity | null {
    const q = this.#term()
    return this.#at === this.text.length ? q : null
  }

  #term(): Quantity | null {
    let sum: Quantity | null = null
    let divide = false
    if (this.text[this.#at] === '/') {
      sum = pure(1)
      divide = true
      this.#at++
    }
    for (;;) {
      const q = this.#component()
      if (!q) return null
      sum = sum ? combine(sum, q, divide) : q
      const sign = this.text[this.#at]
      if (sign !== '.' && sign !== '/') return sum
      divide = sign === '/'
      this.#at++
    }
  }

  #component(): Quantity | null {
    if (this.text[this.#at] === '{') return this.#annotation(null)
    let q: Quantity | null
    if (this.text[this.#at] === '(') {
      this.#at++
      q = this.#term()
      if (!q || this.text[this.#at++] !== ')') return null
      const exponent = /^[+-]?[1-9]\d*/.exec(this.text.slice(this.#at))?.[0] ?? ''
      this.#at += exponent.length
      q = exponent ? limited(q, Number(exponent)) : q
    } else q = this.#symbol()
    return q && this.text[this.#at] === '{' ? this.#annotation(q) : q
  }

  /** An annotation has no numeric meaning; alone it names what is counted, and keeps its name. */
  #annotation(q: Quantity | null): Quantity | null {
    const end = this.text.indexOf('}', this.#at)
    if (end < 0) return null
    const text = this.text.slice(this.#at + 1, end)
    if (!/^[!-z|~]*$/.test(text)) return null
    this.#at = end + 1
    if (q) return q
    // the text of a packet is split at these characters, so a unit must not contain them
    const safe = text.replace(/[|;:>@,/]/g, '_')
    return safe === '' || safe === '1' ? pure(1) : { ...pure(1), kept: `{${safe}}` }
  }

  #symbol(): Quantity | null {
    const run = /^(?:[^[\]./(){}\s]|\[[^[\]\s]*\])+/.exec(this.text.slice(this.#at))?.[0]
    if (!run) return null
    this.#at += run.length
    if (/^\d+$/.test(run)) return run.length <= 15 && Number(run) > 0 ? pure(Number(run)) : null
    const cut = /^(.*[^\d+-])([+-]?[1-9]\d*)?$/.exec(run)
    if (!cut) return null
    const q = this.spell(cut[1]!, false) ?? known(cut[1]!) ?? this.spell(cut[1]!, true)
    return q && cut[2] ? limited(q, Number(cut[2])) : q
  }
}

const limited = (q: Quantity, exponent: number): Quantity | null =>
  Math.abs(exponent) <= MAX_POWER ? power(q, exponent) : null

/** The quantity of a UCUM expression, or null. `spell` may add spellings. */
export function parseUnit(text: string, spell: Speller = () => null): Quantity | null {
  if (text.length === 0 || text.length > MAX_LENGTH) return null
  const q = new Parser(text, spell).whole()
  return q && isSound(q) ? q : null
}

/** Whether a quantity is usable for calculations: a factor in the range of doubles, and small powers. */
export function isSound(q: Quantity): boolean {
  if (!Number.isFinite(q.factor) || q.factor <= 0 || !Number.isFinite(q.offset)) return false
  for (const e of q.dims.values()) if (Math.abs(e) > MAX_POWER) return false
  return true
}
