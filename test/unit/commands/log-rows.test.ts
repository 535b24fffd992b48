// `log export`: which records it selects, the fixed columns of its CSV and the keys of its JSON lines, as docs/operation.md lists both.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { csvRows, LOG_COLUMNS, selected, timeOf } from '../../../src/commands/log-rows'
import { exportRow, type LogRecord } from '../../../src/log'
import { root } from '../../lib/gateway'

type Row = Record<string, unknown>

async function* from(rows: readonly Row[]): AsyncGenerator<Row> {
  yield* rows
}

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const row of rows) found.push(row)
  return found
}

const ROWS: Row[] = [
  {
    boot: 1,
    seq: 4,
    id: 'A',
    s: 'ONLINE',
    t_raw: 1000,
    source_aid: 7,
    medium: 'local',
    time_quality: 'synced',
    logged_ms: 1001,
  },
  {
    ...{
      boot: 1,
      seq: 5,
      id: 'B,"x"',
      s: 'ONLINE',
      t_raw: 2000,
      source_aid: 8,
      medium: 'UDP',
      time_quality: 'saved',
      logged_ms: 2002,
    },
    ...{ s1_id: 'T1', s1_s: 'OK', s1_v: 21.5, s1_u: 'K', s2_id: '=1+1', s2_s: 'ERR', s2_v: null, s2_u: 'Pa' },
  },
  {
    boot: 2,
    seq: 9,
    id: 'A',
    s: 'ONLINE',
    t_raw: 3000,
    source_aid: 7,
    medium: 'local',
    time_quality: 'synced',
    logged_ms: 3001,
  },
]

test('records are selected by time (both ends included) and by device', async () => {
  const seqs = async (which: Parameters<typeof selected>[1]): Promise<unknown[]> =>
    (await all(selected(from(ROWS), which))).map(({ seq }) => seq)
  assert.deepEqual(await seqs({}), [4, 5, 9])
  assert.deepEqual(await seqs({ since: 2000 }), [5, 9])
  assert.deepEqual(await seqs({ until: 2000 }), [4, 5])
  assert.deepEqual(await seqs({ since: 1001, until: 1999 }), [])
  assert.deepEqual(await seqs({ device: 'A', since: 1001 }), [9])
})

test('times are UNIX seconds or ISO 8601', () => {
  assert.equal(timeOf('since', '1710000000.5'), 1_710_000_000_500)
  assert.equal(timeOf('since', '2026-01-31T12:00:00Z'), Date.UTC(2026, 0, 31, 12))
  assert.throws(() => timeOf('until', 'yesterday'), { code: 'USAGE', message: /--until: "yesterday" is no time/ })
})

test('CSV has fixed columns, a line for each sensor, and one line for a record without sensors', async () => {
  assert.equal(
    LOG_COLUMNS.join(),
    'seq,boot,t_raw_ms,device_id,device_status,source_aid,medium,sensor_index,sensor_id,sensor_status,value,unit,time_quality,logged_ms',
  )
  assert.deepEqual(await all(csvRows(from(ROWS.slice(0, 2)))), [
    LOG_COLUMNS.join(),
    '4,1,1000,A,ONLINE,7,local,,,,,,synced,1001',
    '5,1,2000,"B,""x""",ONLINE,8,UDP,1,T1,OK,21.5,K,saved,2002',
    `5,1,2000,"B,""x""",ONLINE,8,UDP,2,'=1+1,ERR,,Pa,saved,2002`,
  ])
})

test('docs/operation.md lists the columns, and the keys of a record that has everything', () => {
  const record: LogRecord = {
    ...{ seq: 4, boot: 1, kind: 'fact', monoMs: 1, wallMs: 1001, quality: 'synced', medium: 'UDP' },
    fact: {
      ...{ id: 'A', state: 'ONLINE', tRaw: 1000, aid: 7 },
      sensors: [{ id: 'T1', status: 'OK', unit: 'K', value: 21.5 }],
      extras: { geohash: 'u0', url: 'x', msg: 'y' },
    },
    link: { medium: 'UDP', address: '192.0.2.1:9', rssi: -1, snr: 2, future: true, template_rebuilt: true },
  }
  const page = readFileSync(join(root, 'docs/operation.md'), 'utf8')
  for (const names of [Object.keys(exportRow(record)), LOG_COLUMNS])
    assert.ok(page.includes(`\`${names.join(', ')}\``), names.join())
})
