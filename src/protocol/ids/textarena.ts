// The texts of the allocator's rows (key, meta as JSON, address) side by side in blocks of half a megabyte outside the JS heap: a
// million short texts would cost a million objects there. A text is named by a handle; a freed place is used again for one
// of about the same length, so nothing is ever moved. Nothing here fails.

const UNIT = 8
const BLOCK = 1 << 19
const UNITS_SHIFT = 16
/** a text above this gets a block of its own */
const LARGE = 1 << 16
/** lengths of key u32, meta u32, address u16; units of the place u16, 0 of a large one */
const HEADER = 12
/** room for an address that comes later: an IPv4 address with its port */
const ADDRESS = 21

export class TextArena {
  readonly #blocks: Buffer[] = []
  readonly #unusedBlocks: number[] = []
  /** by units: the newest freed place; each names the next one in its first four bytes */
  readonly #freed = new Map<number, number>()
  #block = -1
  #bytes = 0
  #free = 0
  #used = BLOCK

  /** Memory of the blocks. */
  get bytes(): number {
    return this.#bytes
  }

  /** Bytes of freed places, good only for texts of their length. */
  get unused(): number {
    return this.#free
  }

  /** Memory that texts of `size` bytes would take from the machine, 0 when there is a place for them. */
  growth(size: number): number {
    const units = Math.ceil((HEADER + ADDRESS + size) / UNIT)
    if (units * UNIT > LARGE) return (units + 1) * UNIT
    return this.#used + units <= BLOCK / UNIT || this.#freed.get(units) ? 0 : BLOCK
  }

  /** Keeps three texts; returns their handle, never 0. */
  put(key: string, meta: string, addr: string): number {
    const k = Buffer.byteLength(key)
    const m = Buffer.byteLength(meta)
    const a = Math.min(0xffff, Buffer.byteLength(addr))
    const handle = this.#place(HEADER + k + m + Math.max(a, ADDRESS))
    const block = this.#blocks[handle >>> UNITS_SHIFT]!
    const at = (handle & 0xffff) * UNIT
    block.writeUInt32LE(k, at)
    block.writeUInt32LE(m, at + 4)
    block.writeUInt16LE(a, at + 8)
    block.write(key, at + HEADER)
    block.write(meta, at + HEADER + k)
    block.write(addr, at + HEADER + k + m, a)
    return handle
  }

  /** Another address for the texts of `handle`; returns their handle from now on. */
  setAddr(handle: number, addr: string): number {
    const block = this.#blocks[handle >>> UNITS_SHIFT]!
    const at = (handle & 0xffff) * UNIT
    const end = HEADER + block.readUInt32LE(at) + block.readUInt32LE(at + 4)
    const a = Buffer.byteLength(addr)
    if (end + a <= block.readUInt16LE(at + 10) * UNIT) {
      block.writeUInt16LE(a, at + 8)
      block.write(addr, at + end)
      return handle
    }
    const [key, meta] = [this.key(handle), this.meta(handle)]
    this.free(handle)
    return this.put(key, meta, addr)
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
    const units = block.readUInt16LE(at + 10)
    if (units === 0) {
      this.#bytes -= block.length
      this.#blocks[index] = Buffer.alloc(0)
      this.#unusedBlocks.push(index)
      return
    }
    block.writeUInt32LE(this.#freed.get(units) ?? 0, at)
    this.#freed.set(units, handle)
    this.#free += units * UNIT
  }

  #text(handle: number, part: 0 | 1 | 2): string {
    const block = this.#blocks[handle >>> UNITS_SHIFT]!
    const at = (handle & 0xffff) * UNIT
    let start = at + HEADER
    for (let p = 0; p < part; p++) start += block.readUInt32LE(at + 4 * p)
    return block.toString(
      'utf8',
      start,
      start + (part === 2 ? block.readUInt16LE(at + 8) : block.readUInt32LE(at + 4 * part)),
    )
  }

  #place(size: number): number {
    const units = Math.ceil(size / UNIT)
    if (size > LARGE) return this.#mark(((this.#newBlock(units + 1) << UNITS_SHIFT) | 1) >>> 0, 0)
    const freed = this.#freed.get(units) ?? 0
    if (freed !== 0) {
      this.#free -= units * UNIT
      this.#freed.set(units, this.#blocks[freed >>> UNITS_SHIFT]!.readUInt32LE((freed & 0xffff) * UNIT))
      return freed
    }
    if (this.#used + units > BLOCK / UNIT) {
      this.#block = this.#newBlock(BLOCK / UNIT)
      this.#used = 1 // handle 0 stays unused
    }
    const handle = ((this.#block << UNITS_SHIFT) | this.#used) >>> 0
    this.#used += units
    return this.#mark(handle, units)
  }

  #mark(handle: number, units: number): number {
    this.#blocks[handle >>> UNITS_SHIFT]!.writeUInt16LE(units, (handle & 0xffff) * UNIT + 10)
    return handle
  }

  #newBlock(units: number): number {
    const index = this.#unusedBlocks.pop() ?? this.#blocks.length
    this.#blocks[index] = Buffer.allocUnsafeSlow(units * UNIT)
    this.#bytes += units * UNIT
    return index
  }
}
