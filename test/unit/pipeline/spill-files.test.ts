// The files of spilled templates: limits of memory and files to the byte, which files are rewritten or removed, and the clean-stop mark.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TemplateRegistry } from '../../../src/pipeline/registry'
import { Spill } from '../../../src/pipeline/spill'
import { ManualClock } from '../../lib/manual'
import { dice, digest, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'

const T0 = 1_710_000_000_000

test('spilled templates are kept, moved, written and lost as recorded', () => {
  const { below, chance, pick } = dice(77)
  const files = new MemFiles()
  let lost = 0
  const options = {
    dir: '/s',
    files,
    memoryBytes: 600_000,
    diskBytes: 900_000,
    lost: (aid: number, ts: number) => (lost = digest(lost, aid, ts)),
  }
  let spill = new Spill(options)
  const trace = new Trace('unit/pipeline/spill-files.txt')
  trace.course(
    'spill',
    900,
    60,
    k => {
      if (k % 300 === 200)
        files.gate = operation => {
          if (operation === pick(['open', 'read', 'remove'])) throw systemError('EIO')
        }
      if (k % 300 === 230) files.gate = () => undefined
      if (k % 180 === 179) {
        spill.save()
        if (chance(0.5)) files.truncate(`/s/${files.list('/s')[0]}`, 20_000)
        if (chance(0.3)) files.remove('/s/clean-stop.json')
        spill = new Spill(options)
      }
      const aid = below(60)
      if (chance(0.7)) spill.put(aid, Buffer.alloc(pick([10, 3000, 40_000, chance(0.05) ? 300_000 : 9000]), k), T0 + k)
      const got = pick([spill.take, spill.peek]).call(spill, below(60))
      return [got ? digest(1, got) : null, spill.has(aid), lost]
    },
    () => [
      spill.size,
      spill.memory,
      spill.disk,
      spill.counters,
      files.operations,
      files.syncs,
      files.list('/s').length,
    ],
  )
  const registry = new TemplateRegistry('/reg', files, 500, new ManualClock())
  trace.course('registry', 80, 40, k => {
    const path = registry.path(k % 7)
    if (chance(0.5))
      registry.stop([k % 7], () => [
        { tid: below(256), signature: 'D.1.{TS}|', slots: chance(0.8) ? ['1.K', 'a'] : null, ts: k },
      ])
    if (chance(0.3) && files.exists(path)) {
      const entry = { sig: pick(['x', 5]), last_vals_bin: pick([['YQ=='], [5], 'no']) }
      const fd = files.open(path, 'w')
      files.write(fd, Buffer.from(JSON.stringify({ templates: { [pick(['01', '256', '-1', '1.5', '0'])]: entry } })))
      files.close(fd)
    }
    return [new TemplateRegistry('/reg', files).load(k % 7), path, registry.errors, registry.hasDirty]
  })
  trace.compare()
})

const SEGMENT = 256 * 1024
/** a record that fills a quarter of a segment, its header of 20 bytes included */
const QUARTER = SEGMENT / 4 - 20

test('the limits of memory and files are exact to the byte: a mostly empty file is rewritten, the others are removed as a whole', () => {
  for (const [what, taken, memoryBytes, diskBytes, want] of [
    ['both segments fit the memory', [], 2 * SEGMENT, SEGMENT, [2 * SEGMENT, 0, 0, 5]],
    ['a byte less: the older one goes to a file', [], 2 * SEGMENT - 1, SEGMENT, [SEGMENT, SEGMENT, 0, 5]],
    ['the file finds no room: it is forgotten', [], SEGMENT, SEGMENT - 1, [SEGMENT, 0, 4, 1]],
    ['three quarters of it count: it goes as it is', [1], SEGMENT, SEGMENT, [SEGMENT, SEGMENT, 0, 4]],
    ['half of it counts: that is written again', [1, 2], SEGMENT, SEGMENT, [SEGMENT, 0, 0, 3]],
  ] as const) {
    const files = new MemFiles()
    const lost: number[] = []
    const spill = new Spill({ dir: '/s', files, memoryBytes, diskBytes, lost: aid => lost.push(aid) })
    for (let aid = 1; aid <= 4; aid++) spill.put(aid, new Uint8Array(QUARTER).fill(aid), aid)
    assert.equal(spill.memory, SEGMENT, 'four fill a segment')
    for (const aid of taken) assert.ok(spill.take(aid))
    spill.put(5, new Uint8Array(QUARTER).fill(5), 5)
    assert.deepEqual([spill.memory, spill.disk, lost.length, spill.size], want, what)
    assert.equal(spill.counters.lost, lost.length)
    assert.equal(spill.counters.bytes_written, want[1] || (lost.length > 0 ? SEGMENT : 0))
    for (let aid = 1; aid <= 5; aid++) {
      const kept = !(taken as readonly number[]).includes(aid) && !lost.includes(aid)
      assert.equal(spill.peek(aid)?.[0], kept ? aid : undefined, `${what}: ${aid}`)
    }
  }
})

test('when files exceed the limit the emptiest is rewritten if less than half of it counts, otherwise the oldest is dropped', () => {
  for (const [what, taken, want] of [
    ['half of the second counts', [5, 6], [1, 2, 3, 4]],
    ['a quarter of the second counts', [5, 6, 7], []],
  ] as const) {
    const lost: number[] = []
    const files = new MemFiles()
    const spill = new Spill({
      dir: '/s',
      files,
      memoryBytes: SEGMENT,
      diskBytes: 2 * SEGMENT,
      lost: aid => lost.push(aid),
    })
    for (let aid = 1; aid <= 12; aid++) spill.put(aid, new Uint8Array(QUARTER).fill(aid), aid)
    assert.deepEqual([spill.disk, lost], [2 * SEGMENT, []], 'two files and a segment in memory, all full')
    for (const aid of taken) assert.ok(spill.take(aid))
    spill.put(13, new Uint8Array(QUARTER).fill(13), 13)
    assert.deepEqual(lost, want, what)
    assert.ok(spill.disk <= 2 * SEGMENT)
    for (const aid of [7, 8, 9, 12, 13])
      assert.equal(
        spill.peek(aid)?.[0],
        (taken as readonly number[]).includes(aid) ? undefined : aid,
        `${what}: ${aid}`,
      )
  }
})

test('when a start allows much less than was kept, each new segment removes four old ones', () => {
  const files = new MemFiles()
  const lost: number[] = []
  const options = { dir: '/s', files, memoryBytes: 1e9, diskBytes: 1e9, lost: (aid: number) => void lost.push(aid) }
  const first = new Spill(options)
  for (let aid = 1; aid <= 9; aid++) first.put(aid, new Uint8Array(SEGMENT), aid)
  first.save()
  const second = new Spill({ ...options, diskBytes: 0 })
  assert.equal(second.size, 9)
  second.put(10, new Uint8Array(10), 1)
  assert.deepEqual(lost, [1, 2, 3, 4])
  second.put(11, new Uint8Array(10), 1)
  assert.equal(lost.length, 4, 'no new segment')
  second.put(12, new Uint8Array(SEGMENT), 1)
  assert.deepEqual(lost, [1, 2, 3, 4, 5, 6, 7, 8])
})

test('a start removes the files of an earlier run, and no others', () => {
  const files = new MemFiles()
  files.mkdir('/s')
  const write = (name: string): void => {
    const fd = files.open(`/s/${name}`, 'w')
    files.write(fd, Buffer.from('x'))
    files.close(fd)
  }
  const others = ['notes.txt', 'x7.spill', '0000000009.spill.bak', '1.5.spill']
  for (const name of [...others, '0000000007.spill', '9999999999.spill']) write(name)
  const spill = new Spill({ dir: '/s', files, memoryBytes: 0, diskBytes: 1e9, lost: () => undefined })
  assert.deepEqual(files.list('/s').sort(), [...others].sort())
  assert.equal(spill.counters.errors, 0)
  // ids continue after the largest existing one
  spill.put(1, new Uint8Array(10), 1)
  spill.save()
  assert.ok(files.exists('/s/10000000000.spill'))
})

test('the clean-stop mark must match: other bytes are counted, and a mark that is no JSON gives nothing', () => {
  const start = (harm: (files: MemFiles) => void): (number | null)[] => {
    const files = new MemFiles()
    const options = { dir: '/s', files, memoryBytes: 1e9, diskBytes: 1e9, lost: () => undefined }
    const first = new Spill(options)
    first.put(1, new Uint8Array(10).fill(7), 1)
    first.put(2, new Uint8Array(10).fill(8), 1)
    first.save()
    assert.equal(first.memory, 0)
    harm(files)
    const second = new Spill(options)
    assert.equal(files.exists('/s/clean-stop.json'), false, 'the mark counts once')
    return [second.counters.errors, second.size, second.take(1)?.[0] ?? null, second.disk]
  }
  assert.deepEqual(
    start(() => undefined),
    [0, 2, 7, 60],
  )
  assert.deepEqual(
    start(files => files.truncate('/s/0000000001.spill', 59)),
    [1, 1, 7, 59],
  )
  assert.deepEqual(
    start(files => files.truncate('/s/0000000001.spill', 0)),
    [1, 0, null, 0],
  )
  const broken = (files: MemFiles): void => {
    const fd = files.open('/s/clean-stop.json', 'w')
    files.write(fd, Buffer.from('{"segments":'))
    files.close(fd)
  }
  assert.deepEqual(start(broken), [1, 0, null, 0])
})
