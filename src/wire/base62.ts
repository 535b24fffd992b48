// Base62 numbers, digits 0-9 a-z A-Z, most significant first: the text form of every value on the wire, a fixed-point
// number times 10^precision in 64 bits. The text functions are bit-identical to the reference's arithmetic, including
// its 64-bit overflow (the pipeline refuses values that must not overflow, decision 0006); decoding throws BAD_TEXT. The buffer
// functions are for the hot path: they use the caller's buffer and allocate nothing.
import { WireError } from './error'
import { pyFloat } from './number'

export const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
const DIGIT = Uint8Array.from(ALPHABET, c => c.charCodeAt(0))
/** digit value by character code, 255 = not a digit */
const VALUE = new Uint8Array(256).fill(255)
for (let i = 0; i < 62; i++) VALUE[DIGIT[i]!] = i

export const POW10 = Float64Array.from({ length: 23 }, (_, k) => Number(`1e${k}`))
/** doubles represent every integer below this exactly */
export const EXACT = 2 ** 53
const MINUS = 45
/** "No value" among fixed-point numbers (X34). Its text is `00`: every decoder reads 0, and no encoder writes it for a number. */
export const NO_VALUE = Number.POSITIVE_INFINITY
export const NO_VALUE_TEXT = '00'
const P5 = 62 ** 5

/** Rounds to the nearest integer, ties to even. */
export function roundHalfEven(x: number): number {
  const r = Math.round(x)
  return r - x === 0.5 && r % 2 !== 0 ? r - 1 : r
}

/** The integer wrapped to signed 64 bits, as Base62 text. */
export function encodeInteger(n: number | bigint): string {
  if (typeof n === 'bigint' || n >= EXACT || n <= -EXACT) {
    if (n === NO_VALUE) return NO_VALUE_TEXT
    const wrapped = BigInt.asIntN(64, BigInt(n))
    if (wrapped > BigInt(-EXACT) && wrapped < BigInt(EXACT)) return encodeInteger(Number(wrapped))
    let left = wrapped < 0n ? -wrapped : wrapped
    let text = ''
    for (; left > 0n; left /= 62n) text = ALPHABET[Number(left % 62n)] + text
    return wrapped > 0n ? text : '-' + text
  }
  if (n === 0) return '0'
  let left = Math.abs(n)
  let text = ''
  while (left > 0) {
    const q = Math.floor(left / 62)
    text = ALPHABET[left - q * 62] + text
    left = q
  }
  return n > 0 ? text : '-' + text
}

/** Value to text. A value that is not a finite number becomes "0". Strings are parsed like Python's float(). */
export function encodeBase62(value: unknown, usePrecision = true, precision = 4): string {
  const x = pyFloat(value)
  if (x === undefined) return '0'
  const n = usePrecision ? roundHalfEven(x * 10 ** precision) : Math.trunc(x)
  return Number.isFinite(n) ? encodeInteger(n) : '0'
}

const refuse = (text: string): never => {
  throw new WireError('BAD_TEXT', `not a Base62 number: ${JSON.stringify(text.slice(0, 40))}`)
}

/** Text to a signed 64-bit integer, modulo 2^64. Throws BAD_TEXT. */
export function decodeInteger(text: string): bigint {
  const negative = text.charCodeAt(0) === MINUS
  let n = 0n
  if (text.length === (negative ? 1 : 0)) refuse(text)
  for (let i = negative ? 1 : 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const digit = code < 256 ? VALUE[code]! : 255
    if (digit === 255) refuse(text)
    // 62^64 is a multiple of 2^64: further digits to the left have no effect
    if (text.length - i <= 64) n = n * 62n + BigInt(digit)
  }
  return BigInt.asIntN(64, negative ? -n : n)
}

/** Text to value: n / 10^precision rounded to 8 decimals, or n itself. Empty is 0. Throws BAD_TEXT. */
export function decodeBase62(text: string, usePrecision = true, precision = 4): number {
  if (text === '') return 0
  const n = Number(decodeInteger(text))
  return usePrecision ? unscale(n, precision) : n
}

/** Fixed point to value. Up to 8 decimals, rounding the decimals never changes the quotient, so it is omitted. */
export function unscale(n: number, precision: number): number {
  const x = n / POW10[precision]!
  return precision > 8 ? roundDecimals(x, 8) : x === 0 ? 0 : x
}

