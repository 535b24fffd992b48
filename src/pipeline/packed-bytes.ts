// Numbers and texts as bytes, for packed templates (packed-templates.ts). Errors: truncated bytes throw a RangeError.

/** Appends to one growing buffer; `bytes()` is valid until the next start(). */
export class PackedWriter {
  #b = Buffer.alloc(16_384)
  #at = 0

  start(): void {
    this.#at = 0
  }

  bytes(): Buffer {
    return this.#b.subarray(0, this.#at)
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#b.length) return
    const wider = Buffer.alloc(2 * (this.#at + bytes))
    this.#b.copy(wider, 0, 0, this.#at)
    this.#b = wider
  }

  /** a whole number from 0 */
  count(n: number): void {
    this.#room(10)
    let left = n
    while (left >= 0x80) {
      this.#b[this.#at++] = (left % 0x80) | 0x80
      left = Math.floor(left / 0x80)
    }
    this.#b[this.#at++] = left
  }

  float(x: number): void {
    this.#room(8)
    this.#at = this.#b.writeDoubleLE(x, this.#at)
  }

  text(text: string): void {
    const size = Buffer.byteLength(text)
    this.count(size)
    this.#room(size)
    this.#at += this.#b.write(text, this.#at, 'utf8')
  }

  /** Any number, short if it is near `before`. */
  near(x: number, before: number): void {
    const delta = x - base(before)
    if (!Number.isSafeInteger(x) || Object.is(x, -0) || Math.abs(delta) > 2 ** 50) {
      this.count(0)
      this.float(x)
    } else this.count(1 + (delta < 0 ? -2 * delta - 1 : 2 * delta))
  }
}

/** base of a difference: only a whole number keeps it exact */
const base = (before: number): number => (Number.isSafeInteger(before) ? before : 0)

export class PackedReader {
  #at = 0

  constructor(readonly b: Buffer) {}

  get atEnd(): boolean {
    return this.#at === this.b.length
  }

  count(): number {
    let n = 0
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.b.readUInt8(this.#at++)
      n += (byte & 0x7f) * scale
      if (byte < 0x80) return n
    }
  }

  float(): number {
    this.#at += 8
    return this.b.readDoubleLE(this.#at - 8)
  }

  text(): string {
    const size = this.count()
    this.#at += size
    if (this.#at > this.b.length) throw new RangeError('a text is longer than the data')
    return this.b.toString('utf8', this.#at - size, this.#at)
  }

  near(before: number): number {
    const coded = this.count()
    if (coded === 0) return this.float()
    const zigzag = coded - 1
    return base(before) + (zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2)
  }
}
