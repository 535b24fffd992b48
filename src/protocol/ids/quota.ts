// All quotas for the ID allocator (X38, X39). An address is the IP without its port (IPv6: the /64), on other media the
// sender in the medium's format. It is proved after a valid data packet came from it with an id granted to it. An unproved
// address gets few ids, one pool a minute, and few answer bytes; all unproved addresses together get a limited share, part of
// which is reserved for addresses without an id. All addresses together, proved or not, leave a quarter of the memory for ids
// to addresses without one. A new id is only offered: without an ACK or a data packet it is taken back after ten minutes and
// reassigned last. A device that has an id gets the same one again, whatever the quotas.
//
// Errors: a request beyond a quota throws ID_QUOTA and takes nothing. Requests are not answered while the allocator reads its
// files after a start. The quotas are only in memory and start again with the process; earlier offers are still taken back,
// since the allocator stores them.

import type { Clock } from '../../lib/clock'
import { OsError } from '../../lib/errors'
import { type Logger, silentLogger } from '../../lib/logger'
import { LruMap } from '../../lib/lru-map'
import { networkOf } from '../address'
import type { IdAllocator } from './allocator'
import { Allowance, ANSWER_BYTES, ANSWER_SHARE, identified, SharedUse } from './senders'
import type { Asker, IdSource } from './service'

export const OFFER_SECONDS = 600
/**
 * limits of unproved addresses. `ids`: of one; `pools`, `more`, `first`: of all together, for further pools, for more than
 * one id, and for the first id
 */
export const UNPROVED = { ids: 64, pools: 8192, more: 16_384, first: 32_768 } as const
/** ids of a proved address */
export const PROVED_IDS = 4096
/**
 * usage of the memory for ids up to which pools and more than one id per address are granted: a packet proves an address, but
 * nothing more
 */
const POOLS_UNTIL = 0.5
const MORE_UNTIL = 0.75
export const POOL_INTERVAL_MS = 60_000
const MAX_ACCOUNTS = 65_536

interface Account {
  readonly address: string
  readonly answers: Allowance
  proved: boolean
  /** ids granted to it since the start that are in use or offered */
  held: number
  poolAt: number
}

interface Offer {
  readonly ids: readonly number[]
  readonly pool: boolean
  readonly until: number
}

export interface QuotaReport {
  /** ids that wait for their ACK */
  offered: number
  taken_back: number
  /** number of proved addresses, and ids of all unproved ones */
  proved_addresses: number
  unproved_ids: number
  /** requests refused by a quota, and requests without an answer: answer bytes used up, or the files are still being read */
  over_quota: number
  unanswered: number
  /** ids whose device key was used from two addresses within a minute */
  shared: number
}

export class IdQuotas implements IdSource {
  readonly counters = { over_quota: 0, unanswered: 0 }
  readonly #allocator: IdAllocator
  readonly #clock: Clock
  readonly #uses: SharedUse
  readonly #answers: Allowance
  /** by address; a flood of new addresses only evicts unproved ones */
  readonly #accounts = new LruMap<string, Account>(MAX_ACCOUNTS)
  readonly #proved = new LruMap<string, Account>(MAX_ACCOUNTS)
  readonly #holders = new Map<number, Account>()
  /** ids granted to addresses before this start and not heard since */
  #earlier = new Map<string, number>()
  readonly #offers = new Map<string, Offer>()
  #unproved = 0

