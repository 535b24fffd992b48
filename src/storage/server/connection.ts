// What the store needs of a database server, and what each dialect provides: the connection, its tables, and statements that
// differ. Values are always bound, never written into the text of a statement (S10).
//
// Errors: DB_UNREACHABLE, DB_LOGIN, DB_SCHEMA, TIMEOUT, STORAGE; a connection is not used again after an error.
import { createHash, X509Certificate } from 'node:crypto'
import type { ConnectionOptions } from 'node:tls'
import { OsError } from '../../lib/errors'
import type { Fact } from '../../pipeline/fact'
import { ipOf } from '../../protocol/address'
import type { ServerSetup } from './setup'

/** Rows are arrays of columns; each `?` in a statement is one value. */
export interface Connection {
  rows(sql: string, values?: readonly unknown[]): Promise<unknown[][]>
  /** the number of changed rows */
  run(sql: string, values?: readonly unknown[]): Promise<number>
}

export interface ServerConnection extends Connection {
  /** why it cannot be used any more */
  readonly lost: OsError | undefined
  /** Runs `work` atomically. */
  transaction<T>(work: (on: Connection) => Promise<T>): Promise<T>
  /** Closes it immediately; running statements fail. */
  close(): void
}

/** A fact to be sent to the server. */
export interface PacketRow {
  readonly seq: number
  readonly uuid: Uint8Array
  readonly fact: Fact
  readonly tRaw: number
  /** its time in integer UNIX seconds */
  readonly seconds: number
  /** of the original t_raw, whatever later clock records say: the partition of the packet */
  readonly day: number
  readonly createdAt: number
  readonly boot: number
  /** 0: its time is correct, 1: no time source has confirmed it, 2: its time is in the future */
  readonly unsynced: number
}

export interface Dialect {
  readonly name: string
  /** `lost` is called if the server closes the connection. Throws DB_UNREACHABLE, DB_LOGIN. */
  connect(setup: ServerSetup, lost?: (error: OsError) => void): Promise<ServerConnection>
  /** Statements of each version of the tables, from the first. */
  readonly migrations: readonly (readonly string[])[]
  /** the function that returns the schema of the tables */
  readonly schema: string
  /** statements around a migration, so that only one gateway runs it */
  readonly lock: string
  readonly unlock: string
  /** FROM of sensor rows `s` with their packets `p` */
  readonly sensors: string
  /** index, id, status, value and unit of a sensor row; and only the id and the unit */
  readonly columns: string
  readonly sensorId: string
  readonly unit: string
  /** type of an integer in a CAST */
  readonly whole: string
  /** integer division */
  divide(what: string, by: string): string
  /** encodes a text for storage; and decodes it */
  stored(text: string): string
  read(value: unknown): string
  /** the column of the uuid, a placeholder for one, and the uuid as a value */
  readonly uuidColumn: string
  readonly uuidPlace: string
  uuidValue(uuid: Uint8Array): unknown
  /** Creates partitions for packets of these days (UNIX days); cheap if they exist. */
  prepareDays(on: ServerConnection, days: ReadonlySet<number>, today: number): Promise<void>
  /** Inserts new packets; returns their number. */
  insert(on: Connection, writer: number, rows: readonly PacketRow[]): Promise<number>
  /** Removes packets of days before `day`; those with an unconfirmed time stay. */
  retain(on: ServerConnection, day: number): Promise<void>
}

/** names are index keys, which have a maximum length */
const LONGEST = 2000

/** Truncates a name with a longer UTF-8 form, and adds a hash of the complete name to keep it unique. */
export function short(text: string): string {
  if (text.length * 3 <= LONGEST || Buffer.byteLength(text) <= LONGEST) return text
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32)
  return `${Buffer.from(text).toString('utf8', 0, LONGEST - 48)}\u2026${hash}`
}

/** Compares a certificate with the configured host; for an address, the libraries would compare it with "localhost". */
export const nameCheck =
  (host: string): NonNullable<ConnectionOptions['checkServerIdentity']> =>
  (_name, { raw }) => {
    const cert = new X509Certificate(raw)
    if (ipOf(host) ? cert.checkIP(host) : cert.checkHost(host)) return undefined
    return new Error(`the certificate is for ${cert.subjectAltName ?? cert.subject}, not for ${host}`)
  }

interface ServerError extends Error {
  readonly code?: string | number
  readonly errno?: number
  /** of a host with several addresses */
  readonly errors?: readonly Error[]
}

/** MariaDB's error for max_statement_time, which mysql2 has no name for */
const TOO_LONG = 1969
/** error codes of the system and of both libraries for an unreachable server */
const AWAY =
  /^(E(CONN\w+|NOENT|ACCES|NOTFOUND|AI_AGAIN|HOSTUNREACH|NETUNREACH|TIMEDOUT|PIPE)|CONNECT\w*|CONNECTION\w*|PROTOCOL_CONNECTION_LOST|08\w+|57P0\d|53300|ER_SERVER_SHUTDOWN|ER_CON_COUNT_ERROR|ER_CONNECTION_KILLED)$/
const LOGIN =
  /^(28\w+|3D000|42501|ER_ACCESS_DENIED\w*|ER_DBACCESS_DENIED_ERROR|ER_BAD_DB_ERROR|ER_TABLEACCESS_DENIED_ERROR|AUTH\w+|SASL\w+)$/
const SLOW = /^(57014|55P03|ER_STATEMENT_TIMEOUT|ER_QUERY_TIMEOUT|ER_LOCK_WAIT_TIMEOUT)$/

/** Converts the error of a library or a server; its message contains the server's text. */
export function serverError(thrown: unknown): OsError {
  if (thrown instanceof OsError) return thrown
  const { code = '', errno, message = String(thrown), errors } = thrown as ServerError
  const text = message || errors?.[0]?.message || String(code)
  const known = errno === TOO_LONG ? 'ER_STATEMENT_TIMEOUT' : String(code)
  const mine = AWAY.test(known)
    ? 'DB_UNREACHABLE'
    : LOGIN.test(known)
      ? 'DB_LOGIN'
      : SLOW.test(known)
        ? 'TIMEOUT'
        : null
  return new OsError(mine ?? (/certificate|\bTLS\b|\bSSL\b/i.test(text) ? 'DB_UNREACHABLE' : 'STORAGE'), text, {
    cause: thrown,
  })
}
