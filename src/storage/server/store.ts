// The facts of a log on a database server. A batch of records is one transaction that also updates the writer's seq at the
// server: a restarted worker continues after it, so nothing is written twice, and a clock record moves the times of its boot
// only once. Two workers of one log (an old one killed during its commit) cannot both write: the seq at the server must equal
// the one that was read. A duplicate packet is one row, by its uuid.
//
// Errors: see connection.ts. A statement that does not return ends the connection after the statement timeout.
import { within } from '../../lib/deadline'
import { OsError } from '../../lib/errors'
import { systemTimers } from '../../lib/timers'
import { type LogRecord, packetUuid } from '../../log'
import type { Connection, Dialect, PacketRow, ServerConnection } from './connection'
import { migrate } from './migrate'
import type { ServerSetup } from './setup'

/** as in the sqlite view: a fact with a time in the future, which does not update last_seen (X36) */
const AHEAD = 2
/** the server's own timeout should come first */
const GRACE_MS = 5000
const DAY_MS = 86_400_000
/** above every valid time; its days and seconds fit the columns */
const FAR = 2 ** 53
/** packets per statement */
const MOST = 4000

interface Writer {
  readonly id: number
  seq: number
}

export class ServerStore {
  readonly counts = { packets: 0, duplicates: 0, left: 0 }
  readonly #dialect: Dialect
  readonly #setup: ServerSetup
  readonly #on: ServerConnection
  readonly #writer: Writer | undefined
  /** the day up to which old packets were removed */
  #retained = 0

  private constructor(dialect: Dialect, setup: ServerSetup, on: ServerConnection, row: readonly unknown[] | undefined) {
    this.#dialect = dialect
    this.#setup = setup
    this.#on = on
    if (!row) return
    const [id, seq, packets, duplicates] = row.map(Number)
    this.#writer = { id: id!, seq: seq! }
    this.counts.packets = packets!
    this.counts.duplicates = duplicates!
  }

  /** Connects, updates the tables and finds the seq at which the log continues. */
  static async open(dialect: Dialect, setup: ServerSetup, lost: (error: OsError) => void): Promise<ServerStore> {
    const on = await dialect.connect(setup, lost)
    const { origin } = setup
    return withStatementLimit(on, setup, async () => {
      await migrate(on, dialect, origin !== undefined)
      if (origin === undefined) return new ServerStore(dialect, setup, on, undefined)
      const find = () =>
        on.rows('SELECT writer, seq, packets, duplicates FROM os_writers WHERE origin = ?', [String(origin)])
      let [row] = await find()
      if (!row) {
        await on.run('INSERT INTO os_writers (origin) VALUES (?)', [String(origin)])
        row = (await find())[0]!
      }
      return new ServerStore(dialect, setup, on, row)
    })
  }

  /** every record up to this seq is stored on the server; undefined: this process does not write */
  get seq(): number | undefined {
    return this.#writer?.seq
  }

  /** Writes records of the log in order, all of them up to `upTo`. */
  async apply(records: Iterable<LogRecord>, upTo: number): Promise<void> {
    const writer = this.#writer!
    const [parts, nowMs] = partsOf(records)
    await withStatementLimit(this.#on, this.#setup, () => this.#prepare(parts, nowMs))
    const counts = await withStatementLimit(this.#on, this.#setup, () =>
      this.#on.transaction(async on => {
        let [sent, inserted] = [0, 0]
        for (const part of parts)
          if (Array.isArray(part)) {
            sent += part.length
            inserted += await this.#dialect.insert(on, writer.id, part)
          } else await this.#move(on, part)
        const moved = await on.run(
          'UPDATE os_writers SET seq = ?, packets = packets + ?, duplicates = duplicates + ? WHERE writer = ? AND seq = ?',
          [upTo, inserted, sent - inserted, writer.id, writer.seq],
        )
        if (moved !== 1) throw new OsError('STORAGE', 'another worker wrote this log to the server meanwhile')
        return { sent, inserted }
      }),
    )
    writer.seq = upTo
    this.counts.packets += counts.inserted
    this.counts.duplicates += counts.sent - counts.inserted
  }

  async #prepare(parts: readonly (PacketRow[] | LogRecord)[], nowMs: number): Promise<void> {
    const today = Math.floor(nowMs / DAY_MS)
    const days = new Set(parts.flatMap(part => (Array.isArray(part) ? part.map(({ day }) => day) : [])))
    if (today > 0) await this.#dialect.prepareDays(this.#on, days, today)
    const { retentionDays } = this.#setup
    if (retentionDays === 0 || today <= this.#retained) return
    await this.#dialect.retain(this.#on, today - retentionDays)
    this.#retained = today
  }

  /** The clock was set: moves unconfirmed times of that boot; uuids stay (decision 0044). */
  async #move(on: Connection, { boot, seq, quality, clock }: LogRecord): Promise<void> {
    const { offsetMs } = clock!
    await on.run(
      `UPDATE os_packets_data SET timestamp_raw = FLOOR((t_raw + ?) / 1000), t_raw = FLOOR(t_raw + ? + 0.5), unsynced = ?
       WHERE writer = ? AND boot = ? AND unsynced = 1 AND seq < ?`,
      [offsetMs, offsetMs, quality === 'synced' ? 0 : 1, this.#writer!.id, boot, seq],
    )
  }
}

/**
 * Splits records into groups of at most MOST facts with the clock records in between; also returns the newest reliable time
 * of the log (0: none).
 */
function partsOf(records: Iterable<LogRecord>): [(PacketRow[] | LogRecord)[], number] {
  const parts: (PacketRow[] | LogRecord)[] = []
  let open: PacketRow[] | undefined
  let nowMs = 0
  for (const record of records) {
    if (record.quality !== 'unsynced') nowMs = Math.max(nowMs, record.wallMs)
    if (record.clock) {
      parts.push(record)
      open = undefined
    }
    if (!record.fact) continue
    if (!open || open.length >= MOST) {
      open = []
      parts.push(open)
    }
    open.push(rowOf(record))
  }
  return [parts, nowMs]
}

function rowOf({ seq, boot, wallMs, quality, link, fact }: LogRecord): PacketRow {
  const { tRaw: value } = fact!
  const tRaw = Number.isFinite(value) ? value : 0
  return {
    ...{ seq, boot, tRaw, fact: fact! },
    uuid: packetUuid(fact!),
    seconds: Math.floor(Math.max(-FAR, Math.min(FAR, tRaw)) / 1000),
    day: Math.floor(Math.max(-FAR, Math.min(FAR, tRaw)) / DAY_MS),
    createdAt: Math.floor(wallMs / 1000),
    unsynced: link?.future ? AHEAD : quality === 'unsynced' ? 1 : 0,
  }
}

/** Closes a connection whose statements do not return. */
export const withStatementLimit = <T>(
  on: ServerConnection,
  { statementMs }: ServerSetup,
  work: () => Promise<T>,
): Promise<T> =>
  within(systemTimers, statementMs + GRACE_MS, work(), () => {
    on.close()
    throw new OsError('TIMEOUT', 'the server does not answer')
  })
