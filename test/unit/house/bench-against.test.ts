// `npm run bench -- --against FILE`: rates may have any value, counts may not grow.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'

type Figures = Record<string, number>
interface Compared {
  readonly lines: readonly string[]
  readonly problems: readonly string[]
}

const load = (): Promise<{ against(before: Figures, now: Figures, due?: (key: string) => boolean): Compared }> =>
  import(pathToFileURL('bench/against.mjs').href)

test('compared with an earlier run: ratios of the common figures, and a problem for each count that grew', async () => {
  const { against } = await load()
  const before = {
    'encode/diff/1/pycore': 4_000_000,
    'heap_bytes_per_packet/encode/diff/1/pycore': 200,
    'bytes_per_packet/diff/1': 22,
    'wakeups_per_s/idle': 9,
    'only/before': 1,
  }
  const slower = { ...before, 'encode/diff/1/pycore': 1_000_000, 'only/now': 7 }
  const same = against(before, slower)
  assert.deepEqual(same.problems, [])
  assert.equal(same.lines.length, 5)
  assert.match(same.lines[0]!, /^ {2}encode\/diff\/1\/pycore +0\.25 ×$/)
  const grown: Figures = {}
  for (const [key, by] of [
    ['heap_bytes_per_packet/encode/diff/1/pycore', 11],
    ['bytes_per_packet/diff/1', 0.2],
    ['wakeups_per_s/idle', 2],
  ] as const) {
    assert.deepEqual(against(before, { ...before, [key]: before[key] + 0.4 * by }).problems, [], key)
    grown[key] = before[key] + by
  }
  const { problems } = against(before, { ...before, ...grown })
  assert.equal(problems.length, 3)
  assert.equal(problems[0], 'heap_bytes_per_packet/encode/diff/1/pycore: 211, and it was 200')
})

test('bytes and sectors written to flash, and bytes of the SQL files, are counts', async () => {
  const { against } = await load()
  const before = {
    'nodes/20000/written_bytes_per_packet': 120,
    'flash/bytes_per_record/10': 676,
    'flash/sectors_per_record/1000': 0.17,
    'sql/file_bytes_per_packet': 54,
  }
  const grown = {
    'nodes/20000/written_bytes_per_packet': 127,
    'flash/bytes_per_record/10': 744,
    'flash/sectors_per_record/1000': 0.2,
    'sql/file_bytes_per_packet': 56,
  }
  assert.deepEqual(against(before, before).problems, [])
  assert.deepEqual(against(before, grown).problems, [
    'nodes/20000/written_bytes_per_packet: 127, and it was 120',
    'flash/bytes_per_record/10: 744, and it was 676',
    'flash/sectors_per_record/1000: 0.2, and it was 0.17',
    'sql/file_bytes_per_packet: 56, and it was 54',
  ])
  assert.deepEqual(
    against({ 'flash/sqlite_wal/sectors_per_record/1': 20 }, { 'flash/sqlite_wal/sectors_per_record/1': 30 }).problems,
    [],
  )
})

test('a count that was zero is a problem as soon as it grows', async () => {
  const { against } = await load()
  const key = 'heap_bytes_per_packet/uplink/diff/1/pycore'
  assert.deepEqual(against({ [key]: 0 }, { [key]: 0 }), { lines: [`  ${key.padEnd(46)}     1.00 ×`], problems: [] })
  assert.deepEqual(against({ [key]: 0 }, { [key]: 9 }).problems, [`${key}: 9, and it was 0`])
  assert.deepEqual(against({ [key]: 0 }, { [key]: Number.NaN }).problems, [`${key}: NaN, and it was 0`])
})

test('a count that this run should have made and did not is a problem; one that was not requested is not', async () => {
  const { against } = await load()
  const before = {
    'gateway/heap_bytes_per_packet/in/udp': 3000,
    'udp/in/addon/heap_bytes_per_packet': 4,
    'encode/diff/1/pycore': 4_000_000,
  }
  assert.deepEqual(against(before, {}).problems, [
    'gateway/heap_bytes_per_packet/in/udp: not measured by this run, and it was 3000',
    'udp/in/addon/heap_bytes_per_packet: not measured by this run, and it was 4',
  ])
  assert.deepEqual(against(before, {}, key => key.startsWith('encode/')).problems, [])
  const more = { ...before, 'gateway/heap_bytes_per_packet/in/udp': 3700, 'udp/in/addon/heap_bytes_per_packet': 13 }
  assert.deepEqual(against(before, more).problems, [
    'gateway/heap_bytes_per_packet/in/udp: 3700, and it was 3000',
    'udp/in/addon/heap_bytes_per_packet: 13, and it was 4',
  ])
})
