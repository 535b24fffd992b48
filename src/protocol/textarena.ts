// The texts of the allocator's rows (key, meta as JSON, address) side by side in megabyte blocks outside the JS heap: a
// million short texts would cost a million objects there. A text is named by a handle; a freed place is used again for one
// of about the same length, so nothing is ever moved. Nothing here fails.

const UNIT = 16
const BLOCK = 1 << 20
const UNITS_SHIFT = 16
/** a text above this gets a block of its own */
const LARGE = 1 << 16
const HEADER = 12

export class TextArena {
  readonly #blocks: Buffer[] = []
  readonly #unusedBlocks: number[] = []
  /** by units: the newest freed place; each names the next one in its first four bytes */
  readonly #freed = new Map<number, number>()
  #block = -1
  #used = BLOCK

  /** Keeps three texts; returns their handle, never 0. */
  put(key: string, meta: string, addr: string): number {
    const k = Buffer.byteLength(key)
    const m = Buffer.byteLength(meta)
    const a = Buffer.byteLength(addr)
    const handle = this.#place(HEADER + k + m + a)
    const block = this.#blocks[handle >>> UNITS_SHIFT]!
    const at = (handle & 0xffff) * UNIT
    block.writeUInt32LE(k, at)
    block.writeUInt32LE(m, at + 4)
    block.writeUInt32LE(a, at + 8)
    block.write(key, at + HEADER)
    block.write(meta, at + HEADER + k)
    block.write(addr, at + HEADER + k + m)
    return handle
  }

  key(handle: number): string {
    return this.#text(handle, 0)
  }
  meta(handle: number): string {
    return this.#text(handle, 1)
  }
  addr(handle: number): string {
    return this.#text(handle, 2)
  }

  free(handle: number): void {
    const index = handle >>> UNITS_SHIFT
    const block = this.#blocks[index]!
    const at = (handle & 0xffff) * UNIT
    const size = HEADER + block.readUInt32LE(at) + block.readUInt32LE(at + 4) + block.readUInt32LE(at + 8)
    if (size > LARGE) {
      this.#blocks[index] = Buffer.alloc(0)
      this.#unusedBlocks.push(index)
      return
    }
    const units = Math.ceil(size / UNIT)
    block.writeUInt32LE(this.#freed.get(units) ?? 0, at)
    this.#freed.set(units, handle)
  }

  #text(handle: number, part: 0 | 1 | 2): string {
    const block = this.#blocks[handle >>> UNITS_SHIFT]!
    const at = (handle & 0xffff) * UNIT
    let start = at + HEADER
    for (let p = 0; p < part; p++) start += block.readUInt32LE(at + 4 * p)
    return block.toString('utf8', start, start + block.readUInt32LE(at + 4 * part))
  }

  #place(size: number): number {
    const units = Math.ceil(size / UNIT)
    if (size > LARGE) return ((this.#newBlock(units + 1) << UNITS_SHIFT) | 1) >>> 0
    const freed = this.#freed.get(units) ?? 0
    if (freed !== 0) {
      this.#freed.set(units, this.#blocks[freed >>> UNITS_SHIFT]!.readUInt32LE((freed & 0xffff) * UNIT))
      return freed
    }
    if (this.#used + units > BLOCK / UNIT) {
      this.#block = this.#newBlock(BLOCK / UNIT)
      this.#used = 1 // handle 0 stays unused
    }
    const handle = ((this.#block << UNITS_SHIFT) | this.#used) >>> 0
    this.#used += units
    return handle
  }

  #newBlock(units: number): number {
    const index = this.#unusedBlocks.pop() ?? this.#blocks.length
    this.#blocks[index] = Buffer.allocUnsafeSlow(units * UNIT)
    return index
  }
}
