// The ids in use, found by id and by device key, about 175 bytes each: numbers in IdRows, texts in TextArena, two hash
// tables of four bytes per place, the order of lease ends in a heap. Records are made only when somebody asks for one.
// Nothing here fails.

import { LeaseHeap } from './leaseheap'
import { DUE, HEAP, ID, IdRows, KEY_HASH, LAST_SEEN, LEASE_END, NOTED, OFFLINE_SINCE, STATE, TEXT, TS } from './rows'
import { SlotIndex } from './slotindex'
import { TextArena } from './textarena'

/** One id in use. Times in UNIX seconds. */
export interface IdRecord {
  /** what the device said of itself: the JSON text of an object */
  meta: string
  /** when the id was first given to this device */
  ts: number
  last_seen: number
  lease_expires_at: number
  device_key: string
  /** 'offered': granted, and its device has neither acknowledged it nor sent a packet under it (X38) */
  state: 'active' | 'offline' | 'offered'
  offline_since: number
  /** where the device last spoke from */
  addr?: string
}

/** by their code in the rows */
const STATES: readonly IdRecord['state'][] = ['active', 'offline', 'offered']

/** a row, its places in two hash tables and in the heap, each with the room these keep to grow */
const ROW_BYTES = 96

const idHash = (id: number): number => Math.imul(id, 0x9e3779b1)

