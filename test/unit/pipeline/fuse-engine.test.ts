import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Files, realFiles } from '../../../src/lib/files'
import { Engine } from '../../../src/pipeline/compress'
import { factToDict } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { type KeptTemplate, TemplateRegistry } from '../../../src/pipeline/registry'
import { decodeUnit, encodeUnit } from '../../../src/pipeline/unittext'
import { ManualClock } from '../../lib/manual'
import { MemFiles, systemError } from '../log/memfiles'
import { random, units } from './units'

const T0 = 1_710_000_000_000
const clock = new ManualClock(T0 + 700)
const folder = (): { dir: string; done: () => void } => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-fusion-'))
  return { dir, done: () => rmSync(dir, { recursive: true, force: true }) }
}
const text = (value: string, id = 'D'): string => `7;${id}.1.AY4j8UwA|a>K.K:${value}|`

test('compress and decompress are inverse for any fact on the grid', () => {
  const next = random(3)
  const engine = new Engine(null, { units })
  for (let k = 0; k < 2000; k++) {
    const fact = factToDict({
      id: `D${k}`,
      state: 'ONLINE',
      tRaw: T0 + k,
      aid: 1,
      sensors: Array.from({ length: k % 5 }, (_, i) => ({
        id: `s${i}`,
        status: 'OK',
        unit: 'K',
        value: Math.round((next() - 0.5) * 10 ** (next() * 15)) / 1e4 + 0,
      })),
      ...(k % 3 === 0 && { extras: { geohash: 'u33d', url: 'https://ex.org/a', msg: 'grüß @|;' } }),
    })
    assert.deepEqual(engine.decompress(engine.compress(fact)), fact)
  }
})

test('alone, engine and fusion read their keys of a configuration file', () => {
  const { dir, done } = folder()
  const path = join(dir, 'Config.json')
  const write = (engine_settings: unknown): void =>
    writeFileSync(path, JSON.stringify({ assigned_id: 12, engine_settings }))
  write({ precision: 2, unit_dialect: 'attribute', diff_base: 'sticky', full_every: 3 })
  const fusion = new Fusion(path)
  assert.deepEqual([fusion.engine.precision, fusion.engine.unitDialect, fusion.localId], [2, 'attribute', 12])
  assert.deepEqual(fusion.policy, { diffBase: 'sticky', fullEvery: 3, fullIntervalMs: 60_000 })
  assert.equal(fusion.registry!.dir, join(dir, 'data/device_registry'))
  assert.equal(fusion.registry!.intervalMs, 1000)
  write({ diff_base: 'sticky', full_interval_seconds: 7, registry_sync_interval_seconds: 2.5 })
  const other = new Fusion(path)
  assert.deepEqual(other.policy, { diffBase: 'sticky', fullEvery: 100, fullIntervalMs: 7000 })
  assert.equal(other.registry!.intervalMs, 2500)
  for (const wrong of [
    { precision: 11 },
    { unit_dialect: 'x' },
    { diff_base: 'x' },
    { diff_base: 'sticky', full_every: -1 },
  ]) {
    write(wrong)
    assert.throws(() => new Fusion(path), { code: 'CONFIG_INVALID' })
  }
  writeFileSync(path, '{')
  assert.throws(() => new Engine(path), { code: 'CONFIG_SYNTAX' })
  assert.equal(new Engine(join(dir, 'none.json')).precision, 4)
  assert.equal(new Engine().precision, 4)
  done()
})

test('attribute names keep their tokens when encoded and decoded', () => {
  assert.equal(encodeUnit('3600time'), '5O,datime')
  assert.equal(decodeUnit('A01/B00'), 'cel/s')
})

test('a registry of a clean stop continues with DIFF, any other starts with FULL under the same TID', () => {
  const { dir, done } = folder()
  const make = (): Fusion => new Fusion(null, { localId: 7, registryDir: dir, clock, units })
  const first = make()
  assert.equal(first.runEngine(text('1'))[0], 0x3f)
  assert.equal(make().runEngine(text('1'))[0], 0x3f, 'not stopped yet')
  first.stop()
  const second = make()
  assert.equal(second.runEngine(text('1'))[0], 0x7f)
  assert.equal(second.runEngine(text('2'))[0], 0xaa)
  assert.equal(make().runEngine(text('1'))[0], 0x3f, 'second was not stopped')
  done()
})

test('registry files are written when a template is learned, never because values changed', () => {
  const { dir, done } = folder()
  const manual = new ManualClock()
  let writes = 0
  const files: Files = {
    ...realFiles,
    rename: (a, b) => {
      writes++
      realFiles.rename(a, b)
    },
  }
  const fusion = new Fusion(null, { localId: 7, registryDir: dir, clock: manual, units, files })
  for (let k = 0; k < 50; k++) {
    manual.advance(2000)
    fusion.runEngine(text(String(k)))
  }
  assert.equal(writes, 1)
  for (let k = 0; k < 10; k++) fusion.runEngine(text('1', `E${k}`))
  assert.equal(writes, 2, 'at most one per interval')
  manual.advance(2000)
  fusion.runEngine(text('2'))
  assert.equal(writes, 3)
  done()
})

test('a registry that cannot be written only increments a counter', () => {
  const { dir, done } = folder()
  const files: Files = {
    ...realFiles,
    open: () => {
      throw Object.assign(new Error('full'), { code: 'ENOSPC' })
    },
  }
  const fusion = new Fusion(null, { localId: 7, registryDir: dir, clock: new ManualClock(), units, files })
  assert.equal(fusion.runEngine(text('1'))[0], 0x3f)
  assert.equal(fusion.runEngine(text('2'))[0], 0xaa)
  fusion.stop()
  assert.ok(fusion.registry!.errors >= 2)
  done()
})

