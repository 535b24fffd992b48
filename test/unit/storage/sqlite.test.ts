import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { workerProgram } from '../../../src/storage/program'
import { loadSqlite } from '../../../src/storage/sqlite'
import { prng } from '../../lib/random'
import { loadSql, openSql } from './sealedworld'

before(loadSql)

const TEXTS = ['', 'a', 'temp', 'é', 'µg/m³', 'naïve 😀', 'a\0b', 'x'.repeat(4095), 'y'.repeat(4097), 'é'.repeat(9000)]
const NUMBERS = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 2 ** 31, 2 ** 53 - 1, 0.1, -1e300, 5e-324, 1710000000000]

test('rows are read as they were written, in any order of short and long values', () => {
  const db = openSql()
  db.exec('CREATE TABLE t (k INTEGER PRIMARY KEY, n, s, b, z)')
  const row = db.inserter('INSERT INTO t VALUES (?,?,?,?,?)')
  const next = prng(17)
  const one = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const want: unknown[][] = []
  for (let k = 0; k < 3000; k++) {
    const [n, s] = [one(NUMBERS), one(TEXTS)]
    const b = next() < 0.3 ? null : Uint8Array.from({ length: one([1, 16, 5000]) }, () => next() * 256)
    row.number(k)
    row.number(n)
    row.text(s)
    row.blob(b)
    row.text('z')
    assert.equal(row.run(), 1)
    want.push([n, s, b && Buffer.from(b).toString('hex')])
  }
  const got = db.exec('SELECT n, CAST(s AS BLOB), hex(b), z FROM t ORDER BY k')[0]!.values
  assert.deepEqual(
    got.map(([n, s, b]) => [n, Buffer.from(s as Uint8Array).toString(), b === '' ? null : String(b).toLowerCase()]),
    want,
  )
  assert.ok(got.every(([, , , z]) => z === 'z'))
})

test('a row that SQLite refuses throws, and the next one is accepted', () => {
  const db = openSql()
  db.exec('CREATE TABLE t (k INTEGER PRIMARY KEY, s TEXT NOT NULL)')
  const row = db.inserter('INSERT INTO t VALUES (?,?)')
  const add = (k: number, s: string | null): number => {
    row.number(k)
    if (s === null) row.blob(null)
    else row.text(s)
    return row.run()
  }
  assert.equal(add(1, 'a'), 1)
  assert.throws(() => add(1, 'b'), /UNIQUE constraint failed: t\.k/)
  assert.throws(() => add(2, null), /NOT NULL constraint failed: t\.s/)
  assert.equal(add(2, 'c'), 1)
  assert.deepEqual(db.exec('SELECT * FROM t')[0]!.values, [
    [1, 'a'],
    [2, 'c'],
  ])
  // no memory of it is used before it is refused
  row.number(3)
  assert.throws(() => row.blob(new Uint8Array(2 ** 31)), /SQLite has no memory left/)
  assert.equal(add(3, 'd'), 1)
  assert.throws(() => db.inserter('INSERT INTO u VALUES (?)'), /no such table: u/)
})

test('no two databases share a file, whatever name sql.js draws', async t => {
  t.mock.method(Math, 'random', () => 0.5)
  // loaded by another part of the process, sql.js is the same
  const Again = await loadSqlite(workerProgram().wasm)
  const [one, two] = [openSql(), new Again()]
  one.exec('CREATE TABLE t (k)')
  two.exec('CREATE TABLE t (k)')
  assert.equal(openSql(one.export()).exec('SELECT name FROM sqlite_master')[0]!.values.length, 1)
})
