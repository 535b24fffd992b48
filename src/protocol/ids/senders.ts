// State about senders for the quotas of an allocator, in files or in a database (X38, X39): answer bytes, ids used by two
// addresses, and names for devices without one. Cannot fail; all of it is in memory and bounded.
import type { Logger } from '../../lib/logger'
import { LruMap } from '../../lib/lru-map'
import { networkOf } from '../address'
import { deviceKey, isNamed } from './devicekey'

/** answers to all unproved addresses, bytes per second, and the share of one address */
export const ANSWER_BYTES = 65_536
export const ANSWER_SHARE = 16
const SHARED_MS = 60_000
const MAX_SEEN = 32_768

/** A budget of bytes per second, initially one second's worth. */
export class Allowance {
  #left: number
  #at: number

  constructor(
    readonly perSecond: number,
    now: number,
  ) {
    this.#left = perSecond
    this.#at = now
  }

  has(bytes: number, now: number): boolean {
    this.#left = Math.min(this.perSecond, this.#left + ((now - this.#at) * this.perSecond) / 1000)
    this.#at = now
    return this.#left >= bytes
  }

  take(bytes: number): void {
    this.#left -= bytes
  }
}

/** Where an id in use was last heard. */
interface Seen {
  from: string
  at: number
  warned: boolean
}

/** Counts ids whose device key was used from two addresses within a minute. */
export class SharedUse {
  count = 0
  readonly #logger: Logger
  readonly #seen = new LruMap<number, Seen>(MAX_SEEN)

  constructor(logger: Logger) {
    this.#logger = logger
  }

  forget(id: number): void {
    this.#seen.delete(id)
  }

  /** The id's device was heard at that address. */
  use(id: number, from: string, now: number): void {
    const seen = this.#seen.get(id)
    if (!seen) {
      this.#seen.set(id, { from, at: now, warned: false })
      return
    }
    const before = seen.from
    const ago = now - seen.at
    seen.from = from
    seen.at = now
    if (before === from || ago >= SHARED_MS || networkOf(before) === networkOf(from)) return
    this.count++
    if (seen.warned) return
    seen.warned = true
    this.#logger.warn(`id ${id} is used from ${before} and from ${from} within a minute: give each device its own name`)
  }
}

/** Devices without a name get one per address, so that two of them never share an id (X39). */
export function identified(meta: Record<string, unknown>, address: string) {
  const key = deviceKey(meta)
  if (key === '' || isNamed(meta)) return { key, device: meta }
  const device = { ...meta, device_key: `${key}@${address}` }
  return { key: deviceKey(device), device }
}