  constructor(allocator: IdAllocator, clock: Clock, logger: Logger = silentLogger) {
    this.#allocator = allocator
    this.#clock = clock
    this.#uses = new SharedUse(logger)
    this.#answers = new Allowance(ANSWER_BYTES, clock.mono())
    allocator.onFreed((id, grantedTo) => this.#freed(id, grantedTo))
  }

  /** Called after the allocator has read its files: ids of earlier starts count for their addresses. */
  async start(): Promise<void> {
    this.#earlier = await this.#allocator.countGranted(id => !this.#holders.has(id))
  }

  /** The id of that device. Throws ID_QUOTA, and the errors of the allocator. */
  allocateId(meta: Record<string, unknown>, asker: Asker | null = null): number {
    if (!asker) return this.#allocator.allocateId(meta)
    const account = this.#account(asker.address)
    const { key, device } = identified(meta, account.address)
    const known = this.#allocator.idOfKey(key)
    if (known === 0 && this.#held(account) === 0) this.#admit(account, 1, UNPROVED.first, 1)
    else if (known === 0) this.#admit(account, 1, UNPROVED.more, MORE_UNTIL)
    else if (!account.proved && networkOf(this.#allocator.addressOf(known)) === account.address) this.#prove(account)
    const id = this.#allocator.offerId(device, OFFER_SECONDS, account.address)
    if (known === 0) this.#hold(account, id)
    if (key !== '' && device === meta) this.#uses.use(id, asker.address, this.#clock.mono())
    this.#offer(asker, account, [id], false)
    return id
  }

  /** Up to `count` ids, limited by the quota. Throws ID_QUOTA, and the errors of the allocator. */
  allocatePool(count: number, meta: Record<string, unknown>, asker: Asker | null = null): number[] {
    if (!asker) return this.#allocator.allocatePool(count, meta)
    const account = this.#account(asker.address)
    const now = this.#clock.mono()
    if (!account.proved && now - account.poolAt < POOL_INTERVAL_MS) this.#refuse('one pool a minute')
    const admitted = this.#admit(account, count, UNPROVED.pools, POOLS_UNTIL)
    const ids = this.#allocator.offerPool(admitted, meta, OFFER_SECONDS, account.address)
    account.poolAt = now
    for (const id of ids) this.#hold(account, id)
    this.#offer(asker, account, ids, true)
    return ids
  }

  /** Whether an answer of that size may be sent there; counts it. */
  mayAnswer(address: string, bytes: number): boolean {
    // no answer while the allocator reads its files: the device repeats its request, and no id in use is assigned
    if (this.#allocator.reading) {
      this.counters.unanswered++
      return false
    }
    const account = this.#account(address)
    if (account.proved) return true
    const now = this.#clock.mono()
    if (account.answers.has(bytes, now) && this.#answers.has(bytes, now)) {
      account.answers.take(bytes)
      this.#answers.take(bytes)
      return true
    }
    this.counters.unanswered++
    return false
  }

  /** An ACK arrived: the ids offered with that number belong to the device. */
  acknowledged(seq: number, address: string): void {
    const key = offerKey(networkOf(address), seq)
    const offer = this.#offers.get(key)
    if (!offer) return
    this.#offers.delete(key)
    this.#allocator.confirm(offer.ids, offer.pool)
  }

  /** A valid data packet arrived with that id. */
  touch(id: number, address: string | null): boolean {
    // a lease that is not renewed now lasts at least an hour after a start
    if (this.#allocator.reading || !this.#allocator.touch(id, address)) return false
    if (address === null) return true
    this.#uses.use(id, address, this.#clock.mono())
    const account = this.#holders.get(id) ?? this.#adopt(id, address)
    if (account && !account.proved && account.address === networkOf(address)) this.#prove(account)
    return true
  }

  isAllocated(id: number): boolean {
    return !this.#allocator.reading && this.#allocator.isAllocated(id)
  }

  commit(): Promise<void> {
    return this.#allocator.commit()
  }

  report(): QuotaReport {
    const { offered, takenBack } = this.#allocator
    return {
      offered,
      taken_back: takenBack,
      proved_addresses: this.#proved.size,
      unproved_ids: this.#unproved,
      ...this.counters,
      shared: this.#uses.count,
    }
  }

  #account(from: string): Account {
    const address = networkOf(from)
    const proved = this.#proved.get(address)
    const known = proved ?? this.#accounts.get(address)
    const map = proved ? this.#proved : this.#accounts
    const now = this.#clock.mono()
    const account: Account = known ?? {
      address,
      answers: new Allowance(ANSWER_BYTES / ANSWER_SHARE, now),
      proved: false,
      held: 0,
      poolAt: Number.NEGATIVE_INFINITY,
    }
    map.set(address, account)
    return account
  }

  /**
   * How many of `count` new ids the address may have, at least one; `inAll`: maximum of ids of all unproved addresses;
   * `until`: see above.
   */
  #admit(account: Account, count: number, inAll: number, until: number): number {
    this.#allocator.reclaimSome()
    const { fullness } = this.#allocator
    if (fullness >= until) this.#refuse(`the memory for ids is ${Math.round(100 * fullness)} % full`)
    const held = this.#held(account)
    const own = (account.proved ? PROVED_IDS : UNPROVED.ids) - held
    const left = account.proved ? own : Math.min(own, inAll - this.#unproved)
    if (left <= 0) this.#refuse(own <= 0 ? `${held} ids of ${account.address}` : `${this.#unproved} unproved ids`)
    return Math.min(left, count)
  }

  #refuse(reason: string): never {
    this.counters.over_quota++
    throw new OsError('ID_QUOTA', `no more ids for now: ${reason}`)
  }

  #hold(account: Account, id: number): void {
    this.#holders.set(id, account)
    account.held++
    if (!account.proved) this.#unproved++
  }

  /** including those of earlier starts */
  #held({ address, held }: Account): number {
    return held + (this.#earlier.get(address) ?? 0)
  }

  /** The account of that address if an earlier start granted it the id. */
  #adopt(id: number, from: string): Account | undefined {
    const to = this.#allocator.grantedTo(id)
    if (to === '' || to !== networkOf(from)) return undefined
    const account = this.#account(from)
    this.#hold(account, id)
    this.#forget(to)
    return account
  }

  #forget(network: string): void {
    const count = this.#earlier.get(network) ?? 0
    if (count > 1) this.#earlier.set(network, count - 1)
    else this.#earlier.delete(network)
  }

  #freed(id: number, grantedTo: string): void {
    this.#uses.forget(id)
    const account = this.#holders.get(id)
    if (!account) {
      this.#forget(grantedTo)
      return
    }
    this.#holders.delete(id)
    account.held--
    if (!account.proved) this.#unproved--
  }

  #prove(account: Account): void {
    account.proved = true
    this.#unproved -= account.held
    // it may have been evicted meanwhile
    this.#accounts.delete(account.address)
    this.#proved.set(account.address, account)
  }

  #offer({ seq }: Asker, { address }: Account, ids: readonly number[], pool: boolean): void {
    const now = this.#clock.mono()
    for (const [key, { until }] of this.#offers) {
      if (until > now) break
      this.#offers.delete(key)
    }
    if (!ids.some(id => this.#allocator.isOffered(id))) return
    const key = offerKey(address, seq)
    this.#offers.delete(key)
    this.#offers.set(key, { ids, pool, until: now + 1000 * OFFER_SECONDS })
  }
}

const offerKey = (address: string, seq: number): string => `${seq} ${address}`
