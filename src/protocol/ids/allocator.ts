// Assigns device ids (specification "ID allocator"): a pool of uint32, the same id for the same device, a lease for devices
// that are offline. 0 and 4294967295 mean "no id" and are never assigned.
//
// Errors: an exhausted pool is an error (ID_POOL_EXHAUSTED), and so is a new device when the known ones use up the memory for
// ids (ID_STORE_FULL): a flood of requests must not exhaust the memory of the gateway. A store that cannot be read refuses
// every allocation; one that cannot be written makes commit() reject, and the reply with the id is not sent (the id stays
// reserved for its device and is written when the disk works again). A crash, a jump of the clock or a lost journal line
// never causes one id to be assigned to two devices. Nothing is read before the first use, or before start(), which reads in
// slices; times are UNIX seconds.

import { join } from 'node:path'
import { isAssigned, UNASSIGNED } from '../../lib/assigned-id'
import { checkNames } from '../../lib/checked'
import { OsError } from '../../lib/errors'
import { yieldToLoop } from '../../lib/yield'
import { checkpointPieces } from './checkpoint'
import { type DeviceMeta, deviceKey, metaText } from './devicekey'
import { FileIdStore } from './id-store'
import { leasePolicy } from './lease'
import { LeaseKeeper, RECLAIM_AT_ONCE } from './lease-keeper'
import { IdRange } from './range'
import { type IdEntry, type IdRecord, type IdState, ownText } from './state'
import { type AllocatorStats, DEPS, type IdAllocatorDeps, type IdAllocatorOptions, OPTIONS } from './types'

export type { AllocatorStats, IdAllocatorDeps, IdAllocatorOptions }

/**
 * Minimum time for which ids of a pool are reserved for their gateway, whatever the lease: the gateway assigns them later,
 * and no packet says how long they are valid.
 */
export const POOL_HOLD_SECONDS = 30 * 86_400
/** a heard device is written to the journal at most this often, or eight times per lease */
export const TOUCH_SECONDS = 3600
/** about 700,000 devices */
const MAX_BYTES = 256 << 20

/** How new ids are assigned: for how many seconds they are offered (0: assigned directly), and to which address. */
interface Offer {
  readonly lease: number
  readonly seconds: number
  readonly grantedTo: string | undefined
}

export class IdAllocator {
  readonly #range: IdRange
  readonly #maxBytes: number
  readonly #touchEvery: number
  /** minimum time for which an id of a pool is reserved */
  readonly #poolLease: number
  readonly #keeper: LeaseKeeper
  #checkpoint: Promise<void> = Promise.resolve()
  #checkpointFailures = 0
  #refused = 0

