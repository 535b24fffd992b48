// What the allocator remembers, the changes a journal of it holds, and how a change is applied: one function for the live
// allocator and for recovery, so that both always agree. Pure but for the spill of released ids.

import type { LeaseMetrics } from './lease'
import { memorySpill, ReleasedIds, type Spill } from './released'
import { type IdRecord, IdTable } from './table'

export type { IdRecord }

/**
 * `set`: the id belongs to that device; `free`: to nobody, `back`: it was offered
 * and not taken, and is handed out last; `touch`: its device was heard; `grant`: an upstream gave these ids
 * to hand out until then, `fresh` in place of those it gave before.
 */
export type IdChange =
  | { readonly set: number; readonly record: IdRecord }
  | { readonly free: number; readonly back?: true }
  | { readonly touch: number; readonly last_seen: number; readonly lease_expires_at: number; readonly addr?: string }
  | { readonly grant: readonly number[]; readonly until: number; readonly fresh: boolean }

export interface IdStateOptions {
  nextCandidate?: number
  /** freed ids in memory at most */
  maxReleased?: number
  spill?: Spill
  /** the ids come from an upstream: a freed one is its again, not ours to hand out */
  granted?: boolean
}

export class IdState {
  readonly allocated = new IdTable()
  /** free again */
  readonly released: ReleasedIds
  /** of granted ids: offered and not taken; without a range nothing else knows them */
  readonly returned: number[] = []
  readonly granted: boolean
  next_candidate: number
  /** granted ids are not handed out from then on, UNIX seconds; 0: no end */
  granted_until = 0
  lease_metrics: Partial<LeaseMetrics> | null = null
  /** a change was lost to damage: ids whose owner is unknown are not handed out again */
  damaged = false

  constructor({
    nextCandidate = 1,
    maxReleased = 10_000,
    spill = memorySpill(),
    granted = false,
  }: IdStateOptions = {}) {
    this.next_candidate = nextCandidate
    this.granted = granted
    this.released = new ReleasedIds(maxReleased, spill, id => this.allocated.has(id))
  }

  /** Applies one change. Applying a journal again onto the state it led to changes nothing. */
  apply(change: IdChange): void {
    const { allocated, released, returned } = this
    if ('set' in change) {
      allocated.put(change.set, change.record)
      released.remove(change.set)
      if (returned.includes(change.set)) returned.splice(returned.indexOf(change.set), 1)
      if (change.set >= this.next_candidate) this.next_candidate = change.set + 1
    } else if ('free' in change) {
      const { free, back } = change
      if (back) {
        // in no list: found when everything else is used up
        if (allocated.remove(free) && this.granted) returned.push(free)
        return
      }
      if ((allocated.remove(free) || free < this.next_candidate) && !this.granted) released.add(free)
    } else if ('grant' in change) {
      if (change.fresh) {
        released.clear()
        returned.length = 0
      }
      this.granted_until = change.until
      for (const id of change.grant) if (!allocated.has(id)) released.add(id)
    } else {
      const slot = allocated.find(change.touch)
      if (slot < 0) return
      allocated.heard(slot, change.last_seen, change.lease_expires_at, change.addr)
    }
  }

  /** `lost` changes of the journal cannot be read: each may have given out one id that no later change names. */
  lose(lost: number): void {
    this.damaged = true
    this.next_candidate = Math.min(0xffff_ffff, this.next_candidate + lost)
    this.released.clear()
  }
}

export const isId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 0xffff_ffff

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** 1e999 in a file reads as infinity, which no file can hold again */
const isSeconds = (value: unknown): value is number => Number.isFinite(value)

/** A record as found in a file, completed; null when it is none. */
export function recordFrom(value: unknown): IdRecord | null {
  if (!isObject(value)) return null
  const seconds = (key: string): number => {
    const given = value[key]
    return isSeconds(given) ? given : 0
  }
  return {
    meta: isObject(value['meta']) ? JSON.stringify(value['meta']) : '{}',
    ts: seconds('ts'),
    last_seen: seconds('last_seen'),
    lease_expires_at: seconds('lease_expires_at'),
    device_key: typeof value['device_key'] === 'string' ? value['device_key'] : '',
    state: value['state'] === 'offline' || value['state'] === 'offered' ? value['state'] : 'active',
    offline_since: seconds('offline_since'),
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
  }
}

/** JSON of a change, one line; built by hand, since a flood of new devices makes one each. */
export function changeText(change: IdChange): string {
  if (!('set' in change)) return JSON.stringify(change)
  const { meta, ts, last_seen, lease_expires_at, device_key, state, offline_since, addr } = change.record
  const end = addr === undefined ? '}}' : `,"addr":${JSON.stringify(addr)}}}`
  return `{"set":${change.set},"record":{"meta":${meta},"ts":${ts},"last_seen":${last_seen},"lease_expires_at":${lease_expires_at},"device_key":${JSON.stringify(device_key)},"state":"${state}","offline_since":${offline_since}${end}`
}

/** A change as found in a journal; null when it is none. */
export function changeFrom(value: unknown): IdChange | null {
  if (!isObject(value)) return null
  if (isId(value['set'])) {
    const record = recordFrom(value['record'])
    return record && { set: value['set'], record }
  }
  if (isId(value['free'])) return { free: value['free'], ...(value['back'] === true && { back: true }) }
  if (Array.isArray(value['grant']))
    return {
      grant: value['grant'].filter(isId),
      until: isSeconds(value['until']) ? value['until'] : 0,
      fresh: value['fresh'] === true,
    }
  const { touch, last_seen, lease_expires_at } = value
  if (!isId(touch) || !isSeconds(last_seen) || !isSeconds(lease_expires_at)) return null
  return {
    touch,
    last_seen,
    lease_expires_at,
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
  }
}
