// Where the sealed windows lie and how much of them is kept, as Config.json says it.
import { resolve } from 'node:path'
import type { ConfigStore } from '../config/config-store'
import { Database, SERVER_CURSOR, WINDOW_BYTES } from './database'
import type { DatabaseOptions } from './database-options'

/** a worker without queries ends after so long */
const IDLE_MS = 60_000

/** The folder that storage.sql.driver.path names; undefined: no windows are kept. Relative paths lie in the data directory. */
export function windowFolder(path: string, dataDir: string): string | undefined {
  if (path === ':memory:') return undefined
  const dir = resolve(dataDir, path === '' ? 'sql' : path)
  return /\.(db|sqlite)$/.test(dir) ? `${dir}.d` : dir
}

/** The view of a gateway. Its windows keep to the bounds of the log, each for itself; a small log gets small windows, which are
 *  written before it drops their records. */
export function gatewayView({
  config,
  dataDir,
}: ConfigStore): Pick<DatabaseOptions, 'sql' | 'windows' | 'maxBytes' | 'idleMs'> {
  const { max_bytes: keepBytes, max_age_s } = config.gateway.log
  const { sql } = config.storage
  const dir = windowFolder(sql.driver.path, dataDir)
  return {
    sql,
    idleMs: IDLE_MS,
    maxBytes: Math.min(WINDOW_BYTES, keepBytes / 4),
    ...(dir !== undefined && { windows: { dir, readOnly: false, keepBytes, keepMs: max_age_s * 1000 } }),
  }
}

/** The database of a gateway; null: storage.sql is off. Without a server no cursor of one holds the log. */
export function gatewayDatabase(
  config: ConfigStore,
  parts: Pick<DatabaseOptions, 'log' | 'clock' | 'logger'>,
): Database | null {
  if (config.config.storage.sql.enabled)
    return new Database({ ...parts, ...gatewayView(config), dataDir: config.dataDir })
  if (parts.log.cursor(SERVER_CURSOR)) parts.log.appendCursor?.(SERVER_CURSOR, 0)
  return null
}
