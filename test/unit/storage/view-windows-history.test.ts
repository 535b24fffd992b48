// Histories over sealed windows: when no rows are loaded, changed units, damaged values, buckets.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { encodeWindow, readDatabase, readSealed } from '../../../src/storage/windowfile'
import { MemFiles } from '../log/memfiles'
import { loadSql, names, openView, path, recordOf, T0 } from './sealedworld'

before(loadSql)

test('a history loads no rows of a window that has its values; for several units, and older versions, it does', () => {
  const files = new MemFiles()
  // ten windows of 10 s each
  const records = Array.from({ length: 500 }, (_, k) =>
    recordOf(k + 1, {
      id: 'd',
      state: 'ONLINE',
      tRaw: (T0 + Math.floor(k / 5)) * 1000 + (k % 5),
      aid: 7,
      sensors: [{ id: 's', status: 'OK', unit: k < 250 ? 'm' : 'K', value: k % 100 === 99 ? null : k }],
    }),
  )
  openView(files).view.apply(records)
  const ask = (opened: ReturnType<typeof openView>, more: object = {}) =>
    opened.view.history({ device_id: 'd', sensor_id: 's', ...more })
  const fresh = openView(files)
  const { buckets, units } = ask(fresh, { buckets: 5 })
  assert.equal(fresh.loads(), 0)
  assert.deepEqual(units, ['K', 'm'])
  assert.deepEqual(buckets[0], { t: T0, count: 99, min: 0, mean: (98 * 99) / 2 / 99, max: 98 })
  assert.deepEqual(
    buckets.map(({ t }) => t - T0),
    [0, 20, 40, 60, 80],
  )
  // 5 s of the first window, all of the second
  const cut = { since: T0 + 5, until: T0 + 19, buckets: 1 }
  const part = { t: T0 + 5, count: 74, min: 25, mean: 61.5, max: 98 }
  assert.deepEqual(ask(fresh, cut).buckets, [part])
  assert.equal(fresh.loads(), 0)
  // as an older version wrote them
  const [name] = names(files) as [string]
  const bytes = files.readAt(path(name), 0, 1e9)
  const read = (offset: number, length: number) => bytes.subarray(offset, offset + length)
  const { summary, bloom } = readSealed(name, bytes.length, read)
  const { series: _, ...unlisted } = summary
  const old = { ...unlisted, sensors: summary.sensors.map(sum => sum.slice(0, 5) as unknown as typeof sum) }
  const rows = readDatabase(name, bytes.length, read)
  for (const [version, asks] of [
    [encodeWindow(old, bloom, rows), { buckets: 5 }],
    [encodeWindow(unlisted, bloom, rows), cut],
  ] as const) {
    files.files.get(path(name))!.data = version
    const upgraded = openView(files)
    assert.deepEqual(ask(upgraded, asks).buckets, 'since' in asks ? [part] : buckets)
    assert.equal(upgraded.loads(), 1)
  }
})

test('a history of a sensor whose unit changed in a window reads the rows, and reports only the units of its range', () => {
  const files = new MemFiles()
  const fact = (k: number, sensors: { id: string; unit: string }[]) => ({
    ...{ id: 'd', state: 'ONLINE', tRaw: (T0 + k) * 1000, aid: 7 },
    sensors: sensors.map(sensor => ({ ...sensor, status: 'OK', value: k })),
  })
  const both = (k: number) => [
    { id: 'changed', unit: k < 10 ? 'm' : 'K' },
    { id: 'same', unit: '%' },
  ]
  openView(files).view.apply(Array.from({ length: 60 }, (_, k) => recordOf(k + 1, fact(k, both(k)))))
  const opened = openView(files)
  const ask = (sensor_id: string) =>
    opened.view.history({ device_id: 'd', sensor_id, since: T0 + 20, until: T0 + 39, buckets: 1 })
  assert.deepEqual(ask('same'), { ...ask('changed'), units: ['%'] })
  assert.deepEqual(ask('changed').units, ['K'])
  assert.equal(opened.loads(), 1)
})

test('a window with damaged values is left out of a history, named and counted', () => {
  const files = new MemFiles()
  const fact = (k: number) => ({
    ...{ id: 'd', state: 'ONLINE', tRaw: (T0 + k) * 1000, aid: 7 },
    sensors: [{ id: 's', status: 'OK', unit: 'K', value: k }],
  })
  openView(files).view.apply(Array.from({ length: 120 }, (_, k) => recordOf(k + 1, fact(k))))
  const [name] = names(files) as [string]
  const { data } = files.files.get(path(name))!
  data[data.length - 3]! ^= 1
  const { view } = openView(files)
  const { buckets } = view.history({ device_id: 'd', sensor_id: 's', since: T0 + 5, until: T0 + 119, buckets: 1 })
  assert.deepEqual(view.counts.sealed!.damaged_files, [name])
  assert.equal(buckets[0]!.min, Number(name.slice(17, 33)))
})

test('a history has at most 1,000 buckets of at least one second, and a gap is a bucket without values', () => {
  const { view } = openView(new MemFiles())
  const fact = (t: number) => ({
    id: 'd',
    state: 'ONLINE',
    tRaw: (T0 + t) * 1000,
    aid: 7,
    sensors: [{ id: 's', status: 'OK', unit: 'K', value: 0.1 }],
  })
  view.apply([0, 1, 7].map((t, k) => recordOf(k + 1, fact(t))))
  const ask = (more: object) => view.history({ device_id: 'd', sensor_id: 's', ...more }).buckets
  assert.deepEqual(
    ask({}).map(({ count }) => count),
    [1, 1, 0, 0, 0, 0, 0, 1],
  )
  const gap = { t: T0 + 2, count: 0, min: null, mean: null, max: null }
  assert.deepEqual(ask({})[2], gap)
  assert.equal(ask({ since: T0, until: T0 + 5000, buckets: 9999 }).length, 1000)
  assert.equal(ask({ since: T0, until: T0 + 5000, buckets: -1 }).length, 1)
  assert.deepEqual(ask({ since: T0 + 9, until: T0 }), [])
  // the longest possible range: every value is in it
  const all = ask({ since: Number.MIN_SAFE_INTEGER, until: Number.MAX_SAFE_INTEGER, buckets: 1000 })
  assert.deepEqual(
    all.filter(({ count }) => count > 0).map(({ count, mean }) => [count, mean]),
    [[3, 0.1]],
  )
  assert.deepEqual(view.history({ device_id: 'nothing', sensor_id: 's' }).buckets, [])
})
