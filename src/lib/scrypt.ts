// Secrets are stored only as scrypt hashes and compared in constant time (S3). A stored text that is not such a hash,
// or that requests too much memory, matches no secret. A check takes tens of milliseconds on a separate thread.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'

const N = 16_384
const R = 8
const P = 1
const SALT_BYTES = 16
const HASH_BYTES = 32
/** scrypt needs 128 × N × r bytes; a stored hash that requests more is damaged or hostile */
const MAX_MEMORY = 64 * 1024 * 1024

const derive = (secret: string, salt: Buffer, n: number, r: number, p: number, length: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    scrypt(secret, salt, length, { N: n, r, p, maxmem: MAX_MEMORY + 1024 * 1024 }, (error, key) =>
      error ? reject(error) : resolve(key),
    )
  })

/** Random bytes for one derivation of a key. */
export const newSalt = (bytes: number): Buffer => randomBytes(bytes)

/** `scrypt$N$r$p$salt$hash`, salt and hash in base64url. */
export async function hashSecret(secret: string): Promise<string> {
  const salt = newSalt(SALT_BYTES)
  const key = await derive(secret, salt, N, R, P, HASH_BYTES)
  return `scrypt$${N}$${R}$${P}$${salt.toString('base64url')}$${key.toString('base64url')}`
}

function parseHash(stored: string) {
  const match = /^scrypt\$(\d{1,7})\$(\d{1,2})\$(\d)\$([\w-]{11,172})\$([\w-]{22,172})$/.exec(stored)
  if (!match) return null
  const [n, r, p] = [Number(match[1]), Number(match[2]), Number(match[3])]
  const fits = n > 1 && (n & (n - 1)) === 0 && r > 0 && p > 0 && 128 * n * r <= MAX_MEMORY
  return fits ? { n, r, p, salt: Buffer.from(match[4]!, 'base64url'), key: Buffer.from(match[5]!, 'base64url') } : null
}

/** Runs scrypt once. False for a wrong secret and for a stored text that is no hash. */
export async function verifySecret(secret: string, stored: string): Promise<boolean> {
  const hash = parseHash(stored)
  if (!hash) return false
  const key = await derive(secret, hash.salt, hash.n, hash.r, hash.p, hash.key.length)
  return timingSafeEqual(key, hash.key)
}
