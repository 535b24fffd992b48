// The leases of the ids in use: reads the state at the first use, notes each change in the store, frees what has ended, and
// moves everything along when the clock jumps. The allocator decides who gets which id.
//
// What fails: a store that cannot be read throws STORAGE at every call. No call looks at more than a few thousand leases.
import { asOsError, type OsError } from '../../lib/errors'
import { LeaseMeter, type LeaseMetrics, type LeasePolicy } from './lease'
import { type IdChange, IdState } from './state'
import type { SteadyTime } from './steadytime'
import type { IdStore } from './store'

/** after a start, devices get at least this long to be heard before their lease ends */
const START_GRACE_SECONDS = 3600
/** ended leases that one allocation clears away; the next ones follow with the next */
export const RECLAIM_AT_ONCE = 2000
/** slots that one allocation looks through for leases to cut */
const CUT_AT_ONCE = 4000

export interface LeaseKeeperOptions {
  readonly store: IdStore
  readonly policy: LeasePolicy
  readonly time: SteadyTime
  readonly metricsSink: ((metrics: LeaseMetrics) => void) | null
  /** lowest id of the range */
  readonly first: number
  readonly maxReleased: number
  readonly granted: boolean
}

export class LeaseKeeper {
  readonly policy: LeasePolicy
  readonly store: IdStore
  readonly meter: LeaseMeter
  /** ids that are offered now, and those taken back since the start */
  offered = 0
  takenBack = 0
  /** lowest id taken back since it was last asked */
  lowestBack = Number.POSITIVE_INFINITY
  onFreed: (id: number) => void = () => undefined
  readonly #options: LeaseKeeperOptions
  #state: IdState | null = null
  #broken: OsError | null = null
  /** slots whose offline leases were cut since the flood began */
  #cut = 0

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.policy = options.policy
    this.store = options.store
    this.meter = new LeaseMeter(options.policy, options.time.read().now, options.metricsSink)
  }

  get loaded(): boolean {
    return this.#state !== null
  }

  /** The state, read at the first call. Throws STORAGE. */
  load(): IdState {
    if (this.#state) return this.#state
    if (this.#broken) throw this.#broken
    const { first, granted, maxReleased, time, store } = this.#options
    const { now } = time.read()
    const state = new IdState({
      nextCandidate: first,
      maxReleased,
      spill: store.spill,
      granted,
    })
    try {
      store.load(state)
    } catch (error) {
      // not read again with every packet: it may be large
      this.#broken = asOsError(error, 'STORAGE')
      throw this.#broken
    }
    state.next_candidate = Math.max(state.next_candidate, first)
    const { metrics } = this.meter
    const { last_reclaim_count, last_reclaim_at, total_reclaimed } = { ...metrics, ...state.lease_metrics }
    state.lease_metrics = Object.assign(metrics, { last_reclaim_count, last_reclaim_at, total_reclaimed })
    // nobody could be heard while this process was down, and the last hearings may not be in the journal
    const grace = now + Math.min(this.policy.base_lease_seconds, START_GRACE_SECONDS)
    const { allocated } = state
    for (let slot = 0; slot < allocated.slots; slot++) {
      if (allocated.idOf(slot) === 0) continue
      const held = allocated.stateOf(slot)
      if (held === 'offered') this.offered++
      else if (held === 'active') allocated.setLease(slot, Math.max(allocated.leaseEnd(slot), grace))
    }
    this.#state = state
    return state
  }

  /** Before an allocation. */
  makeWay(now: number): void {
    this.load()
    this.reclaim(now, RECLAIM_AT_ONCE)
    this.meter.effective(now)
    this.cutOffline(now)
  }

  change(change: IdChange): void {
    this.#state!.apply(change)
    this.store.append(change)
  }

  /** Frees ids whose lease has ended; returns how many. */
  reclaim(now: number, most = Number.POSITIVE_INFINITY): number {
    const { allocated } = this.#state!
    let count = 0
    for (let slot = allocated.firstEnded(now); slot >= 0 && count < most; slot = allocated.firstEnded(now)) {
      const id = allocated.idOf(slot)
      const back = allocated.stateOf(slot) === 'offered'
      this.change(back ? { free: id, back } : { free: id })
      if (back) {
        this.offered--
        this.takenBack++
        this.lowestBack = Math.min(this.lowestBack, id)
      }
      this.onFreed(id)
      count++
    }
    this.meter.reclaimed(count, now)
    return count
  }

  /** When new devices flood in, whoever is offline loses its lease; from then on going offline gives none (effective lease 0). */
  cutOffline(now: number): void {
    const { force_zero_lease_active } = this.meter.metrics
    if (!force_zero_lease_active || !this.policy.ultra_force_release) {
      this.#cut = 0
      return
    }
    const { allocated } = this.#state!
    const end = Math.min(allocated.slots, this.#cut + CUT_AT_ONCE)
    for (; this.#cut < end; this.#cut++) {
      const slot = this.#cut
      if (allocated.idOf(slot) !== 0 && allocated.stateOf(slot) === 'offline' && allocated.leaseEnd(slot) > now)
        this.change({ set: allocated.idOf(slot), record: { ...allocated.record(slot), lease_expires_at: now } })
    }
  }

  /** The time, after moving the leases along when the clock has jumped since the last call. */
  tick(): number {
    const { now, jump } = this.#options.time.read()
    if (jump === 0 || !this.#state) return now
    const { allocated, granted_until } = this.#state
    if (granted_until > 0) this.change({ grant: [], until: Math.max(1, granted_until + jump), fresh: false })
    for (let slot = 0; slot < allocated.slots; slot++) {
      const end = allocated.leaseEnd(slot)
      if (allocated.idOf(slot) !== 0 && end > 0) allocated.setLease(slot, Math.max(1, Math.round(end + jump)))
    }
    return now
  }
}
