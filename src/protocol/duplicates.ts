// Tells packets that came twice (D16): the same source AID, TS and hash of the decoded content among the last 4096 of that
// device. Data is never refused for its age; what is older than the memory collapses later by its packet_uuid. After a start
// the owner feeds in what its log holds. Bounded in devices: the least recently heard is forgotten first. Cannot fail.

export interface DuplicateFilterOptions {
  /** packets remembered per device; rounded up to a power of two from 64 */
  depth?: number
  /** devices remembered */
  maxDevices?: number
}

const FIRST_SIZE = 64

/** One device: its newest entries in a ring, found through an open hash table. 16 bytes an entry, grown as needed. */
class Recent {
  readonly #depth: number
  #times = new Float64Array(FIRST_SIZE)
  #hashes = new Uint32Array(FIRST_SIZE)
  /** place in the ring + 1 at the entry's slot, 0 free; twice the ring's size, so that searches stay short */
  #table = new Uint32Array(2 * FIRST_SIZE)
  #count = 0
  #next = 0

  /** `depth`: a power of two */
  constructor(depth: number) {
    this.#depth = depth
  }

  has(time: number, hash: number): boolean {
    return this.#table[this.#find(time, hash)] !== 0
  }

  /** Whether anything of that time is known; looks at every entry. */
  hasTime(time: number): boolean {
    return this.#times.subarray(0, this.#count).includes(time)
  }

  /** Adds what is not known yet; when full, the oldest entry goes. */
  add(time: number, hash: number): void {
    if (this.#count === this.#times.length && this.#count < this.#depth) this.#grow()
    const place = this.#next
    if (this.#count < this.#times.length) this.#count++
    else if (!Number.isNaN(this.#times[place]!)) this.#drop(this.#find(this.#times[place]!, this.#hashes[place]!))
    this.#times[place] = time
    this.#hashes[place] = hash
    this.#table[this.#find(time, hash)] = place + 1
    this.#next = (place + 1) % this.#times.length
  }

  /** Takes an entry out; its place in the ring stays empty until its turn to be overwritten. */
  remove(time: number, hash: number): void {
    const slot = this.#find(time, hash)
    const at = this.#table[slot]!
    if (at === 0) return
    this.#drop(slot)
    this.#times[at - 1] = Number.NaN
  }

  #home(time: number, hash: number): number {
    const mixed = Math.imul(hash ^ ((time % 0x1_0000_0000) >>> 0), 0x9e3779b1)
    return (mixed ^ (mixed >>> 15)) & (this.#table.length - 1)
  }

  /** The slot of an entry, or the free one where it belongs. */
  #find(time: number, hash: number): number {
    const mask = this.#table.length - 1
    let slot = this.#home(time, hash)
    for (let at = this.#table[slot]!; at !== 0; at = this.#table[slot]!) {
      if (this.#times[at - 1] === time && this.#hashes[at - 1] === hash) return slot
      slot = (slot + 1) & mask
    }
    return slot
  }

  /** Frees a slot and moves the entries behind it up, so that each is still found from its home. */
  #drop(gap: number): void {
    const mask = this.#table.length - 1
    for (let slot = (gap + 1) & mask; ; slot = (slot + 1) & mask) {
      const at = this.#table[slot]!
      if (at === 0) break
      const home = this.#home(this.#times[at - 1]!, this.#hashes[at - 1]!)
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue
      this.#table[gap] = at
      gap = slot
    }
    this.#table[gap] = 0
  }

  #grow(): void {
    const times = this.#times
    const hashes = this.#hashes
    this.#times = new Float64Array(2 * times.length)
    this.#hashes = new Uint32Array(2 * times.length)
    this.#times.set(times)
    this.#hashes.set(hashes)
    this.#table = new Uint32Array(4 * times.length)
    for (let k = 0; k < this.#count; k++)
      if (!Number.isNaN(times[k]!)) this.#table[this.#find(times[k]!, hashes[k]!)] = k + 1
    this.#next = this.#count
  }
}

export class DuplicateFilter {
  readonly #depth: number
  readonly #maxDevices: number
  readonly #devices = new Map<number, Recent>()
  /** duplicates found since the start */
  duplicates = 0

  constructor({ depth = 4096, maxDevices = 1024 }: DuplicateFilterOptions = {}) {
    this.#depth = 2 ** Math.ceil(Math.log2(Math.max(FIRST_SIZE, depth)))
    this.#maxDevices = Math.max(1, maxDevices)
  }

  get devices(): number {
    return this.#devices.size
  }

  /** True when that packet was seen before; remembers it. `tRaw` in ms; `hash`: 32 bits over the decoded content. */
  seen(aid: number, tRaw: number, hash: number): boolean {
    if (!this.restore(aid, tRaw, hash)) return false
    this.duplicates++
    return true
  }

  /** Asks without remembering: for a packet that may still be refused. */
  has(aid: number, tRaw: number, hash: number): boolean {
    return this.#devices.get(aid)?.has(tRaw, hash >>> 0) ?? false
  }

  /** Whether any packet of that time is known, whatever it says. For rare questions: it looks at all of the device. */
  hasTime(aid: number, tRaw: number): boolean {
    return this.#devices.get(aid)?.hasTime(tRaw) ?? false
  }

  /** The packet did not reach the log after all: when it comes again it is new. */
  forget(aid: number, tRaw: number, hash: number): void {
    this.#devices.get(aid)?.remove(tRaw, hash >>> 0)
  }

  /** A packet of the log, oldest first, when the filter is rebuilt. True when it was known. */
  restore(aid: number, tRaw: number, hash: number): boolean {
    const device = this.#device(aid)
    if (device.has(tRaw, hash >>> 0)) return true
    device.add(tRaw, hash >>> 0)
    return false
  }

  #device(aid: number): Recent {
    const device = this.#devices.get(aid) ?? new Recent(this.#depth)
    this.#devices.delete(aid)
    this.#devices.set(aid, device)
    if (this.#devices.size > this.#maxDevices) this.#devices.delete(this.#devices.keys().next().value!)
    return device
  }
}
