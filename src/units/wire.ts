// Units on the wire in dialect `ucum` (X1). Every peer reads sent units correctly: seven units are sent as symbols that
// all peers decode correctly, all others as literal UCUM, never as a text that a peer's table would change to another
// unit. Received units (symbols, class tokens, attribute names, coefficients, literal UCUM) are converted to the
// canonical unit with factor and offset; an ambiguous text is kept unchanged and marked as ambiguous.
import { decodeInteger } from '../wire/base62'
import { endDigits } from '../wire/number'
import { remembered } from './cache'
import { canonicalOf, resolve } from './canonical'
import { combine, isSound, PREFIXES, parseUnit, power, pure, type Quantity, takesPrefix } from './grammar'
import { understand } from './spellings'
import { ATTRIBUTE_UNITS, SYMBOL_UNITS, TOKEN_UNITS } from './tokens'

export interface WireUnit {
  /** canonical UCUM, or the received text if ambiguous */
  readonly unit: string
  /** value in `unit` = received value × factor + offset */
  readonly factor: number
  readonly offset: number
  /** the meaning is not certain: counted as `unit_ambiguous` */
  readonly ambiguous: boolean
}

export interface PrefixedCode {
  /** the code on the wire */
  readonly code: string
  /** value in the canonical unit = value in `code` × scale */
  readonly scale: number
}

/** Encodes and decodes unit texts on the wire in dialect `ucum` (X1). */
export interface WireUnits {
  /** the wire text of a canonical unit */
  toToken(unit: string): string
  /** the meaning of a received unit text */
  fromToken(token: string): WireUnit
  /**
   * the same if C firmware sent it: plain UCUM, so that `A` is ampere; complete tokens of the table (`A01`) are still
   * recognized
   */
  fromPlain(token: string): WireUnit
  /** smaller units of the same dimension, by scale descending; none for units without prefixes */
  prefixed(unit: string): readonly PrefixedCode[]
}

const SENT_AS_SYMBOL: ReadonlyMap<string, string> = new Map(
  'm=600 s=B00 mol=000 cd=700 bit=500 A=100 %=C00'.split(' ').map(row => row.split('=') as [string, string]),
)
const REWRITTEN: ReadonlyMap<string, string> = new Map([
  ['', 'Z'],
  ['1', '{1}'],
  ['C', 'A.s'],
])
/** Prefixes that a coefficient may have before its name, in the order in which peers test them. */
const GLUED = ['da', 'k', 'M', 'G', 'd', 'm', 'u', 'p']
/** Coefficients below one are sent as Base62 with the default precision of every peer. */
const COEFFICIENT_SCALE = 1e4
const CACHE_SIZE = 1024

/** The longest token at the start of `part` that is followed only by digits (the power). */
function splitToken(part: string): { unit: string; digits: string } | null {
  for (let length = Math.min(3, part.length); length > 0; length--) {
    const unit = TOKEN_UNITS.get(part.slice(0, length))
    const digits = part.slice(length)
    if (unit !== undefined && /^\d*$/.test(digits)) return { unit, digits }
  }
  return null
}

/** The wire text of a canonical unit (X1). A wire text is returned unchanged. */
function toToken(unit: string): string {
  const symbol = SENT_AS_SYMBOL.get(unit) ?? REWRITTEN.get(unit)
  if (symbol !== undefined) return symbol
  if (!/[ABCD\d]/.test(unit)) return unit
  return unit
    .split('/')
    .map(part => (splitToken(part) ? `${part}{u}` : part))
    .join('/')
}

/** `unit` to the power in `digits`; no digits mean power 1, values outside 1 to 99 are invalid. */
function raised(unit: string, digits: string): Quantity | null {
  if (unit === '' || !/^([1-9]\d?)?$/.test(digits)) return null
  const q = understand(unit)
  return q && power(q, digits === '' ? 1 : Number(digits))
}

/** Attribute name with an optional power: `length2`, `electric current`. */
function attribute(text: string): Quantity | null {
  const cut = /^([a-z][a-z _]*[a-z])(\d*)$/i.exec(text)
  return cut && raised(ATTRIBUTE_UNITS.get(cut[1]!.toLowerCase().replace(/ /g, '_')) ?? '', cut[2]!)
}

function tokenOrAttribute(text: string): Quantity | null {
  const token = splitToken(text)
  return token ? raised(token.unit, token.digits) : attribute(text)
}

const base62 = (text: string): number | null => (/^[0-9a-zA-Z]{1,8}$/.test(text) ? Number(decodeInteger(text)) : null)

/**
 * `num,sym` of section 4. With a prefix letter the number is a whole number. Without one a peer writes whole numbers
 * that are not multiples of ten, or fractions × 10 000; the number is accepted only if these cannot be confused.
 */
