// Hands out device ids (specification "ID allocator", PROTOCOL §8): a pool of uint32, the same id for the same device, a
// lease for devices that went away. 0 and 4294967295 mean "no id" and are never handed out.
//
// What fails: an exhausted pool is an error (ID_POOL_EXHAUSTED). A store that cannot be read refuses every allocation; one
// that cannot be written makes commit() reject, and the reply that would tell the device its id is not sent (the id stays
// reserved for it and is written when the disk takes it). One id is never given to two devices by a crash, a jump of
// the clock or a lost journal line. Nothing is read before the first use; times are UNIX seconds.
import { join } from 'node:path'
import { OsError } from '../lib/errors'
import { type DeviceMeta, deviceKey } from './devicekey'
import { applyChange, emptyState, type IdChange, type IdRecord, type IdState, stateToJson } from './idstate'
import { FileIdStore, type IdStore } from './idstore'
import { LeaseMeter, type LeaseMetrics, type LeasePolicy, type LeasePolicyInput, leasePolicy } from './lease'

export interface IdAllocatorOptions {
  /** folder of persistFile; null: the working directory */
  baseDir?: string | null
  startId?: number
  endId?: number
  persistFile?: string
  /** freed ids remembered, at least 256; the lowest stay */
  maxReleased?: number
  leasePolicy?: LeasePolicyInput | null
  /** told the metrics at most every metrics_emit_interval_seconds */
  metricsSink?: ((metrics: LeaseMetrics) => void) | null
}

export interface IdAllocatorDeps {
  /** in place of the file */
  store?: IdStore
  /** UNIX seconds */
  now?: () => number
  /** Milliseconds that never jump. With it, a jump of `now` moves the leases along instead of ending or prolonging them. */
  mono?: () => number
}

export interface AllocatorStats {
  total_allocated: number
  total_released: number
  next_candidate: number
  range: [number, number]
  lease_policy: LeasePolicy
  lease_metrics: LeaseMetrics
}

const UNASSIGNED = 0xffff_ffff
/** a clock that runs away from the steady one by more than this has jumped */
const JUMP_SECONDS = 60
/** after a start, devices get at least this long to be heard before their lease ends */
const START_GRACE_SECONDS = 3600
/** hearing a device is written to the journal at most this often, or eight times per lease */
const TOUCH_SECONDS = 3600

export class IdAllocator {
  readonly #start: number
  readonly #end: number
  readonly #maxReleased: number
  readonly #policy: LeasePolicy
  readonly #sink: ((metrics: LeaseMetrics) => void) | null
  readonly #store: IdStore
  readonly #now: () => number
  readonly #mono: (() => number) | undefined
  readonly #keys = new Map<string, number>()
  /** last_seen of each id as the journal has it */
  readonly #noted = new Map<number, number>()
  #state: IdState | null = null
  #meter: LeaseMeter | null = null
  /** no lease ends before this */
  #earliestEnd = Number.POSITIVE_INFINITY
  #checkpointFailures = 0
  #clockAt: { now: number; mono: number } | null = null

  constructor(
    {
      baseDir = null,
      startId = 1,
      endId = UNASSIGNED,
      persistFile = 'data/id_allocation.json',
      maxReleased = 10_000,
      leasePolicy: policy = null,
      metricsSink = null,
    }: IdAllocatorOptions = {},
    { store, now = () => Math.floor(Date.now() / 1000), mono }: IdAllocatorDeps = {},
  ) {
    this.#start = startId
    this.#end = endId
    this.#maxReleased = Math.max(256, maxReleased)
    this.#policy = leasePolicy(policy)
    this.#sink = metricsSink
    this.#store = store ?? new FileIdStore(join(baseDir ?? process.cwd(), persistFile))
    this.#now = now
    this.#mono = mono
  }

  /**
   * The id of the device that `meta` describes, a new one if it has none. Throws ID_POOL_EXHAUSTED, or STORAGE when the store
   * cannot be read. Tell the device only after commit().
   */
  allocateId(meta: DeviceMeta | null = null): number {
    const now = this.#tick()
    this.#makeWay(now)
    return this.#allocate(meta, deviceKey(meta), now)
  }

