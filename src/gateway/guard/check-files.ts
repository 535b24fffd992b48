// Checks files named in a configuration before it is written. Reading a FIFO would block and reading a device could trigger
// it, and the next start would fail. A path that does not exist yet is accepted.
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Config, ConfigStore } from '../../config'
import { OsError, orElse } from '../../lib/errors'
import { MOST_BYTES } from '../../lib/files'
import { bytesText } from '../../units/display'

const IN_TLS = /^(ca|cert|key|client_ca)$/

/** file settings other than those of tls; `true`: a relative path is relative to the data directory */
const FILES: Readonly<Record<string, boolean>> = {
  dbc: false,
  secure_session_store: false,
  rules_file: true,
  password_file: true,
  tls_ca: true,
  tls_cert: true,
  tls_key: true,
}
/** the same for folders */
const FOLDERS: Readonly<Record<string, boolean>> = { 'plugins.dir': true, 'storage.sql.driver.path': true }

/**
 * Throws CONFIG_INVALID for the first new path of `next` (not in `now`) that exists but is no regular file or folder, or is
 * too large to read.
 */
export function refuseSpecialFiles(now: unknown, next: Config): void {
  const base = ConfigStore.of(now as object)?.dataDir ?? ''
  const walk = (value: unknown, old: unknown, path: readonly string[]): void => {
    if (value === old) return
    const name = path.at(-1) ?? ''
    if (typeof value === 'object' && value !== null) {
      for (const [part, item] of Object.entries(value))
        walk(item, (old as Record<string, unknown> | undefined | null)?.[part], [...path, part])
    } else if (typeof value === 'string' && value !== '') {
      const key = path.join('.')
      const folder = FOLDERS[key] !== undefined
      const ofData = FOLDERS[key] ?? FILES[name] ?? (path.at(-2) === 'tls' && IN_TLS.test(name) ? false : undefined)
      if (ofData === undefined) return
      const stats = orElse(undefined, () => statSync(ofData ? resolve(base, value) : value))
      const large = stats && !folder && stats.size > MOST_BYTES
      if (!stats || (!large && (folder ? stats.isDirectory() : stats.isFile()))) return
      const what = folder
        ? `ENOTDIR: ${value} is no folder`
        : large
          ? `E_TOO_LARGE: ${value} is larger than ${bytesText(MOST_BYTES)}`
          : `E_NOT_REGULAR: ${value} is no regular file`
      throw new OsError('CONFIG_INVALID', `${key}: ${what}`, { details: { key } })
    }
  }
  walk(next, now, [])
}
