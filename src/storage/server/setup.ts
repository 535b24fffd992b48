// The setup of a database server's worker: storage.sql.driver of Config.json with defaults and the contents of the files it
// names. The password is OS_DB_PASSWORD, else driver.password_file, else driver.password.
//
// Errors: a file that cannot be read is CONFIG_INVALID; it is read again at every retry.
import { resolve } from 'node:path'
import { asOsError, OsError } from '../../lib/errors'
import { readRegular } from '../../lib/files'

/** The keys of storage.sql.driver of Config.json that servers use. */
export interface ServerDriver {
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly database?: string | undefined
  readonly user?: string | undefined
  readonly password?: string | undefined
  readonly password_file?: string | undefined
  readonly tls?: 'off' | 'on' | 'unverified' | undefined
  readonly tls_ca?: string | undefined
  readonly tls_cert?: string | undefined
  readonly tls_key?: string | undefined
  readonly statement_timeout_ms?: number | undefined
  readonly retention_days?: number | undefined
}

export interface ServerSetup {
  readonly version: string
  readonly dialect: string
  /** a name, an address, or the folder (postgresql) or path (mysql) of a socket */
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
  readonly password: string
  readonly tls: false | { readonly rejectUnauthorized: boolean; readonly [file: string]: string | boolean }
  readonly statementMs: number
  /** 0: all packets are kept */
  readonly retentionDays: number
  /** the number of the log to write; absent: the tables are only read */
  readonly origin?: number
}

export const PORTS: Readonly<Record<string, number>> = { postgresql: 5432, mysql: 3306 }

export function serverSetup(
  dialect: string,
  driver: ServerDriver,
  dataDir: string,
  environment: NodeJS.ProcessEnv = process.env,
): ServerSetup {
  const file = (key: string, path: string): string => {
    try {
      return readRegular(resolve(dataDir, path)).toString()
    } catch (error) {
      throw new OsError('CONFIG_INVALID', `storage.sql.driver.${key}: ${asOsError(error).message}`)
    }
  }
  const { host = '127.0.0.1', port, database = 'os_node', user = 'os_node', password_file, tls = 'off' } = driver
  const password =
    environment.OS_DB_PASSWORD ??
    (password_file ? file('password_file', password_file).replace(/\r?\n$/, '') : (driver.password ?? ''))
  const files = (['ca', 'cert', 'key'] as const).flatMap(name => {
    const path = driver[`tls_${name}`]
    return path ? [[name, file(`tls_${name}`, path)] as const] : []
  })
  return {
    version: __VERSION__,
    dialect,
    host,
    port: port || PORTS[dialect]!,
    database,
    user,
    password,
    tls: tls !== 'off' && { ...Object.fromEntries(files), rejectUnauthorized: tls === 'on' },
    statementMs: driver.statement_timeout_ms ?? 30_000,
    retentionDays: driver.retention_days ?? 0,
  }
}
