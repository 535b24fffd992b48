// The file an export writes, read by SQLite itself: trees of several levels, long rows, every kind of value, the page that
// SQLite locks.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { SqlValue } from 'sql.js'
import { realFiles } from '../../../src/lib/files'
import { OutFile } from '../../../src/storage/output-file'
import { BTree, pageAfter, SqliteFile } from '../../../src/storage/sqlitefile'
import { encodeRecord, varint } from '../../../src/storage/sqliterecord'
import { prng } from '../../lib/random'
import { loadSql, openSql } from './sealedworld'

const root = mkdtempSync(join(tmpdir(), 'os-node-sqlitefile-'))
after(() => rmSync(root, { recursive: true, force: true }))

type Value = string | number | null
let made = 0

/** A file with the table t(a, b) and, with `keys`, the index of its primary key a; read by SQLite. */
async function written(rows: Iterable<readonly [number, ...Value[]]>, keys?: readonly (readonly [string, number])[]) {
  const path = join(root, `${made++}.sqlite`)
  const file = new SqliteFile(new OutFile(realFiles, path))
  const table = new BTree(file, 'table')
  for (const [rowid, ...values] of rows) table.addRow(rowid, encodeRecord(values))
  const index = new BTree(file, 'index')
  for (const key of keys ?? []) index.addKey(encodeRecord(key))
  const sql = keys ? 'CREATE TABLE t (a TEXT NOT NULL PRIMARY KEY, b)' : 'CREATE TABLE t (a, b)'
  file.finish([
    { type: 'table', name: 't', table: 't', root: table.finish(), sql },
    ...(keys
      ? [{ type: 'index', name: 'sqlite_autoindex_t_1', table: 't', root: index.finish(), sql: null } as const]
      : []),
  ])
  const bytes = readFileSync(path)
  assert.equal(bytes.length, file.bytes)
  await loadSql()
  const db = openSql(bytes)
  const ask = (question: string): SqlValue[][] => db.exec(question)[0]?.values ?? []
  assert.deepEqual(ask('PRAGMA integrity_check'), [['ok']])
  return ask
}

test('a table with no row, with one row, and with so many that the trees have several levels is readable', async () => {
  for (const count of [0, 1, 2, 100, 5000, 60_000]) {
    const name = (k: number): string => `key ${String(k).padStart(9, '0')} of some length, as a uuid has`
    const rows = Array.from({ length: count }, (_, k) => [k * 3 + 1, name(k), k] as const)
    const ask = await written(
      rows,
      rows.map(([rowid, key]) => [key, rowid] as const),
    )
    assert.deepEqual(ask('SELECT COUNT(*) FROM t'), [[count]])
    assert.deepEqual(
      ask('SELECT rowid, a, b FROM t ORDER BY rowid LIMIT 50000'),
      rows.slice(0, 50_000).map(row => [...row]),
    )
    // by the index
    for (const k of [0, 1, 77, 4999, 59_999])
      if (k < count) assert.deepEqual(ask(`SELECT b FROM t WHERE a = '${name(k)}'`), [[k]])
  }
})

test('rows of any length are readable: those that fill a leaf, one overflow page, or many', async () => {
  const next = prng(7)
  const edges = [4000, 4055, 4056, 4057, 4058, 4059, 4060, 4061, 4062, 4063, 4600, 4700, 8100, 8200, 12_345, 1_000_000]
  const lengths = [...edges, ...Array.from({ length: 300 }, () => Math.floor(next() ** 4 * 30_000))]
  const rows = lengths.map((length, k) => [k + 1, 'x'.repeat(length), k] as const)
  const ask = await written(rows)
  assert.deepEqual(
    ask('SELECT LENGTH(a), b FROM t ORDER BY rowid'),
    lengths.map((length, k) => [length, k]),
  )
  assert.deepEqual(ask("SELECT COUNT(*) FROM t WHERE REPLACE(a, 'x', '') <> ''"), [[0]])
})

test('every value is read as it was written', async () => {
  const numbers = [0, 1, -1, 127, 128, -128, -129, 32_767, 32_768, 8_388_607, 8_388_608, 2 ** 31 - 1, 2 ** 31]
  numbers.push(-(2 ** 31) - 1, 2 ** 47 - 1, 2 ** 47, -(2 ** 47), Number.MAX_SAFE_INTEGER, 0.1, -2.5e-300, 1e300)
  const values: Value[] = [null, '', 'Grüße °C 水 🙂', 'a\0b', ...numbers]
  const ask = await written(values.map((value, k) => [k + 1, value, null] as const))
  assert.deepEqual(ask('SELECT a FROM t ORDER BY rowid').flat(), values)
  assert.deepEqual(ask('SELECT HEX(a) FROM t WHERE rowid = 4'), [['610062']])
  const odd = await written([[1, -0, Number.NaN]])
  assert.deepEqual(odd('SELECT TYPEOF(a), a = 0, b FROM t'), [['real', 1, null]])
})

test('numbers of one to eight bytes', () => {
  for (const [value, bytes] of [
    [0, '00'],
    [127, '7f'],
    [128, '8100'],
    [16_383, 'ff7f'],
    [16_384, '818000'],
    [2 ** 53 - 1, '8fffffffffffff7f'],
  ] as const)
    assert.equal(varint(value).toString('hex'), bytes)
})

test('the page that SQLite locks at 1 GiB is left empty', () => {
  assert.equal(pageAfter(262_143), 262_144)
  assert.equal(pageAfter(262_144), 262_146)
  assert.equal(pageAfter(262_146), 262_147)
})

test('a file of more than 1 GiB has as many pages as its header says', () => {
  let bytes = 0
  const file = new SqliteFile({ write: (page: Uint8Array) => void (bytes += page.length) } as never)
  const page = Buffer.alloc(4096)
  for (let k = 2; k <= 262_200; k++) file.append(page)
  assert.deepEqual([file.upcoming, file.bytes, bytes], [262_202, 262_201 * 4096, 262_201 * 4096])
})

test('0 and 1 take no byte of a record except that of their type', () => {
  assert.deepEqual([...encodeRecord([0, 1, 2])], [4, 8, 9, 1, 2])
})

test('the header of a record counts itself, in one byte up to 127 and in two beyond', () => {
  for (const [columns, head] of [
    [126, [127]],
    [127, [0x81, 0x01]],
  ] as const) {
    const record = encodeRecord(new Array(columns).fill(null))
    assert.deepEqual([...record.subarray(0, head.length)], [...head])
    assert.equal(record.length, columns + head.length)
  }
})
