// The allocator's state: the ids in use, the freed ids, and one function that applies a change, for the live allocator and
// for recovery, so that both always agree. Pure; cannot fail.

import { yieldToLoop } from '../../lib/yield'
import type { LeaseMetrics } from './lease'

type State = 'active' | 'offline' | 'offered'

/** One id in use, as stored. Times in UNIX seconds. */
export interface IdRecord {
  /** metadata of the device: the JSON text of an object */
  meta: string
  /** when the id was first assigned to this device */
  ts: number
  last_seen: number
  /** 0: never */
  lease_expires_at: number
  device_key: string
  /** 'offered': granted, and its device has neither acknowledged it nor sent a packet with it (X38) */
  state: State
  offline_since: number
  /** the device's last address */
  addr?: string
  /** the address that requested it, in the quotas' format */
  granted_to?: string
}

/** One id in use, in memory. */
export interface IdEntry extends IdRecord {
  readonly id: number
  /** last_seen of the newest record or touch in the journal */
  noted: number
}

/**
 * `set`: the id belongs to that device; `free`: to none, `back`: it was offered and not taken, and is reassigned last;
 * `touch`: its device was heard; `grant`: an upstream granted these ids until then, `fresh`: they replace earlier ones.
 */
export type IdChange =
  | { readonly set: number; readonly record: IdRecord }
  | { readonly free: number; readonly back?: true }
  | { readonly touch: number; readonly last_seen: number; readonly lease_expires_at: number; readonly addr?: string }
  | { readonly grant: readonly number[]; readonly until: number; readonly fresh: boolean }

interface IdStateOptions {
  nextCandidate?: number
  /** maximum length of the list of freed ids: the lowest are kept */
  maxReleased?: number
  /** the ids come from an upstream: a freed id belongs to the upstream again */
  granted?: boolean
}

/** memory of an entry, its two map entries, and the headers of its texts */
const ENTRY_BYTES = 300

/** larger than the memory for ids allows, and small enough for 4,000 restores */
const SKIPPED_AT_RESTORE = 1 << 20

/** V8 needs two bytes per character as soon as one is not Latin-1 */
const isWide = (text: string): boolean => /[^\0-\xff]/.test(text)
const textBytes = (text: string): number => (isWide(text) ? 2 : 1) * text.length

/** A flat copy: a substring keeps its complete source in memory, a concatenation its parts. */
export function ownText(text: string): string {
  const encoding = isWide(text) ? 'utf16le' : 'latin1'
  return Buffer.from(text, encoding).toString(encoding)
}

export class IdState {
  readonly #entries = new Map<number, IdEntry>()
  readonly #keys = new Map<string, IdEntry>()
  /** no lease ends sooner, except those in #ended */
  #nextEnd = Number.POSITIVE_INFINITY
  /** leases found ended at the last check, the first last */
  #ended: IdEntry[] = []
  /** free ids, descending: the next one to assign is the last */
  #released: number[] = []
  readonly #maxReleased: number
  /** granted ids that were offered and not taken; without a range they are in no other list */
  readonly returned: number[] = []
  readonly granted: boolean
  /** approximate memory of the ids in use */
  bytes = 0
  /** number of offered ids */
  offered = 0
  next_candidate: number
  /** end of the grant, UNIX seconds; 0: no end */
  granted_until = 0
  lease_metrics: Partial<LeaseMetrics> | null = null
  /** a change was lost to damage: ids whose owner is unknown are not assigned again */
  damaged = false

  constructor({ nextCandidate = 1, maxReleased = 10_000, granted = false }: IdStateOptions = {}) {
    this.next_candidate = nextCandidate
    this.granted = granted
    // granted ids are in no range: keep all of them
    this.#maxReleased = granted ? Number.POSITIVE_INFINITY : maxReleased
  }

  get entries(): ReadonlyMap<number, IdEntry> {
    return this.#entries
  }

  /** Counts the ids by grantedTo, in slices; `counts` selects them. */
  async countGranted(counts: (id: number) => boolean): Promise<Map<string, number>> {
    const found = new Map<string, number>()
    let seen = 0
    for (const { id, granted_to } of this.#entries.values()) {
      if (++seen % 4096 === 0) await yieldToLoop()
      if (granted_to !== undefined && counts(id)) found.set(granted_to, (found.get(granted_to) ?? 0) + 1)
    }
    return found
  }

  /** The id of the device with that key; '' matches none. */
  byKey(key: string): IdEntry | undefined {
    return this.#keys.get(key)
  }

  /** Freed ids in the list, ascending. */
  get released(): number[] {
    return this.#released.toReversed()
  }
  get releasedCount(): number {
    return this.#released.length
  }
  get lowestReleased(): number | undefined {
    return this.#released.at(-1)
  }

  /** Memory of these texts with their entry. */
  cost(key: string, meta: string, addr = '', grantedTo = ''): number {
    return ENTRY_BYTES + textBytes(key) + textBytes(meta) + textBytes(addr) + textBytes(grantedTo)
  }

  setLease(entry: IdEntry, end: number): void {
    entry.lease_expires_at = Math.max(0, end)
    if (end > 0) this.#nextEnd = Math.min(this.#nextEnd, end)
  }

