import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { packetUuid } from '../../../src/log'
import { OpenWindowRows } from '../../../src/storage/open-window-rows'
import { SCHEMA } from '../../../src/storage/schema'
import { summarize } from '../../../src/storage/sealed'
import { WindowSums } from '../../../src/storage/sums'
import { WindowRows } from '../../../src/storage/window'
import { prng } from '../../lib/random'
import { loadSql, openSql, recordOf, T0 } from './sealedworld'

before(loadSql)

const SPAN = { from: 1, to: 9, witness: { seq: 9, boot: 1, wall_ms: 0 }, corrected: 0, moved: false }

/** Rows of random packets, and the sums kept next to them. */
function windowOf(seed: number, packets: number) {
  const db = openSql()
  db.exec(SCHEMA)
  const next = prng(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const open = new OpenWindowRows(text => db.inserter(text))
  for (let seq = 1; seq <= packets; seq++) {
    const fact = {
      id: one(['dev-é', 'dev-1', 'Dev', '😀', '\uffee', 'a\0b']),
      state: one(['ONLINE', 'ALARM', '']),
      tRaw: (T0 + Math.floor(next() * 500)) * 1000 + next(),
      aid: 7,
      sensors: Array.from({ length: Math.floor(next() * 4) }, () => ({
        id: one(['t', 'h', 'µ', '']),
        status: 'OK',
        unit: one(['K', '%', '', '😀', '\uffee']),
        value: one([null, 1e15 * next(), next(), -next(), 0, 273.15, -1e15]),
      })),
    }
    open.add(recordOf(seq, fact), packetUuid(fact), fact.tRaw, 0)
  }
  return { open, rows: new WindowRows(db) }
}

test('the kept sums equal those that SQLite computes from the rows', () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { open, rows } = windowOf(seed, seed * 7)
    const kept = summarize(rows, SPAN, open.sums)
    const made = summarize(rows, SPAN)
    // one sum may be added in another order
    const rough = (sensors: typeof made.sensors) => sensors.map(sum => sum.map((v, k) => (k === 8 ? 'mean' : v)))
    assert.deepEqual(rough(kept.sensors), rough(made.sensors))
    assert.deepEqual({ ...kept, sensors: [] }, { ...made, sensors: [] })
    for (const [k, sum] of made.sensors.entries()) {
      const [a, b] = [sum[8] ?? null, kept.sensors[k]![8] ?? null]
      if (a === null || b === null) assert.equal(a, b)
      else assert.ok(Math.abs(a - b) <= 0.25, `${a} ${b}`)
    }
  }
})

test('small values added to large ones are not lost', () => {
  const sums = new WindowSums()
  const add = (value: number) =>
    sums.add({ id: 'd', state: 'ONLINE', tRaw: 0, aid: 1, sensors: [{ id: 's', status: 'OK', unit: 'K', value }] }, 0)
  for (const value of [1e100, 1, -1e100, 1]) add(value)
  assert.equal(sums.sensors[0]![8], 0.5)
})

test('sums of changed rows are not used, those of the next window are', () => {
  const { open, rows } = windowOf(3, 50)
  open.changed(rows)
  assert.equal(open.sums.sound, false)
  assert.deepEqual(summarize(rows, SPAN, open.sums), summarize(rows, SPAN))
  open.clear()
  assert.equal(open.sums.sound, true)
  assert.deepEqual(open.sums.sensors, [])
})

test('sums beyond the memory limit are computed by SQLite', () => {
  const sums = new WindowSums()
  const sensors = (k: number) =>
    Array.from({ length: 100 }, (_, n) => ({ id: `${k}-${n}`, status: 'OK', unit: 'K', value: n }))
  for (let k = 0; k < 198; k++) sums.add({ id: `d${k}`, state: 'ONLINE', tRaw: 0, aid: 1, sensors: sensors(k) }, 0)
  assert.equal(sums.sound, true)
  sums.add({ id: 'd', state: 'ONLINE', tRaw: 0, aid: 1, sensors: sensors(999) }, 0)
  assert.equal(sums.sound, false)
  assert.equal(sums.statuses.length, 0)
})
