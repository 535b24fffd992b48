// Checks tokens and passwords and rate limits wrong ones (S4): per address from the fourth on, per user name from any
// address, and over all addresses together. Only one scrypt runs at a time, because it shares libuv's few threads with
// the log's fdatasync. Attempts are queued: the address with the fewest wrong ones is next, so that guessers do not
// block a legitimate user. If the queue is full, in total or for one user, the address with the most wrong ones gets
// TOO_MANY_ATTEMPTS (429); among equals, the one with the most attempts. A recently accepted token passes immediately,
// and every delay is capped: no address is locked out forever.

import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { LruMap } from '../lib/lru-map'
import type { WebAuth } from './context'

const FREE_TRIES = 3
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000
/** an address without a wrong token for this long is forgotten */
const FORGET_MS = 300_000
/** over all addresses: five wrong tokens per second, bursts of twenty */
const GLOBAL_STEP_MS = 200
const GLOBAL_BURST = 20
/** for one user name: one wrong password per two seconds, bursts of ten, from any addresses */
const USER_STEP_MS = 2_000
const USER_BURST = 10
const MAX_WAITING_PER_ADDRESS = 4
const MAX_WAITING_PER_USER = 16
const MAX_WAITING = 32
const MAX_ADDRESSES = 1_024
const MAX_USERS = 1_024
const MAX_TOKEN_CHARS = 256

interface Address {
  wrong: number
  lastWrong: number
  notBefore: number
  waiting: number
}

/** A rate limit with bursts. */
class Pace {
  #free = 0

  constructor(
    private readonly stepMs: number,
    private readonly burst: number,
  ) {}

  /** clock.mono() of the next allowed attempt */
  get due(): number {
    return this.#free - this.burst * this.stepMs
  }

  wrong(now: number): void {
    this.#free = Math.max(this.#free, now) + this.stepMs
  }
}

/** One queued attempt. */
interface Attempt {
  readonly address: Address
  /** of the user name; undefined for tokens */
  readonly user: Pace | undefined
  readonly verify: () => Promise<unknown>
  readonly resolve: (found: unknown) => void
  readonly reject: (error: unknown) => void
}

type Done = Pick<Address, 'wrong' | 'waiting'>

/** More wrong ones, or equally many and more queued attempts. */
const hasDoneMore = (one: Done, other: Done): boolean =>
  one.wrong > other.wrong || (one.wrong === other.wrong && one.waiting > other.waiting)

const tooMany = (): OsError => new OsError('TOO_MANY_ATTEMPTS', 'too many attempts, try again in a few seconds')

/** One home has one IPv6 /64, which therefore counts as one address; IPv4-mapped IPv6 addresses count as IPv4. */
export function addressKey(address: string): string {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('%')[0]!.split('::')
  const groups = head.split(':').filter(Boolean)
  const lower = tail === undefined ? [] : tail.split(':').filter(Boolean)
  while (tail !== undefined && groups.length + lower.length < 8) groups.push('0')
  return `${[...groups, ...lower].slice(0, 4).join(':')}::/64`
}

export class TokenGate {
  readonly #addresses = new LruMap<string, Address>(MAX_ADDRESSES, undefined, ({ waiting }) => waiting === 0)
  readonly #users = new LruMap<string, Pace>(MAX_USERS)
  /** in order of arrival */
  readonly #waiting: Attempt[] = []
  readonly #all = new Pace(GLOBAL_STEP_MS, GLOBAL_BURST)
  #running = false
  #wake: () => void = () => undefined

  constructor(
    private readonly auth: WebAuth,
    private readonly clock: Clock = systemClock,
    private readonly sleep: (ms: number) => Promise<unknown> = ms => delay(ms, undefined, { ref: false }),
  ) {}

