// Folder and limits of the sealed windows, from Config.json.
import { resolve } from 'node:path'
import type { ConfigStore } from '../config/config-store'
import { Database, SERVER_CURSOR, WINDOW_BYTES } from './database'
import type { DatabaseOptions } from './database-options'

/** an idle worker ends after this time */
const IDLE_MS = 60_000

/** The folder in storage.sql.driver.path; undefined: no windows are stored. Relative paths start at the data directory. */
export function windowFolder(path: string, dataDir: string): string | undefined {
  if (path === ':memory:') return undefined
  const dir = resolve(dataDir, path === '' ? 'sql' : path)
  return /\.(db|sqlite)$/.test(dir) ? `${dir}.d` : dir
}

/**
 * The view of a gateway. Its windows have the same limits as the log, separately; a small log gets small windows, which are
 * written before the log drops their records.
 */
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

/**
 * The database of a gateway; null: storage.sql is off. If it is off, the cursor of a database
 * server is removed, so that it does not hold back the log.
 */
export function gatewayDatabase(
  config: ConfigStore,
  parts: Pick<DatabaseOptions, 'log' | 'clock' | 'logger'>,
): Database | null {
  if (config.config.storage.sql.enabled)
    return new Database({ ...parts, ...gatewayView(config), dataDir: config.dataDir })
  if (parts.log.cursor(SERVER_CURSOR)) parts.log.appendCursor?.(SERVER_CURSOR, 0)
  return null
}
