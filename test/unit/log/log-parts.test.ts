// Small parts of the log alone: the chunks in RAM, the witness of the newest segment, a row of an export.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { readWitness, removeWitness, writeWitness } from '../../../src/log/chain-file'
import { exportFacts, exportRow } from '../../../src/log/export'
import { noLosses } from '../../../src/log/ledger'
import { encodeHeader, segmentBase } from '../../../src/log/segment'
import { Segments } from '../../../src/log/segments'
import { LogState } from '../../../src/log/state'
import { Tail } from '../../../src/log/tail'
import { DIR, factOf, LOCAL, openLog } from './helpers'
import { MemFiles, systemError } from './memfiles'

test('chunks are reused, at most four are pooled, and one of another size is released', () => {
  const tail = new Tail(1000, 2500)
  /** so many full chunks, all on the medium, and an empty one after them */
  const fill = (count: number): void => {
    for (let k = 0; k < count; k++) {
      const chunk = tail.room()
      tail.added(chunk, k + 1, 1000)
      chunk.synced = chunk.written = 1000
      tail.room(1000)
    }
  }
  fill(8)
  const chunks = (): object[] => {
    const list = []
    for (let chunk = tail.head; chunk; chunk = chunk.next) list.push(chunk)
    return list
  }
  const before = new Set<object>(chunks())
  assert.equal(before.size, 9)
  tail.trim()
  assert.equal(chunks().length, 2, 'what is recent stays: 2500 bytes')
  fill(5)
  assert.deepEqual(
    chunks().map(chunk => before.has(chunk)),
    [true, true, true, true, true, true, false],
  )
  const large = tail.room(4000)
  assert.ok(large.bytes.length >= 4000, `${large.bytes.length}`)
  large.used = large.synced = 4000
  tail.room(1000)
  tail.trim()
  assert.equal(chunks().length, 1, 'a large one alone is more than what is recent')
})

test('a listener before commits is called at the interval even if nothing was appended, once for what it requested', async () => {
  const { log, timers } = await openLog()
  let called = 0
  const wants = log.beforeCommit(() => void called++)
  await timers.advance(5000)
  assert.equal(called, 0)
  wants()
  wants()
  await timers.advance(999)
  assert.equal(called, 0)
  await timers.advance(1)
  assert.equal(called, 1)
  await timers.advance(5000)
  assert.equal(called, 1)
})

test('the witness: a missing one is no fault, a damaged one is; a written one is read, and a disk that refuses writes nothing', async () => {
  const files = new MemFiles()
  files.mkdir(DIR)
  assert.equal(readWitness(files, DIR), undefined)
  for (const witness of [
    { base: 1, boot: 2, first: 0, runs: [] },
    { base: 5, boot: 2, first: 1, last: 0, runs: [[1, 4]] as const },
  ]) {
    assert.equal(await writeWitness(files, DIR, witness), JSON.stringify(witness).length)
    assert.deepEqual(readWitness(files, DIR), witness)
  }
  for (const missing of ['base', 'boot', 'first']) {
    await writeWitness(files, DIR, { ...{ base: 1, boot: 2, first: 0, runs: [] }, [missing]: -1 })
    assert.throws(() => readWitness(files, DIR), { code: 'STORAGE', message: /chain.json is damaged/ })
  }
  await writeWitness(files, DIR, { base: 1, boot: 2, first: 0, last: 1.5, runs: [] })
  assert.deepEqual(readWitness(files, DIR), { base: 1, boot: 2, first: 0, runs: [] })
  files.gate = operation => {
    if (operation === 'sync' || operation === 'remove') throw systemError('EIO')
  }
  assert.equal(await writeWitness(files, DIR, { base: 9, boot: 2, first: 0, runs: [] }), 0)
  removeWitness(files, DIR)
  files.gate = () => undefined
  assert.equal(readWitness(files, DIR)!.base, 1, 'the older one stays')
  removeWitness(files, DIR)
  assert.equal(readWitness(files, DIR), undefined)
})

