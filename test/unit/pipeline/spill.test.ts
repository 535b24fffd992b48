// Templates spilled to files: a receiver with little memory answers every frame like one with plenty, also over clean stops; damaged or
// missing data costs a FULL, never a wrong value.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fact } from '../../../src/pipeline/fact'
import { type Received, Receiver, type ReceiverOptions } from '../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { Spill } from '../../../src/pipeline/spill'
import { ManualClock } from '../../lib/manual'
import { digest, Trace } from '../../lib/trace'
import { MemFiles } from '../log/memfiles'
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

test('memory and files stay within their limits; a sender without any room gets a request for a FULL, older frames teach nothing', () => {
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
