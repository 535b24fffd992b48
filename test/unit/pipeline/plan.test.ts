// Plans of packets: what load() refuses at the limits of the wire, ties, and that many signatures keep few plans.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCore } from '../../../src/cores'
import { Engine } from '../../../src/pipeline/compress'
import type { Reading } from '../../../src/pipeline/fact'
import { Fusion } from '../../../src/pipeline/fuse'
import { LOADED, OTHER, PacketPlan } from '../../../src/pipeline/plan'
import { createPureCore } from '../../../src/pipeline/pycore'
import { UplinkEncoder } from '../../../src/pipeline/sender'
import { NO_VALUE } from '../../../src/wire/base62'
import { ManualClock } from '../../lib/manual'
import { MemFiles } from '../log/memfiles'
import { resolver, units } from './units'

const T0 = 1_710_000_000_000
const MOST = 2 ** 63
const plan = (precision: number, unitDialect: 'ucum' | 'attribute' = 'ucum'): PacketPlan =>
  new PacketPlan(new Engine(null, { precision, units, unitDialect }), resolver, 7, 'D', 'ONLINE', ['a'])
const reading = (value: number, unit = 'K', status = 'OK', id = 'a'): Reading => [id, status, value, unit]
const sensor = (value: number | null, unit = 'K', status = 'OK') => ({ id: 'a', status, unit, value })

test('a value is rounded to the grid, ties to even, above and below zero', () => {
  for (const [precision, x, n] of [
    [0, 700.5, 700],
    [0, 701.5, 702],
    [0, -700.5, -700],
    [0, -701.5, -702],
    [1, 70.25, 702],
    [1, 70.75, 708],
    [1, -70.25, -702],
    [3, 0.5625, 562],
    [3, 0.6875, 688],
    [3, 0.5626, 563],
  ] as const) {
    const made = plan(precision)
    // a value before: the plan knows its grid
    assert.equal(made.load([reading(700)]), LOADED)
    made.load([reading(x)])
    assert.equal(made.numbers[0], n, `${x} at ${precision}`)
    assert.equal(made.loadFact([sensor(x)]), LOADED)
    assert.equal(made.numbers[0], n)
  }
})

test('the largest value of the wire is accepted, the next is refused, also by a plan in use', () => {
  const below = MOST - 1024
  for (const dialect of ['ucum', 'attribute'] as const)
    for (const sign of [1, -1]) {
      const made = plan(0, dialect)
      assert.equal(made.load([reading(700)]), LOADED)
      assert.equal(made.load([reading(sign * below)]), LOADED)
      assert.equal(made.numbers[0], sign * below)
      for (const x of [MOST, Number.POSITIVE_INFINITY, Number.NaN]) {
        const refused = made.load([reading(sign * x)])
        assert.ok(refused !== LOADED && refused !== OTHER, `${sign * x} in ${dialect}`)
        const facts = made.loadFact([sensor(sign * x)])
        assert.ok(facts !== LOADED && facts !== OTHER)
        assert.equal(made.refusedRow, 0)
      }
    }
})

test('a row of another sensor belongs to another plan; one that cannot be sent is refused, whatever was before it', () => {
  const made = plan(4)
  assert.equal(made.load([reading(1)]), LOADED)
  assert.equal(made.load([reading(1, 'K', 'OK', 'b')]), OTHER)
  assert.equal(made.load([['a', 'OK', 1] as never]), OTHER)
  assert.equal(made.load([undefined as never]), OTHER)
  assert.equal(made.loadFact([{ ...sensor(1), id: 'b' }]), OTHER)
  for (const row of [reading(1, 'none'), reading(1, 'K', 'O|K'), reading('1' as never)]) {
    assert.notEqual(made.load([row]), LOADED)
    assert.equal(made.load([reading(2)]), LOADED)
  }
  assert.notEqual(made.loadFact([sensor(1, 'K', 'O|K')]), LOADED)
  assert.equal(made.loadFact([sensor(null, 'K', 'ERROR')]), LOADED)
  assert.equal(made.metaText[0], 'E.K')
  assert.equal(made.load([reading(3)]), LOADED)
  assert.deepEqual([made.metaText[0], made.numbers[0]], ['K.K', 30000], 'a value after a failure')
})

