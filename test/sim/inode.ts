// The content of one file on the medium: its bytes as a process sees them, the bytes that certainly survive a power cut, and the changes between the
// two.

/** A growing run of bytes; a gap between its end and a later write is zeros. */
export class Bytes {
  size = 0
  /** where the hole at its end begins, which takes no space */
  used = 0
  #buffer = Buffer.alloc(0)

  write(at: number, bytes: Uint8Array): void {
    const end = at + bytes.length
    if (end > this.#buffer.length) {
      const next = Buffer.alloc(Math.max(end, 2 * this.#buffer.length, 256))
      this.#buffer.copy(next, 0, 0, this.size)
      this.#buffer = next
    }
    this.#buffer.set(bytes, at)
    this.size = Math.max(this.size, end)
    this.used = Math.max(this.used, end)
  }
  truncate(size: number): void {
    const used = Math.min(this.used, size)
    if (size < this.size) this.#buffer.fill(0, size, this.size)
    else if (size > this.size) this.write(size, new Uint8Array(0))
    this.size = size
    this.used = used
  }
  get view(): Buffer {
    return this.#buffer.subarray(0, this.size)
  }
}

export interface Write {
  readonly at: number
  readonly bytes: Buffer
}
export type Change = Write | { readonly size: number }

export const apply = (to: Bytes, change: Change): void =>
  'bytes' in change ? to.write(change.at, change.bytes) : to.truncate(change.size)

export class Inode {
  readonly data = new Bytes()
  /** what certainly survives a power cut */
  readonly durable = new Bytes()
  /** changes since the last sync */
  pending: Change[] = []
  /** changes whose sync failed: the kernel marks them clean, and no later sync writes them */
  doomed: Write[] = []

  change(change: Change): void {
    apply(this.data, change)
    // bytes written or cut off later are not affected by the failed sync
    this.doomed = this.doomed.filter(({ at, bytes }) =>
      'size' in change ? at < change.size : at + bytes.length <= change.at || at >= change.at + change.bytes.length,
    )
    this.pending.push(change)
  }
  synced(count: number): void {
    for (const change of this.pending.splice(0, count)) apply(this.durable, change)
  }
  failed(count: number): void {
    const changes = this.pending.splice(0, count)
    this.doomed.push(...changes.filter((change): change is Write => 'bytes' in change))
    // sizes belong to the journal, which continues
    this.pending.unshift(...changes.filter(change => 'size' in change))
  }
}
