// Limits of sealed windows: when a window closes by its bytes, and which files are removed, by bytes and by age.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { readSealed } from '../../../src/storage/windowfile'
import { MemFiles } from '../log/memfiles'
import { loadSql, names, openView, path, plainList, randomLog, recordOf, T0 } from './sealedworld'

before(loadSql)

test('the oldest files are removed as a whole, by bytes and by age, when the log no longer has their records', () => {
  const files = new MemFiles()
  const { view, folder } = openView(files, { keepBytes: 1, keepMs: 60_000 })
  const records = randomLog(8, 400)
  view.apply(records)
  const before = folder.sealed.map(({ summary }) => summary)
  const total = view.counts.packets
  view.retain(1, (T0 + 1e6) * 1000)
  assert.equal(folder.sealed.length, before.length)
  view.retain(before[2]!.to, 0)
  assert.deepEqual(
    names(files).map(name => Number(name.slice(0, 16))),
    before.slice(2).map(({ from }) => from),
  )
  const gone = before[0]!.packets + before[1]!.packets
  // by age alone: not by an unconfirmed clock
  for (const quality of ['unsynced', 'synced'] as const) {
    const aged = openView(files.copy(), { keepMs: 60_000 })
    aged.view.apply([recordOf(9999, records[0]!.fact!, { quality })])
    aged.view.retain(9999, (T0 + 1e6) * 1000)
    assert.equal(aged.folder.sealed.length, quality === 'synced' ? 0 : before.length - 2)
  }
  assert.deepEqual([view.counts.packets, view.counts.left], [total - gone, 0])
  assert.equal(view.packets().total, total - gone)
  assert.equal(
    view.devices().devices.reduce((sum, d) => sum + d.packet_count, 0),
    total - gone,
  )
})

test('a window that exceeds its bytes before it is checked loses nothing', () => {
  const { view } = openView(new MemFiles(), { maxPackets: 1e6, maxBytes: 1 })
  view.apply(randomLog(3, 40))
  assert.equal(view.counts.left, 0)
  assert.equal(view.counts.packets, plainList(randomLog(3, 40)).length)
})

test('a window closes by bytes too, and its file is smaller than 150 bytes per packet and sensor', () => {
  const { view, folder, files } = openView(new MemFiles(), { maxPackets: 1e6, maxBytes: 300_000 })
  const records = Array.from({ length: 4000 }, (_, k) =>
    recordOf(k + 1, {
      id: 'greenhouse-1',
      state: 'ONLINE',
      tRaw: (T0 + k) * 1000 + (k % 997),
      aid: 1,
      sensors: [{ id: 'temperature', status: 'OK', unit: 'K', value: 290 + Math.sin(k / 50) }],
    }),
  )
  view.apply(records)
  assert.ok(folder.sealed.length >= 2)
  for (const name of names(files)) {
    const size = files.size(path(name))
    const { summary } = readSealed(name, size, (offset, length) => files.readAt(path(name), offset, length))
    assert.ok(size < summary.packets * 150, `${size} for ${summary.packets}`)
  }
})