test('in dialect attribute too a failed sensor is distinguished from one with a value, whatever its status', () => {
  const made = plan(4, 'attribute')
  const load = (value: number | null): [string, number] => {
    assert.equal(made.loadFact([sensor(value, 'm')]), LOADED)
    return [made.metaText[0]!, made.numbers[0]!]
  }
  const token = load(1)[0].slice(2)
  assert.deepEqual([1, null, null, 2, null, 2].map(load), [
    [`K.${token}`, 10_000],
    [`E.${token}`, NO_VALUE],
    [`E.${token}`, NO_VALUE],
    [`K.${token}`, 20_000],
    [`E.${token}`, NO_VALUE],
    [`K.${token}`, 20_000],
  ])
})

/** An engine that counts how often a plan looked up the allowed units. */
function counting(): { engine: Engine; binds: () => number } {
  const engine = new Engine(null, { units })
  let binds = 0
  const get = engine.pickers.get.bind(engine.pickers)
  engine.pickers.get = unit => {
    binds++
    return get(unit)
  }
  return { engine, binds: () => binds }
}

test('the number of plans is limited: 1,024 of an uplink, 4,096 of the core; evicted ones are rebuilt', () => {
  const { engine, binds } = counting()
  const sender = new UplinkEncoder({ aid: 7, engine, clock: new ManualClock() })
  const made = (id: string, t: number): boolean => {
    const before = binds()
    sender.encode({ id, state: 'ONLINE', tRaw: T0 + t, aid: 7, sensors: [sensor(5)] })
    return binds() > before
  }
  for (let k = 0; k < 1024; k++) assert.equal(made(`D${k}`, 1), true)
  assert.deepEqual([made('D0', 2), made('D1023', 2)], [false, false])
  assert.equal(made('D1024', 1), true)
  assert.deepEqual([made('D1024', 2), made('D0', 3), made('D1023', 3), made('D0', 4)], [false, true, true, false])
  for (let k = 0; k < 1021; k++) made(`E${k}`, 1)
  assert.equal(made('D0', 5), false, '1,024 are made since')
  made('F', 1)
  assert.equal(made('D0', 6), true)

  const other = counting()
  const core = createPureCore({ resolver, engine: other.engine, clock: new ManualClock() })
  const sent = (id: string): boolean => {
    core.transmitFast([reading(5)], 'warm', 'ONLINE', T0, 7, 'DIFF')
    const before = other.binds()
    core.transmitFast([reading(5)], id, 'ONLINE', T0, 7, 'DIFF')
    return other.binds() > before
  }
  for (let k = 1; k < 4096; k++) assert.equal(sent(`D${k}`), true)
  assert.deepEqual([sent('D1'), sent('D4095')], [false, false])
  assert.equal(sent('new'), true)
  assert.deepEqual([sent('D1'), sent('D4095'), sent('D1')], [true, true, false])
})

test('a template that a core learns is written to its file immediately, whichever function makes the packet', () => {
  for (const way of ['transmitFast', 'encodeInto', 'batch of rscore'] as const) {
    const files = new MemFiles()
    const clock = new ManualClock()
    const fusion = new Fusion(null, { units, clock, registryDir: '/r', files, localId: 7 })
    const core = createCore(way === 'batch of rscore' ? 'rscore' : 'pycore', { resolver, fusion }, assert.fail)
    const send = (id: string): void => {
      if (way === 'transmitFast') core.transmitFast([reading(5)], id, 'ONLINE', T0, 7, 'DIFF')
      else if (way === 'encodeInto') core.encodeInto(new Uint8Array(200), 0, [reading(5)], id, 'ONLINE', T0, 7, 'DIFF')
      else {
        core.stage([reading(5)], id, 'ONLINE', T0, 7, 'DIFF')
        core.take()
      }
    }
    const written = (): number => (files.exists(fusion.registry!.path(7)) ? fusion.registry!.load(7).length : 0)
    send('D')
    assert.equal(written(), 1)
    send('E')
    assert.equal(written(), 1, 'once per second')
    clock.advance(1000)
    send('D')
    assert.equal(written(), 2)
  }
})

