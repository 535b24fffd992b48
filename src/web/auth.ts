// The admin token: made once, kept only as a scrypt hash, compared in constant time (S3). scrypt costs tens of
// milliseconds on a board, so the SHA-256 of the last right token is remembered for ten minutes and polling costs nothing.
// A stored hash that cannot be read fits no token: nobody gets in until a new token is made.
import { createHash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { type Clock, systemClock } from '../lib/clock'

const N = 16_384
const R = 8
const P = 1
const SALT_BYTES = 16
const HASH_BYTES = 32
/** scrypt needs 128 × N × r bytes; a stored hash that asks for more is damaged or hostile */
const MAX_MEMORY = 64 * 1024 * 1024
const REMEMBER_MS = 600_000

/** A new token: 32 random bytes as base64url, 43 characters. */
export const makeToken = (): string => randomBytes(32).toString('base64url')

const derive = (token: string, salt: Buffer, n: number, r: number, p: number, length: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    scrypt(token, salt, length, { N: n, r, p, maxmem: MAX_MEMORY + 1024 * 1024 }, (error, key) =>
      error ? reject(error) : resolve(key),
    )
  })

/** `scrypt$N$r$p$salt$hash`, salt and hash in base64url: the form kept in Config.json. */
export async function hashToken(token: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const key = await derive(token, salt, N, R, P, HASH_BYTES)
  return `scrypt$${N}$${R}$${P}$${salt.toString('base64url')}$${key.toString('base64url')}`
}

interface StoredHash {
  n: number
  r: number
  p: number
  salt: Buffer
  key: Buffer
}

/** null when the text is no hash of ours or asks for more memory than a check may take */
function parseHash(stored: string): StoredHash | null {
  const match = /^scrypt\$(\d{1,7})\$(\d{1,2})\$(\d)\$([\w-]{11,172})\$([\w-]{22,172})$/.exec(stored)
  if (!match) return null
  const [n, r, p] = [Number(match[1]), Number(match[2]), Number(match[3])]
  const fits = n > 1 && (n & (n - 1)) === 0 && r > 0 && p > 0 && 128 * n * r <= MAX_MEMORY
  return fits ? { n, r, p, salt: Buffer.from(match[4]!, 'base64url'), key: Buffer.from(match[5]!, 'base64url') } : null
}

/** Runs scrypt once. False for a wrong token and for a stored text that is no hash. */
export async function verifyToken(token: string, stored: string): Promise<boolean> {
  const hash = parseHash(stored)
  if (!hash) return false
  const key = await derive(token, hash.salt, hash.n, hash.r, hash.p, hash.key.length)
  return timingSafeEqual(key, hash.key)
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** The `auth` part of a WebContext but for `enabled`: checks tokens against the hash the configuration holds now. */
export class TokenVerifier {
  #good: { digest: Buffer; stored: string; until: number } | null = null

  constructor(
    private readonly stored: () => string | null | undefined,
    private readonly clock: Clock = systemClock,
  ) {}

  /** True for the token found right in the last ten minutes, while the stored hash is still the same. */
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
    if (!stored || !(await verifyToken(token, stored))) return false
    this.#good = { digest: digest(token), stored, until: this.clock.mono() + REMEMBER_MS }
    return true
  }
}
