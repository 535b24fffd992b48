// Sealed windows of every format that was ever written (test/corpus/windows, each made by the code of its day from the same log): the same
// answers as from one plain SQLite database, and what the old format lacks is read from the rows.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { MemFiles } from '../log/memfiles'
import { assertSame, DIR, loadSql, openView, path, plainList, randomLog } from './sealedworld'

before(loadSql)

const corpus = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'test/corpus/windows')
/** What the summary of a window has in each format, from the oldest. */
const FORMATS = [
  { date: '2026-11-21-sums', values: false, series: false, duplicates: false },
  { date: '2026-11-22-values', values: true, series: false, duplicates: false },
  { date: '2026-11-26-series', values: true, series: true, duplicates: false },
  { date: '2026-11-27-duplicates', values: true, series: true, duplicates: true },
]
const records = randomLog(5, 80)

test('there is a window of each format', () => {
  assert.deepEqual(
    readdirSync(corpus).sort(),
    FORMATS.map(({ date }) => date),
  )
})

for (const { date, values, series, duplicates } of FORMATS)
  test(`windows of ${date} answer like one plain SQLite database`, () => {
    const files = new MemFiles()
    for (const name of readdirSync(join(corpus, date))) {
      const fd = files.open(path(name), 'w')
      files.write(fd, readFileSync(join(corpus, date, name)))
      files.close(fd)
    }
    const { view, folder, databases } = openView(files, { maxPackets: 30 })
    assert.deepEqual(
      folder.sealed.map(({ summary }) => [
        summary.sensors.every(sum => sum.length > 5),
        summary.series !== undefined,
        summary.duplicates !== undefined,
      ]),
      [
        [values, series, duplicates],
        [values, series, duplicates],
      ],
    )
    const { lastSeq } = folder
    view.apply(records.filter(({ seq }) => seq > lastSeq))
    assertSame(view, records, 60, 1)
    if (duplicates) assert.equal(view.counts.duplicates, records.length - plainList(records).length)
    assert.ok(databases() > 0)
    assert.deepEqual(files.list(DIR).length, 2)
  })
