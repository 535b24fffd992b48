// Numbers as the reference parses and prints them (Python's float() and repr()), where its text is on the wire.

const FLOAT = /^\s*[+-]?(?:(?:\d+(?:_\d+)*)(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+(?:_\d+)*)?\s*$/
const SPECIAL = /^\s*([+-]?)(inf|infinity|nan)\s*$/i

/** Any value as float() accepts it: numbers, booleans, bigints, numeric text. Undefined if float() raises. */
export function pyFloat(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'bigint') return Number(value)
  if (typeof value !== 'string') return undefined
  if (FLOAT.test(value)) return Number(value.replaceAll('_', ''))
  const special = SPECIAL.exec(value)
  if (!special) return undefined
  if (special[2]!.toLowerCase() === 'nan') return Number.NaN
  return special[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
}

/** The start of the digits at the end of a text. A loop, because the expression `\d*$` takes quadratic time. */
export function endDigits(text: string): number {
  let at = text.length
  while (at > 0 && text.charCodeAt(at - 1) >= 48 && text.charCodeAt(at - 1) <= 57) at--
  return at
}

/** A number as Python prints it: integers without a point, small and large ones like 2e-09. */
export function pyText(x: number): string {
  if (Number.isInteger(x) && Math.abs(x) < 1e16) return String(x)
  const magnitude = Math.abs(x)
  if (magnitude >= 1e-4 && magnitude < 1e16) return String(x)
  const [digits, exponent] = x.toExponential().split('e') as [string, string]
  const power = exponent.slice(1)
  return `${digits}e${exponent[0]}${power.length < 2 ? '0' + power : power}`
}

/** A number as C's `%g` prints it: six significant digits, ties to even, no trailing zeros. */
export function pyGeneral(x: number): string {
  if (x === 0 || !Number.isFinite(x)) return pyText(x)
  // toExponential is exact but rounds ties away from zero
  const tie = /^(-?\d\.\d{4}[02468])50*e(.+)$/.exec(x.toExponential(100))
  const [digits, exponent] = tie ? [tie[1], tie[2]] : x.toExponential(5).split('e')
  const power = Number(exponent)
  const strip = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)
  if (power >= -4 && power < 6) return strip(Number(`${digits}e${power}`).toFixed(5 - power))
  return `${strip(digits!)}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
}
