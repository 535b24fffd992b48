// The admin token: made once, stored only as a scrypt hash, compared in constant time (S3). scrypt takes tens of
// milliseconds on a board, so the SHA-256 of the last right token is cached for ten minutes and polling costs nothing.
// An unreadable stored hash matches no token: none is accepted until a new one is made.
import { createHash, timingSafeEqual } from 'node:crypto'
import { type Clock, systemClock } from '../lib/clock'
import { verifySecret } from '../lib/scrypt'

const REMEMBER_MS = 600_000

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** The `auth` part of a WebContext except `enabled`: checks tokens against the hash that is currently configured. */
export class TokenVerifier {
  #good: { digest: Buffer; stored: string; until: number } | null = null

  constructor(
    private readonly stored: () => string | null | undefined,
    private readonly clock: Clock = systemClock,
  ) {}

  /** True for the token accepted in the last ten minutes, while the stored hash is unchanged. */
  remembered(token: string): boolean {
    const good = this.#good
    if (!good) return false
    const same = timingSafeEqual(digest(token), good.digest)
    const now = this.clock.mono()
    if (!same || now >= good.until || good.stored !== this.stored()) return false
    good.until = now + REMEMBER_MS
    return true
  }

  async verify(token: string): Promise<boolean> {
    if (this.remembered(token)) return true
    const stored = this.stored()
    if (!stored || !(await verifySecret(token, stored))) return false
    this.#good = { digest: digest(token), stored, until: this.clock.mono() + REMEMBER_MS }
    return true
  }

  /** A value that changes when there is another token. */
  stamp(): unknown {
    return this.stored()
  }
}
