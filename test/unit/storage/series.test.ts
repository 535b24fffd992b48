import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { packetUuid } from '../../../src/log'
import { Buckets } from '../../../src/storage/history'
import { OpenWindowRows } from '../../../src/storage/open-window-rows'
import { SCHEMA } from '../../../src/storage/schema'
import { bucketed, WindowSeries } from '../../../src/storage/series'
import { WindowRows } from '../../../src/storage/window'
import { prng } from '../../lib/random'
import { loadSql, openSql, recordOf, T0 } from './sealedworld'

before(loadSql)

const FAR = 9e10

/** A window of random packets, of one block or of several. */
function windowOf(seed: number) {
  const next = prng(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const db = openSql()
  db.exec(SCHEMA)
  const open = new OpenWindowRows(text => db.inserter(text))
  const packets = seed % 4 === 0 ? 4000 : 40 * seed
  for (let seq = 1; seq <= packets; seq++) {
    const away = one([0, 0, 0, 0, 0, -T0, -FAR, FAR])
    const fact = {
      ...{ id: one(['a', 'b', 'c-é', 'd\0']), state: 'ONLINE', aid: 7 },
      tRaw: (T0 + away + Math.floor(next() * packets)) * 1000 + next(),
      sensors: Array.from({ length: Math.floor(next() * 4) }, () => ({
        ...{ id: one(['t', 'h', 'µ', '']), status: 'OK', unit: 'K' },
        value: one([null, Number.NaN, 1e15 * next(), next(), -next(), 0, 273.15]),
      })),
    }
    open.add(recordOf(seq, fact), packetUuid(fact), fact.tRaw, 0)
  }
  return { sums: open.sums, rows: new WindowRows(db), packets, next, one }
}

test('the history of a series equals that of the rows: values, ranges, times far away', () => {
  let blocks = 0
  for (let seed = 1; seed <= 24; seed++) {
    const { sums, rows, packets, next, one } = windowOf(seed)
    const { sensors, series } = sums
    blocks = Math.max(blocks, series.blocks.length)
    for (const [place, [device, sensor]] of sensors.entries()) {
      const since = one([T0, T0, -FAR, 0]) + Math.floor(next() * packets)
      const until = one([since, since + 100, T0 + packets, 2 * FAR])
      const at = series.blocks.findLastIndex(([first]) => first <= place)
      const [first, length] = series.blocks[at]!
      const from = series.blocks.slice(0, at).reduce((sum, [, bytes]) => sum + bytes, 0)
      const block = series.bytes.subarray(from, from + length)
      const answers = [
        (buckets: Buckets) => bucketed({ first, block }, sensors, place, buckets),
        (buckets: Buckets) => rows.history({ device, sensor }, buckets),
      ].map(ask => {
        const buckets = new Buckets(since, until, 100)
        const parts = ask(buckets)
        for (const { bucket, values } of parts) buckets.add(bucket, values)
        const filled = [...new Set(parts.map(({ bucket }) => bucket))].sort((a, b) => a - b)
        return { filled, units: parts[0]?.units, list: buckets.list }
      })
      const [mine, theirs] = answers as [(typeof answers)[0], (typeof answers)[0]]
      const rough = ({ filled, units, list }: typeof mine) => ({
        filled,
        units,
        list: list.map(b => ({ ...b, mean: 0 })),
      })
      assert.deepEqual(rough(mine), rough(theirs), `seed ${seed}, ${device} ${sensor}`)
      // parts of a bucket are added in another order
      for (const [k, { mean, min, max }] of mine.list.entries()) {
        const other = theirs.list[k]!.mean
        const room = Math.max(Math.abs(min ?? 0), Math.abs(max ?? 0)) * 1e-12
        assert.ok(Object.is(mean, other) || Math.abs(mean! - other!) <= room, `seed ${seed}: ${mean} ${other}`)
      }
    }
    rows.close()
  }
  assert.ok(blocks > 1)
})

test('the values of a sealed window are not in the next one', () => {
  const series = new WindowSeries()
  const first = series.sensor()
  for (let k = 0; k < 3000; k++) series.add(first, k, k)
  series.clear()
  const [a, b] = [series.sensor(), series.sensor()]
  series.add(a, 8, 80)
  series.add(b, 7, 70)
  const { blocks, bytes } = series.encode([
    { index: b, count: 1 },
    { index: a, count: 1 },
  ])
  assert.equal(blocks.length, 1)
  const buckets = new Buckets(0, 10, 11)
  const sensors = ['b', 'a'].map(sensor => ['d', sensor, 1, 7, 8, 1, 0, 0, 0, 'K', 'K'] as const)
  const of = (place: number) => bucketed({ first: 0, block: bytes }, sensors, place, buckets)
  assert.deepEqual(of(0), [{ bucket: 7, values: [1, 70, 70, 70], units: ['K', 'K'] }])
  assert.deepEqual(of(1), [{ bucket: 8, values: [1, 80, 80, 80], units: ['K', 'K'] }])
})
