// Logs, databases over them and the two database servers, for tests of the dialects of storage.sql.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, type TestContext } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'
import { FlashLog, type LogFiles } from '../../../src/log'
import { Database, type DatabaseOptions, type SqlConfig } from '../../../src/storage'
import type { ServerConnection } from '../../../src/storage/server/connection'
import { mysql } from '../../../src/storage/server/mysql'
import { postgresql } from '../../../src/storage/server/postgres'
import { serverSetup } from '../../../src/storage/server/setup'
import { makeCerts } from '../../lib/certs'
import { root as project, removeDir, tempDir, until } from '../../lib/gateway'
import { SERVER_DIALECTS, type ServerDialect, SqlServer, serverScript } from '../../lib/sqlservers'
import { factOf, ONE, T0 } from './sqlfacts'

export const DIALECTS = { postgresql, mysql }
export const root = tempDir()
export const certs = makeCerts(join(root, 'certs'))
export const servers = {} as Record<ServerDialect, SqlServer>

before(async () => {
  const pair = certs.issue('database', { names: 'IP:127.0.0.1' })
  await Promise.all(
    SERVER_DIALECTS.map(async dialect => {
      servers[dialect] = await SqlServer.start(dialect, { ...pair, ca: certs.ca })
    }),
  )
})
after(async () => {
  for (const dialect of SERVER_DIALECTS) await servers[dialect]?.stop()
  removeDir(root)
})

let folder = 0
export const newLog = (dir = join(root, `log${++folder}`)): Promise<FlashLog> =>
  FlashLog.open({ dir, commitIntervalMs: 20, ackCommitMs: 5, clock: { wall: () => T0, mono: () => performance.now() } })

export function databaseOf(log: FlashLog | LogFiles, sql?: SqlConfig, more: Partial<DatabaseOptions> = {}): Database {
  const backoff = new Backoff({ minMs: 5, maxMs: 50 })
  return new Database({ log, startWaitMs: 60_000, serverScript, backoff, ...(sql && { sql }), ...more })
}

export const caughtUp = (log: FlashLog, db: Database): Promise<unknown> =>
  until('the database has everything', () => {
    const { state, lag_records, last_error } = db.status()
    if (state !== 'up' && last_error) throw new Error(`${last_error.code} ${last_error.message}`)
    return state === 'up' && lag_records === 0 && log.committedSeq === log.lastSeq
  })

/** Appends a new fact and one that is stored already behind 300 that the database has: it has 301 then, each once. */
export async function continued(log: FlashLog, db: Database): Promise<void> {
  log.appendFact(factOf(300), ONE)
  log.appendFact(factOf(5), ONE)
  await log.flush()
  await caughtUp(log, db)
  assert.deepEqual([db.status().packets, db.status().duplicates], [301, 1])
  assert.equal((await db.queryPackets()).total, 301)
  assert.equal((await db.querySensors()).total, 301)
}

/** A log and databases over it, which end with the test. */
export async function world(t: TestContext) {
  const dir = join(root, `log${++folder}`)
  let log = await newLog(dir)
  const open: Database[] = []
  t.after(async () => {
    for (const db of open) await db.close()
    await log.close()
  })
  return {
    dir,
    get log() {
      return log
    },
    async reopened() {
      await log.close()
      log = await newLog(dir)
      return log
    },
    async database(sql?: SqlConfig, more: Partial<DatabaseOptions> = {}): Promise<Database> {
      const db = databaseOf(log, sql, more)
      open.push(db)
      await db.connect()
      return db
    },
  }
}

/** Statements that fill an empty database: the tables of a released version, with rows. */
export function releasedTables(dialect: ServerDialect, version: number): string[] {
  const dir = join(project, 'test/corpus/sql', dialect)
  const migrations = readdirSync(dir).filter(name => /^\d/.test(name))
  const files = [...migrations.sort().slice(0, version), 'rows.sql'].map(name => readFileSync(join(dir, name), 'utf8'))
  const schema = `CREATE TABLE os_schema (version INTEGER NOT NULL);\nINSERT INTO os_schema VALUES (${version});\n`
  return [...files, schema].flatMap(text => text.split(/;\n+/)).filter(Boolean)
}

/** A connection of its own to the database of `sql`. */
export const connectTo = (
  dialect: ServerDialect,
  { driver }: SqlConfig,
  more: object = {},
): Promise<ServerConnection> => DIALECTS[dialect].connect(serverSetup(dialect, { ...driver, ...more }, root, {}))