function coefficient(part: string): Quantity | null {
  const at = part.indexOf(',')
  const number = part.slice(0, at)
  const symbol = part.slice(at + 1)
  const decimal = /^\d*\.\d+$/.test(number) ? Number(number) : null
  const whole = decimal ?? base62(number)
  if (!whole) return null
  const plain = tokenOrAttribute(symbol)
  if (plain) {
    if (decimal !== null || whole < 10) return combine(pure(whole), plain, false)
    return whole % 10 === 0 ? combine(pure(whole / COEFFICIENT_SCALE), plain, false) : null
  }
  for (const letter of GLUED) {
    if (!symbol.startsWith(letter)) continue
    const tail = symbol.slice(letter.length)
    const end = endDigits(tail)
    const unit = SYMBOL_UNITS.get(tail.slice(0, end).toLowerCase()) ?? ''
    const q = tokenOrAttribute(tail) ?? raised(unit, tail.slice(end))
    if (q) return combine(pure(whole * PREFIXES.get(letter)!), q, false)
  }
  return null
}

/** One `/` part as a token, an attribute name, or either with a coefficient; null for anything else. */
function partQuantity(part: string): Quantity | null {
  if (part.includes(',')) return coefficient(part)
  const whole = tokenOrAttribute(part)
  if (whole) return whole
  const cut = /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([a-z].*)$/i.exec(part)
  const named = cut && attribute(cut[2]!)
  return named && Number(cut[1]) > 0 ? combine(pure(Number(cut[1])), named, false) : null
}

function tokens(text: string): Quantity | null {
  let sum: Quantity | null = null
  for (const part of text.split('/')) {
    const q = partQuantity(part)
    if (!q) return null
    sum = sum ? combine(sum, q, true) : q
  }
  return sum
}

/** Removes the marks that toToken sets. A single annotation stays. */
const unmark = (text: string): string => text.replace(/(?<=[^/.({])\{u\}/g, '')

/** UCUM parses numeric class tokens as whole numbers; only the 1 of `1/m` may really be a number. */
const mixesTokens = (text: string): boolean => {
  const parts = text.split('/')
  return parts.some(
    (part, k) => /^\d+$/.test(part) && splitToken(part) !== null && !(k === 0 && part === '1' && parts[1]),
  )
}

function read(text: string): WireUnit {
  const q = tokens(text)
  const plain = text === 'Z' ? '' : unmark(text)
  return wireUnit(plain, q ? (isSound(q) ? canonicalOf(q) : null) : mixesTokens(plain) ? null : resolve(plain))
}

function readPlain(text: string): WireUnit {
  const plain = text === 'Z' ? '' : text
  const isToken = plain.length === 3 && TOKEN_UNITS.has(plain)
  const q = isToken ? tokens(plain) : null
  return wireUnit(plain, q ? canonicalOf(q) : mixesTokens(plain) ? null : resolve(plain))
}

function wireUnit(plain: string, meant: ReturnType<typeof resolve>): WireUnit {
  if (!meant) return { unit: plain, factor: 1, offset: 0, ambiguous: true }
  return { unit: meant.canonical, factor: meant.factor, offset: meant.offset, ambiguous: false }
}

/** Prefixes that make a unit smaller: with a power above 1 the fine steps too, with a negative power the large ones. */
function steps(exponent: number): string[] {
  if (exponent < 0) return ['k', 'M', 'G', 'T', 'P', 'E']
  return exponent === 1 ? ['m', 'u', 'n', 'p', 'f', 'a'] : ['d', 'c', 'm', 'u', 'n', 'p', 'f', 'a']
}

function smaller(unit: string): readonly PrefixedCode[] {
  const cut = /^([A-Za-z]+|\[[^\]]+\])(-?\d+)?(?=[./]|$)(.*)$/.exec(unit)
  if (!cut) return []
  const [, symbol, digits = '', tail] = cut
  const kilogram = symbol === 'kg'
  const base = kilogram ? 'g' : symbol!
  if (!takesPrefix(base) || !parseUnit(unit)) return []
  const prefixes = steps(digits === '' ? 1 : Number(digits))
  const candidates = kilogram && !digits.startsWith('-') ? ['', ...prefixes] : prefixes
  const found: PrefixedCode[] = []
  for (const prefix of candidates) {
    const code = toToken(`${prefix}${base}${digits}${tail}`)
    const back = read(code)
    // a code that is decoded as something else (`pH`) is not offered
    if (back.unit === unit && back.offset === 0 && back.factor < 1) found.push({ code, scale: back.factor })
  }
  return found.sort((a, b) => b.scale - a.scale)
}

const UNITS: WireUnits = {
  toToken: remembered(toToken, CACHE_SIZE),
  fromToken: remembered(read, CACHE_SIZE),
  fromPlain: remembered(readPlain, CACHE_SIZE),
  prefixed: remembered(smaller, CACHE_SIZE),
}

/** The unit rules of dialect `ucum`; results are cached, so each use costs one lookup. */
export const wireUnits = (): WireUnits => UNITS
