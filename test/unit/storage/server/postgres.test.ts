// The statements sent to PostgreSQL where two writers may meet, in their order.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServerConnection } from '../../../../src/storage/server/connection'
import { postgresql } from '../../../../src/storage/server/postgres'

/** `there`: partitions that another writer has created */
function connection(there: readonly string[] = []) {
  const said: string[] = []
  const on = {
    rows: async (sql: string, values: unknown[] = []) => {
      said.push(sql.split('(')[0]!.trim())
      return /to_regclass/.test(sql) ? [[there.includes(String(values[0])) ? values[0] : null]] : []
    },
    run: async (sql: string) => void said.push(sql.split(/\s+\(|\s+AS\s/)[0]!),
    transaction: async (work: (step: unknown) => Promise<unknown>) => {
      said.push('BEGIN')
      await work(on)
      said.push('COMMIT')
    },
  }
  return { on: on as unknown as ServerConnection, said }
}

test('a partition is created once, while no writer uses the default one; an existing one is left alone', async () => {
  const { on, said } = connection(['os_packets_20240311'])
  const today = 19_792
  await postgresql.prepareDays(on, new Set([today]), today)
  assert.deepEqual(said.splice(0), [
    'BEGIN',
    'SELECT pg_advisory_xact_lock',
    'SELECT to_regclass',
    'LOCK TABLE os_packets_rest IN ACCESS EXCLUSIVE MODE',
    'CREATE TABLE os_packets_20240310',
    'WITH moved',
    'ALTER TABLE os_packets_data ATTACH PARTITION os_packets_20240310 FOR VALUES IN',
    'COMMIT',
  ])
  await postgresql.prepareDays(on, new Set([today, today + 1]), today)
  assert.deepEqual(said.splice(0), ['BEGIN', 'SELECT pg_advisory_xact_lock', 'SELECT to_regclass', 'COMMIT'])
})

test('days from ten years ago to the day after tomorrow have partitions, others share the default one', async () => {
  const { on, said } = connection()
  const today = 19_792
  await postgresql.prepareDays(on, new Set([today - 3661, today + 3]), today)
  assert.deepEqual(said, [])
  await postgresql.prepareDays(on, new Set([today - 3660, today + 2]), today)
  assert.equal(said.filter(text => text === 'COMMIT').length, 2)
})