  /** Resolves true for the right token, false for a wrong one; throws TOO_MANY_ATTEMPTS if the queue is full. */
  async check(token: string, remote: string): Promise<boolean> {
    if (token.length > MAX_TOKEN_CHARS) return false
    if (this.auth.remembered?.(token)) return true
    return this.attempt(remote, async () => this.auth.remembered?.(token) || this.auth.verify(token))
  }

  /**
   * Runs one `verify` (token, or password of `username`) in its turn; its result is false or null for a wrong one. Throws
   * TOO_MANY_ATTEMPTS if the queue is full.
   */
  attempt<T>(remote: string, verify: () => Promise<T>, username?: string): Promise<T> {
    const address = this.#address(addressKey(remote))
    const user = username === undefined ? undefined : this.#user(username)
    if (address.waiting >= MAX_WAITING_PER_ADDRESS) return Promise.reject(tooMany())
    const sameUser = this.#waiting.filter(one => user !== undefined && one.user === user)
    if (sameUser.length >= MAX_WAITING_PER_USER && !this.#displace(sameUser, address)) return Promise.reject(tooMany())
    if (this.#waiting.length >= MAX_WAITING && !this.#displace(this.#waiting, address)) return Promise.reject(tooMany())
    address.waiting++
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ address, user, verify, resolve: found => resolve(found as T), reject })
      if (this.#running) this.#wake()
      else void this.#run()
    })
  }

  /** Drops the newest attempt of the queued address with the most attempts, if it has more than this one. */
  #displace(among: readonly Attempt[], { wrong, waiting }: Address): boolean {
    const last = among.reduce((worst, one) => (hasDoneMore(worst.address, one.address) ? worst : one))
    if (!hasDoneMore(last.address, { wrong, waiting: waiting + 1 })) return false
    this.#waiting.splice(this.#waiting.indexOf(last), 1)
    last.address.waiting--
    last.reject(tooMany())
    return true
  }

  /** Runs the attempts one after the other: of those that are due, the one with the fewest wrong ones before it. */
  async #run(): Promise<void> {
    this.#running = true
    while (this.#waiting.length > 0) {
      const now = this.clock.mono()
      const due = ({ address, user }: Attempt): number => Math.max(address.notBefore, this.#all.due, user?.due ?? 0)
      const ready = this.#waiting.filter(one => due(one) <= now)
      if (ready.length === 0) {
        const woken = new Promise<void>(resolve => {
          this.#wake = resolve
        })
        await Promise.race([this.sleep(Math.min(...this.#waiting.map(due)) - now), woken])
        continue
      }
      const next = ready.reduce((best, one) => (one.address.wrong < best.address.wrong ? one : best))
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      await this.#take(next)
    }
    this.#running = false
  }

  async #take({ address, user, verify, resolve, reject }: Attempt): Promise<void> {
    try {
      const found = await verify()
      if (found) {
        address.wrong = 0
        address.notBefore = 0
      } else this.#countWrong(address, user)
      resolve(found)
    } catch (error) {
      reject(error)
    } finally {
      address.waiting--
    }
  }

  #countWrong(address: Address, user: Pace | undefined): void {
    const now = this.clock.mono()
    address.wrong = now - address.lastWrong > FORGET_MS ? 1 : address.wrong + 1
    address.lastWrong = now
    const over = address.wrong - FREE_TRIES
    address.notBefore = over > 0 ? now + Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (over - 1)) : 0
    this.#all.wrong(now)
    user?.wrong(now)
  }

  /** Known names are bounded, whether they are users or not: the one tried longest ago is evicted. */
  #user(name: string): Pace {
    const user = this.#users.get(name) ?? new Pace(USER_STEP_MS, USER_BURST)
    this.#users.set(name, user)
    return user
  }

  /** Known addresses are bounded: the one unused longest is evicted, but never one with a queued attempt. */
  #address(key: string): Address {
    const address = this.#addresses.get(key) ?? { wrong: 0, lastWrong: 0, notBefore: 0, waiting: 0 }
    this.#addresses.set(key, address)
    return address
  }
}