test('a buffer of exactly the needed size is accepted, one byte less is refused and changes nothing', () => {
  const core = createPureCore({ resolver, units, clock: new ManualClock() })
  const into = (size: number, at: number, value: number): number =>
    core.encodeInto(new Uint8Array(size), at, [reading(value)], 'D', 'ONLINE', T0, 7, 'DIFF')
  const most = new PacketPlan(core.engine, resolver, 7, 'D', 'ONLINE', ['a'])
  most.load([reading(1)])
  for (const at of [0, 5]) {
    assert.throws(() => into(most.maxSize - 1 + at, at, 1), { code: 'PACKET_TOO_LARGE' })
    assert.ok(into(most.maxSize + at, at, 1) > at)
  }
  const sender = new UplinkEncoder({ aid: 7, engine: core.engine, clock: new ManualClock() })
  const fact = { id: 'D', state: 'ONLINE', tRaw: T0, aid: 7, sensors: [sensor(1)] }
  for (const at of [0, 5]) {
    assert.throws(() => sender.encodeInto(fact, new Uint8Array(most.maxSize - 1 + at), at), {
      code: 'PACKET_TOO_LARGE',
    })
    assert.ok(sender.encodeInto(fact, new Uint8Array(most.maxSize + at), at) > at)
  }
})

test('times from 0 to 2^48 - 1 are accepted on the wire', () => {
  const core = createPureCore({ resolver, units, clock: new ManualClock() })
  const sender = new UplinkEncoder({ aid: 7, units, clock: new ManualClock() })
  const send = (t: number): void => {
    core.transmitFast([reading(5)], 'D', 'ONLINE', t, 7, 'DIFF')
    sender.encode({ id: 'D', state: 'ONLINE', tRaw: t, aid: 7, sensors: [sensor(5)] })
  }
  send(0)
  send(2 ** 48 - 1)
  for (const t of [-1, 2 ** 48, Number.NaN]) assert.throws(() => send(t), { code: 'BAD_TIME' })
  assert.throws(() => sender.encode({ id: 'D', state: 'ONLINE', tRaw: 2 ** 48, aid: 7, sensors: [] }), {
    code: 'BAD_TIME',
  })
})

test('a policy that reads the clock only after a reopened link sends what it must', () => {
  for (const change of ['opened', 'keyFramesApart'] as const) {
    const clock = new ManualClock()
    const sender = new UplinkEncoder({ aid: 7, units, clock, diffBase: 'last', fullEvery: 2, fullIntervalS: 0 })
    let ts = T0
    const cmd = (value: number): number =>
      sender.encode({ id: 'D', state: 'ONLINE', tRaw: ++ts, aid: 7, sensors: [sensor(value)] }).cmd
    clock.advance(50_000)
    assert.deepEqual([cmd(1), cmd(2), cmd(3)], [0x3f, 0xaa, 0x3f])
    if (change === 'keyFramesApart') {
      sender.keyFramesApart(30_000)
      assert.deepEqual([cmd(4), cmd(5)], [0xaa, 0x3f], 'the clock is read, and the last key frame was long ago')
      assert.deepEqual([cmd(6), cmd(7), cmd(8)], [0xaa, 0xaa, 0xaa], 'not within half a minute')
      clock.advance(30_000)
      assert.equal(cmd(9), 0x3f)
      continue
    }
    sender.opened(true, 'sticky')
    const full = sender.encode({ id: 'D', state: 'ONLINE', tRaw: ++ts, aid: 7, sensors: [sensor(9)] })
    assert.equal(full.cmd, 0x3f)
    const diff = sender.encode({ id: 'D', state: 'ONLINE', tRaw: ++ts, aid: 7, sensors: [sensor(10)] })
    sender.acknowledged(diff.tid, diff.ordinal)
    clock.advance(9_999)
    sender.keyFramesApart(60_000)
    assert.equal(cmd(10), 0xaa, 'the FULL may still be under way')
    clock.advance(1)
    assert.equal(cmd(10), 0x7f)
  }
})

test('a slot of 255 bytes fits a DIFF, one of 256 does not', () => {
  const seen = new Map<number, boolean>()
  for (let n = 240; n <= 256; n++) {
    const made = plan(0)
    assert.equal(made.load([reading(700, 'K', 'x'.repeat(n))]), LOADED)
    seen.set(made.metaBytes[0]!.length, made.longMeta)
  }
  assert.deepEqual([seen.get(254), seen.get(255), seen.get(256)], [false, false, true])
})
