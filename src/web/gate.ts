// Lets right tokens and passwords in and slows down wrong ones (S4): per address from the fourth on, and over all addresses together.
// Only one scrypt runs at a time, since it shares libuv's few threads with the log's fdatasync. Attempts wait their turn;
// where too many wait, the next gets TOO_MANY_ATTEMPTS (429). A token found right before passes at once, whatever others
// try, and every delay is capped, so nobody is locked out for ever.
import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import type { WebAuth } from './context'

const FREE_TRIES = 3
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2_000
/** an address without a wrong token for this long starts anew */
const FORGET_MS = 300_000
/** over all addresses: five wrong tokens a second, twenty at once */
const GLOBAL_STEP_MS = 200
const GLOBAL_BURST = 20
const MAX_WAITING_PER_ADDRESS = 4
const MAX_WAITING = 32
const MAX_ADDRESSES = 1_024
const MAX_TOKEN_CHARS = 256

interface Address {
  wrong: number
  lastWrong: number
  notBefore: number
  waiting: number
  tail: Promise<void>
}

/** One home has one IPv6 /64, so that counts as one address; IPv4 in IPv6 clothes is IPv4. */
export function addressKey(address: string): string {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('%')[0]!.split('::')
  const groups = head.split(':').filter(Boolean)
  const rest = tail === undefined ? [] : tail.split(':').filter(Boolean)
  while (tail !== undefined && groups.length + rest.length < 8) groups.push('0')
  return `${[...groups, ...rest].slice(0, 4).join(':')}::/64`
}

export class TokenGate {
  readonly #addresses = new Map<string, Address>()
  #waiting = 0
  #globalFree = 0
  #scrypt: Promise<void> = Promise.resolve()

  constructor(
    private readonly auth: WebAuth,
    private readonly clock: Clock = systemClock,
    private readonly sleep: (ms: number) => Promise<unknown> = ms => delay(ms, undefined, { ref: false }),
  ) {}

  /** Resolves true for the right token, false for a wrong one; throws TOO_MANY_ATTEMPTS where too many wait. */
  async check(token: string, remote: string): Promise<boolean> {
    if (token.length > MAX_TOKEN_CHARS) return false
    if (this.auth.remembered?.(token)) return true
    return this.attempt(remote, async () => this.auth.remembered?.(token) || this.auth.verify(token))
  }

  /** One try of `verify` (token or password) in its turn. Throws TOO_MANY_ATTEMPTS where too many wait. */
  async attempt(remote: string, verify: () => Promise<boolean>): Promise<boolean> {
    const address = this.#address(addressKey(remote))
    if (address.waiting >= MAX_WAITING_PER_ADDRESS || this.#waiting >= MAX_WAITING) {
      throw new OsError('TOO_MANY_ATTEMPTS', 'too many attempts, try again in a few seconds')
    }
    address.waiting++
    this.#waiting++
    const mine = address.tail.then(() => this.#attempt(verify, address))
    // the next of this address waits for the end of this attempt, however it ends; its own caller sees the error
    address.tail = mine.then(
      () => undefined,
      () => undefined,
    )
    try {
      return await mine
    } finally {
      address.waiting--
      this.#waiting--
    }
  }

  async #attempt(verify: () => Promise<boolean>, address: Address): Promise<boolean> {
    const wait = Math.max(address.notBefore, this.#globalFree - GLOBAL_BURST * GLOBAL_STEP_MS) - this.clock.mono()
    if (wait > 0) await this.sleep(wait)
    const mine = this.#scrypt.then(verify)
    this.#scrypt = mine.then(
      () => undefined,
      () => undefined,
    )
    const right = await mine
    if (right) {
      address.wrong = 0
      address.notBefore = 0
    } else {
      this.#countWrong(address)
    }
    return right
  }

  #countWrong(address: Address): void {
    const now = this.clock.mono()
    address.wrong = now - address.lastWrong > FORGET_MS ? 1 : address.wrong + 1
    address.lastWrong = now
    const over = address.wrong - FREE_TRIES
    address.notBefore = over > 0 ? now + Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (over - 1)) : 0
    this.#globalFree = Math.max(this.#globalFree, now) + GLOBAL_STEP_MS
  }

  /** Known addresses are bounded: the one unused for longest is forgotten, but never one that waits. */
  #address(key: string): Address {
    let address = this.#addresses.get(key)
    if (address) this.#addresses.delete(key)
    else address = { wrong: 0, lastWrong: 0, notBefore: 0, waiting: 0, tail: Promise.resolve() }
    this.#addresses.set(key, address)
    if (this.#addresses.size > MAX_ADDRESSES) {
      for (const [old, { waiting }] of this.#addresses) {
        if (waiting > 0) continue
        this.#addresses.delete(old)
        break
      }
    }
    return address
  }
}
