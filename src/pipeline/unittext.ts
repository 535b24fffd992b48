// Unit tokens in dialect `attribute`: splits a unit at `/` into number, name and power exactly like the reference,
// including texts that do not survive a round trip. Throws BAD_TEXT where the reference raises.
import { OsError } from '../lib/errors'
import { decodeInteger, encodeBase62 } from '../wire/base62'
import { endDigits, pyFloat, pyText } from '../wire/number'
import { UNIT_NAMES, UNIT_TOKENS } from '../wire/symbols'

const GROW: readonly (readonly [number, string])[] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [10, 'da'],
]
/** tested in this order when decoding; the factors of u and p are the reference's */
const SCALES: readonly (readonly [string, number])[] = [
  ['da', 10],
  ['k', 1e3],
  ['M', 1e6],
  ['G', 1e9],
  ['d', 0.1],
  ['m', 1e-3],
  ['u', 1e-6],
  ['p', 1e-9],
]

const symbol = (name: string): string => UNIT_TOKENS.get(name.toLowerCase()) ?? name

function encodePart(part: string, precision: number): string {
  const end = endDigits(part)
  const power = part.slice(end)
  const core = part.slice(0, end)
  let cut = core.length
  let number: number | undefined
  for (; cut > 0; cut--) if ((number = pyFloat(core.slice(0, cut))) !== undefined) break
  if (number === undefined) return symbol(core) + power
  if (!Number.isFinite(number))
    throw new OsError('BAD_TEXT', `unit ${JSON.stringify(part)} starts with no finite number`)
  let name = core.slice(cut)
  for (const [factor, letters] of GROW) {
    if (number >= factor && number % factor === 0) {
      number /= factor
      name = letters + name
      break
    }
  }
  const whole = Number.isInteger(number) && Math.abs(number) >= 1
  return `${encodeBase62(number, !whole, precision)},${symbol(name)}${power}`
}

/** A unit or attribute name → token. */
export function encodeUnit(unit: string, precision = 4): string {
  if (unit === '' || unit === 'unknown') return 'Z'
  return unit
    .split('/')
    .map(part => encodePart(part, precision))
    .join('/')
}

const plain = (token: string): string => UNIT_NAMES.get(token) ?? token

const badNumber = (part: string): OsError =>
  new OsError('BAD_TEXT', `unit ${JSON.stringify(part.slice(0, 60))} has a bad number`)

function decodePart(part: string): string {
  const comma = part.indexOf(',')
  if (comma < 0) return plain(part)
  const text = part.slice(0, comma)
  const token = part.slice(comma + 1)
  if (!/\d/.test(text)) return plain(token)
  let number: number
  if (/[.e]/.test(text)) {
    const float = pyFloat(text)
    if (float === undefined) throw badNumber(part)
    number = float
  } else number = Number(decodeInteger(text))
  const end = endDigits(token)
  const power = token.slice(end)
  const name = token.slice(0, end)
  const scale = SCALES.find(([letters]) => name.startsWith(letters))
  if (scale) number *= scale[1]
  if (!Number.isFinite(number)) throw badNumber(part)
  return pyText(number) + plain(name) + power
}

/** A token → unit or attribute name. */
export const decodeUnit = (token: string): string => token.split('/').map(decodePart).join('/')
