// Brings the text of a broken configuration closer to JSON: other notations are converted, extra or missing braces no
// longer end or swallow the following text, and words that are neither name nor value are removed. It never fails; text
// that it does not understand stays unchanged, for the parser to report.

/** Comments, texts in either quotes (closed, or cut off at the end of the line), punctuation, words, blanks. */
const TOKEN =
  /(?:\/\/|#)[^\n\r]*|\/\*[\s\S]*?(?:\*\/|$)|"(?:[^"\\\n\r]|\\.)*"?|'[^'\n\r]*'?|[{}[\],:]|\s+|(?:[^\s{}[\],:"'/]|\/(?![/*]))+/g
const SIGN = /^[{}[\],:]$/
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i
/** non-JSON quotes around a text without quotes */
const QUOTED = /^['‘’“”]([^'‘’“”"\\]*)['‘’“”]$/
const LITERALS = new Set(['true', 'false', 'null'])
const PAIR: Readonly<Record<string, string>> = { '}': '{', ']': '[', '{': '}', '[': ']' }

/** Before an invalid value, so that the parser does not take the next one instead. */
export const NO_VALUE = '\0'

/** The JSON form of a word outside of quotes. */
function word(text: string, isName: boolean): string {
  const inner = QUOTED.exec(text)?.[1]
  if (text.startsWith('"') || (!isName && (NUMBER.test(text) || LITERALS.has(text)))) return text
  return JSON.stringify(inner ?? (isName ? text : NO_VALUE + text))
}

/** `left`: words were removed. */
export function tidy(text: string): { text: string; left: boolean } {
  const tokens: string[] = text.match(TOKEN) ?? []
  const parts = tokens.flatMap((token, k) => (/^(?:\s|#|\/[/*])/.test(token) ? [] : [k]))
  const lastColon = tokens.lastIndexOf(':')
  const first = tokens.indexOf(':')
  /** names without the outermost braces */
  const bare = first >= 0 && !tokens.slice(0, first).includes('{')
  const braced = tokens.includes('{')
  const open: string[] = bare ? ['{'] : []
  /** open brackets of each kind, updated per token, because nesting may be deep */
  const count: Record<string, number> = { '{': open.length, '[': 0 }
  let before = ''
  let left = false

  const shut = (): string => {
    const opening = open.pop()!
    count[opening]!--
    return opening
  }
  /** The closing brackets of everything that is open, down to an opening bracket. */
  const closing = (down: string): string => {
    let ends = ''
    while (open.length > 0 && open.at(-1) !== down) ends += PAIR[shut()]
    return ends
  }
  const signed = (token: string, at: number): string => {
    if (token === ',' || token === ':') return token
    const inObject = open.at(-1) === '{'
    // an unnamed object inside an object: a second document after the first one
    if (token === '{' && inObject && before !== ':') return ','
    if (token === '{' || token === '[') {
      open.push(token)
      count[token]!++
      return token
    }
    const opening = PAIR[token]!
    // the last brace of all, with more names after it: one too many
    if (count[opening] === 0 || (open.length === 1 && at < lastColon)) return ' '
    const ends = closing(opening)
    shut()
    return ends + token
  }
  const worded = (token: string, next: string, after: string): string => {
    // text before the first brace belongs to nothing
    if (open.length === 0 && braced) {
      left = true
      return ''
    }
    const named = next === ':'
    const ends = named && count['{'] ? closing('{') : ''
    if (open.at(-1) !== '{' || before === ':' || named || next === '') return ends + word(token, named)
    // a name and its value without a colon in between
    if (!SIGN.test(next) && (after === ',' || after === '}')) return `${word(token, true)}:`
    left = true
    return ''
  }

  parts.forEach((at, k) => {
    const [token = '', next = '', after = ''] = [0, 1, 2].map(n => tokens[parts[k + n] ?? -1])
    tokens[at] = SIGN.test(token) ? signed(token, at) : worded(token, next, after)
    before = tokens[at].endsWith(':') ? ':' : token
  })
  const sound = tokens.map(token => (token.startsWith('#') ? '' : token)).join('')
  return { text: bare ? `{${sound}` : sound, left }
}