test('a clean-stop mark that cannot be removed is not trusted', () => {
  const { dir, done } = folder()
  const a = new TemplateRegistry(dir)
  a.stop([7], () => [{ tid: 1, signature: 'D.1.{TS}|', slots: [], ts: 1 }])
  const files: Files = {
    ...realFiles,
    remove: () => {
      throw new Error('read-only')
    },
  }
  assert.equal(new TemplateRegistry(dir, files).load(7)[0]!.slots, null)
  assert.deepEqual(new TemplateRegistry(dir).load(7)[0]!.slots, [])
  done()
})

test('a stop that could not write every AID leaves no mark: the templates need a FULL again', () => {
  const kept = (): KeptTemplate[] => [{ tid: 1, signature: 'D.1.{TS}|', slots: [], ts: 1 }]
  for (const failing of [7, 8, 9]) {
    const files = new MemFiles()
    files.gate = (_, path) => {
      if (path.includes(`/${failing}`)) throw systemError('ENOSPC')
    }
    const registry = new TemplateRegistry('/reg', files)
    registry.stop([7, 8], kept)
    assert.equal(registry.errors, failing === 9 ? 0 : 1)
    files.gate = () => undefined
    const next = new TemplateRegistry('/reg', files)
    const slots = [7, 8].map(aid => next.load(aid)[0]?.slots)
    assert.deepEqual(slots, failing === 7 ? [undefined, null] : failing === 8 ? [null, undefined] : [[], []])
  }
})

test('malformed registry entries are dropped, the others stay', () => {
  const { dir, done } = folder()
  const registry = new TemplateRegistry(dir)
  registry.stop([7], () => [{ tid: 3, signature: 'D.1.{TS}|a>\x01:\x01|', slots: ['K.K', '1'], ts: 5 }])
  const path = registry.path(7)
  const file = JSON.parse(readFileSync(path, 'utf8'))
  Object.assign(file.templates, { x: {}, '04': { sig: 1 }, '300': { sig: 'a', last_vals_bin: [] }, '05': null })
  writeFileSync(path, JSON.stringify(file))
  assert.deepEqual(new TemplateRegistry(dir).load(7), [
    { tid: 3, signature: 'D.1.{TS}|a>\x01:\x01|', slots: ['K.K', '1'], ts: 5 },
  ])
  done()
})

test('when TIDs run out the least recently used template is evicted (X12)', () => {
  const fusion = new Fusion(null, { localId: 7, clock, units })
  for (let k = 0; k < 255; k++) fusion.runEngine(text('1', `D${k}`))
  fusion.runEngine(text('2', 'D0'))
  assert.equal(fusion.runEngine(text('1', 'new'))[6], 2, 'D1 is the oldest')
  assert.equal(fusion.runEngine(text('1', 'newer'))[6], 3)
  assert.equal(fusion.runEngine(text('2', 'D0'))[0], 0x7f)
})

test('relay turns any frame into a FULL of its source (X15)', () => {
  const source = new Fusion(null, { localId: 7, clock, units })
  const relay = new Fusion(null, { localId: 99, clock, units })
  const upstream = new Fusion(null, { localId: 1, clock, units })
  const packets = ['1', '2', '2'].map(v => source.runEngine(text(v)))
  assert.deepEqual(
    packets.map(p => p[0]),
    [0x3f, 0xaa, 0x7f],
  )
  assert.throws(() => relay.relay(packets[1]!), { code: 'RELAY_UNDECODABLE' })
  assert.throws(() => relay.relay(Buffer.from('nonsense')), { code: 'RELAY_UNDECODABLE' })
  const values = packets.map(packet => {
    const full = relay.relay(packet)
    assert.deepEqual([full[0], full.readUInt32BE(2), full[6]], [0x3f, 7, packet[6]])
    assert.equal(full.toString('hex', 7, 13), packet.toString('hex', 7, 13))
    return upstream.decompress(full).s1_v
  })
  assert.deepEqual(values, [0.0001, 0.0002, 0.0002])
})

test('received facts have no AID in the id, both times, and every meta field (X2, X3, X11, X26)', () => {
  const source = new Fusion(null, { localId: 7, clock, units })
  const sink = new Fusion(null, { localId: 1, clock, units })
  for (const v of ['1', '2', '2']) {
    const fact = sink.decompress(source.runEngine(text(v)))
    assert.deepEqual([fact.id, fact.t, fact.t_raw], ['D', T0 / 1000, T0])
    assert.equal(fact.__packet_meta__.template_learned, fact.__packet_meta__.cmd === 0x3f)
  }
  const zero = sink.decompress(source.runEngine('7;D.1.AAAAAAAA|a>K.K:3|'))
  assert.deepEqual([zero.t_raw, zero.t, zero.__packet_meta__.server_stamped], [T0 + 700, T0 / 1000, true])
  const short = sink.decompress(Buffer.of(1))
  assert.deepEqual(Object.keys(short.__packet_meta__).sort(), Object.keys(zero.__packet_meta__).sort())
  assert.equal(short.__packet_meta__.tid, null)
})

test('sent and received templates of one AID are independent', () => {
  const a = new Fusion(null, { localId: 7, clock, units })
  const other = new Fusion(null, { localId: 7, clock, units })
  a.runEngine(text('1'))
  a.decompress(other.runEngine(text('5')))
  assert.equal(a.runEngine(text('1'))[0], 0x7f)
})
