// The dialect `postgresql`, with the package `postgres`. One row contains a packet with its sensors in arrays, so that a
// packet is one insert; the views os_packets and os_sensors show the tables of the specification. A batch is one statement,
// INSERT … SELECT unnest(…) ON CONFLICT DO NOTHING. Packets are partitioned by the day of their original t_raw, which a clock
// record does not change, so the uuid is unique over all partitions; days far from today share the partition os_packets_rest.
//
// PostgreSQL allows no NUL in a text: it is stored as two characters, see stored().
import postgres from 'postgres'
import { OsError } from '../../lib/errors'
import { uuidText } from '../../log'
import {
  type Connection,
  type Dialect,
  nameCheck,
  type PacketRow,
  type ServerConnection,
  serverError,
  short,
} from './connection'
import { postgresTables } from './migrations/postgresql/0001-tables'
import { postgresViews } from './migrations/postgresql/0002-views'
import { postgresIds } from './migrations/postgresql/0003-ids'
import type { ServerSetup } from './setup'

/** an arbitrary number that other programs are unlikely to lock */
const LOCK = 8_046_731_002
/** packets of older days are stored in the partition os_packets_rest */
const DAYS_BACK = 3660
const DAYS_AHEAD = 2
/** separates the texts of the sensors of one packet */
const SEPARATOR = '\x1f'
const ESCAPE = '\u241b'
const HIDDEN: Readonly<Record<string, string>> = { '\0': '0', [SEPARATOR]: '1', [ESCAPE]: '2' }
const SHOWN = ['\0', SEPARATOR, ESCAPE]

const stored = (name: string): string => {
  const text = short(name)
  return /[\0\x1f\u241b]/.test(text) ? text.replace(/[\0\x1f\u241b]/g, char => ESCAPE + HIDDEN[char]) : text
}

const SENSORS = `CROSS JOIN LATERAL unnest(p.sensor_ids, p.sensor_statuses, p.sensor_values, p.sensor_units)
  WITH ORDINALITY AS s(id, status, normalized_value, unit, sensor_index)`

const INSERT = `INSERT INTO os_packets_data SELECT day, $1::int, seq, uuid, device, status, second, created, t_raw, boot, unsynced,
  string_to_array(ids, E'\\x1f'), string_to_array(statuses, E'\\x1f'), string_to_array(vals, ',', 'N')::float8[],
  string_to_array(units, E'\\x1f'), extras
  FROM unnest($2::int[], $3::bigint[], $4::uuid[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::float8[], $10::bigint[],
    $11::smallint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[])
  AS t(day, seq, uuid, device, status, second, created, t_raw, boot, unsynced, ids, statuses, vals, units, extras)
  ON CONFLICT DO NOTHING`

const quoted = (text: string): string => `"${/["\\]/.test(text) ? text.replace(/["\\]/g, '\\$&') : text}"`
const partition = (day: number): string =>
  `os_packets_${new Date(day * 86_400_000).toISOString().slice(0, 10).replaceAll('-', '')}`

/** Replaces each `?` of a statement with $1, $2 … */
const numbered = (sql: string): string => {
  let n = 0
  return sql.replaceAll('?', () => `$${++n}`)
}

function on(sql: postgres.ISql): Connection {
  const ask = async (text: string, values: readonly unknown[] = []) => {
    try {
      return await sql.unsafe(numbered(text), values as never[], { prepare: true }).values()
    } catch (error) {
      throw serverError(error)
    }
  }
  return {
    rows: async (text, values) => [...(await ask(text, values))] as unknown[][],
    run: async (text, values) => (await ask(text, values)).count ?? 0,
  }
}

async function connect(
  { host, port, database, user, password, tls, statementMs }: ServerSetup,
  lost?: (error: OsError) => void,
): Promise<ServerConnection> {
  let closed: (error: OsError) => void = () => undefined
  const sql = postgres({
    ...(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }),
    ...{ database, user, pass: password, ssl: tls && { ...tls, checkServerIdentity: nameCheck(host) } },
    ...{ max: 1, max_lifetime: null, fetch_types: false, connect_timeout: 10 },
    // bigint, and sums of bigint
    types: { number: { to: 20, from: [20, 1700], serialize: String, parse: Number } },
    connection: { application_name: 'os-node', statement_timeout: statementMs, client_encoding: 'UTF8' },
    onnotice: () => undefined,
    onclose: () => closed(new OsError('DB_UNREACHABLE', `the server at ${host} ended the connection`)),
  } as unknown as postgres.Options<Record<string, postgres.PostgresType>>)
  try {
    await sql`SELECT 1`
  } catch (error) {
    void sql.end({ timeout: 0 })
    throw serverError(error)
  }
  const connection = {
    ...on(sql),
    lost: undefined as OsError | undefined,
    async transaction<T>(work: (on: Connection) => Promise<T>): Promise<T> {
      try {
        return (await sql.begin(tx => work(on(tx)))) as T
      } catch (error) {
        throw serverError(error)
      }
    },
    close: () => void sql.end({ timeout: 0 }),
  }
  closed = error => {
    connection.lost ??= error
    connection.close()
    lost?.(error)
  }
  return connection
}

