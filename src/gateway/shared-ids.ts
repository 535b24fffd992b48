// The ids of `serve` if `security_settings.id_lease.store` is "postgresql": one allocator in the database, shared by any
// number of receivers (decision 0067). Requests, received packets and ACKs are sent there in batches, one batch at a time.
//
// Errors: while the database is unreachable, a device that requests an id is answered NACK ID_ALLOC_FAILED and the status
// shows the reason. Devices with an id continue, since their packets need no allocator, and their activity is written later.
// Quotas are those of the database; answer bytes are counted here. Nothing is stored across a restart.
import { createHash } from 'node:crypto'
import type { ConfigStore } from '../config/config-store'
import type { Clock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { LruMap } from '../lib/lru-map'
import { secondTimers } from '../lib/timers'
import { networkOf } from '../protocol/address'
import { POOL_HOLD_SECONDS, TOUCH_SECONDS } from '../protocol/ids/allocator'
import { metaText } from '../protocol/ids/devicekey'
import { leasePolicy } from '../protocol/ids/lease'
import { Allowance, ANSWER_BYTES, ANSWER_SHARE, identified, SharedUse } from '../protocol/ids/senders'
import type { IdWish, SharedIdSource } from '../protocol/ids/service'
import type { Database, IdAnswer, IdRequest } from '../storage'
import type { IdsReport } from './status'

/** per batch */
const MOST_REQUESTS = 64
const MOST_HEARD = 1000
/** requests queued for the database; more are refused */
const MOST_WAITING = 4096
const MAX_HEARD = 100_000
const MAX_SENDERS = 65_536
/** minimum interval between writes for packets from another network */
const MOVED_MS = 60_000
/** delay after a failure, before the database is queried again without a request */
const BACKOFF_MS = 1000
const LAST_ID = 0xffff_fffe

interface QueuedIdRequest {
  readonly request: IdRequest
  readonly resolve: (ids: readonly number[]) => void
  readonly reject: (error: OsError) => void
}

interface Heard {
  at: number
  net: string
  known: boolean
}

interface SharedIdsOptions {
  readonly config: ConfigStore
  readonly clock: Clock
  readonly logger: Logger
  /** the database of the gateway; null: storage.sql is off */
  readonly database: () => Pick<Database, 'allocateIds'> | null
  /** last id that may be assigned */
  readonly last?: number
}

export class SharedIds implements SharedIdSource {
  /** a backup of this gateway contains no ids, so none can be outdated */
  readonly sound = true
  readonly #o: SharedIdsOptions
  readonly #lease: number
  readonly #waiting: QueuedIdRequest[] = []
  /** from packets and ACKs, not yet written */
  #heard = new Map<number, string | null>()
  #acknowledged: { seq: number; address: string }[] = []
  readonly #seen = new LruMap<number, Heard>(MAX_HEARD)
  readonly #senders = new LruMap<string, Allowance>(MAX_SENDERS)
  readonly #proved = new LruMap<string, true>(MAX_SENDERS)
  readonly #answers: Allowance
  readonly #uses: SharedUse
  #newest: IdAnswer | undefined
  /** a query is scheduled after a failure */
  #again: (() => void) | undefined
  #working = false
  #stopped = false
  #notBefore = Number.NEGATIVE_INFINITY
  #problem: string | null = null
  readonly #counters = { over_quota: 0, unanswered: 0, taken_back: 0 }

  constructor(options: SharedIdsOptions) {
    this.#o = options
    this.#lease = leasePolicy(options.config.config.security_settings.id_lease).base_lease_seconds
    this.#answers = new Allowance(ANSWER_BYTES, options.clock.mono())
    this.#uses = new SharedUse(options.logger)
  }

  /** limits for answers to devices */
  get quotas(): this {
    return this
  }

  /** The first query, for the status; the database must be connected before. */
  async start(): Promise<void> {
    this.#pump(true)
  }

  stop(): void {
    this.#stopped = true
    const error = new OsError('DB_UNAVAILABLE', 'the gateway stops')
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }

  request({ raw, meta, asker, pool }: IdWish): Promise<readonly number[]> {
    const address = asker && networkOf(asker.address)
    const { key, device } = identified(meta, address ?? '')
    if (this.#waiting.length >= MOST_WAITING)
      return Promise.reject(new OsError('ID_QUOTA', `${MOST_WAITING} requests wait for the database`))
    const request: IdRequest = {
      ...{ key, meta: metaText(device), address, seq: asker?.seq ?? 0, pool },
      request: createHash('sha1').update(`${asker?.address} `).update(raw).digest('base64'),
    }
    return new Promise<readonly number[]>((resolve, reject) => {
      this.#waiting.push({ request, resolve, reject })
      this.#pump()
    }).then(ids => {
      if (asker && pool === 0 && key !== '' && device === meta)
        this.#uses.use(ids[0]!, asker.address, this.#o.clock.mono())
      return ids
    })
  }

  /** Whether an answer of that size may be sent there; counts it. */
  mayAnswer(address: string, bytes: number): boolean {
    const network = networkOf(address)
    if (this.#proved.has(network)) return true
    const now = this.#o.clock.mono()
    const own = this.#senders.get(network) ?? new Allowance(ANSWER_BYTES / ANSWER_SHARE, now)
    this.#senders.set(network, own)
    if (own.has(bytes, now) && this.#answers.has(bytes, now)) {
      own.take(bytes)
      this.#answers.take(bytes)
      return true
    }
    this.#counters.unanswered++
    return false
  }

  acknowledged(seq: number, address: string): void {
    if (this.#acknowledged.length < MOST_WAITING) this.#acknowledged.push({ seq, address })
    this.#pump()
  }

  /** A valid data packet arrived with that id; true: the database had the id at the last query. */
  touch(id: number, address: string | null): boolean {
    const now = this.#o.clock.mono()
    const net = address === null ? '' : networkOf(address)
    const seen = this.#seen.get(id)
    if (address !== null && seen?.known) this.#uses.use(id, address, now)
    const again = Math.min(1000 * TOUCH_SECONDS, 125 * this.#lease)
    if (!seen || now - seen.at >= again || (net !== seen.net && now - seen.at >= MOVED_MS)) {
      this.#seen.set(id, { at: now, net, known: seen?.known ?? false })
      this.#heard.set(id, address)
      this.#pump()
    }
    return this.has(id)
  }

  heard(id: number, address: string | null): void {
    this.touch(id, address)
  }

  /** Whether that id is in use, as far as this receiver knows. */
  has(id: number): boolean {
    return this.#seen.get(id)?.known === true
  }

  /** Requests nothing from an upstream: the ids are in a range. */
  wanted(): number {
    return 0
  }

  async granted(): Promise<void> {}

  status(): IdsReport {
    const { allocated, released, next: next_candidate, unproved: unproved_ids } = this.#newest ?? {}
    return {
      source: 'postgresql',
      ...(this.#newest && { allocated, released, next_candidate, unproved_ids }),
      ...this.#counters,
      shared: this.#uses.count,
      ...(this.#problem !== null && { problem: this.#problem }),
    }
  }

  #pump(now = false): void {
    const requested = this.#waiting.length > 0
    const remaining = this.#heard.size > 0 || this.#acknowledged.length > 0
    if (this.#working || this.#stopped || !(now || requested || remaining)) return
    if (!now && !requested && this.#o.clock.mono() < this.#notBefore) return
    this.#working = true
    void this.#work().finally(() => {
      this.#working = false
      this.#pump()
    })
  }

  async #work(): Promise<void> {
    const waiting = this.#waiting.splice(0, MOST_REQUESTS)
    const heard = [...this.#heard].slice(0, MOST_HEARD)
    for (const [id] of heard) this.#heard.delete(id)
    const acknowledged = this.#acknowledged.splice(0, MOST_HEARD)
    try {
      const database = this.#o.database()
      if (!database) throw new OsError('DB_NOT_CONFIGURED', 'storage.sql is off')
      const answer = await database.allocateIds({
        ...{ first: 1, last: this.#o.last ?? LAST_ID },
        ...{ leaseSeconds: this.#lease, poolSeconds: Math.max(this.#lease, POOL_HOLD_SECONDS) },
        ...{ requests: waiting.map(({ request }) => request), acknowledged },
        heard: heard.map(([id, address]) => ({ id, address })),
      })
      this.#take(answer, waiting, heard)
    } catch (thrown) {
      const error = asOsError(thrown)
      const reason = typeof error.details?.['reason'] === 'string' ? error.details['reason'] : error.message
      if (error.code === 'DB_STARTING') this.#problem ??= reason
      else {
        if (reason !== this.#problem) this.#o.logger.error(`no ids are assigned: ${reason}`)
        this.#problem = reason
      }
      this.#notBefore = this.#o.clock.mono() + BACKOFF_MS
      this.#again ??= secondTimers.after(BACKOFF_MS, () => {
        this.#again = undefined
        this.#pump(true)
      })
      for (const [id, address] of heard)
        if (!this.#heard.has(id) && this.#heard.size < MAX_HEARD) this.#heard.set(id, address)
      this.#acknowledged = [...acknowledged, ...this.#acknowledged].slice(0, MOST_WAITING)
      for (const { reject } of waiting) reject(error)
    }
  }

  #take(
    answer: IdAnswer,
    waiting: readonly QueuedIdRequest[],
    heard: readonly (readonly [number, string | null])[],
  ): void {
    this.#newest = answer
    this.#problem = null
    this.#counters.taken_back += answer.takenBack
    const known = new Set(answer.known)
    for (const [id] of heard) {
      const seen = this.#seen.get(id)
      if (seen) seen.known = known.has(id)
    }
    for (const network of answer.proved) this.#proved.set(network, true)
    for (const [k, { resolve, reject }] of waiting.entries()) {
      const result = answer.results[k]!
      if ('ids' in result) resolve(result.ids)
      else {
        if (result.code === 'ID_QUOTA') this.#counters.over_quota++
        reject(new OsError(result.code, result.message))
      }
    }
  }
}