  /** The clock has jumped: shifts the leases by that much. */
  moveLeases(seconds: number): void {
    for (const entry of this.#entries.values())
      if (entry.lease_expires_at > 0) this.setLease(entry, Math.max(1, entry.lease_expires_at + seconds))
  }

  /** The id whose lease ended first, to be freed; checks all leases if one of them may have ended. */
  firstEnded(now: number): IdEntry | undefined {
    for (;;) {
      const entry = this.#ended.pop() ?? this.#lookForEnded(now)
      if (!entry) return undefined
      const { id, lease_expires_at: end } = entry
      if (end === 0 || this.#entries.get(id) !== entry) continue
      if (end <= now) return entry
      this.setLease(entry, end)
    }
  }

  #lookForEnded(now: number): IdEntry | undefined {
    if (now < this.#nextEnd) return undefined
    this.#nextEnd = Number.POSITIVE_INFINITY
    for (const entry of this.#entries.values()) {
      const { lease_expires_at: end } = entry
      if (end > 0 && end <= now) this.#ended.push(entry)
      else if (end > 0) this.#nextEnd = Math.min(this.#nextEnd, end)
    }
    this.#ended.sort((a, b) => b.lease_expires_at - a.lease_expires_at)
    return this.#ended.pop()
  }

  /** The device was heard: marks it active, and stores its address. */
  heard(entry: IdEntry, lastSeen: number, leaseEnd: number, addr = entry.addr): void {
    if (entry.state === 'offered') this.offered--
    entry.state = 'active'
    entry.last_seen = lastSeen
    entry.offline_since = 0
    this.setLease(entry, leaseEnd)
    if (addr === undefined || addr === entry.addr) return
    this.bytes += textBytes(addr) - textBytes(entry.addr ?? '')
    entry.addr = ownText(addr)
  }

  /** Applies one change. Applying a journal again changes nothing. */
  apply(change: IdChange): void {
    const { returned } = this
    if ('set' in change) {
      this.#put(change.set, change.record)
      this.forget(change.set)
      if (returned.includes(change.set)) returned.splice(returned.indexOf(change.set), 1)
      if (change.set >= this.next_candidate) this.next_candidate = change.set + 1
    } else if ('free' in change) {
      const { free, back } = change
      const known = this.#remove(free)
      if (back) {
        // in no list: found when all others are used up
        if (known && this.granted) returned.push(free)
      } else if ((known || free < this.next_candidate) && !this.granted) this.release(free)
    } else if ('grant' in change) {
      if (change.fresh) {
        this.#released = []
        returned.length = 0
      }
      this.granted_until = change.until
      for (const id of change.grant) this.release(id)
    } else {
      const entry = this.#entries.get(change.touch)
      if (entry) this.heard(entry, change.last_seen, change.lease_expires_at, change.addr)
    }
  }

  /** Adds an unused id to the list of freed ids, which keeps the lowest. */
  release(id: number): void {
    if (this.#entries.has(id)) return
    const list = this.#released
    const at = this.#place(id)
    if (list[at] === id || (at === 0 && list.length >= this.#maxReleased)) return
    if (at === list.length) list.push(id)
    else list.splice(at, 0, id)
    if (list.length > this.#maxReleased) list.shift()
  }

  /** Removes an id from the list of freed ids. */
  forget(id: number): void {
    const at = this.#place(id)
    if (this.#released[at] !== id) return
    if (at === this.#released.length - 1) this.#released.pop()
    else this.#released.splice(at, 1)
  }

  /** `lost` changes of the journal cannot be read: each may have assigned one id that no later change names. */
  lose(lost: number): void {
    this.damaged = true
    this.next_candidate = Math.min(0xffff_ffff, this.next_candidate + lost)
    this.#released = []
  }

  /**
   * The state is that of a backup, and ids may have been assigned since: ids free in it are not assigned, new ones start far
   * ahead, and an id whose lease has ended, or could have been cut, no longer belongs to its device.
   */
  restored(now: number): void {
    this.lose(SKIPPED_AT_RESTORE)
    this.returned.length = 0
    this.granted_until = 0
    for (const { id, state, lease_expires_at: end } of [...this.#entries.values()])
      if (state !== 'active' || (end > 0 && end <= now)) this.#remove(id)
  }

  /** A key has one id only: the newest. */
  #put(id: number, record: IdRecord): void {
    this.#remove(id)
    const { meta, ts, last_seen, lease_expires_at, device_key, state, offline_since, addr, granted_to } = record
    const entry: IdEntry = {
      id,
      meta,
      ts,
      last_seen,
      lease_expires_at,
      device_key,
      state,
      offline_since,
      addr,
      granted_to,
      noted: last_seen,
    }
    this.#entries.set(id, entry)
    if (device_key !== '') this.#keys.set(device_key, entry)
    if (state === 'offered') this.offered++
    this.bytes += this.cost(device_key, meta, addr, granted_to)
    this.setLease(entry, lease_expires_at)
  }

  #remove(id: number): boolean {
    const entry = this.#entries.get(id)
    if (!entry) return false
    this.#entries.delete(id)
    if (entry.state === 'offered') this.offered--
    if (this.#keys.get(entry.device_key) === entry) this.#keys.delete(entry.device_key)
    this.bytes -= this.cost(entry.device_key, entry.meta, entry.addr, entry.granted_to)
    return true
  }

  /** Index of `id`, or its insertion index, in the descending list. */
  #place(id: number): number {
    const list = this.#released
    let low = 0
    let high = list.length
    if (high > 0 && id < list[high - 1]!) return high
    while (low < high) {
      const middle = (low + high) >>> 1
      if (list[middle]! > id) low = middle + 1
      else high = middle
    }
    return low
  }
}