export class IdTable {
  readonly #rows = new IdRows()
  #texts = new TextArena()
  readonly #leases = new LeaseHeap(this.#rows)
  readonly #seed = (Math.random() * 0x1_0000_0000) >>> 0
  readonly #ids = new SlotIndex<number>(
    slot => idHash(this.#rows.word(slot, ID)),
    (slot, id) => this.#rows.word(slot, ID) === id,
  )
  readonly #keys = new SlotIndex<{ hash: number; key: string }>(
    slot => this.#rows.word(slot, KEY_HASH),
    (slot, { hash, key }) => this.#rows.word(slot, KEY_HASH) === hash && this.keyOf(slot) === key,
  )
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Memory held for the ids in use. */
  get bytes(): number {
    return this.#size * ROW_BYTES + this.#texts.bytes
  }

  /**
   * Whether `texts` bytes more fit into `most`. What freed texts of other lengths left unused is won back first, when it is
   * worth it: that takes about a second for a million ids.
   */
  makeRoom(texts: number, most: number): boolean {
    const fits = (): boolean => this.bytes + this.#texts.growth(texts) + ROW_BYTES <= most
    if (fits()) return true
    if (this.#texts.unused < most / 4) return false
    const old = this.#texts
    this.#texts = new TextArena()
    for (let slot = 0; slot < this.slots; slot++) {
      if (this.idOf(slot) === 0) continue
      const handle = this.#rows.word(slot, TEXT)
      this.#rows.setWord(slot, TEXT, this.#texts.put(old.key(handle), old.meta(handle), old.addr(handle)))
    }
    return fits()
  }

  /** Slots are numbered 0 … slots-1; a slot that is not in use has id 0. */
  get slots(): number {
    return this.#rows.used
  }

  /** The slot of an id in use, else -1. */
  find(id: number): number {
    return this.#ids.find(idHash(id), id)
  }

  has(id: number): boolean {
    return this.find(id) >= 0
  }

  /** The slot of the device with that key, else -1. */
  findKey(key: string): number {
    if (key === '') return -1
    return this.#keys.find(this.#hash(key), { hash: this.#hash(key), key })
  }

  idOf(slot: number): number {
    return this.#rows.word(slot, ID)
  }
  keyOf(slot: number): string {
    return this.#texts.key(this.#rows.word(slot, TEXT))
  }
  metaOf(slot: number): string {
    return this.#texts.meta(this.#rows.word(slot, TEXT))
  }
  leaseEnd(slot: number): number {
    return this.#rows.time(slot, LEASE_END)
  }
  stateOf(slot: number): IdRecord['state'] {
    return STATES[this.#rows.word(slot, STATE)]!
  }
  addrOf(slot: number): string {
    return this.#texts.addr(this.#rows.word(slot, TEXT))
  }
  /** last_seen of the newest record or touch that went to the journal */
  noted(slot: number): number {
    return this.#rows.word(slot, NOTED)
  }

  record(slot: number): IdRecord {
    const rows = this.#rows
    const text = rows.word(slot, TEXT)
    const addr = this.#texts.addr(text)
    return {
      meta: this.#texts.meta(text),
      ts: rows.time(slot, TS),
      last_seen: rows.time(slot, LAST_SEEN),
      lease_expires_at: rows.time(slot, LEASE_END),
      device_key: this.#texts.key(text),
      state: this.stateOf(slot),
      offline_since: rows.time(slot, OFFLINE_SINCE),
      ...(addr !== '' && { addr }),
    }
  }

  /** The id belongs to that device from now on. A key names one id only: the newest. */
  put(id: number, record: IdRecord): void {
    const rows = this.#rows
    let slot = this.find(id)
    if (slot < 0) {
      slot = rows.take()
      rows.setWord(slot, ID, id)
      this.#ids.insert(slot)
      this.#size++
    } else {
      this.#keys.remove(slot)
      this.#texts.free(rows.word(slot, TEXT))
    }
    rows.setWord(slot, TEXT, this.#texts.put(record.device_key, record.meta, record.addr ?? ''))
    rows.setTime(slot, TS, record.ts)
    rows.setTime(slot, LAST_SEEN, record.last_seen)
    rows.setTime(slot, OFFLINE_SINCE, record.offline_since)
    rows.setWord(slot, STATE, STATES.indexOf(record.state))
    rows.setWord(slot, NOTED, record.last_seen)
    this.setLease(slot, record.lease_expires_at)
    if (record.device_key === '') return
    const older = this.findKey(record.device_key)
    if (older >= 0) this.#keys.remove(older)
    rows.setWord(slot, KEY_HASH, this.#hash(record.device_key))
    this.#keys.insert(slot)
  }

  /** False for an id not in use. */
  remove(id: number): boolean {
    const slot = this.find(id)
    if (slot < 0) return false
    this.#leases.remove(slot)
    this.#keys.remove(slot)
    this.#ids.remove(slot)
    this.#texts.free(this.#rows.word(slot, TEXT))
    this.#rows.give(slot)
    this.#size--
    return true
  }

  /** The device was heard: it is active, and says where it is if `addr` is given. */
  heard(slot: number, lastSeen: number, leaseEnd: number, addr?: string): void {
    const rows = this.#rows
    rows.setTime(slot, LAST_SEEN, lastSeen)
    rows.setTime(slot, OFFLINE_SINCE, 0)
    rows.setWord(slot, STATE, 0)
    this.setLease(slot, leaseEnd)
    const text = rows.word(slot, TEXT)
    if (addr === undefined || this.#texts.addr(text) === addr) return
    rows.setWord(slot, TEXT, this.#texts.setAddr(text, addr))
  }

  setNoted(slot: number, lastSeen: number): void {
    this.#rows.setWord(slot, NOTED, lastSeen)
  }

  /** 0: never ends */
  setLease(slot: number, end: number): void {
    const rows = this.#rows
    rows.setTime(slot, LEASE_END, end)
    if (end <= 0) this.#leases.remove(slot)
    else if (rows.word(slot, HEAP) === 0 || end < rows.time(slot, DUE)) this.#leases.set(slot, end)
  }

  /** A slot whose lease has ended at `now`; -1 when there is none. */
  firstEnded(now: number): number {
    for (;;) {
      const slot = this.#leases.first
      if (slot < 0 || this.#rows.time(slot, DUE) > now) return -1
      const end = this.#rows.time(slot, LEASE_END)
      if (end <= now) return slot
      this.#leases.set(slot, end)
    }
  }

  /** Seeded, so that nobody can choose keys that all fall on one place. */
  #hash(key: string): number {
    let hash = this.#seed
    for (let k = 0; k < key.length; k++) {
      hash = Math.imul(hash ^ key.charCodeAt(k), 0x9e3779b1)
      hash ^= hash >>> 15
    }
    return hash >>> 0
  }
}
