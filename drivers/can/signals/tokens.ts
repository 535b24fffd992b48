// The tokens of a DBC file in order, each scanned once: names, numbers, quoted texts, punctuation. Errors: an
// unterminated text extends to the end of the file, as a token of kind 'text'; nothing throws.

type TokenKind = 'name' | 'number' | 'text' | 'mark' | 'end'

/** longer tokens are truncated: only comments, which are not read, are longer */
const MAX_WORD = 512

/** character classes */
const NAME = 1
const DIGIT = 2
const NUMBER = 4
const KINDS = Uint8Array.from({ length: 128 }, (_, c) => {
  const text = String.fromCharCode(c)
  if (/\d/.test(text)) return NAME | DIGIT | NUMBER
  if (/[A-Za-z_]/.test(text)) return NAME | NUMBER
  return /[-+.#]/.test(text) ? NUMBER : 0
})
/** letters of other scripts count as letters; NaN, past the end, matches nothing */
const is = (kinds: number, c: number): boolean =>
  c < 128 ? (KINDS[c]! & kinds) !== 0 : c >= 128 && (kinds & NAME) !== 0

/** The bytes of a file as text: UTF-8 if valid, else Latin 1, which older editors write. */
export function dbcText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1') // not UTF-8
  }
}

export class Tokens {
  readonly #source: string
  #at = 0
  #nextLine = 1
  /** the current token */
  kind: TokenKind = 'end'
  text = ''
  /** line of the token's start, from 1 */
  line = 1
  /** line on which the previous token ended */
  lineBefore = 0

  constructor(source: string) {
    this.#source = source
    this.next()
  }

  /** Advances to the next token. */
  next(): void {
    const s = this.#source
    this.lineBefore = this.#nextLine
    this.#skipBlank()
    this.line = this.#nextLine
    if (this.#at >= s.length) {
      this.kind = 'end'
      this.text = ''
      return
    }
    const c = s.charCodeAt(this.#at)
    if (c === 0x22) this.#quoted()
    else if (is(NAME, c) && !is(DIGIT, c)) this.#word('name', NAME)
    else if (this.#startsNumber(c)) this.#word('number', NUMBER)
    else {
      this.kind = 'mark'
      this.text = s[this.#at++]!
    }
  }

  /** checks `kind` without TypeScript's narrowing of the property */
  is(kind: TokenKind): boolean {
    return this.kind === kind
  }

  /** Consumes the expected name or mark. Throws a text that says what was found instead. */
  expect(text: string): void {
    if (this.text !== text || this.kind === 'text') throw this.wrong(`"${text}"`)
    this.next()
  }

  /** Consumes `text` if it is the current token; true if so. */
  take(text: string): boolean {
    if (this.text !== text || this.kind === 'text') return false
    this.next()
    return true
  }

  name(): string {
    return this.#get('name', 'a name')
  }

  /** A quoted text. */
  quoted(): string {
    return this.#get('text', 'a text in quotes')
  }

  /** A decimal number; NaN where the file has something else ('1.#QNAN'). */
  number(): number {
    return Number(this.#get('number', 'a number'))
  }

  /** A whole number of 0 … `most`. */
  whole(most: number): number {
    const text = this.#get('number', 'a whole number')
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (!(value <= most)) throw new SyntaxError(`${text} is not a whole number of 0 to ${most}`)
    return value
  }

  /** Skips past the next `;`, or to a word at the start of a line that `stop` accepts. */
  skipStatement(stop: (name: string) => boolean): void {
    while (this.kind !== 'end') {
      if (this.kind === 'mark' && this.text === ';') {
        this.next()
        return
      }
      if (this.kind === 'name' && this.line > this.lineBefore && stop(this.text)) return
      this.next()
    }
  }

  /** Skips the remainder of the line on which the last token ended. */
  skipLine(): void {
    const line = this.lineBefore
    while (this.kind !== 'end' && this.line === line) this.next()
  }

  wrong(wanted: string): SyntaxError {
    const found = this.kind === 'end' ? 'the file ends' : `"${this.text.slice(0, 40)}" is there`
    return new SyntaxError(`${wanted} is expected, ${found}`)
  }

  #get(kind: TokenKind, what: string): string {
    if (this.kind !== kind) throw this.wrong(what)
    const { text } = this
    this.next()
    return text
  }

  #skipBlank(): void {
    const s = this.#source
    for (; this.#at < s.length; this.#at++) {
      const c = s.charCodeAt(this.#at)
      if (c === 0x0a) this.#nextLine++
      else if (c === 0x2f && s.charCodeAt(this.#at + 1) === 0x2f) {
        // `//` comments are not part of the format, but people write them
        const end = s.indexOf('\n', this.#at)
        this.#at = (end < 0 ? s.length : end) - 1
      } else if (c > 0x20 && c !== 0xfeff && c !== 0xa0) return
    }
  }

  #quoted(): void {
    const s = this.#source
    const from = ++this.#at
    let escaped = false
    for (; this.#at < s.length; this.#at++) {
      const c = s.charCodeAt(this.#at)
      if (c === 0x0a) this.#nextLine++
      if (c === 0x22) break
      // a backslash escapes the quote, except after a path at the end of a line
      if (c === 0x5c && s.charCodeAt(this.#at + 1) === 0x22 && !endsText(s, this.#at + 2)) {
        escaped = true
        this.#at++
      }
    }
    this.kind = 'text'
    this.text = s.slice(from, Math.min(this.#at, from + MAX_WORD))
    if (escaped) this.text = this.text.replaceAll('\\"', '"')
    this.#at++
  }

  #word(kind: TokenKind, of: number): void {
    const s = this.#source
    const from = this.#at++
    let at = from + 1
    while (at < s.length && is(of, s.charCodeAt(at))) at++
    this.#at = at
    this.kind = kind
    this.text = s.slice(from, Math.min(at, from + MAX_WORD))
  }

  #startsNumber(c: number): boolean {
    const s = this.#source
    let at = this.#at
    if (c === 0x2b || c === 0x2d) at++
    if (s.charCodeAt(at) === 0x2e) at++
    return is(DIGIT, s.charCodeAt(at))
  }
}

/** Whether the text after a quote ends the statement and its line. */
const endsText = (s: string, at: number): boolean =>
  s[at] === ';' && (at + 1 >= s.length || s[at + 1] === '\n' || s[at + 1] === '\r')
