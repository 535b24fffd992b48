// An append-only file of checked lines: CRC-32C in 8 hex digits, a space, JSON, a line feed.
//
// Errors: a partial write is truncated before the next one. A last line without its line feed is the torn end of an
// unconfirmed write, and is truncated too. A damaged line elsewhere is read as undefined. Other errors are the system's.

import { dirname } from 'node:path'
import { atomicWrite, writeAgain } from '../../lib/atomic'
import { orElse } from '../../lib/errors'
import type { Files } from '../../lib/files'
import { crc32c } from '../../wire/crc'

const CHUNK = 1 << 20
/** CRC and space */
const PREFIX = 9

const hex = (crc: number): string => crc.toString(16).padStart(8, '0')

/** Values as lines of the file. */
export const linesOf = (values: readonly string[]): Buffer =>
  Buffer.from(values.map(json => `${hex(crc32c(Buffer.from(json)))} ${json}\n`).join(''))

export class LineFile {
  readonly path: string
  readonly #files: Files
  #fd: number | null = null
  /** bytes of complete lines */
  #length = 0
  /** the file may be longer than #length */
  #ragged = false
  /** existing lines that may not be on flash yet */
  #adopted = false
  /**
   * its name may not be on flash: the file was created or replaced by this process or the last, and its folder was not synced
   * since
   */
  #unnamed = true

  constructor(path: string, files: Files) {
    this.path = path
    this.#files = files
  }

  get length(): number {
    return this.#length
  }

  /** The JSON value of every line in order, undefined for a damaged one; none if there is no file. */
  *read(): Generator<unknown, void> {
    if (!this.#files.exists(this.path)) return
    const size = this.#files.size(this.path)
    let tail: Buffer = Buffer.alloc(0)
    let good = 0
    for (let at = 0; at < size; ) {
      const chunk = this.#files.readAt(this.path, at, Math.max(CHUNK, tail.length))
      if (chunk.length === 0) break
      at += chunk.length
      const bytes = tail.length === 0 ? chunk : Buffer.concat([tail, chunk])
      let start = 0
      for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
        yield lineValue(bytes.subarray(start, end))
        start = end + 1
      }
      good += start
      tail = bytes.subarray(start)
    }
    this.#length = good
    this.#ragged = good < size
    this.#adopted = good > 0
  }

  /** Appends complete lines; they are on flash after sync(). */
  write(lines: Uint8Array): void {
    const fd = this.#open()
    if (this.#ragged) this.#cut()
    this.#ragged = true
    this.#files.write(fd, lines)
    this.#ragged = false
    this.#length += lines.length
  }

  async sync(): Promise<void> {
    // existing lines may be only in the page cache, as the last process left them
    if (this.#adopted) {
      this.#open()
      await writeAgain(this.path, this.#files)
      this.#adopted = false
    } else if (this.#fd !== null) await this.#files.sync(this.#fd)
  }

  /** Keeps a copy of the file next to it. */
  keepDamaged(): void {
    atomicWrite(`${this.path}.damaged`, this.#files.read(this.path), this.#files)
  }

  /** Keeps only the lines after the first `length` bytes; after a crash during the call the file has the old or the new lines. */
  dropUpTo(length: number): void {
    const lines = this.#files.exists(this.path)
      ? this.#files.readAt(this.path, length, this.#length - length)
      : Buffer.alloc(0)
    this.close()
    this.#unnamed = true
    if (lines.length > 0 || this.#files.exists(this.path)) {
      atomicWrite(this.path, lines, this.#files)
      this.#unnamed = false
    }
    this.#length = lines.length
    this.#ragged = this.#adopted = false
  }

  close(): void {
    if (this.#fd !== null) this.#files.close(this.#fd)
    this.#fd = null
  }

  #open(): number {
    if (this.#fd === null) {
      this.#files.mkdir(dirname(this.path))
      this.#fd = this.#files.open(this.path, 'a')
    }
    if (this.#unnamed) this.#files.syncDir(dirname(this.path))
    this.#unnamed = false
    return this.#fd
  }

  #cut(): void {
    this.#files.truncate(this.path, this.#length)
    this.#ragged = false
  }
}

function lineValue(bytes: Buffer): unknown {
  if (bytes.length <= PREFIX || bytes[PREFIX - 1] !== 0x20) return undefined
  const json = bytes.subarray(PREFIX)
  if (bytes.toString('latin1', 0, PREFIX - 1) !== hex(crc32c(json))) return undefined
  // a correct CRC with invalid JSON is damage too
  return orElse(undefined, () => JSON.parse(json.toString('utf8')))
}
