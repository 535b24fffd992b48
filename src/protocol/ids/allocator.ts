// Hands out device ids (specification "ID allocator", PROTOCOL §8): a pool of uint32, the same id for the same device, a
// lease for devices that went away. 0 and 4294967295 mean "no id" and are never handed out.
//
// What fails: an exhausted pool is an error (ID_POOL_EXHAUSTED), and so is a new device when those known fill the memory
// meant for them (ID_STORE_FULL): a flood of requests costs new devices their id, not the gateway its life. A store that cannot be read refuses every allocation; one
// that cannot be written makes commit() reject, and the reply that would tell the device its id is not sent (the id stays
// reserved for it and is written when the disk takes it). One id is never given to two devices by a crash, a jump of
// the clock or a lost journal line. Nothing is read before the first use; times are UNIX seconds.

import { join } from 'node:path'
import { checkOptions } from '../../lib/checked'
import { asOsError, OsError } from '../../lib/errors'
import { checkpointPieces } from './checkpoint'
import { type DeviceMeta, deviceKey, metaText } from './devicekey'
import { LeaseMeter, type LeasePolicy, leasePolicy } from './lease'
import { type IdChange, type IdRecord, IdState } from './state'
import { SteadyTime } from './steadytime'
import { FileIdStore, type IdStore } from './store'
import type { AllocatorStats, IdAllocatorDeps, IdAllocatorOptions } from './types'

export type { AllocatorStats, IdAllocatorDeps, IdAllocatorOptions }

const UNASSIGNED = 0xffff_ffff
/**
 * Ids of a pool are kept for whoever asked for them at least this long, whatever the lease: its gateway hands them out
 * later, and no packet tells it how long they are good.
 */
export const POOL_HOLD_SECONDS = 30 * 86_400
/** after a start, devices get at least this long to be heard before their lease ends */
const START_GRACE_SECONDS = 3600
/** hearing a device is written to the journal at most this often, or eight times per lease */
const TOUCH_SECONDS = 3600
/** about 1.3 million devices */
const MAX_BYTES = 256 << 20
/** ended leases that one allocation clears away; the next ones follow with the next */
const RECLAIM_AT_ONCE = 2000

export class IdAllocator {
  readonly #start: number
  readonly #end: number
  readonly #granted: boolean
  readonly #maxReleased: number
  readonly #maxBytes: number
  readonly #policy: LeasePolicy
  readonly #touchEvery: number
  readonly #store: IdStore
  readonly #time: SteadyTime
  readonly #meter: LeaseMeter
  #state: IdState | null = null
  #broken: OsError | null = null
  /** offline leases were cut since the flood began */
  #cut = false
  /** ids below were looked at for some that are in no list */
  #scanned = 0
  #checkpoint: Promise<void> = Promise.resolve()
  #checkpointFailures = 0
  #refused = 0

  constructor(
    {
      baseDir = null,
      startId = 1,
      endId = UNASSIGNED,
      persistFile = 'data/id_allocation.json',
      maxReleased = 10_000,
      leasePolicy: policy = null,
      maxBytes = MAX_BYTES,
      metricsSink = null,
    }: IdAllocatorOptions = {},
    { store, now = () => Math.floor(Date.now() / 1000), mono }: IdAllocatorDeps = {},
  ) {
    // biome-ignore lint/complexity/noArguments: what was handed in, before it is taken apart
    checkOptions('new IdAllocator', arguments)
    if (![startId, endId].every(id => Number.isInteger(id) && id >= 0 && id <= UNASSIGNED))
      throw new OsError('BAD_REQUEST', `new IdAllocator: startId and endId are whole numbers from 0 to ${UNASSIGNED}`)
    this.#start = startId
    this.#end = endId
    this.#granted = endId < startId
    this.#maxReleased = Math.max(256, maxReleased)
    this.#maxBytes = maxBytes
    this.#policy = leasePolicy(policy)
    this.#touchEvery = Math.min(TOUCH_SECONDS, this.#policy.base_lease_seconds / 8)
    this.#store = store ?? new FileIdStore(join(baseDir ?? process.cwd(), persistFile))
    this.#time = new SteadyTime(now, mono)
    this.#meter = new LeaseMeter(this.#policy, now(), metricsSink)
  }

