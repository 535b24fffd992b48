// Migrates the tables of a database to the version of this build. Only one gateway does it at a time; each version is one
// step, so that data of any older version can be updated.
//
// Errors: a version newer than this build is DB_SCHEMA, and nothing is changed; so is a database without tables for a
// read-only program.
import { OsError } from '../../lib/errors'
import type { Dialect, ServerConnection } from './connection'

const TABLE = 'CREATE TABLE IF NOT EXISTS os_schema (version INTEGER NOT NULL)'

export async function migrate(on: ServerConnection, dialect: Dialect, write: boolean): Promise<void> {
  const newest = dialect.migrations.length
  const known = await versionOf(on, dialect)
  if (known === newest) return
  if (known > newest)
    throw new OsError(
      'DB_SCHEMA',
      `the tables have version ${known}, this os-node knows ${newest}: nothing was changed`,
    )
  if (!write)
    throw new OsError(
      'DB_SCHEMA',
      known === 0 ? 'no gateway has written tables yet' : `the tables have version ${known}`,
    )
  await on.rows(dialect.lock)
  try {
    await on.run(TABLE)
    for (let version = (await versionOf(on, dialect)) + 1; version <= newest; version++)
      await on.transaction(async step => {
        for (const sql of dialect.migrations[version - 1]!) await step.run(sql)
        if (version === 1) await step.run('INSERT INTO os_schema (version) VALUES (1)')
        else await step.run('UPDATE os_schema SET version = ?', [version])
      })
  } finally {
    await on.rows(dialect.unlock)
  }
}

/** 0: there are no tables. */
async function versionOf(on: ServerConnection, dialect: Dialect): Promise<number> {
  const [[there] = []] = await on.rows(
    `SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'os_schema' AND table_schema = ${dialect.schema}`,
  )
  if (Number(there) === 0) return 0
  const [[version] = []] = await on.rows('SELECT MAX(version) FROM os_schema')
  return Number(version ?? 0)
}
