// The admin token in the data directory: its hash only. A file that cannot be read is STORAGE; a missing one means that there is
// no token yet.
import { join } from 'node:path'
import type { ConfigStore } from '../config'
import { atomicWrite } from '../lib/atomic'
import { asOsError, errno, OsError } from '../lib/errors'
import { realFiles } from '../lib/files'
import { writableDir } from '../lib/writable'
import { hashToken, makeToken } from './auth'

const tokenPath = (config: ConfigStore): string => join(config.dataDir, 'token.json')

/** The stored hash of the admin token, or null when there is none yet. Throws STORAGE. */
export function storedToken(config: ConfigStore): string | null {
  try {
    const { hash } = JSON.parse(realFiles.read(tokenPath(config)).toString('utf8')) as { hash?: unknown }
    return typeof hash === 'string' ? hash : null
  } catch (error) {
    if (errno(error) === 'ENOENT') return null
    throw new OsError('STORAGE', `${tokenPath(config)} cannot be read: ${asOsError(error).message}`, {
      cause: error,
      hint: 'os-node token --new makes a new one',
    })
  }
}

/** Makes a token, stores its hash and returns it: nobody can read it later. Throws DATA_DIR. */
export async function newToken(config: ConfigStore): Promise<string> {
  const token = makeToken()
  writableDir(config.dataDir)
  atomicWrite(tokenPath(config), JSON.stringify({ hash: await hashToken(token) }))
  return token
}
