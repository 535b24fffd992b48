// The id of the installation: 12 hex digits in the data folder, because Config.json may be copied to another board
// (S1). Made when first needed. An unreadable id is replaced; one that cannot be stored is used until the stop; both
// are logged.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'

const INSTALL_FILE = 'install-id'

/** What is stored, undefined unless it is an id. Throws the system's error. */
export function storedInstallId(dataDir: string, files: Files): string | undefined {
  const path = join(dataDir, INSTALL_FILE)
  const kept = files.exists(path) ? files.read(path).toString('utf8').trim() : ''
  return /^[0-9A-Za-z]{8,32}$/.test(kept) ? kept : undefined
}

/**
 * The same id for the lifetime of the data folder. Never throws; `later` gets the function that writes an id that could
 * not be stored.
 */
export function installIdOf(
  dataDir: string,
  logger: Logger,
  files: Files = realFiles,
  later: (write: () => void, error: unknown) => void = (_, error) =>
    logger.error(`the install id could not be stored: ${asOsError(error).message}`),
): string {
  const path = join(dataDir, INSTALL_FILE)
  try {
    const kept = storedInstallId(dataDir, files)
    if (kept) return kept
  } catch (error) {
    logger.warn(`${path} cannot be read, a new one is created: ${asOsError(error).message}`)
  }
  const made = randomBytes(6).toString('hex')
  const write = (): void => {
    files.mkdir(dataDir)
    atomicWrite(path, `${made}\n`, files)
  }
  try {
    write()
  } catch (error) {
    later(write, error)
  }
  return made
}
