// Sessions of the HTTP service (S3): 256 random bits, kept in RAM as their SHA-256 only, ended by idleness, by age, by logout,
// and at once when what they were opened with (token, user) changes. Bounded per user, per address and in all: the one unused
// for longest leaves. A restart of the gateway ends them all; the name of a session says which start it is of.
import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../lib/clock'
import type { Role } from '../services/users'
import { addressKey } from './login-throttle'

/** Who calls. */
export interface WebSession {
  readonly role: Role
  /** 'admin' for the admin token */
  readonly username: string
  /** UNIX seconds: when it ends unless it is used again; null: not a session but the token itself */
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
/** of one user, and from one address: the next closes the own one that is unused for longest */
const MAX_PER_USER = 32
const MAX_PER_ADDRESS = 64

/** True for what may be a session, so that no hash is computed for it. */
export const looksLikeSession = (text: string): boolean => text.startsWith(PREFIX)

const digest = (text: string): string => createHash('sha256').update(text).digest('base64')

export class Sessions {
  /** in the order of their last use */
  readonly #open = new Map<string, Open>()
  /** in front of the random bits of each session of this start */
  readonly #prefix = `${PREFIX}${randomBytes(6).toString('base64url')}`

  constructor(
    private readonly clock: Clock,
    private readonly times: () => SessionTimes,
  ) {}

  get size(): number {
    return this.#open.size
  }

  /** `valid`: still true while what it is opened with is the same. Returns the text that names it. */
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

  /** The session of that name, or null. `touch` false: looking at it does not keep it alive. */
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

  /** True for what may name a session of another start: it ended with that, by no decision. */
  isOfOtherStart(id: string): boolean {
    return id.length === this.#prefix.length + 43 && !id.startsWith(this.#prefix)
  }

  close(id: string): void {
    this.#open.delete(digest(id))
  }

  /** Leaves at most so many of a kind, the newest. */
  #bound(most: number, ofKind: (open: Open) => boolean): void {
    const kind = [...this.#open].filter(([, open]) => ofKind(open))
    for (const [key] of kind.slice(0, Math.max(0, kind.length - most))) this.#open.delete(key)
  }

  #reported({ role, username, end, idleEnd }: Open): WebSession {
    const left = Math.min(end, idleEnd) - this.clock.mono()
    return { role, username, expires_at: Math.floor((this.clock.wall() + left) / 1000) }
  }
}