test('a row of an export has the known fields of the link, and no key for unknown ones', () => {
  const record = { boot: 1, seq: 2, quality: 'synced', medium: 'LoRa', wallMs: 3, fact: factOf(1) }
  const bare = exportRow(record as never)
  const { id, source_aid, medium, time_quality, logged_ms } = bare
  assert.deepEqual([id, source_aid, medium, time_quality, logged_ms], ['dev-1', 7, 'LoRa', 'synced', 3])
  const all = { address: 'a', rssi: 0, snr: 0, future: true, template_rebuilt: true }
  const row = exportRow({ ...record, link: { medium: 'LoRa', ...all } } as never)
  assert.deepEqual(row, { ...bare, ...all })
  for (const key of Object.keys(all)) assert.equal(key in bare, false, key)
})

test('an export gives the facts from a number on and reads no segment before it', async () => {
  const { log, files } = await openLog({ segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  for (let k = 0; k < 2000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.close()
  const bases = files.segments(DIR).map(name => segmentBase(name)!)
  assert.ok(bases.length > 3)
  const read: string[] = []
  files.gate = (operation, path) => void (operation === 'read' && path !== DIR && read.push(path))
  const seqs = (from: number): number[] => [...exportFacts(DIR, from, files)].map(row => row['seq'] as number)
  const all = seqs(0)
  assert.equal(all.length, 2000)
  assert.equal(read.length, bases.length)
  for (const from of [bases[2]! - 1, bases[2]!, bases[2]! + 1]) {
    read.length = 0
    assert.deepEqual(
      seqs(from),
      all.filter(seq => seq >= from),
    )
    assert.equal(read.length, bases.length - (from < bases[2]! ? 1 : 2))
  }
})

test('a cursor frees space once its record is on the medium; at most 101 positions of one name wait', () => {
  const state = new LogState()
  state.moveCursor('a', 5, 10)
  state.moveCursor('b', 6, 11)
  state.moveCursor('b', 0, 12)
  state.committed(9)
  assert.deepEqual([...state.kept], [])
  state.committed(11)
  assert.deepEqual(
    [...state.kept],
    [
      ['a', 5],
      ['b', 6],
    ],
  )
  state.committed(12)
  assert.deepEqual([...state.kept], [['a', 5]], 'forgotten')
  assert.deepEqual([...state.cursors], [['a', 5]])
  for (let k = 1; k <= 101; k++) state.moveCursor('c', k, 20 + k)
  state.committed(22)
  assert.equal(state.kept.get('c'), 2)
  for (let k = 102; k <= 104; k++) state.moveCursor('c', k, 20 + k)
  state.committed(123)
  assert.equal(state.kept.get('c'), 2, 'only the newest waits')
  state.committed(124)
  assert.equal(state.kept.get('c'), 104)
})

test('pending counts the records that are not committed', async () => {
  const { log } = await openLog()
  assert.equal(log.status().pending, 0)
  log.appendFact(factOf(1), LOCAL)
  assert.equal(log.status().pending, 1)
  log.appendFact(factOf(2), LOCAL)
  assert.equal(log.status().pending, 2)
  await log.flush()
  assert.equal(log.status().pending, 0)
})

test('verify of a folder without segments names the lost records, from its chain.json', async () => {
  const { log, files } = await openLog()
  for (let k = 0; k < 5; k++) log.appendFact(factOf(k), LOCAL)
  await log.close()
  assert.equal(verify(DIR, files).ok, true)
  const { first, last } = readWitness(files, DIR)!
  for (const name of files.segments(DIR)) files.remove(`${DIR}/${name}`)
  const found = verify(DIR, files)
  assert.deepEqual([found.ok, found.damaged], [false, last! - first + 1])
})

test('a new segment reserves 2 ** 24 numbers from its first one on', async () => {
  const segments = new Segments(new MemFiles(), '/log')
  assert.equal(segments.reservedEnd, Number.POSITIVE_INFINITY)
  const header = {
    boot: 1,
    previousLast: 0,
    created: 0,
    snapshot: { cursors: {}, totals: noLosses(), ranges: [], segments: [] },
  }
  for (const base of [1, 40]) {
    await segments.roll(base, 0, encodeHeader({ ...header, base }))
    assert.equal(segments.reservedEnd, base + 2 ** 24)
  }
})
