// What the allocator remembers, the changes a journal of it holds, and how a change is applied: one function for the live
// allocator and for recovery, so that both always agree. Pure.
import type { LeaseMetrics } from './lease'

/** One id in use, as the file of PROTOCOL §8 holds it. Times in UNIX seconds. */
export interface IdRecord {
  meta: Record<string, unknown>
  /** when the id was first given to this device */
  ts: number
  last_seen: number
  lease_expires_at: number
  device_key: string
  state: 'active' | 'offline'
  offline_since: number
  /** where the device last spoke from */
  addr?: string
}

/** `set`: the id belongs to that device; `free`: to nobody; `touch`: its device was heard. */
export type IdChange =
  | { readonly set: number; readonly record: IdRecord }
  | { readonly free: number }
  | { readonly touch: number; readonly last_seen: number; readonly lease_expires_at: number; readonly addr?: string }

export interface IdState {
  readonly allocated: Map<number, IdRecord>
  /** free again, ascending */
  readonly released: number[]
  next_candidate: number
  lease_metrics: Partial<LeaseMetrics> | null
  /** a change was lost to damage: ids whose owner is unknown are not handed out again */
  damaged: boolean
}

export const emptyState = (nextCandidate = 1): IdState => ({
  allocated: new Map(),
  released: [],
  next_candidate: nextCandidate,
  lease_metrics: null,
  damaged: false,
})

/** Where `id` is, or belongs, in an ascending list. */
function place(list: readonly number[], id: number): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (list[middle]! < id) low = middle + 1
    else high = middle
  }
  return low
}

/** Applies one change. Applying a journal again onto the state it led to changes nothing. */
export function applyChange(state: IdState, change: IdChange, maxReleased = Number.POSITIVE_INFINITY): void {
  const { allocated, released } = state
  if ('set' in change) {
    allocated.set(change.set, change.record)
    const at = place(released, change.set)
    if (released[at] === change.set) released.splice(at, 1)
    if (change.set >= state.next_candidate) state.next_candidate = change.set + 1
  } else if ('free' in change) {
    if (!allocated.delete(change.free) && change.free >= state.next_candidate) return
    const at = place(released, change.free)
    if (released[at] !== change.free) released.splice(at, 0, change.free)
    if (released.length > maxReleased) released.pop()
  } else {
    const record = allocated.get(change.touch)
    if (!record) return
    record.last_seen = change.last_seen
    record.lease_expires_at = change.lease_expires_at
    record.state = 'active'
    record.offline_since = 0
    if (change.addr !== undefined) record.addr = change.addr
  }
}

/** The JSON form of PROTOCOL §8. */
export const stateToJson = (state: IdState): Record<string, unknown> => ({
  allocated: Object.fromEntries([...state.allocated].map(([id, record]) => [String(id), record])),
  released: state.released,
  next_candidate: state.next_candidate,
  ...(state.lease_metrics && { lease_metrics: state.lease_metrics }),
  ...(state.damaged && { damaged: true }),
})

const isId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A record as found in a file, completed; null when it is none. */
export function recordFrom(value: unknown): IdRecord | null {
  if (!isObject(value)) return null
  const seconds = (key: string): number => (typeof value[key] === 'number' ? value[key] : 0)
  return {
    meta: isObject(value['meta']) ? value['meta'] : {},
    ts: seconds('ts'),
    last_seen: seconds('last_seen'),
    lease_expires_at: seconds('lease_expires_at'),
    device_key: typeof value['device_key'] === 'string' ? value['device_key'] : '',
    state: value['state'] === 'offline' ? 'offline' : 'active',
    offline_since: seconds('offline_since'),
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
  }
}

/** Reads the JSON form; null when the document is not one. An entry nobody can read counts as lost (`damaged`). */
export function stateFromJson(value: unknown): IdState | null {
  if (!isObject(value) || !isObject(value['allocated'])) return null
  const state = emptyState()
  for (const [key, entry] of Object.entries(value['allocated'])) {
    const id = Number(key)
    const record = recordFrom(entry)
    if (isId(id) && record) applyChange(state, { set: id, record })
    else state.damaged = true
  }
  if (Array.isArray(value['released']))
    for (const id of value['released'].filter(isId)) {
      const at = place(state.released, id)
      // an id that stands there twice must not be handed out twice
      if (!state.allocated.has(id) && state.released[at] !== id) state.released.splice(at, 0, id)
    }
  if (isId(value['next_candidate'])) state.next_candidate = Math.max(state.next_candidate, value['next_candidate'])
  if (isObject(value['lease_metrics'])) state.lease_metrics = value['lease_metrics'] as Partial<LeaseMetrics>
  if (value['damaged'] === true) state.damaged = true
  return state
}

/** A change as found in a journal; null when it is none. */
export function changeFrom(value: unknown): IdChange | null {
  if (!isObject(value)) return null
  if (isId(value['set'])) {
    const record = recordFrom(value['record'])
    return record && { set: value['set'], record }
  }
  if (isId(value['free'])) return { free: value['free'] }
  if (!isId(value['touch']) || typeof value['last_seen'] !== 'number' || typeof value['lease_expires_at'] !== 'number')
    return null
  return {
    touch: value['touch'],
    last_seen: value['last_seen'],
    lease_expires_at: value['lease_expires_at'],
    ...(typeof value['addr'] === 'string' && { addr: value['addr'] }),
  }
}
