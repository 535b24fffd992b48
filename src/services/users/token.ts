// The admin token of a data directory: `<data>/token.json` contains only its scrypt hash.
// Errors: an existing file that cannot be read is STORAGE, and no token is accepted until a new one is created.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { asOsError, errno, OsError } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import { hashSecret } from '../../lib/scrypt'
import { diskFault, writableDir } from '../../lib/writable'

const tokenPath = (dataDir: string): string => join(dataDir, 'token.json')

/** A new token: 32 random bytes as base64url, 43 characters. */
export const makeToken = (): string => randomBytes(32).toString('base64url')

/** hashes of this process that are not stored yet, by data directory */
const unkept = new Map<string, string>()

/** The stored hash, or null if there is none yet. Throws STORAGE. */
export function storedToken(dataDir: string, files = realFiles): string | null {
  try {
    const { hash } = Object(JSON.parse(files.read(tokenPath(dataDir)).toString('utf8'))) as { hash?: unknown }
    if (typeof hash !== 'string') throw new TypeError('it contains no hash')
    return hash
  } catch (error) {
    if (errno(error) === 'ENOENT') return unkept.get(dataDir) ?? null
    throw new OsError('STORAGE', `${tokenPath(dataDir)} cannot be read: ${asOsError(error).message}`, {
      cause: error,
      hint: 'os-node token --new creates a new one',
    })
  }
}

/** Creates a token, stores its hash, and returns it; it cannot be read later. The old token becomes invalid. */
export async function newToken(dataDir: string, files = realFiles): Promise<string> {
  const token = makeToken()
  writableDir(dataDir, files)
  keep(dataDir, await hashSecret(token), files)
  return token
}

/** The token of a first start. If the disk refuses, it is valid in this process and `later` gets the write to retry. */
export async function firstToken(
  dataDir: string,
  later: (name: string, write: () => void, error: unknown) => void,
): Promise<string> {
  const token = makeToken()
  const hash = await hashSecret(token)
  try {
    keep(dataDir, hash)
  } catch (error) {
    if (!diskFault(error)) throw error
    unkept.set(dataDir, hash)
    // keep a token that a command created meanwhile
    later('the token', () => realFiles.exists(tokenPath(dataDir)) || keep(dataDir, hash), error)
  }
  return token
}

function keep(dataDir: string, hash: string, files = realFiles): void {
  const kept = JSON.stringify({ hash })
  // the local upstream uses the same token
  const upstream = tokenPath(join(dataDir, 'upstream'))
  if (files.exists(upstream)) atomicWrite(upstream, kept, files)
  files.mkdir(dataDir)
  atomicWrite(tokenPath(dataDir), kept, files)
}
