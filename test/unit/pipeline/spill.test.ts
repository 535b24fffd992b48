// Templates spilled to files: a receiver with little memory answers every frame like one with plenty, also over clean
// stops; damaged or missing data costs a FULL, never a wrong value; memory and files stay within their limits.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fact } from '../../../src/pipeline/fact'
import { type Received, Receiver, type ReceiverOptions } from '../../../src/pipeline/receiver'
import { Registry } from '../../../src/pipeline/registry'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { Spill } from '../../../src/pipeline/spill'
import { ManualClock } from '../../lib/manual'
import { dice, digest, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'
import { random, units } from './units'

const T0 = 1_710_000_000_000
const clock = new ManualClock(T0 + 500)
const SMALL = { maxBytes: 200_000, spillDir: '/s', spillBytes: 4 << 20 }
const receiver = (options: ReceiverOptions = {}): Receiver => new Receiver({ units, clock, ...options })
const answer = (got: Received): unknown => (got.kind === 'fact' ? [got.fact, got.meta] : [got.code, got.meta])
const code = (got: Received): string => (got.kind === 'error' ? got.code : 'fact')

interface Heard {
  bytes: Uint8Array
  epoch?: number
}

/** Frames of many nodes, each with a few templates and runs: mostly in order, some late, duplicated or lost. */
function crowd(nodes: number, rounds: number, seed: number): Heard[] {
  const next = random(seed)
  const out: Heard[] = []
  const list = Array.from({ length: nodes }, (_, n) => ({
    aid: n + 1,
    epoch: next() < 0.5 ? Math.floor(next() * 2 ** 32) : undefined,
    encoder: new UplinkEncoder({ aid: n + 1, units, fullEvery: 7, diffBase: next() < 0.5 ? 'last' : 'sticky' }),
    values: [20, 1e-3, 101_325, 0, -7.25, 2 ** 40],
  }))
  for (let k = 0; k < rounds; k++)
    for (const node of list) {
      for (let i = 0; i < node.values.length; i++)
        if (next() < 0.4) node.values[i] = Math.round((node.values[i]! + next() * 3 - 1.5) * 1e4) / 1e4
      const fact: Fact = {
        id: `node${node.aid}`,
        state: 'ONLINE',
        tRaw: T0 + k * 1000 - (next() < 0.05 ? 2500 : 0),
        aid: node.aid,
        sensors: node.values.map((value, i) => ({
          id: `s${i}`,
          status: next() < 0.05 ? 'WARN' : 'OK',
          unit: ['K', 'A', 'Pa', '%', 'm', 'J'][i]!,
          value: i === 3 && next() < 0.1 ? null : value,
        })),
      }
      if (next() < 0.2) fact.sensors.pop()
      if (node.aid % 50 === 0) fact.extras = { msg: 'ü → ß' }
      const bytes = node.encoder.encode(fact).bytes.slice()
      if (next() < 0.03) node.epoch = Math.floor(next() * 2 ** 32)
      if (next() < 0.05) continue
      const heard = node.epoch === undefined ? { bytes } : { bytes, epoch: node.epoch }
      out.push(heard)
      if (next() < 0.1) out.splice(Math.max(0, out.length - 1 - Math.floor(next() * 3 * nodes)), 0, heard)
    }
  return out
}

test('a receiver with little memory answers every frame like one with plenty, also over clean stops', () => {
  const files = new MemFiles()
  const plenty = receiver({ maxBytes: 1 << 30, maxSources: 1 << 20 })
  let little = receiver({ ...SMALL, files })
  let spilled = 0
  crowd(400, 25, 4).forEach(({ bytes, epoch }, k) => {
    const expected = plenty.receive(bytes, epoch)
    assert.deepEqual(answer(little.receive(bytes, epoch)), answer(expected), `frame ${k}`)
    assert.ok(little.weight <= SMALL.maxBytes)
    if (k % 2500 !== 2499) return
    spilled += little.spill!.counters.spilled
    little.save()
    little = receiver({ ...SMALL, files })
  })
  assert.ok(spilled > 1000 && little.spill!.size > 200, 'most were outside')
  assert.deepEqual([plenty.counters.forgotten, little.counters.forgotten, little.spill!.counters.lost], [0, 0, 0])
})

const hello = (aid: number, k: number, encoders: Map<number, UplinkEncoder>): Uint8Array => {
  let encoder = encoders.get(aid)
  if (!encoder) encoders.set(aid, (encoder = new UplinkEncoder({ aid, units, diffBase: 'last', fullEvery: 1e6 })))
  const sensors = [0, 1, 2, 3, 4, 5].map(i => ({
    id: `s${i}`,
    status: 'OK',
    unit: 'K',
    value: 290 + i + aid / 100 + k,
  }))
  return encoder.encode({ id: `n${aid}`, state: 'ONLINE', tRaw: T0 + 1000 * k, aid, sensors }).bytes
}

test('frames of many nodes are answered, kept, written and evicted as recorded', () => {
  const trace = new Trace('unit/pipeline/spill.txt')
  const kinds: Record<string, ReceiverOptions> = {
    plain: {},
    'few sources': { maxSources: 90 },
    'little memory': { maxBytes: 60_000 },
    'templates in files': { registryDir: '/r' },
    spilled: { ...SMALL, maxBytes: 100_000, spillBytes: 200_000, registryDir: '/r' },
    'a late clock': { latest: () => T0 + 8000, maxSources: 300 },
  }
  for (const [kind, options] of Object.entries(kinds)) {
    const files = new MemFiles()
    let r = receiver({ ...options, files })
    let course = 0
    for (const [k, { bytes, epoch }] of crowd(120, 20, 9).entries()) {
      course = digest(course, Buffer.from(JSON.stringify(answer(r.receive(bytes, epoch)))))
      if (k % 500 !== 499) continue
      trace.say(`${kind} ${k}`, [
        course,
        r.weight,
        r.sources,
        r.counters,
        r.spill?.counters,
        r.spill?.size,
        r.spill?.disk,
      ])
      if (k % 1000 !== 999) continue
      r.save()
      trace.say('files', [files.operations, files.syncs, files.bytes, files.list('/s').length, files.list('/r').length])
      r = receiver({ ...options, files })
      for (let aid = 1; aid <= 120; aid += 17) trace.say(`kept of ${aid}`, [r.knows(aid), r.template(aid, 1) !== null])
    }
  }
  trace.compare()
})

test('damage costs a FULL, never a wrong value; so do missing files, and an unclean stop', () => {
  const next = random(5)
  for (const harm of ['flip', 'cut', 'gone', 'swap', 'kill'] as const) {
    const files = new MemFiles()
    const encoders = new Map<number, UplinkEncoder>()
    const first = receiver({ ...SMALL, maxBytes: 400_000, files })
    for (let k = 0; k < 3; k++)
      for (let aid = 1; aid <= 3000; aid++) assert.equal(code(first.receive(hello(aid, k, encoders))), 'fact')
    if (harm !== 'kill') first.save()
    const paths = files.list('/s').filter(name => name.endsWith('.spill'))
    assert.ok(paths.length > 2, 'several files')
    if (harm === 'swap') files.rename(`/s/${paths[0]}`, `/s/${paths[1]}`)
    for (const name of harm === 'swap' || harm === 'kill' ? [] : paths) {
      const path = `/s/${name}`
      const bytes = Buffer.from(files.read(path))
      if (harm === 'gone') {
        if (next() < 0.5) files.remove(path)
        continue
      }
      const fd = files.open(path, 'w')
      for (let k = 0; k < 30; k++) bytes[Math.floor(next() * bytes.length)]! ^= 1 << Math.floor(next() * 8)
      files.write(fd, harm === 'cut' ? bytes.subarray(0, bytes.length >> 1) : bytes)
      files.close(fd)
    }
    const second = receiver({ ...SMALL, maxBytes: 400_000, files })
    const seen = { fact: 0, NEED_FULL: 0 } as Record<string, number>
    for (let aid = 1; aid <= 3000; aid++) {
      const got = second.receive(hello(aid, 3, encoders))
      seen[code(got)]!++
      if (got.kind === 'fact')
        assert.deepEqual(
          got.fact.sensors.map(sensor => Math.round(sensor.value! * 1e4)),
          [0, 1, 2, 3, 4, 5].map(i => Math.round((290 + i + aid / 100 + 3) * 1e4)),
          `${harm} ${aid}`,
        )
    }
    assert.equal(seen.fact! + seen.NEED_FULL!, 3000, JSON.stringify(seen))
    assert.ok(seen.NEED_FULL! > 0, harm)
    assert.equal(seen.fact! > 0, harm !== 'kill', `${harm}: ${JSON.stringify(seen)}`)
    const again = receiver({ ...SMALL, maxBytes: 400_000, files })
    assert.equal(code(again.receive(hello(1, 4, encoders))), 'NEED_FULL', 'the mark counts once')
  }
})

test('memory and files stay within their limits; a sender without any room is asked for a FULL, older frames teach nothing', () => {
  const files = new MemFiles()
  const encoders = new Map<number, UplinkEncoder>()
  const bounds = { ...SMALL, maxBytes: 1 << 20, spillBytes: 1 << 20, files }
  const r = receiver(bounds)
  const early = hello(1, 0, encoders).slice()
  r.receive(early, 7)
  r.receive(hello(1, 1, encoders), 7)
  for (let aid = 2; aid <= 12_000; aid++) r.receive(hello(aid, 0, encoders))
  const { spill } = r
  assert.ok(spill!.counters.lost > 1000 && r.counters.forgotten === spill!.counters.lost)
  const onDisk = files.list('/s').reduce((sum, name) => sum + files.size(`/s/${name}`), 0)
  assert.ok(onDisk <= (1 << 20) + 300_000, `${onDisk} bytes of files`)
  assert.ok(spill!.memory <= (1 << 18) + (1 << 19), `${spill!.memory} bytes of segments`)
  const stale = r.receive(early, 7)
  if (!spill!.has(1)) assert.deepEqual([code(stale), stale.meta.late ?? false], ['fact', true])
})

test('a disk that refuses writes loses only what would have been spilled', () => {
  const files = new MemFiles()
  const encoders = new Map<number, UplinkEncoder>()
  const r = receiver({ ...SMALL, files })
  files.open = () => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
  }
  for (let k = 0; k < 2; k++)
    for (let aid = 1; aid <= 3000; aid++) assert.match(code(r.receive(hello(aid, k, encoders))), /^(fact|NEED_FULL)$/)
  assert.ok(r.spill!.counters.errors > 0 && r.counters.forgotten > 0)
})

test('what a restart loads is counted once: a file is removed when its last current record was loaded', () => {
  const files = new MemFiles()
  const options = { dir: '/s', files, memoryBytes: 1 << 20, diskBytes: 1 << 24, lost: () => assert.fail('lost') }
  const first = new Spill(options)
  const big = (fill: number) => new Uint8Array(200_000).fill(fill)
  first.put(1, big(1), 1)
  first.put(2, new Uint8Array(10), 1)
  first.put(1, big(2), 2) // in the second file; the record of the first one no longer counts
  first.save()
  const second = new Spill(options)
  assert.equal(files.list('/s').filter(name => name.endsWith('.spill')).length, 2)
  assert.ok(second.take(2))
  assert.equal(files.list('/s').filter(name => name.endsWith('.spill')).length, 1)
  assert.equal(second.take(1)![0], 2)
})

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
  const registry = new Registry('/reg', files, 500, new ManualClock())
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
    return [new Registry('/reg', files).load(k % 7), path, registry.errors, registry.hasDirty]
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