/** Rounds the exact binary value to `digits` decimals, ties to even, like Python's round(x, digits). */
export function roundDecimals(x: number, digits: number): number {
  if (!Number.isFinite(x) || Math.abs(x) >= EXACT) return x
  const up = Number(x.toFixed(digits))
  // toFixed is exact but rounds ties away from zero; a tie is a dyadic number whose double has one decimal more
  const scaled = x * 2 ** (digits + 1)
  if (!Number.isInteger(scaled)) return up
  const text = Math.abs(x).toFixed(Math.min(digits + 1, 100))
  if (!text.endsWith('5') || Number(text) !== Math.abs(x)) return up
  const cut = text.slice(0, -1)
  const even = cut.charCodeAt(cut.length - 1) === 46 ? cut.charCodeAt(cut.length - 2) : cut.charCodeAt(cut.length - 1)
  return even % 2 === 0 ? Math.sign(x) * Number(cut) : up
}

/**
 * Writes the integer `values[i]` (any double that is an integer and fits into 64 bits) at `at`, up to 12 bytes, and
 * returns the end. Passing the array avoids a heap number. Hot path: about 10 ns for six digits, because they are
 * counted first and written in place.
 */
export function writeBase62Of(out: Uint8Array, at: number, values: Float64Array, i: number): number {
  let n = values[i]!
  if (n < 0) {
    out[at++] = MINUS
    n = -n
  }
  if (n < P5) return writeSmall(out, at, n | 0)
  if (n >= EXACT) return writeText(out, at, encodeInteger(n))
  const high = (n / P5) | 0
  at = writeSmall(out, at, high)
  let u = (n - high * P5) | 0
  for (let k = at + 4; k >= at; k--) {
    const q = (u / 62) | 0
    out[k] = DIGIT[u - q * 62]!
    u = q
  }
  return at + 5
}

/** digits of 0 ≤ u < 62^5 */
function writeSmall(out: Uint8Array, at: number, u: number): number {
  const end = at + (u < 3844 ? (u < 62 ? 1 : 2) : u < 14776336 ? (u < 238328 ? 3 : 4) : 5)
  for (let i = end - 1; i >= at; i--) {
    const q = (u / 62) | 0
    out[i] = DIGIT[u - q * 62]!
    u = q
  }
  return end
}

/** Writes ASCII text at `at` and returns the end. */
function writeText(out: Uint8Array, at: number, text: string): number {
  for (let i = 0; i < text.length; i++) out[at++] = text.charCodeAt(i)
  return at
}

/** Text of at most 9 characters to an integer; NaN if decodeInteger would throw or the text is longer. */
export function parseBase62(text: string): number {
  const negative = text.charCodeAt(0) === MINUS
  const first = negative ? 1 : 0
  if (text.length === first || text.length > first + 8) return Number.NaN
  let n = 0
  for (let i = first; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const digit = code < 256 ? VALUE[code]! : 255
    if (digit === 255) return Number.NaN
    n = n * 62 + digit
  }
  return negative ? -n : n
}

/**
 * Parses `bytes[start, end)` as an integer, modulo 2^64 like decodeInteger, into `out[i]`. Empty is 0. False: it is not Base62, and nothing was
 * changed. A result of type number would be allocated wherever V8 does not inline the call.
 */
export function readBase62(bytes: Uint8Array, start: number, end: number, out: Float64Array, i: number): boolean {
  const negative = start < end && bytes[start] === MINUS
  const first = negative ? start + 1 : start
  if (first >= end && negative) return false
  if (end - first > 8) return readLong(bytes, start, end, out, i)
  let n = 0
  for (let k = first; k < end; k++) {
    const digit = VALUE[bytes[k]!]!
    if (digit === 255) return false
    n = n * 62 + digit
  }
  out[i] = negative ? -n : n
  return true
}

/** more than 8 digits may not fit into a double: slow path */
function readLong(bytes: Uint8Array, start: number, end: number, out: Float64Array, i: number): boolean {
  for (let k = bytes[start] === MINUS ? start + 1 : start; k < end; k++) if (VALUE[bytes[k]!] === 255) return false
  out[i] = Number(decodeInteger(String.fromCharCode(...bytes.subarray(start, end))))
  return true
}
