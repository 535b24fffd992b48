// The dialect `mysql`, with the package `mysql2`: MySQL 8 and MariaDB 10.6 or newer. Packets and sensors are two tables with
// texts as bytes, which are neither padded nor case-folded; the views os_packets and os_sensors show the tables of the
// specification. Old packets are removed row by row.
//
// Differences between the servers: the time limit of a statement is max_statement_time in MariaDB and applies to all
// statements; in MySQL it is max_execution_time and applies to SELECT only, so there the client's timeout ends a batch.
import { createConnection, type Connection as Library, type ResultSetHeader } from 'mysql2'
import { OsError } from '../../lib/errors'
import { type Connection, type Dialect, type PacketRow, type ServerConnection, serverError, short } from './connection'
import { mysqlTables } from './migrations/mysql/0001-tables'
import { mysqlViews } from './migrations/mysql/0002-views'
import type { ServerSetup } from './setup'

/** rows that one statement removes */
const PORTION = 5000
const LOCK = 'os_node_schema'
/** statements that are kept prepared */
const PREPARED = 32

const SENSORS = 'os_packets_data p JOIN os_sensors_data s ON s.writer = p.writer AND s.seq = p.seq'

class Mysql implements ServerConnection {
  lost: OsError | undefined
  readonly #library: Library

  constructor(library: Library) {
    this.#library = library
  }

  /** Prepared, so that numbers are transferred in binary, without rounding. */
  rows(sql: string, values: readonly unknown[] = []): Promise<unknown[][]> {
    return new Promise((resolve, reject) =>
      this.#library.execute({ sql, rowsAsArray: true }, values as never[], (error, rows) =>
        error ? reject(serverError(error)) : resolve(rows as unknown[][]),
      ),
    )
  }

  /** Not prepared: rows of a batch are one value, `VALUES ?`. */
  run(sql: string, values: readonly unknown[] = []): Promise<number> {
    return new Promise((resolve, reject) =>
      this.#library.query(sql, values as never[], (error, result) =>
        error ? reject(serverError(error)) : resolve((result as ResultSetHeader).affectedRows),
      ),
    )
  }

  async transaction<T>(work: (on: Connection) => Promise<T>): Promise<T> {
    await this.run('START TRANSACTION')
    try {
      const result = await work(this)
      await this.run('COMMIT')
      return result
    } catch (error) {
      await this.run('ROLLBACK').catch(() => undefined) // the server does it when the connection is closed
      throw error
    }
  }

  close(): void {
    this.#library.destroy()
  }
}

async function connect(
  { host, port, database, user, password, tls, statementMs }: ServerSetup,
  lost?: (error: OsError) => void,
): Promise<ServerConnection> {
  const library = createConnection({
    ...(host.startsWith('/') ? { socketPath: host } : { host, port }),
    ...{ database, user, password, ...(tls && { ssl: { ...tls, verifyIdentity: tls.rejectUnauthorized } }) },
    ...{ charset: 'utf8mb4', connectTimeout: 10_000, maxPreparedStatements: PREPARED },
    // rows that an update leaves unchanged are not counted
    flags: ['-FOUND_ROWS'],
  })
  // the library passes no address to TLS, which then compares the certificate with the name of the socket
  Object.assign((library as unknown as { stream: object }).stream, { _host: host })
  const connection = new Mysql(library)
  let open = false
  library.on('error', thrown => {
    const error = serverError(thrown)
    connection.lost ??= error
    if (open) lost?.(error)
  })
  library.on('end', () => {
    connection.lost ??= new OsError('DB_UNREACHABLE', `the server at ${host} ended the connection`)
    if (open) lost?.(connection.lost)
  })
  try {
    const [[version] = []] = await connection.rows('SELECT VERSION()')
    const limit = /mariadb/i.test(String(version))
      ? `max_statement_time = ${statementMs / 1000}`
      : `max_execution_time = ${statementMs}`
    await connection.run('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
    await connection.run(`SET SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION ${limit}`)
  } catch (error) {
    connection.close()
    throw error
  }
  open = true
  return connection
}

const stored = short
const number = (value: number | null): number | null => (value === null || !Number.isFinite(value) ? null : value)

async function insert(on: Connection, writer: number, rows: readonly PacketRow[]): Promise<number> {
  const packets = rows.map(({ seq, uuid, fact, seconds, tRaw, createdAt, boot, unsynced }) => {
    const extras = fact.extras ? JSON.stringify(fact.extras) : null
    const [id, state] = [stored(fact.id), stored(fact.state)]
    return [writer, seq, Buffer.from(uuid), id, state, seconds, createdAt, tRaw, boot, unsynced, extras]
  })
  const sensors = rows.flatMap(({ seq, fact }) =>
    fact.sensors.map(({ id, status, value, unit }, k) => {
      return [writer, seq, k + 1, stored(id), stored(status), number(value), stored(unit)]
    }),
  )
  // unlike INSERT IGNORE this only hides duplicate key errors
  const inserted = await on.run(
    'INSERT INTO os_packets_data VALUES ? ON DUPLICATE KEY UPDATE seq = os_packets_data.seq',
    [packets],
  )
  if (sensors.length > 0)
    await on.run('INSERT INTO os_sensors_data VALUES ? ON DUPLICATE KEY UPDATE seq = os_sensors_data.seq', [sensors])
  // remove sensors of packets that already existed
  if (inserted < rows.length)
    await on.run(
      `DELETE s FROM os_sensors_data s LEFT JOIN os_packets_data p ON p.writer = s.writer AND p.seq = s.seq
       WHERE s.writer = ? AND s.seq BETWEEN ? AND ? AND p.seq IS NULL`,
      [writer, rows[0]!.seq, rows.at(-1)!.seq],
    )
  return inserted
}

async function retain(on: ServerConnection, day: number): Promise<void> {
  const before = day * 86_400
  const old = `(SELECT writer, seq FROM os_packets_data WHERE (unsynced = 0 AND timestamp_raw < ${before})
    OR (unsynced = 2 AND created_at < ${before}) LIMIT ${PORTION}) k`
  for (;;) {
    const gone = await on.run(
      `DELETE p, s FROM ${old} JOIN os_packets_data p ON p.writer = k.writer AND p.seq = k.seq
       LEFT JOIN os_sensors_data s ON s.writer = k.writer AND s.seq = k.seq`,
    )
    if (gone === 0) return
  }
}

export const mysql: Dialect = {
  name: 'mysql',
  connect,
  migrations: [mysqlTables, mysqlViews],
  schema: 'DATABASE()',
  lock: `SELECT GET_LOCK('${LOCK}', 60)`,
  unlock: `SELECT RELEASE_LOCK('${LOCK}')`,
  sensors: SENSORS,
  columns: 's.sensor_index, s.sensor_id, s.sensor_status, s.normalized_value, s.normalized_unit',
  sensorId: 's.sensor_id',
  unit: 's.normalized_unit',
  whole: 'SIGNED',
  divide: (what, by) => `${what} DIV ${by}`,
  stored,
  read: value => (value as Buffer).toString(),
  uuidColumn: 'p.packet_uuid',
  uuidPlace: '?',
  uuidValue: uuid => Buffer.from(uuid),
  prepareDays: async () => undefined,
  insert,
  retain,
}
