// Bytes of a terminal → names of keys. A sequence may arrive in pieces (ssh), and the Escape key alone looks like the
// start of one: the remainder waits for `flush`. Unknown sequences are discarded completely, so that they do not count
// as letters.
import { StringDecoder } from 'node:string_decoder'

const NAMED: Readonly<Record<string, string>> = {
  A: 'up',
  B: 'down',
  C: 'right',
  D: 'left',
  H: 'home',
  F: 'end',
  Z: 'backtab',
  '1~': 'home',
  '4~': 'end',
  '5~': 'pageup',
  '6~': 'pagedown',
  '7~': 'home',
  '8~': 'end',
}
const CONTROL: Readonly<Record<string, string>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  '\x7f': 'backspace',
  '\b': 'backspace',
  '\x03': 'ctrl-c',
  '\x04': 'ctrl-d',
  '\x0c': 'ctrl-l',
  '\x1a': 'ctrl-z',
}
const SEQUENCE = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])/
const BEGINNING = /^\x1b(?:\[[0-?]*[ -/]*|O)?$/
/** longer than any existing sequence */
const LONGEST = 32

export class KeyReader {
  readonly #decoder = new StringDecoder('utf8')
  #pending = ''

  /** True while the start of a sequence waits for more bytes. */
  get waiting(): boolean {
    return this.#pending !== ''
  }

  /** Keys by name; a character is its own name. */
  feed(bytes: Buffer): string[] {
    this.#pending += this.#decoder.write(bytes)
    const keys: string[] = []
    while (this.#pending !== '' && this.#next(keys));
    return keys
  }

  /** No more bytes arrived: the Escape key, or nothing. */
  flush(): string[] {
    const alone = this.#pending === '\x1b'
    this.#pending = ''
    return alone ? ['escape'] : []
  }

  #next(keys: string[]): boolean {
    const text = this.#pending
    if (!text.startsWith('\x1b')) {
      const char = String.fromCodePoint(text.codePointAt(0)!)
      this.#pending = text.slice(char.length)
      const name = CONTROL[char] ?? (char < ' ' ? '' : char)
      if (name !== '') keys.push(name)
      return true
    }
    const sequence = SEQUENCE.exec(text)?.[0]
    if (sequence) {
      this.#pending = text.slice(sequence.length)
      const name = NAMED[sequence.slice(2)]
      if (name) keys.push(name)
      return true
    }
    if (BEGINNING.test(text) && text.length < LONGEST) return false
    this.#pending = text.slice(1)
    keys.push('escape')
    return true
  }
}
