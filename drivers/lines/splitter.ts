// Splits a byte stream into lines, independent of chunk boundaries. A line that is longer than the bound, or contains a
// damaged byte, is dropped and counted. Bounded memory, linear time, no heap allocation.

export class LineSplitter {
  /** lines that were too long */
  tooLong = 0
  /** lines with a damaged byte or a damaged separator */
  damagedLines = 0
  readonly #separator: Uint8Array
  /** lines end with a line feed: a carriage return before it is part of the separator */
  readonly #dropsReturn: boolean
  readonly #buffer: Uint8Array
  #length = 0
  /** inside a line that is too long */
  #overflow = false
  #isDamaged = false
  readonly #onLine: (line: Uint8Array) => void

  /** `line` of onLine is valid only during the call; empty lines are skipped. */
  constructor(separator: Uint8Array, maxLength: number, onLine: (line: Uint8Array) => void) {
    this.#separator = separator
    this.#dropsReturn = separator.length === 1 && separator[0] === 0x0a
    this.#buffer = new Uint8Array(maxLength + separator.length + 1)
    this.#onLine = onLine
  }

  push(chunk: Uint8Array): void {
    const last = this.#separator[this.#separator.length - 1]!
    for (let k = 0; k < chunk.length; k++) {
      if (this.#length === this.#buffer.length) {
        // keeps the bytes that may be the start of a separator
        const keep = this.#separator.length - 1
        this.#buffer.copyWithin(0, this.#length - keep, this.#length)
        this.#length = keep
        this.#overflow = true
      }
      this.#buffer[this.#length++] = chunk[k]!
      if (chunk[k] === last && this.#endsHere()) this.#line()
    }
  }

  /** Drops an incomplete line. */
  reset(): void {
    this.#length = 0
    this.#overflow = this.#isDamaged = false
  }

  /** Reports a damaged byte. A break between two lines (a transmitter that is switched on) damages neither. */
  damaged(byte: number): void {
    this.#isDamaged ||= byte !== 0 || this.#length > 0
  }

  #endsHere(): boolean {
    const from = this.#length - this.#separator.length
    if (from < 0) return false
    for (let k = 0; k < this.#separator.length; k++) if (this.#buffer[from + k] !== this.#separator[k]) return false
    return true
  }

  #line(): void {
    let end = this.#length - this.#separator.length
    const [overflow, damaged] = [this.#overflow, this.#isDamaged]
    this.reset()
    if (this.#dropsReturn && end > 0 && this.#buffer[end - 1] === 0x0d) end--
    const most = this.#buffer.length - this.#separator.length - 1
    if (damaged) this.damagedLines++
    else if (overflow || end > most) this.tooLong++
    else if (end > 0) this.#onLine(this.#buffer.subarray(0, end))
  }
}
