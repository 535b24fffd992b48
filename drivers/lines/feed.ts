// Lines of text as the feed of a latest-value source: serial bytes → lines → checksum → a reader that passes on values.
// Errors: the port (see drivers/serial); lines that are too long, damaged, without values or with a wrong checksum
// (counted).
import type { Line, OpenableEvents } from '../../src/links/contracts'
import type { Feed, Take } from '../kit/latest-source'
import { type Checksum, checkedEnd } from './checksum'
import { LineSplitter } from './splitter'

/** Parses a line; false if it contains nothing for this reader. `now` is monotonic ms. */
type LineReader = (text: string, take: Take, now: number) => boolean

export interface LineFeedOptions {
  line: Line
  separator: Uint8Array
  maxLength: number
  encoding: 'latin1' | 'utf8'
  checksum: Checksum
  /** a line without a checksum is dropped */
  checksumRequired?: boolean
  read: LineReader
  now: () => number
}

interface LineCounts extends Record<string, number> {
  lines: number
  unmatched: number
  too_long: number
  bad_checksum: number
  /** bytes with a parity or framing error, and the lines dropped because of them */
  damaged_bytes: number
  damaged_lines: number
}

export class LineFeed implements Feed {
  readonly detail: LineCounts = {
    lines: 0,
    unmatched: 0,
    too_long: 0,
    bad_checksum: 0,
    damaged_bytes: 0,
    damaged_lines: 0,
  }
  readonly #options: LineFeedOptions
  readonly #splitter: LineSplitter
  /** the newest line of every channel */
  readonly #raw: string[] = []
  #take: Take = () => undefined
  #text = ''

  constructor(options: LineFeedOptions) {
    this.#options = options
    this.#splitter = new LineSplitter(options.separator, options.maxLength, line => this.#line(line))
    options.line.onData(
      chunk => {
        this.#splitter.push(chunk)
        this.detail.too_long = this.#splitter.tooLong
        this.detail.damaged_lines = this.#splitter.damagedLines
      },
      byte => {
        this.detail.damaged_bytes++
        this.#splitter.damaged(byte)
      },
    )
  }

  async open(events: OpenableEvents, take: Take): Promise<void> {
    this.#splitter.reset()
    this.#take = (index, value, error) => {
      this.#raw[index] = this.#text
      take(index, value, error)
    }
    await this.#options.line.open(events)
  }

  close(): Promise<void> {
    return this.#options.line.close()
  }

  raw(index: number): string {
    return this.#raw[index] ?? ''
  }

  #line(line: Uint8Array): void {
    const { checksum, checksumRequired, encoding, read, now } = this.#options
    this.detail.lines++
    const end = checkedEnd(line, checksum, checksumRequired)
    if (end < 0) {
      this.detail.bad_checksum++
      return
    }
    this.#text = Buffer.from(line.buffer, line.byteOffset, end).toString(encoding)
    if (!read(this.#text, this.#take, now())) this.detail.unmatched++
  }
}