  /** Up to `count` distinct ids, fewer when the pool ends; they are not bound to the device (X5). Throws as allocateId. */
  allocatePool(count: number, meta: DeviceMeta | null = null): number[] {
    const now = this.#tick()
    this.#makeWay(now)
    const ids: number[] = []
    for (let k = 0; k < count; k++) {
      try {
        ids.push(this.#allocate(meta, '', now))
      } catch (error) {
        if (ids.length === 0) throw error
        break
      }
    }
    return ids
  }

  /** The device is gone: its id is free at once (`immediate`) or when its lease ends. False for an id not in use. */
  releaseId(id: number, immediate = false): boolean {
    const now = this.#tick()
    const state = this.#load()
    const record = state.allocated.get(id)
    if (!record) return false
    const lease = immediate ? 0 : this.#meter!.effective(now)
    const expires = now + Math.max(0, lease)
    this.#set(id, { ...record, state: 'offline', offline_since: now, lease_expires_at: expires })
    this.#reclaim(now)
    this.#cutOffline(now)
    this.#tell(now)
    return true
  }

  /** Returns how many of the ids were in use. */
  releasePool(ids: readonly number[], immediate = false): number {
    return ids.filter(id => this.releaseId(id, immediate)).length
  }

  isAllocated(id: number): boolean {
    return this.#load().allocated.has(id)
  }

  /** What the device said of itself; {} for an id not in use. */
  getMeta(id: number): Record<string, unknown> {
    return { ...this.#load().allocated.get(id)?.meta }
  }

  /** The device was heard: renews its lease and notes its address (X6). False for an id not in use. */
  touch(id: number, addr: string | null = null): boolean {
    const now = this.#tick()
    const record = this.#load().allocated.get(id)
    if (!record) return false
    const change: IdChange = {
      touch: id,
      last_seen: now,
      lease_expires_at: now + this.#policy.base_lease_seconds,
      ...(addr !== null && { addr }),
    }
    const wasOffline = record.state === 'offline'
    applyChange(this.#state!, change)
    this.#expires(record.lease_expires_at)
    if (wasOffline || Math.abs(now - (this.#noted.get(id) ?? 0)) >= this.#touchEvery()) {
      this.#store.append(change)
      this.#noted.set(id, now)
    }
    return true
  }

  /** Frees the ids whose lease has ended; returns how many. */
  reclaimExpired(): number {
    return this.#reclaim(this.#tick())
  }

  stats(): AllocatorStats {
    const now = this.#tick()
    const state = this.#load()
    this.#meter!.effective(now)
    this.#tell(now)
    return {
      total_allocated: state.allocated.size,
      total_released: state.released.length,
      next_candidate: state.next_candidate,
      range: [this.#start, this.#end],
      lease_policy: this.#policy,
      lease_metrics: { ...this.#meter!.metrics },
    }
  }

  /** The persisted form (PROTOCOL §8). */
  dump(): Record<string, unknown> {
    return stateToJson(this.#withMetrics())
  }

  /** Settles when every id handed out so far is on the medium; rejects when it could not be written. */
  async commit(): Promise<void> {
    if (!this.#state) return
    await this.#store.commit()
    try {
      this.#store.checkpoint(this.#withMetrics())
    } catch {
      // the journal holds everything already; the checkpoint only shortens it and is tried again at the next commit
      this.#checkpointFailures++
    }
  }

  /** checkpoints that could not be written; nothing is lost by one, the journal only stays long */
  get checkpointFailures(): number {
    return this.#checkpointFailures
  }

  /** Writes the checkpoint. Safe to call twice, and without a use before. */
  stop(): void {
    if (this.#state) this.#store.checkpoint(this.#withMetrics(), true)
    this.#store.close()
  }

  #load(): IdState {
    if (this.#state) return this.#state
    const now = this.#now()
    const first = Math.max(1, this.#start)
    const state = this.#store.load() ?? emptyState(first)
    state.next_candidate = Math.max(state.next_candidate, first)
    const meter = new LeaseMeter(this.#policy, now)
    const { last_reclaim_count, last_reclaim_at, total_reclaimed } = { ...meter.metrics, ...state.lease_metrics }
    Object.assign(meter.metrics, { last_reclaim_count, last_reclaim_at, total_reclaimed })
    // nobody could be heard while this process was down, and the last hearings may not be in the journal
    const grace = now + Math.min(this.#policy.base_lease_seconds, START_GRACE_SECONDS)
    for (const [id, record] of state.allocated) {
      if (record.state === 'active') record.lease_expires_at = Math.max(record.lease_expires_at, grace)
      if (record.device_key) this.#keys.set(record.device_key, id)
      this.#noted.set(id, record.last_seen)
      this.#expires(record.lease_expires_at)
    }
    this.#meter = meter
    this.#state = state
    return state
  }

  #withMetrics(): IdState {
    const state = this.#load()
    state.lease_metrics = { ...this.#meter!.metrics }
    return state
  }

  #makeWay(now: number): void {
    this.#load()
    this.#reclaim(now)
    this.#meter!.effective(now)
    this.#cutOffline(now)
  }

  #allocate(meta: DeviceMeta | null, key: string, now: number): number {
    const state = this.#state!
    const lease_expires_at = now + this.#policy.base_lease_seconds
    const known = key === '' ? undefined : this.#keys.get(key)
    const old = known === undefined ? undefined : state.allocated.get(known)
    if (known !== undefined && old) {
      const record: IdRecord = { ...old, last_seen: now, lease_expires_at, state: 'active', offline_since: 0 }
      if (meta) record.meta = { ...meta }
      const same = old.state === 'active' && JSON.stringify(old.meta) === JSON.stringify(record.meta)
      if (same && now - (this.#noted.get(known) ?? 0) < this.#touchEvery()) state.allocated.set(known, record)
      else this.#set(known, record)
      return known
    }
    const id = this.#free()
    this.#set(id, {
      meta: { ...meta },
      ts: now,
      last_seen: now,
      lease_expires_at,
      device_key: key,
      state: 'active',
      offline_since: 0,
    })
    if (key !== '') this.#keys.set(key, id)
    this.#meter!.arrived(now)
    this.#meter!.effective(now)
    this.#tell(now)
    return id
  }

  /** The id to hand out next: the smallest freed one, else the next never used, else one that dropped out of the list. */
  #free(): number {
    const state = this.#state!
    const first = Math.max(1, this.#start)
    const last = Math.min(this.#end, UNASSIGNED - 1)
    const freed = state.released.find(id => id >= first && id <= last)
    if (freed !== undefined) return freed
    if (state.next_candidate <= last) return state.next_candidate
    if (!state.damaged && state.allocated.size < last - first + 1)
      for (let id = first; id <= last; id++) if (!state.allocated.has(id)) return id
    throw new OsError('ID_POOL_EXHAUSTED', `[IDAllocator] ID pool exhausted (${this.#start}-${this.#end})`)
  }

  #set(id: number, record: IdRecord): void {
    this.#change({ set: id, record })
    this.#noted.set(id, record.last_seen)
    this.#expires(record.lease_expires_at)
  }

  #change(change: IdChange): void {
    applyChange(this.#state!, change, this.#maxReleased)
    this.#store.append(change)
  }

  #expires(at: number): void {
    if (at > 0 && at < this.#earliestEnd) this.#earliestEnd = at
  }

  #reclaim(now: number): number {
    const { allocated } = this.#load()
    if (now < this.#earliestEnd) return 0
    this.#earliestEnd = Number.POSITIVE_INFINITY
    let count = 0
    for (const [id, record] of allocated) {
      if (record.lease_expires_at <= 0) continue
      if (now < record.lease_expires_at) {
        this.#expires(record.lease_expires_at)
        continue
      }
      if (this.#keys.get(record.device_key) === id) this.#keys.delete(record.device_key)
      this.#noted.delete(id)
      this.#change({ free: id })
      count++
    }
    this.#meter!.reclaimed(count, now)
    return count
  }

  /** While new devices flood in, whoever is offline loses its lease now. */
  #cutOffline(now: number): void {
    if (!this.#meter!.metrics.force_zero_lease_active || !this.#policy.ultra_force_release) return
    for (const [id, record] of this.#state!.allocated)
      if (record.state === 'offline' && record.lease_expires_at > now)
        this.#set(id, { ...record, lease_expires_at: now })
  }

  #touchEvery(): number {
    return Math.min(TOUCH_SECONDS, this.#policy.base_lease_seconds / 8)
  }

  #tell(now: number): void {
    if (this.#meter!.due(now)) this.#sink?.({ ...this.#meter!.metrics })
  }

  /** The time, after moving the leases along when the clock has jumped since the last call. */
  #tick(): number {
    const now = this.#now()
    if (!this.#mono) return now
    const mono = this.#mono() / 1000
    const last = this.#clockAt
    this.#clockAt = { now, mono }
    const jump = last ? now - last.now - (mono - last.mono) : 0
    if (Math.abs(jump) > JUMP_SECONDS && this.#state) {
      this.#earliestEnd = Number.POSITIVE_INFINITY
      for (const record of this.#state.allocated.values()) {
        if (record.lease_expires_at > 0)
          record.lease_expires_at = Math.max(1, Math.round(record.lease_expires_at + jump))
        this.#expires(record.lease_expires_at)
      }
    }
    return now
  }
}
