// Detects duplicate packets (decision 0018): the same source AID, TS and hash of the decoded content among the last 4096 packets of
// that device. Data is never refused for its age; older duplicates are merged later by their packet_uuid. After a start the
// owner passes in the packets of its log. Bounded in devices (the least recently heard is evicted) and in bytes: if not all
// devices can have 4096 entries, their memories become about equal in size. Cannot fail.

interface DuplicateFilterOptions {
  /** packets remembered per device; rounded up to a power of two from 64 */
  depth?: number
  /** maximum of devices */
  maxDevices?: number
  /** total memory in bytes: 4096 packets of a device take 80 KiB */
  maxBytes?: number
}

const SMALLEST_DEPTH = 64
const FIRST_SIZE = 16
/** of an entry in the ring and its two hash slots */
const ENTRY_BYTES = 20
/** approximate memory of a device without its entries */
const DEVICE_BYTES = 500

/** One device: its newest entries in a ring, found through an open hash table. 16 bytes per entry, grown as needed. */
class Recent {
  #times = new Float64Array(FIRST_SIZE)
  /** position in the ring + 1 at the entry's slot, 0 is free; twice the ring's size, so that searches stay short. The hashes follow, by position */
  #table = new Uint32Array(3 * FIRST_SIZE)
  #count = 0
  #next = 0

  /** packets it can remember at its current size */
  get size(): number {
    return this.#times.length
  }

  /** the next new packet would overwrite a remembered one */
  get full(): boolean {
    return this.#count === this.#times.length
  }

  has(time: number, hash: number): boolean {
    return this.#table[this.#find(time, hash)] !== 0
  }

  /** Adds a new entry; if full, overwrites the oldest. */
  add(time: number, hash: number): void {
    const place = this.#next
    if (this.#count < this.#times.length) this.#count++
    else if (!Number.isNaN(this.#times[place]!)) this.#drop(this.#find(this.#times[place]!, this.#hash(place)))
    this.#times[place] = time
    this.#table[2 * this.#times.length + place] = hash
    this.#table[this.#find(time, hash)] = place + 1
    this.#next = (place + 1) % this.#times.length
  }

  /** Removes an entry; its position in the ring stays empty until it is overwritten. */
  remove(time: number, hash: number): void {
    const slot = this.#find(time, hash)
    const at = this.#table[slot]!
    if (at === 0) return
    this.#drop(slot)
    this.#times[at - 1] = Number.NaN
  }

  #hash(place: number): number {
    return this.#table[2 * this.#times.length + place]!
  }

  #home(time: number, hash: number): number {
    const mixed = Math.imul(hash ^ ((time % 0x1_0000_0000) >>> 0), 0x9e3779b1)
    return (mixed ^ (mixed >>> 15)) & (2 * this.#times.length - 1)
  }

  /** The slot of an entry, or the free slot for it. */
  #find(time: number, hash: number): number {
    const mask = 2 * this.#times.length - 1
    let slot = this.#home(time, hash)
    for (let at = this.#table[slot]!; at !== 0; at = this.#table[slot]!) {
      if (this.#times[at - 1] === time && this.#hash(at - 1) === hash) return slot
      slot = (slot + 1) & mask
    }
    return slot
  }

  /** Frees a slot and moves later entries up, so that each is still found from its hash. */
  #drop(gap: number): void {
    const mask = 2 * this.#times.length - 1
    for (let slot = (gap + 1) & mask; ; slot = (slot + 1) & mask) {
      const at = this.#table[slot]!
      if (at === 0) break
      const home = this.#home(this.#times[at - 1]!, this.#hash(at - 1))
      if (((slot - home) & mask) < ((slot - gap) & mask)) continue
      this.#table[gap] = at
      gap = slot
    }
    this.#table[gap] = 0
  }

  /** Resizes to `size` packets, a power of two; if it shrinks, the oldest are dropped. */
  resize(size: number): void {
    const times = this.#times
    const table = this.#table
    const count = this.#count
    const oldest = count < times.length ? 0 : this.#next
    this.#times = new Float64Array(size)
    this.#table = new Uint32Array(3 * size)
    this.#count = 0
    this.#next = 0
    for (let k = Math.max(0, count - size); k < count; k++) {
      const from = (oldest + k) % times.length
      if (!Number.isNaN(times[from]!)) this.add(times[from]!, table[2 * times.length + from]!)
    }
  }
}

export class DuplicateFilter {
  readonly #depth: number
  readonly #maxDevices: number
  readonly #maxBytes: number
  readonly #devices = new Map<number, Recent>()
  /** the last entry of `#devices` */
  #newest: Recent | undefined
  #bytes = 0
  /** duplicates detected since the start */
  duplicates = 0

  constructor({ depth = 4096, maxDevices = 32_768, maxBytes = 24 << 20 }: DuplicateFilterOptions = {}) {
    this.#depth = 2 ** Math.ceil(Math.log2(Math.max(SMALLEST_DEPTH, depth)))
    this.#maxDevices = Math.max(1, maxDevices)
    this.#maxBytes = maxBytes
  }

  /** approximate total memory */
  get bytes(): number {
    return this.#bytes
  }

  get devices(): number {
    return this.#devices.size
  }

  /** True if that packet was seen before; remembers it. `tRaw` in ms; `hash`: 32 bits over the decoded content. */
  seen(aid: number, tRaw: number, hash: number): boolean {
    if (!this.restore(aid, tRaw, hash)) return false
    this.duplicates++
    return true
  }

  /** Checks without remembering: for a packet that may still be refused. */
  has(aid: number, tRaw: number, hash: number): boolean {
    return this.#devices.get(aid)?.has(tRaw, hash >>> 0) ?? false
  }

  /** The packet was not logged after all: a retransmit counts as new. */
  forget(aid: number, tRaw: number, hash: number): void {
    this.#devices.get(aid)?.remove(tRaw, hash >>> 0)
  }

  /** Adds a packet of the log, oldest first, when the filter is rebuilt. True if it was known. */
  restore(aid: number, tRaw: number, hash: number): boolean {
    const device = this.#device(aid)
    if (device.has(tRaw, hash >>> 0)) return true
    if (device.full && device.size < this.#depth) this.#grow(device)
    device.add(tRaw, hash >>> 0)
    return false
  }

  /**
   * Doubles a memory if the limit allows; otherwise the device not heard for longest gives up half, if its memory is larger.
   */
  #grow(device: Recent): void {
    const more = device.size * ENTRY_BYTES
    const oldest: Recent = this.#devices.values().next().value!
    if (this.#bytes + more > this.#maxBytes && oldest.size > device.size) {
      this.#bytes -= (oldest.size / 2) * ENTRY_BYTES
      oldest.resize(oldest.size / 2)
    }
    if (this.#bytes + more > this.#maxBytes) return
    this.#bytes += more
    device.resize(2 * device.size)
  }

  /** No LruMap: the bytes are bounded too, and a packet of the same device as the previous one moves nothing. */
  #device(aid: number): Recent {
    let device = this.#devices.get(aid)
    if (device && device === this.#newest) return device
    if (device) this.#devices.delete(aid)
    else {
      device = new Recent()
      this.#bytes += DEVICE_BYTES + FIRST_SIZE * ENTRY_BYTES
    }
    this.#devices.set(aid, device)
    this.#newest = device
    while (this.#devices.size > this.#maxDevices || (this.#bytes > this.#maxBytes && this.#devices.size > 1)) {
      const [oldest, { size }] = this.#devices.entries().next().value!
      this.#bytes -= DEVICE_BYTES + size * ENTRY_BYTES
      this.#devices.delete(oldest)
    }
    return device
  }
}
