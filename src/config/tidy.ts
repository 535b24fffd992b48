// The text of a broken configuration, closer to JSON: what people write in other notations is said in its own, braces that are
// too many or missing no longer end or swallow what follows, and words that are neither name nor value are left out. It never
// fails; what it cannot make sense of stays as it is, for the reader to name.

/** Comments, texts in either quotes (closed or cut at the end of the line), signs, words, blanks. */
const TOKEN =
  /(?:\/\/|#)[^\n\r]*|\/\*[\s\S]*?(?:\*\/|$)|"(?:[^"\\\n\r]|\\.)*"?|'[^'\n\r]*'?|[{}[\],:]|\s+|(?:[^\s{}[\],:"'/]|\/(?![/*]))+/g
const SIGN = /^[{}[\],:]$/
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i
/** quotes that JSON does not know, around a text without any */
const QUOTED = /^['‘’“”]([^'‘’“”"\\]*)['‘’“”]$/
const LITERALS = new Set(['true', 'false', 'null'])
const PAIR: Readonly<Record<string, string>> = { '}': '{', ']': '[', '{': '}', '[': ']' }

/** In front of a value that is none: the reader would take the next one in its place. */
export const NO_VALUE = '\0'

/** A word outside of quotes, as JSON would have it. */
function word(text: string, isName: boolean): string {
  const inner = QUOTED.exec(text)?.[1]
  if (text.startsWith('"') || (!isName && (NUMBER.test(text) || LITERALS.has(text)))) return text
  return JSON.stringify(inner ?? (isName ? text : NO_VALUE + text))
}

/** `left`: there were words that belong to nothing. */
export function tidy(text: string): { text: string; left: boolean } {
  const tokens: string[] = text.match(TOKEN) ?? []
  const parts = tokens.flatMap((token, k) => (/^(?:\s|#|\/[/*])/.test(token) ? [] : [k]))
  const lastColon = tokens.lastIndexOf(':')
  const first = tokens.indexOf(':')
  /** names without the brace around them all */
  const bare = first >= 0 && !tokens.slice(0, first).includes('{')
  const braced = tokens.includes('{')
  const open: string[] = bare ? ['{'] : []
  /** how many of each are open: read for each token, and nesting may be deep */
  const count: Record<string, number> = { '{': open.length, '[': 0 }
  let before = ''
  let left = false

  const shut = (): string => {
    const opening = open.pop()!
    count[opening]!--
    return opening
  }
  /** The ends of what was never closed, down to an opening sign. */
  const closing = (down: string): string => {
    let ends = ''
    while (open.length > 0 && open.at(-1) !== down) ends += PAIR[shut()]
    return ends
  }
  const signed = (token: string, at: number): string => {
    if (token === ',' || token === ':') return token
    const inObject = open.at(-1) === '{'
    // an object without a name in an object: a second document behind the first one
    if (token === '{' && inObject && before !== ':') return ','
    if (token === '{' || token === '[') {
      open.push(token)
      count[token]!++
      return token
    }
    const opening = PAIR[token]!
    // the last brace of all, and names still to come: one too many
    if (count[opening] === 0 || (open.length === 1 && at < lastColon)) return ' '
    const ends = closing(opening)
    shut()
    return ends + token
  }
  const worded = (token: string, next: string, after: string): string => {
    // in front of the first brace nothing belongs to anything
    if (open.length === 0 && braced) {
      left = true
      return ''
    }
    const named = next === ':'
    const ends = named && count['{'] ? closing('{') : ''
    if (open.at(-1) !== '{' || before === ':' || named || next === '') return ends + word(token, named)
    // a name and its value without a colon between them
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