async function insert(on: Connection, writer: number, rows: readonly PacketRow[]): Promise<number> {
  const columns: string[][] = Array.from({ length: 15 }, () => [])
  for (const { day, seq, uuid, fact, seconds, tRaw, createdAt, boot, unsynced } of rows) {
    const { sensors } = fact
    const ids = sensors.map(({ id }) => stored(id)).join(SEPARATOR)
    const statuses = sensors.map(({ status }) => stored(status)).join(SEPARATOR)
    const values = sensors.map(({ value }) => (value === null || Number.isNaN(value) ? 'N' : value)).join()
    const units = sensors.map(({ unit }) => stored(unit)).join(SEPARATOR)
    const extras = fact.extras ? quoted(JSON.stringify(fact.extras)) : 'NULL'
    const row = [day, seq, uuidText(uuid), quoted(stored(fact.id)), quoted(stored(fact.state)), seconds]
    const more = [createdAt, tRaw, boot, unsynced, quoted(ids), quoted(statuses), quoted(values), quoted(units), extras]
    for (const [k, cell] of [...row, ...more].entries()) columns[k]!.push(String(cell))
  }
  return on.run(INSERT, [writer, ...columns.map(column => `{${column.join()}}`)])
}

const READY = new WeakMap<ServerConnection, Set<number>>()

async function prepareDays(on: ServerConnection, days: ReadonlySet<number>, today: number): Promise<void> {
  const ready = READY.get(on) ?? new Set<number>()
  READY.set(on, ready)
  for (const day of days) {
    if (ready.has(day) || day > today + DAYS_AHEAD || day < today - DAYS_BACK) continue
    const name = partition(day)
    await on.transaction(async step => {
      await step.rows('SELECT pg_advisory_xact_lock(?)', [LOCK])
      const [[there] = []] = await step.rows('SELECT to_regclass(?)::text', [name])
      if (there !== null) return
      await step.run('LOCK TABLE os_packets_rest IN ACCESS EXCLUSIVE MODE')
      await step.run(`CREATE TABLE ${name} (LIKE os_packets_data INCLUDING ALL)`)
      await step.run(
        `WITH moved AS (DELETE FROM os_packets_rest WHERE day = ${day} RETURNING *) INSERT INTO ${name} SELECT * FROM moved`,
      )
      await step.run(`ALTER TABLE os_packets_data ATTACH PARTITION ${name} FOR VALUES IN (${day})`)
    })
    ready.add(day)
  }
}

async function retain(on: ServerConnection, day: number): Promise<void> {
  const names = await on.rows(
    "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'os_packets_data'::regclass",
  )
  const oldest = partition(day)
  for (const [name] of names as string[][])
    if (/^os_packets_\d{8}$/.test(name!) && name! < oldest) {
      READY.delete(on)
      await on.run(`DROP TABLE ${name}`)
    }
  const before = day * 86_400
  await on.run(
    'DELETE FROM os_packets_rest WHERE (unsynced = 0 AND timestamp_raw < ?) OR (unsynced = 2 AND created_at < ?)',
    [before, before],
  )
}

export const postgresql: Dialect = {
  name: 'postgresql',
  connect,
  migrations: [postgresTables, postgresViews, postgresIds],
  schema: 'current_schema()',
  lock: `SELECT pg_advisory_lock(${LOCK})`,
  unlock: `SELECT pg_advisory_unlock(${LOCK})`,
  sensors: `os_packets_data p ${SENSORS}`,
  columns: `s.sensor_index, COALESCE(s.id, ''), COALESCE(s.status, ''), s.normalized_value, COALESCE(s.unit, '')`,
  sensorId: "COALESCE(s.id, '')",
  unit: "COALESCE(s.unit, '')",
  whole: 'bigint',
  divide: (what, by) => `${what} / ${by}`,
  stored,
  read: value => (value as string).replace(/\u241b([012])/g, (_, n) => SHOWN[Number(n)]!),
  uuidColumn: 'p.packet_uuid::text',
  uuidPlace: '?::uuid',
  uuidValue: uuidText,
  prepareDays,
  insert,
  retain,
}