  constructor(options: IdAllocatorOptions = {}, deps: IdAllocatorDeps = {}) {
    checkNames('new IdAllocator', options, OPTIONS)
    checkNames('new IdAllocator', deps, DEPS, 'deps')
    const {
      baseDir = null,
      startId = 1,
      endId = UNASSIGNED,
      persistFile = 'data/id_allocation.json',
      maxReleased = 10_000,
      leasePolicy: policy = null,
      maxBytes = MAX_BYTES,
      metricsSink = null,
    } = options
    const { store, now = () => Math.floor(Date.now() / 1000), mono } = deps
    if (![startId, endId].every(id => Number.isInteger(id) && id >= 0 && id <= UNASSIGNED))
      throw new OsError('BAD_REQUEST', `new IdAllocator: startId and endId must be integers from 0 to ${UNASSIGNED}`)
    this.#range = new IdRange(startId, endId)
    this.#maxBytes = maxBytes
    const path = join(baseDir ?? process.cwd(), persistFile)
    this.#keeper = new LeaseKeeper({
      store: store ?? new FileIdStore(path),
      policy: leasePolicy(policy),
      now,
      mono,
      metricsSink,
      first: this.#range.first,
      maxReleased: Math.max(256, maxReleased),
      granted: this.#range.granted,
    })
    const { base_lease_seconds } = this.#keeper.policy
    this.#touchEvery = Math.min(TOUCH_SECONDS, base_lease_seconds / 8)
    this.#poolLease = Math.max(base_lease_seconds, POOL_HOLD_SECONDS)
  }

  /**
   * The id of the device that `meta` describes, a new one if it has none. Throws ID_POOL_EXHAUSTED, ID_STORE_FULL, or STORAGE
   * if the store cannot be read. Send the id to the device only after commit().
   */
  allocateId(meta: DeviceMeta | null = null): number {
    return this.offerId(meta, 0)
  }

  /**
   * Like allocateId(), but a new id is only offered: unless confirm() or touch() names it in time, it is taken back and
   * reassigned after all others. `grantedTo`: stored with the id.
   */
  offerId(meta: DeviceMeta | null, seconds: number, grantedTo?: string): number {
    const now = this.#keeper.tick()
    this.#keeper.makeWay(now)
    const offer = { lease: this.#keeper.policy.base_lease_seconds, seconds, grantedTo }
    return this.#allocate(metaText(meta), deviceKey(meta), now, offer)
  }

  /**
   * Up to `count` distinct ids, fewer at the end of the pool; they are not bound to the device (X5), and reserved for it for
   * at least POOL_HOLD_SECONDS. Throws as allocateId.
   */
  allocatePool(count: number, meta: DeviceMeta | null = null): number[] {
    return this.offerPool(count, meta, 0)
  }

  /** Like allocatePool(), but offered as in offerId(). */
  offerPool(count: number, meta: DeviceMeta | null, seconds: number, grantedTo?: string): number[] {
    const now = this.#keeper.tick()
    this.#keeper.makeWay(now)
    const text = metaText(meta)
    const offer = { lease: this.#poolLease, seconds, grantedTo }
    const ids: number[] = []
    for (let k = 0; k < count; k++) {
      try {
        ids.push(this.#allocate(text, '', now, offer))
      } catch (error) {
        if (ids.length === 0) throw error
        break
      }
    }
    return ids
  }

  /**
   * Reads the files in slices that block the event loop only for milliseconds. If data is needed while `reading` is true, the
   * call reads the remaining data immediately. Rejects with STORAGE.
   */
  async start(): Promise<void> {
    await this.#keeper.read()
    if (!this.#keeper.loaded) return // stopped
    while (this.reclaimSome() > 0) await yieldToLoop()
    this.#checkpointIfDue()
  }

  /** True while start() reads. */
  get reading(): boolean {
    return this.#keeper.reading
  }

  /** Share of the memory for ids that is used, 0 to 1. */
  get fullness(): number {
    return this.#keeper.load().bytes / this.#maxBytes
  }

  /** Confirms offered ids: those that are still offered are in use from now on. */
  confirm(ids: readonly number[], pool = false): void {
    const now = this.#keeper.tick()
    const lease_expires_at = now + (pool ? this.#poolLease : this.#keeper.policy.base_lease_seconds)
    for (const id of ids) {
      const entry = this.#entry(id)
      if (entry?.state !== 'offered') continue
      this.#keeper.change({ set: id, record: { ...entry, state: 'active', last_seen: now, lease_expires_at } })
    }
  }

  isOffered(id: number): boolean {
    return this.#entry(id)?.state === 'offered'
  }

  /** ids currently offered, and those taken back since the start */
  get offered(): number {
    return this.#keeper.offered
  }
  get takenBack(): number {
    return this.#keeper.takenBack
  }

  /** The id of the device with that key, 0 if it has none. */
  idOfKey(key: string): number {
    return this.#keeper.load().byKey(key)?.id ?? 0
  }

  /** The address where the device of that id was last heard, '' if unknown. */
  addressOf(id: number): string {
    return this.#entry(id)?.addr ?? ''
  }

  /** The `grantedTo` of that id, '' if unknown. */
  grantedTo(id: number): string {
    return this.#entry(id)?.granted_to ?? ''
  }

  /** Counts the ids in use by grantedTo, in slices; `counts` selects them. */
  countGranted(counts: (id: number) => boolean): Promise<Map<string, number>> {
    return this.#keeper.load().countGranted(counts)
  }

  /** Calls `listener` with every id that is freed, and its grantedTo. */
  onFreed(listener: (id: number, grantedTo: string) => void): void {
    this.#keeper.onFreed = listener
  }

  /**
   * Adds ids that an upstream granted for `goodForSeconds`; unused ids of an earlier grant are forgotten after their time.
   * Confirm to the upstream only after commit(). Throws BAD_REQUEST if the allocator has its own range.
   */
  grant(ids: readonly number[], goodForSeconds: number): void {
    if (!this.#range.granted) throw new OsError('BAD_REQUEST', 'this allocator has its own range')
    const now = this.#keeper.tick()
    const state = this.#keeper.load()
    const fresh = this.#range.left(state, now) === 0
    const until = now + goodForSeconds
    const grant = ids.filter(isAssigned)
    // all granted ids expire with the oldest part
    this.#keeper.change({ grant, until: fresh ? until : Math.min(until, state.granted_until), fresh })
  }

  /** Granted ids that are valid and not yet assigned. */
  get grantsLeft(): number {
    const now = this.#keeper.tick()
    return this.#range.granted ? this.#range.left(this.#keeper.load(), now) : 0
  }

  /** The device was removed: its id is free immediately (`immediate`) or when its lease ends. False for an id not in use. */
  releaseId(idVal: number, immediate = false): boolean {
    const now = this.#keeper.tick()
    const state = this.#keeper.load()
    const entry = state.entries.get(idVal)
    if (!entry) return false
    const lease_expires_at = now + Math.max(0, immediate ? 0 : this.#keeper.meter.effective(now))
    const record: IdRecord = { ...entry, state: 'offline', offline_since: now, lease_expires_at }
    this.#keeper.change({ set: idVal, record })
    this.#keeper.reclaim(now)
    this.#keeper.cutOffline(now)
    this.#keeper.meter.report(now)
    return true
  }

  /** Returns how many of the ids were in use. */
  releasePool(ids: readonly number[], immediate = false): number {
    return ids.filter(id => this.releaseId(id, immediate)).length
  }

  isAllocated(idVal: number): boolean {
    return this.#entry(idVal) !== undefined
  }

  /** The metadata that the device sent; {} for an id not in use. */
  getMeta(idVal: number): Record<string, unknown> {
    return JSON.parse(this.#entry(idVal)?.meta ?? '{}')
  }

  /** The device was heard: renews its lease and stores its address (X6). False for an id not in use. */
  touch(id: number, addr: string | null = null): boolean {
    const now = this.#keeper.tick()
    const state = this.#keeper.load()
    const entry = state.entries.get(id)
    if (!entry) return false
    const lease =
      entry.state === 'offered' && entry.device_key === '' ? this.#poolLease : this.#keeper.policy.base_lease_seconds
    // never sooner: an id of a pool is reserved for longer, and a packet with it may come from any sender
    const end = Math.max(entry.lease_expires_at, now + lease)
    const noteworthy = entry.state !== 'active' || Math.abs(now - entry.noted) >= this.#touchEvery
    state.heard(entry, now, end, addr ?? undefined)
    if (noteworthy) {
      this.#keeper.store.append({ touch: id, last_seen: now, lease_expires_at: end, ...(addr !== null && { addr }) })
      entry.noted = now
    }
    return true
  }

  /** Frees the ids whose lease has ended; returns the number. */
  reclaimExpired(): number {
    const now = this.#keeper.tick()
    this.#keeper.load()
    return this.#keeper.reclaim(now)
  }

  /** Like reclaimExpired(), limited to the number that one allocation frees. */
  reclaimSome(): number {
    const now = this.#keeper.tick()
    this.#keeper.load()
    return this.#keeper.reclaim(now, RECLAIM_AT_ONCE)
  }

  stats(): AllocatorStats {
    const now = this.#keeper.tick()
    const state = this.#keeper.load()
    this.#keeper.meter.effective(now)
    this.#keeper.meter.report(now)
    return {
      total_allocated: state.entries.size,
      total_released: this.#range.left(state, now),
      next_candidate: state.next_candidate,
      bytes: state.bytes,
      refused: this.#refused,
      range: [this.#range.start, this.#range.end],
      lease_policy: this.#keeper.policy,
      lease_metrics: { ...this.#keeper.meter.metrics },
    }
  }

  /** The persisted form. */
  dump(): Record<string, unknown> {
    return JSON.parse([...checkpointPieces(this.#keeper.load())].join(''))
  }

  /** Settles when every id assigned so far is on flash; rejects if it could not be written. */
  async commit(): Promise<void> {
    if (!this.#keeper.loaded) return
    await this.#keeper.store.commit()
    this.#checkpointIfDue()
  }

  /** Settles when no checkpoint is being written. */
  settled(): Promise<void> {
    return this.#checkpoint
  }

  /** failed checkpoint writes; no data is lost, but the journal stays long */
  get checkpointFailures(): number {
    return this.#checkpointFailures
  }

  /** metrics at which metricsSink threw; they are not sent again */
  get metricsFailures(): number {
    return this.#keeper.meter.sinkFailures
  }

  /** Writes the checkpoint. Safe to call twice, and without earlier use. */
  stop(): void {
    if (this.#keeper.loaded) this.#keeper.store.checkpointNow()
    this.#keeper.close()
  }

  #checkpointIfDue(): void {
    this.#checkpoint = this.#keeper.store.checkpoint().catch(() => {
      // the journal contains everything; the checkpoint only shortens it and is retried later
      this.#checkpointFailures++
    })
  }

  #entry(id: number): IdEntry | undefined {
    return this.#keeper.load().entries.get(id)
  }

  #allocate(meta: string, key: string, now: number, { lease, seconds: offerSeconds, grantedTo }: Offer): number {
    const state = this.#keeper.load()
    const known = state.byKey(key)
    const hasRoom = state.bytes + state.cost(key, meta, '', grantedTo) <= this.#maxBytes
    if (known) {
      this.#renew(known, hasRoom ? meta : '{}', now, lease, offerSeconds)
      return known.id
    }
    if (!hasRoom) {
      this.#refused++
      throw new OsError(
        'ID_STORE_FULL',
        `[IDAllocator] ${state.entries.size} ids fill the ${this.#maxBytes} bytes for them`,
      )
    }
    const id = this.#free(state, now)
    const offered = offerSeconds > 0
    const lease_expires_at = now + (offered ? offerSeconds : lease)
    const seen = { ts: now, last_seen: now, lease_expires_at, offline_since: 0 }
    const device_key = ownText(key)
    const record: IdRecord = { meta, ...seen, device_key, state: offered ? 'offered' : 'active' }
    this.#keeper.change({ set: id, record: { ...record, ...(grantedTo !== undefined && { granted_to: grantedTo }) } })
    this.#keeper.meter.arrived(now)
    this.#keeper.meter.effective(now)
    this.#keeper.meter.report(now)
    return id
  }

  /** A device with an id repeats its request; `meta` '{}' changes nothing. */
  #renew(entry: IdEntry, meta: string, now: number, lease: number, offerSeconds: number): void {
    const state = this.#keeper.load()
    const text = meta === '{}' ? entry.meta : meta
    const offered = entry.state === 'offered' && offerSeconds > 0
    const lease_expires_at = now + (offered ? offerSeconds : lease)
    if (entry.state === 'active' && entry.meta === text && now - entry.noted < this.#touchEvery) {
      state.heard(entry, now, lease_expires_at)
      return
    }
    const seen = { offline_since: 0, last_seen: now, lease_expires_at }
    this.#keeper.change({
      set: entry.id,
      record: { ...entry, ...seen, meta: text, state: offered ? 'offered' : 'active' },
    })
  }

  #free(state: IdState, now: number): number {
    const id = this.#range.next(state, now)
    if (id !== null) return id
    if (this.#keeper.reclaim(now, RECLAIM_AT_ONCE) > 0) return this.#free(state, now)
    const { start, end } = this.#range
    throw new OsError('ID_POOL_EXHAUSTED', `[IDAllocator] ID pool exhausted (${start}-${end})`)
  }
}
