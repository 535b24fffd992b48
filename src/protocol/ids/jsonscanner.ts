// Reads a large JSON file member by member, with one member and a megabyte of the file in memory. Linear in the file's size.
// Throws SyntaxError for invalid JSON, and the errors of the files.
import type { Files } from '../../lib/files'

const CHUNK = 1 << 20
const QUOTE = 0x22
const BACKSLASH = 0x5c

export class JsonScanner {
  readonly #files: Files
  readonly #path: string
  readonly #size: number
  #buffer: Buffer = Buffer.alloc(0)
  /** offset in #buffer */
  #at = 0
  /** offset in the file, after #buffer */
  #read = 0

  constructor(files: Files, path: string) {
    this.#files = files
    this.#path = path
    this.#size = files.size(path)
  }

  /** The names of the object that begins here; after each name the caller must read its value. */
  *members(): Generator<string, void> {
    this.#expect(0x7b)
    if (this.#peek() === 0x7d) {
      this.#at++
      return
    }
    for (;;) {
      const name = this.value()
      if (typeof name !== 'string') throw new SyntaxError('a name was expected')
      this.#expect(0x3a)
      yield name
      if (this.#peek() === 0x7d) break
      this.#expect(0x2c)
    }
    this.#at++
  }

  /** The value that begins here. */
  value(): unknown {
    this.#peek()
    const length = this.#measure()
    const text = this.#buffer.toString('utf8', this.#at, this.#at + length)
    this.#at += length
    return JSON.parse(text)
  }

  /** Throws unless only white space follows. */
  end(): void {
    if (this.#peek() !== -1) throw new SyntaxError('more than one document')
  }

  /** Length of the value at #at, which is then completely in the buffer. */
  #measure(): number {
    // local variables: this loop runs for every byte of the file
    let bytes = this.#buffer
    let start = this.#at
    let depth = 0
    let inString = false
    for (let k = 0; ; k++) {
      if (start + k >= bytes.length) {
        if (!this.#more(start)) {
          if (depth > 0 || inString) throw new SyntaxError('the file ends in the middle')
          return k
        }
        bytes = this.#buffer
        start = this.#at
      }
      const byte = bytes[start + k]!
      if (inString) {
        if (byte === BACKSLASH) k++
        else if (byte === QUOTE) {
          inString = false
          if (depth === 0) return k + 1
        }
      } else if (byte === QUOTE) inString = true
      else if (byte === 0x7b || byte === 0x5b) depth++
      else if (byte === 0x7d || byte === 0x5d) {
        if (depth === 0) return k
        if (--depth === 0) return k + 1
      } else if (depth === 0 && (byte === 0x2c || byte <= 0x20)) return k
    }
  }

  #expect(byte: number): void {
    if (this.#peek() !== byte) throw new SyntaxError(`${String.fromCharCode(byte)} was expected`)
    this.#at++
  }

  /** The next byte that is not white space, without consuming it; -1 at the end. */
  #peek(): number {
    for (;;) {
      if (this.#at >= this.#buffer.length && !this.#more(this.#at)) return -1
      const byte = this.#buffer[this.#at]!
      if (byte > 0x20) return byte
      this.#at++
    }
  }

  /** Reads more and keeps unconsumed data; doubles a large read, so that the total stays linear. */
  #more(from: number): boolean {
    if (this.#read >= this.#size) return false
    const tail = this.#buffer.subarray(from)
    const next = this.#files.readAt(this.#path, this.#read, Math.max(CHUNK, tail.length))
    this.#read += next.length
    this.#buffer = tail.length === 0 ? next : Buffer.concat([tail, next])
    this.#at -= from
    return next.length > 0
  }
}
