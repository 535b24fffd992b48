// Sessions of the HTTP service (S3): 256 random bits, stored in RAM only as their SHA-256. A session ends by idleness,
// by age, by logout, and immediately when its token or user changes. Bounded per user, per address and in total: the
// one unused longest is evicted. A restart of the gateway ends them all; a session's name contains the start it belongs
// to.
import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock'
import type { Role } from '../services/users'
import { addressKey } from './login-throttle'

/** The caller. */
export interface WebSession {
  readonly role: Role
  /** 'admin' for the admin token */
  readonly username: string
  /** UNIX seconds: end of the session unless it is used again; null: not a session but the token itself */
  readonly expires_at: number | null
}

interface SessionTimes {
  readonly idleS: number
  readonly maxS: number
}

interface Open {
  readonly role: Role
  readonly username: string
  readonly address: string
  readonly valid: () => boolean
  /** clock.mono() */
  readonly end: number
  idleEnd: number
}

const PREFIX = 'os-session-'
const MAX_SESSIONS = 256
/** limits per user and per address: the next session evicts the own one that is unused longest */
const MAX_PER_USER = 32
const MAX_PER_ADDRESS = 64

/** True for a possible session name, so that no hash is computed for others. */
export const looksLikeSession = (text: string): boolean => text.startsWith(PREFIX)

const digest = (text: string): string => createHash('sha256').update(text).digest('base64')

export class Sessions {
  /** in the order of their last use */
  readonly #open = new Map<string, Open>()
  /** prefix of each session of this start, before the random bits */
  readonly #prefix = `${PREFIX}${randomBytes(6).toString('base64url')}`

  constructor(
    private readonly clock: Clock,
    private readonly times: () => SessionTimes,
  ) {}

  get size(): number {
    return this.#open.size
  }

  /** `valid`: true while the token or user is unchanged. Returns the session's name. */
  open(role: Role, username: string, remote: string, valid: () => boolean): { id: string; session: WebSession } {
    const id = this.#prefix + randomBytes(32).toString('base64url')
    const now = this.clock.mono()
    const { idleS, maxS } = this.times()
    const address = addressKey(remote)
    const made: Open = { role, username, address, valid, end: now + maxS * 1000, idleEnd: now + idleS * 1000 }
    this.#open.set(digest(id), made)
    this.#bound(MAX_PER_USER, other => other.username === username)
    this.#bound(MAX_PER_ADDRESS, other => other.address === address)
    this.#bound(MAX_SESSIONS, () => true)
    return { id, session: this.#reported(made) }
  }

  /** The session of that name, or null. `touch` false: the look-up does not keep it alive. */
  find(id: string, touch = true): WebSession | null {
    const key = digest(id)
    const found = this.#open.get(key)
    if (!found) return null
    const now = this.clock.mono()
    if (now >= found.end || now >= found.idleEnd || !found.valid()) {
      this.#open.delete(key)
      return null
    }
    if (touch) {
      found.idleEnd = now + this.times().idleS * 1000
      this.#open.delete(key)
      this.#open.set(key, found)
    }
    return this.#reported(found)
  }

  /** True for the name of a session of another start, which ended with the restart, not on purpose. */
  isOfOtherStart(id: string): boolean {
    return id.length === this.#prefix.length + 43 && !id.startsWith(this.#prefix)
  }

  close(id: string): void {
    this.#open.delete(digest(id))
  }

  /** Keeps only the newest `most` of a kind. */
  #bound(most: number, ofKind: (open: Open) => boolean): void {
    const kind = [...this.#open].filter(([, open]) => ofKind(open))
    for (const [key] of kind.slice(0, Math.max(0, kind.length - most))) this.#open.delete(key)
  }

  #reported({ role, username, end, idleEnd }: Open): WebSession {
    const left = Math.min(end, idleEnd) - this.clock.mono()
    return { role, username, expires_at: Math.floor((this.clock.wall() + left) / 1000) }
  }
}
