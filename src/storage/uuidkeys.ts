// The uuids of an export in ascending order, for the index of its table. They may not fit into RAM, so they are written to a
// temporary file next to the export, and sorted in parts: a uuid is a hash, so its first byte distributes them evenly.
import type { Files } from '../lib/files'
import { OutFile } from './output-file'

/** 16 bytes of uuid, 6 of the row's number */
const ENTRY = 22
/** maximum bytes sorted in one part; the sort index takes half as much again */
const PART = 8 * 1024 * 1024
const BLOCK = ENTRY * 4096

export class UuidKeys {
  readonly #files: Files
  readonly #out: OutFile
  readonly #part: number
  readonly #counts = new Float64Array(256)

  constructor(files: Files, path: string, part = PART) {
    this.#files = files
    this.#out = new OutFile(files, path)
    this.#part = part
  }

  add(uuid: Uint8Array, row: number): void {
    const entry = Buffer.alloc(ENTRY)
    entry.set(uuid)
    entry.writeUIntBE(row, 16, 6)
    this.#out.write(entry)
    this.#counts[uuid[0]!]!++
  }

  /** All uuids, sorted by uuid, then by row. */
  *sorted(): Iterable<readonly [uuid: Buffer, row: number]> {
    this.#out.flush()
    for (let low = 0; low < 256; ) {
      let high = low
      let entries = 0
      do entries += this.#counts[high++]!
      while ((entries + (this.#counts[high] ?? Number.POSITIVE_INFINITY)) * ENTRY <= this.#part)
      yield* this.#sortedPart(low, high, entries)
      low = high
    }
  }

  /** Removes the file. */
  close(): void {
    this.#out.close()
    this.#files.remove(this.#out.path)
  }

  /** Uuids whose first byte is at least `low` and less than `high`. */
  *#sortedPart(low: number, high: number, entries: number): Iterable<readonly [uuid: Buffer, row: number]> {
    if (entries === 0) return
    const part = Buffer.allocUnsafe(entries * ENTRY)
    let used = 0
    const blockAt = (from: number): Buffer => this.#files.readAt(this.#out.path, from, BLOCK)
    for (let from = 0, block = blockAt(from); block.length > 0; block = blockAt((from += BLOCK))) {
      for (let at = 0; at < block.length; at += ENTRY) {
        const first = block[at]!
        if (first >= low && first < high) used += block.copy(part, used, at, at + ENTRY)
      }
    }
    const order = Uint32Array.from({ length: entries }, (_, k) => k * ENTRY)
    order.sort((a, b) => part.compare(part, b, b + ENTRY, a, a + ENTRY))
    for (const at of order) yield [part.subarray(at, at + 16), part.readUIntBE(at + 16, 6)]
  }
}