  /**
   * The id of the device that `meta` describes, a new one if it has none. Throws ID_POOL_EXHAUSTED, ID_STORE_FULL, or STORAGE
   * when the store cannot be read. Tell the device only after commit().
   */
  allocateId(meta: DeviceMeta | null = null): number {
    const now = this.#tick()
    this.#makeWay(now)
    return this.#allocate(metaText(meta), deviceKey(meta), now, this.#policy.base_lease_seconds)
  }

  /**
   * Up to `count` distinct ids, fewer when the pool ends; they are not bound to the device (X5), and held for it at least
   * POOL_HOLD_SECONDS. Throws as allocateId.
   */
  allocatePool(count: number, meta: DeviceMeta | null = null): number[] {
    const now = this.#tick()
    this.#makeWay(now)
    const text = metaText(meta)
    const lease = Math.max(this.#policy.base_lease_seconds, POOL_HOLD_SECONDS)
    const ids: number[] = []
    for (let k = 0; k < count; k++) {
      try {
        ids.push(this.#allocate(text, '', now, lease))
      } catch (error) {
        if (ids.length === 0) throw error
        break
      }
    }
    return ids
  }

  /**
   * Ids that an upstream gave this allocator to hand out, for `goodForSeconds`; those of an earlier grant that were not used
   * in time are forgotten. Tell the upstream only after commit(). Throws BAD_REQUEST when there is a range of its own.
   */
  grant(ids: readonly number[], goodForSeconds: number): void {
    if (!this.#granted) throw new OsError('BAD_REQUEST', 'this allocator has a range of its own')
    const now = this.#tick()
    const fresh = this.#grantable(now) === 0
    const until = now + goodForSeconds
    const grant = ids.filter(id => Number.isInteger(id) && id > 0 && id < UNASSIGNED)
    // the whole lot ends with its oldest part
    this.#change({ grant, until: fresh ? until : Math.min(until, this.#state!.granted_until), fresh })
  }

  /** Granted ids that nobody has yet and that may still be handed out. */
  get grantsLeft(): number {
    return this.#granted ? this.#grantable(this.#tick()) : 0
  }

  /** The device is gone: its id is free at once (`immediate`) or when its lease ends. False for an id not in use. */
  releaseId(idVal: number, immediate = false): boolean {
    const now = this.#tick()
    const { allocated } = this.#load()
    const slot = allocated.find(idVal)
    if (slot < 0) return false
    const lease = immediate ? 0 : this.#meter.effective(now)
    const expires = now + Math.max(0, lease)
    const record: IdRecord = {
      ...allocated.record(slot),
      state: 'offline',
      offline_since: now,
      lease_expires_at: expires,
    }
    this.#change({ set: idVal, record })
    this.#reclaim(now)
    this.#cutOffline(now)
    this.#meter.tell(now)
    return true
  }

  /** Returns how many of the ids were in use. */
  releasePool(ids: readonly number[], immediate = false): number {
    return ids.filter(id => this.releaseId(id, immediate)).length
  }

  isAllocated(idVal: number): boolean {
    return this.#load().allocated.has(idVal)
  }

  /** What the device said of itself; {} for an id not in use. */
  getMeta(idVal: number): Record<string, unknown> {
    const { allocated } = this.#load()
    const slot = allocated.find(idVal)
    return slot < 0 ? {} : JSON.parse(allocated.metaOf(slot))
  }

  /** The device was heard: renews its lease and notes its address (X6). False for an id not in use. */
  touch(id: number, addr: string | null = null): boolean {
    const now = this.#tick()
    const { allocated } = this.#load()
    const slot = allocated.find(id)
    if (slot < 0) return false
    // never sooner: an id of a pool is held longer, and anybody can send a packet under it
    const end = Math.max(allocated.leaseEnd(slot), now + this.#policy.base_lease_seconds)
    const noteworthy = allocated.isOffline(slot) || Math.abs(now - allocated.noted(slot)) >= this.#touchEvery
    allocated.heard(slot, now, end, addr ?? undefined)
    if (noteworthy) {
      this.#store.append({ touch: id, last_seen: now, lease_expires_at: end, ...(addr !== null && { addr }) })
      allocated.setNoted(slot, now)
    }
    return true
  }

  /** Frees the ids whose lease has ended; returns how many. */
  reclaimExpired(): number {
    const now = this.#tick()
    this.#load()
    return this.#reclaim(now)
  }

  stats(): AllocatorStats {
    const now = this.#tick()
    const state = this.#load()
    this.#meter.effective(now)
    this.#meter.tell(now)
    return {
      total_allocated: state.allocated.size,
      total_released: this.#granted ? this.#grantable(now) : state.released.size,
      next_candidate: state.next_candidate,
      bytes: state.allocated.bytes,
      refused: this.#refused,
      range: [this.#start, this.#end],
      lease_policy: this.#policy,
      lease_metrics: { ...this.#meter.metrics },
    }
  }

  /** The persisted form (PROTOCOL §8). */
  dump(): Record<string, unknown> {
    return JSON.parse([...checkpointPieces(this.#load())].join(''))
  }

  /** Settles when every id handed out so far is on the medium; rejects when it could not be written. */
  async commit(): Promise<void> {
    if (!this.#state) return
    await this.#store.commit()
    this.#checkpoint = this.#store.checkpoint().catch(() => {
      // the journal holds everything already; the checkpoint only shortens it and is tried again later
      this.#checkpointFailures++
    })
  }

  /** Settles when no checkpoint is being written. */
  settled(): Promise<void> {
    return this.#checkpoint
  }

  /** checkpoints that could not be written; nothing is lost by one, the journal only stays long */
  get checkpointFailures(): number {
    return this.#checkpointFailures
  }

  /** metrics at which metricsSink threw; they are not told again */
  get metricsFailures(): number {
    return this.#meter.untold
  }

  /** Writes the checkpoint. Safe to call twice, and without a use before. */
  stop(): void {
    if (this.#state) this.#store.checkpointNow()
    this.#store.close()
  }

  #load(): IdState {
    if (this.#state) return this.#state
    if (this.#broken) throw this.#broken
    const { now } = this.#time.read()
    const first = Math.max(1, this.#start)
    const state = new IdState({
      nextCandidate: first,
      maxReleased: this.#maxReleased,
      spill: this.#store.spill,
      granted: this.#granted,
    })
    try {
      this.#store.load(state)
    } catch (error) {
      // not read again with every packet: it may be large
      this.#broken = asOsError(error, 'STORAGE')
      throw this.#broken
    }
    state.next_candidate = Math.max(state.next_candidate, first)
    const { metrics } = this.#meter
    const { last_reclaim_count, last_reclaim_at, total_reclaimed } = { ...metrics, ...state.lease_metrics }
    state.lease_metrics = Object.assign(metrics, { last_reclaim_count, last_reclaim_at, total_reclaimed })
    // nobody could be heard while this process was down, and the last hearings may not be in the journal
    const grace = now + Math.min(this.#policy.base_lease_seconds, START_GRACE_SECONDS)
    const { allocated } = state
    for (let slot = 0; slot < allocated.slots; slot++)
      if (allocated.idOf(slot) !== 0 && !allocated.isOffline(slot))
        allocated.setLease(slot, Math.max(allocated.leaseEnd(slot), grace))
    this.#state = state
    return state
  }

  #makeWay(now: number): void {
    this.#load()
    this.#reclaim(now, RECLAIM_AT_ONCE)
    this.#meter.effective(now)
    this.#cutOffline(now)
  }

  #allocate(meta: string, key: string, now: number, lease: number): number {
    const { allocated } = this.#state!
    const lease_expires_at = now + lease
    const slot = allocated.findKey(key)
    const hasRoom = allocated.makeRoom(Buffer.byteLength(key) + Buffer.byteLength(meta), this.#maxBytes)
    if (slot >= 0) {
      const id = allocated.idOf(slot)
      const text = meta === '{}' || !hasRoom ? allocated.metaOf(slot) : meta
      const same = !allocated.isOffline(slot) && allocated.metaOf(slot) === text
      if (same && now - allocated.noted(slot) < this.#touchEvery) allocated.heard(slot, now, lease_expires_at)
      else {
        const record: IdRecord = { ...allocated.record(slot), meta: text, state: 'active', offline_since: 0 }
        this.#change({ set: id, record: { ...record, last_seen: now, lease_expires_at } })
      }
      return id
    }
    if (!hasRoom) {
      this.#refused++
      throw new OsError(
        'ID_STORE_FULL',
        `[IDAllocator] ${allocated.size} ids fill the ${this.#maxBytes} bytes for them`,
      )
    }
    const id = this.#free(now)
    const seen = { ts: now, last_seen: now, lease_expires_at, offline_since: 0 }
    this.#change({ set: id, record: { meta, ...seen, device_key: key, state: 'active' } })
    this.#meter.arrived(now)
    this.#meter.effective(now)
    this.#meter.tell(now)
    return id
  }

  /** The id to hand out next: the smallest freed one, else the next never used, else one that is in no list. */
  #free(now: number): number {
    const state = this.#state!
    const first = Math.max(1, this.#start)
    const last = Math.min(this.#end, UNASSIGNED - 1)
    if (this.#granted && this.#grantable(now) > 0) return state.released.lowest()!
    if (!this.#granted) {
      for (let freed = state.released.lowest(); freed !== null; freed = state.released.lowest()) {
        if (freed >= first && freed <= last) return freed
        // of a range that was configured once; found by #unlisted() should it come back
        state.released.remove(freed)
      }
      if (state.next_candidate <= last) return state.next_candidate
      const unlisted = this.#unlisted(first, last)
      if (unlisted !== null) return unlisted
    }
    if (this.#reclaim(now, RECLAIM_AT_ONCE) > 0) return this.#free(now)
    throw new OsError('ID_POOL_EXHAUSTED', `[IDAllocator] ID pool exhausted (${this.#start}-${this.#end})`)
  }

  /** An id of the range that is neither in use nor in a list: of a spill that got lost, or of a range that was narrower. */
  #unlisted(first: number, last: number): number | null {
    const { allocated, damaged } = this.#state!
    if (damaged || allocated.size >= last - first + 1) return null
    for (this.#scanned = Math.max(this.#scanned, first); this.#scanned <= last; this.#scanned++)
      if (!allocated.has(this.#scanned)) return this.#scanned
    return null
  }

  /** Granted ids left, none after their time: the upstream may give them to somebody else by then. */
  #grantable(now: number): number {
    const { released, granted_until } = this.#load()
    return now < granted_until ? released.size : 0
  }

  #change(change: IdChange): void {
    this.#state!.apply(change)
    this.#store.append(change)
  }

  #reclaim(now: number, most = Number.POSITIVE_INFINITY): number {
    const { allocated } = this.#state!
    let count = 0
    for (let slot = allocated.firstEnded(now); slot >= 0 && count < most; slot = allocated.firstEnded(now)) {
      this.#change({ free: allocated.idOf(slot) })
      count++
    }
    this.#meter.reclaimed(count, now)
    return count
  }

  /** When new devices flood in, whoever is offline loses its lease; from then on going offline gives none (effective lease 0). */
  #cutOffline(now: number): void {
    const { force_zero_lease_active } = this.#meter.metrics
    if (!force_zero_lease_active || !this.#policy.ultra_force_release) {
      this.#cut = false
      return
    }
    if (this.#cut) return
    this.#cut = true
    const { allocated } = this.#state!
    for (let slot = 0; slot < allocated.slots; slot++)
      if (allocated.idOf(slot) !== 0 && allocated.isOffline(slot) && allocated.leaseEnd(slot) > now)
        this.#change({ set: allocated.idOf(slot), record: { ...allocated.record(slot), lease_expires_at: now } })
  }

  /** The time, after moving the leases along when the clock has jumped since the last call. */
  #tick(): number {
    const { now, jump } = this.#time.read()
    if (jump === 0 || !this.#state) return now
    const { allocated, granted_until } = this.#state
    if (granted_until > 0) this.#change({ grant: [], until: Math.max(1, granted_until + jump), fresh: false })
    for (let slot = 0; slot < allocated.slots; slot++) {
      const end = allocated.leaseEnd(slot)
      if (allocated.idOf(slot) !== 0 && end > 0) allocated.setLease(slot, Math.max(1, Math.round(end + jump)))
    }
    return now
  }
}
