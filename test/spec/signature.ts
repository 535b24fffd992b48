// Parameters and defaults of a method, read from its source text. The bundle of the tests keeps names; a number that the
// bundler appended to a name is removed.
import assert from 'node:assert/strict'

const PAIRS: Record<string, string> = { '(': ')', '[': ']', '{': '}' }

/** After a text that begins at `from`; `from` itself if none does. */
function overText(text: string, from: number): number {
  const quote = text[from]!
  return '"\'`'.includes(quote) ? text.indexOf(quote, from + 1) : from
}

/** Where the bracket that opens at `from` closes. */
function closing(text: string, from: number): number {
  let depth = 0
  for (let at = from; at < text.length; at++) {
    const k = overText(text, at)
    if (k > at) at = k
    else if (text[k]! in PAIRS) depth++
    else if (Object.values(PAIRS).includes(text[k]!) && --depth === 0) return k
  }
  throw new Error(`no end of ${text.slice(from, from + 40)}`)
}

function split(list: string): string[] {
  const parts: string[] = []
  let start = 0
  for (let k = 0; k < list.length; k++) {
    k = overText(list, k)
    if (list[k]! in PAIRS) k = closing(list, k)
    else if (list[k] === ',') {
      parts.push(list.slice(start, k))
      start = k + 1
    }
  }
  return [...parts, list.slice(start)].map(part => part.trim()).filter(part => part !== '')
}

const plain = (parameter: string): string => {
  const [name = '', value] = parameter.split(/\s*(?::[^=]*)?=\s*/)
  const bare = name
    .split(':')[0]!
    .trim()
    .replace(/(?<=[A-Za-z])\d+$/, '')
  if (value === undefined) return bare
  return `${bare} = ${/^\d[\d_]*(\.\d+)?(e\d+)?$/.test(value) ? Number(value.replaceAll('_', '')) : value.replaceAll('"', "'")}`
}

/** `['serverIp', 'timeout = 5']` */
export function parameters(method: (...args: never[]) => unknown): string[] {
  const text = method.toString()
  const from = text.indexOf('(')
  return split(text.slice(from + 1, closing(text, from))).map(plain)
}

/** The options that a constructor destructures first: `['expireSeconds = 86400']`. */
export function constructorOptions(made: abstract new (...args: never[]) => unknown): string[] {
  const text = made.toString()
  const from = text.indexOf('{', text.indexOf('const {', text.search(/\bconstructor\(/)))
  return split(text.slice(from + 1, closing(text, from))).map(plain)
}

export function constructorParameters(made: abstract new (...args: never[]) => unknown): string[] {
  const text = made.toString()
  const from = text.indexOf('(', text.search(/\bconstructor\(/))
  return split(text.slice(from + 1, closing(text, from))).map(plain)
}

/** Parameters of the specification come first and in its order; ours follow, and the calls leave them out. */
export function sameParameters(actual: readonly string[], wanted: readonly string[], at: string): void {
  assert.deepEqual(actual.slice(0, wanted.length), wanted, `${at}: parameters`)
}
