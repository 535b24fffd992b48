// The leases of the ids in use: reads the state, writes each change to the store, frees expired ids, and shifts all leases
// when the clock jumps. The allocator decides which id a device gets.
//
// Errors: a store that cannot be read throws STORAGE at every call. Every call except the first checks at most a few thousand
// ids; read() spreads the first one over many turns of the event loop.
import { asOsError, type OsError } from '../../lib/errors'
import { yieldToLoop } from '../../lib/yield'
import type { IdStore } from './id-store'
import { LeaseMeter, type LeaseMetrics, type LeasePolicy } from './lease'
import { type IdChange, type IdEntry, IdState } from './state'

/** after a start, a lease lasts at least this long, so that its device can be heard */
const START_GRACE_SECONDS = 3600
/** expired leases that one allocation frees; the others follow with later allocations */
export const RECLAIM_AT_ONCE = 2000
/** ids that one allocation checks for leases to cut */
const CUT_AT_ONCE = 4000
/** how long read() blocks the event loop at most */
const SLICE_MS = 12
/** a difference to the monotonic clock of more than this is a jump */
const JUMP_SECONDS = 60

interface LeaseKeeperOptions {
  readonly store: IdStore
  readonly policy: LeasePolicy
  /** UNIX seconds */
  readonly now: () => number
  /** milliseconds that never jump; without it jumps are not detected */
  readonly mono: (() => number) | undefined
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
  /** offered ids that were taken back since the start */
  takenBack = 0
  onFreed: (id: number, grantedTo: string) => void = () => undefined
  readonly #options: LeaseKeeperOptions
  #state: IdState | null = null
  /** the first reading, while it runs */
  #steps: Iterator<void, void> | null = null
  /** read() is running */
  #slicing = false
  #broken: OsError | null = null
  /** ids still to be checked for offline leases to cut, since the flood began */
  #cutting: Iterator<IdEntry> | null = null
  /** the difference to the monotonic clock at the last call, in seconds */
  #ahead: number | null = null

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.policy = options.policy
    this.store = options.store
    this.meter = new LeaseMeter(options.policy, options.now(), options.metricsSink)
  }

  get loaded(): boolean {
    return this.#state !== null
  }

  /** ids currently offered */
  get offered(): number {
    return this.#state?.offered ?? 0
  }

  /** read() has started and not ended */
  get reading(): boolean {
    return this.#slicing && !this.#state && !this.#broken
  }

  /** The state, read completely at the first call. Throws STORAGE. */
  load(): IdState {
    while (!this.#state) this.#step()
    return this.#state
  }

  /** Reads the state in slices and yields to the event loop between them. Rejects with STORAGE. */
  async read(): Promise<void> {
    this.#slicing = true
    while (this.reading) {
      await yieldToLoop()
      const end = performance.now() + SLICE_MS
      while (this.reading && performance.now() < end) this.#step()
    }
    if (this.#broken) throw this.#broken
  }

  /** Ends a running read. */
  close(): void {
    this.#slicing = false
    this.#steps = null
    this.store.close()
  }

  /** One step of the first reading. */
  #step(): void {
    // not read again with every packet: the file may be large
    if (this.#broken) throw this.#broken
    try {
      this.#steps ??= this.#read()
      this.#steps.next()
    } catch (error) {
      this.#broken = asOsError(error, 'STORAGE')
      throw this.#broken
    }
  }

  *#read(): Generator<void, void> {
    const { first, granted, maxReleased, now, store } = this.#options
    const state = new IdState({ nextCandidate: first, maxReleased, granted })
    const steps = store.load(state)
    while (!steps.next().done) yield
    state.next_candidate = Math.max(state.next_candidate, first)
    const { metrics } = this.meter
    const { last_reclaim_count, last_reclaim_at, total_reclaimed } = { ...metrics, ...state.lease_metrics }
    state.lease_metrics = Object.assign(metrics, { last_reclaim_count, last_reclaim_at, total_reclaimed })
    // no device was heard while this process was down, and the last touches may not be in the journal
    const grace = now() + Math.min(this.policy.base_lease_seconds, START_GRACE_SECONDS)
    for (const entry of state.entries.values()) {
      if (entry.state === 'active') state.setLease(entry, Math.max(entry.lease_expires_at, grace))
      yield
    }
    this.#state = state
  }

  /** Called before an allocation. */
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

  /** Frees ids whose lease has ended; returns the number. */
  reclaim(now: number, most = Number.POSITIVE_INFINITY): number {
    let count = 0
    for (; count < most; count++) {
      const entry = this.#state!.firstEnded(now)
      if (!entry) break
      const back = entry.state === 'offered'
      this.change(back ? { free: entry.id, back } : { free: entry.id })
      if (back) this.takenBack++
      this.onFreed(entry.id, entry.granted_to ?? '')
    }
    this.meter.reclaimed(count, now)
    return count
  }

  /**
   * During a flood of new devices, offline devices lose their lease; from then on a device that goes offline gets none
   * (effective lease 0).
   */
  cutOffline(now: number): void {
    const { force_zero_lease_active } = this.meter.metrics
    if (!force_zero_lease_active || !this.policy.ultra_force_release) {
      this.#cutting = null
      return
    }
    const state = this.#state!
    this.#cutting ??= state.entries.values()
    for (let k = 0; k < CUT_AT_ONCE; k++) {
      const { value: entry } = this.#cutting.next()
      if (!entry) return
      if (entry.state === 'offline' && entry.lease_expires_at > now)
        this.change({ set: entry.id, record: { ...entry, lease_expires_at: now } })
    }
  }

  /** The current time; shifts the leases if the clock has jumped since the last call. */
  tick(): number {
    const now = this.#options.now()
    const ahead = now - (this.#options.mono?.() ?? 1000 * now) / 1000
    const jump = ahead - (this.#ahead ?? ahead)
    this.#ahead = ahead
    if (Math.abs(jump) <= JUMP_SECONDS || !this.#state) return now
    this.#state.moveLeases(Math.round(jump))
    const { granted_until } = this.#state
    if (granted_until > 0) this.change({ grant: [], until: Math.max(1, granted_until + jump), fresh: false })
    return now
  }
}
