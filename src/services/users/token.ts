// The admin token of a data directory: `<data>/token.json` holds its scrypt hash and nothing else. What fails: a file that is
// there and cannot be read is STORAGE, and nobody gets in by it until a new token is made.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { asOsError, errno, OsError } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import { hashSecret } from '../../lib/scrypt'
import { writableDir } from '../../lib/writable'

const tokenPath = (dataDir: string): string => join(dataDir, 'token.json')

/** A new token: 32 random bytes as base64url, 43 characters. */
export const makeToken = (): string => randomBytes(32).toString('base64url')

/** The stored hash, or null when there is none yet. Throws STORAGE. */
export function storedToken(dataDir: string): string | null {
  try {
    const { hash } = JSON.parse(realFiles.read(tokenPath(dataDir)).toString('utf8')) as { hash?: unknown }
    if (typeof hash !== 'string') throw new TypeError('it holds no hash')
    return hash
  } catch (error) {
    if (errno(error) === 'ENOENT') return null
    throw new OsError('STORAGE', `${tokenPath(dataDir)} cannot be read: ${asOsError(error).message}`, {
      cause: error,
      hint: 'os-node token --new makes a new one',
    })
  }
}

/** Makes a token, stores its hash, and returns it: nobody can read it later. The old one stops working. */
export async function newToken(dataDir: string): Promise<string> {
  const token = makeToken()
  writableDir(dataDir)
  const kept = JSON.stringify({ hash: await hashSecret(token) })
  // the upstream that a gateway starts for itself opens by the same token
  const upstream = tokenPath(join(dataDir, 'upstream'))
  if (realFiles.exists(upstream)) atomicWrite(upstream, kept)
  atomicWrite(tokenPath(dataDir), kept)
  return token
}
