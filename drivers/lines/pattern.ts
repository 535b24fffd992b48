// Regular expressions over lines: each named group is a channel. Pure. Users write the expressions, and one that takes
// a second per line would block the gateway: each is tested on hostile lines before use, and lines are bounded.
import type { Take } from '../kit/latest-source'

interface GroupOptions {
  /** base of a number in the text; default 10 */
  base?: number | undefined
  /** numbers for words: {"ON": 1, "OFF": 0} */
  words?: Readonly<Record<string, number>> | undefined
}

/** The group names of an expression, in order. Throws a SyntaxError if it does not compile. */
export function groupsOf(pattern: string): string[] {
  // with an empty alternative every text matches, and the result lists all names
  return Object.keys(new RegExp(`${pattern}|`).exec('')?.groups ?? {})
}

const DECIMAL = /^[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,3})?$/
const HEX = /^(?:0[xX])?[0-9a-fA-F]{1,13}$/

/** The number in a group's text; NaN if there is none. A decimal comma is accepted. */
export function numberOf(text: string, { base = 10, words }: GroupOptions = {}): number {
  const plain = text.trim()
  if (words && Object.hasOwn(words, plain)) return words[plain]!
  if (base === 16) return HEX.test(plain) ? Number.parseInt(plain, 16) : Number.NaN
  return DECIMAL.test(plain) ? Number(plain.replace(',', '.')) : Number.NaN
}

/** Parses lines with several expressions; all that match count. `groups`: index and options of every named group. */
export function patternReader(
  patterns: readonly string[],
  ignoreCase: boolean,
  groups: ReadonlyMap<string, { place: number; options: GroupOptions }>,
): (text: string, take: Take) => boolean {
  const expressions = patterns.map(pattern => new RegExp(pattern, ignoreCase ? 'i' : ''))
  return (text, take) => {
    let said = false
    for (const expression of expressions) {
      const found = expression.exec(text)?.groups
      if (!found) continue
      for (const [name, { place, options }] of groups) {
        const part = found[name]
        if (part === undefined) continue
        said = true
        const value = numberOf(part, options)
        if (!Number.isFinite(value)) take(place, null, `is no number: ${JSON.stringify(part.slice(0, 40))}`)
        else take(place, value)
      }
    }
    return said
  }
}

/** a sensor's line takes microseconds */
const BUDGET_MS = 50
const TRIES = 3
const PIECES = ['a', '1', ' ', '1.', 'a1', '1,', 'a ', '-', ';', '="']

/**
 * Whether an expression takes too long on a line of up to `maxLength` characters: tested on lines that grow slowly, so
 * that one whose time doubles with each character is detected before it takes seconds.
 */
export function tooSlow(pattern: string, maxLength: number): boolean {
  const expression = new RegExp(pattern)
  // the expression's own characters cause the deepest backtracking
  const own = [...new Set(pattern.replace(/\\.|\(\?<\w+>/g, ''))]
    .filter(c => !'()[]{}|?*+^$.\\'.includes(c))
    .slice(0, 16)
  for (const piece of new Set([...PIECES, ...own]))
    for (let length = 8; length <= maxLength; length = length < 64 ? length + 2 : Math.ceil(length * 1.25)) {
      const line = `${piece.repeat(length).slice(0, length - 1)}\u0001`
      if (takesLong(expression, line)) return true
    }
  return false
}

/** Measures several times, so that other load on the machine does not count. */
function takesLong(expression: RegExp, line: string): boolean {
  for (let k = 0; k < TRIES; k++) {
    const began = performance.now()
    expression.exec(line)
    if (performance.now() - began <= BUDGET_MS) return false
  }
  return true
}
