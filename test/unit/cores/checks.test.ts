// P3 for receivers: frame by frame, in batches with the checksums on the native core, and on the slow path, a receiver gives the
// same facts, refusals, counters and templates for every input. A second AID in the route of a frame forces the slow path. Random
// packets of both dialects and every diff_base: dropped, repeated, late, damaged, with bodies that do not fit.
// Long: a million frames; `npm test` runs one per cent of them
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createNativeChecks, createNativeCore } from '../../../src/cores'
import { createPacketSums } from '../../../src/cores/checks'
import type { Core } from '../../../src/pipeline/core'
import type { Reading } from '../../../src/pipeline/fact'
import { createPureCore, type PureCoreOptions } from '../../../src/pipeline/pycore'
import { plainFrame } from '../../../src/pipeline/receive'
import { type Received, Receiver } from '../../../src/pipeline/receiver'
import { attributeUnits } from '../../../src/units/attribute'
import { resolve, resolveList } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { crc16 } from '../../../src/wire/crc'
import { sealFrame } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'
import { prng, rounds } from '../../lib/random'

const units = wireUnits()
const FRAMES = rounds(6_000, 1_000_000)
const T0 = 1_710_000_000_000
const UNITS = ['Cel', '[degF]', 'K', 'kPa', 'A', 'mA', '%', '{rpm}', 'uV', 'By']
const AIDS = [1, 2, 0xfffffff0]

/** The same frame with one more hop; null for a frame without a route. */
function detour(frame: Buffer): Buffer | null {
  if (frame.length < 16 || frame[1] !== 1) return null
  const sound = crc16(frame, 0, frame.length - 2) === frame.readUInt16BE(frame.length - 2)
  const made = Buffer.concat([Buffer.of(frame[0]!, 2, 0, 0, 0, 99), frame.subarray(2)])
  made.writeUInt16BE(crc16(made, 0, made.length - 2) ^ (sound ? 0 : 1), made.length - 2)
  return made
}

/** Everything that was reported about a frame except how it was received. */
function plainly(received: Received): unknown {
  const { routes: _, ...meta } = received.meta
  return { ...received, meta }
}

class World {
  readonly clock = new ManualClock(T0)
  readonly core: Core
  readonly single: Receiver
  readonly batch: Receiver
  readonly slow: Receiver
  readonly recent: Buffer[] = []
  readonly shapes: Reading[][] = []
  readonly keys = new Map<number, Uint8Array>()
  waiting: { frame: Buffer; slow: Buffer; said: unknown }[] = []
  /** frames of a batch that were delivered only as a fact */
  quick = 0
  t = T0

  constructor(dialect: 'ucum' | 'attribute', diffBase: 'last' | 'sticky', precision: number, native: boolean) {
    const { clock } = this
    const options: PureCoreOptions = {
      resolver: dialect === 'attribute' ? attributeUnits : { resolve, resolveList },
      ...{ units, clock, precision, unitDialect: dialect, registryDir: null },
      keys: { outbound: aid => this.keys.get(aid) ?? null, inbound: () => null },
      policy: { diffBase, fullEvery: diffBase === 'last' ? 0 : 7, fullIntervalMs: 0 },
    }
    this.core = native ? createNativeCore(options)! : createPureCore(options)
    const receiver = (): Receiver =>
      new Receiver({
        ...{ units, clock, precision, dialect, checks: createNativeChecks() },
        inboundKey: aid => this.keys.get(aid) ?? null,
        latest: () => clock.wall() + 30_000,
      })
    this.single = receiver()
    this.batch = receiver()
    this.slow = receiver()
  }

  /** Passes the waiting frames to the batch receiver, whose results must equal those of the others. */
  settle(epoch: number): void {
    const ends = Int32Array.from(
      this.waiting,
      (
        sum =>
        ({ frame }) =>
          (sum += frame.length)
      )(0),
    )
    const told: unknown[] = []
    this.batch.receiveBatch(
      Buffer.concat(this.waiting.map(({ frame }) => frame)),
      ends,
      ends.length,
      {
        fact: (_, fact, advanced, reshaped) => told.push({ fact, advanced, reshaped }),
        other: (_, received) => told.push(plainly(received)),
      },
      epoch,
    )
    assert.equal(told.length, this.waiting.length)
    for (const [k, { said, frame }] of this.waiting.entries()) {
      const got = told[k] as object
      const want = said as Extract<Received, { kind: 'fact' }>
      if (!('kind' in got)) this.quick++
      if ('kind' in got) assert.deepEqual(got, want, frame.toString('hex'))
      else {
        assert.deepEqual(got, { fact: want.fact, advanced: want.advanced, reshaped: want.reshaped })
        const { late, future, server_stamped, template_rebuilt } = want.meta
        assert.deepEqual(
          [want.needFull, want.key, late, future, server_stamped, template_rebuilt],
          [false, null, undefined, undefined, false, undefined],
        )
      }
    }
    this.waiting = []
    // not earlier: a frame without a time gets that of the clock
    this.clock.advance(this.t - this.clock.wall())
  }
}

test('random frames: one by one, in batches and on the slow path, a receiver gives the same results', () => {
  const next = prng(4711)
  const below = (n: number): number => Math.floor(next() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const value = (): number =>
    next() < 0.05 ? pick([0, -1, 62, -62, 2 ** 50, 1e-9, -273.15]) : Math.round((next() - 0.5) * 10 ** below(9)) / 100
  const row = (i: number): Reading => [
    next() < 0.1 ? `\u00e9${i}` : `s${i}`,
    pick(['OK', 'OK', 'WARN', 'ERROR']),
    value(),
    pick(UNITS),
  ]
  const worlds: World[] = []
  for (const dialect of ['ucum', 'attribute'] as const)
    for (const diffBase of ['last', 'sticky'] as const)
      for (const precision of [0, 4, 9]) worlds.push(new World(dialect, diffBase, precision, worlds.length % 2 === 1))
  const kinds = new Map<string, number>()
  for (let k = 0; k < FRAMES; k++) {
    const w = worlds[k % worlds.length]!
    // one run of every AID is bare, the other one is an epoch
    const epoch = worlds.indexOf(w) % 3 === 0 ? 7 : undefined
    if (w.shapes.length < 4 || next() < 0.01)
      w.shapes[below(5)] = Array.from({ length: 1 + below(next() < 0.9 ? 6 : 40) }, (_, i) => row(i))
    const shape = pick(w.shapes.filter(Boolean))
    for (let i = 0; i < shape.length; i++) {
      const [id, status, , unit] = shape[i]!
      if (next() < 0.5)
        shape[i] = next() < 0.03 ? [id, pick(['OK', 'WARN', 'E']), value(), pick(UNITS)] : [id, status, value(), unit]
    }
    const aid = pick(AIDS)
    if (next() < 0.004) {
      // keys are those valid when a frame is read
      w.settle(epoch ?? -1)
      if (w.keys.has(aid)) w.keys.delete(aid)
      else w.keys.set(aid, Buffer.from(Array.from({ length: 32 }, () => below(256))))
    }
    w.t += pick([0, 1, 1000, 1000, 1000])
    const odd = next()
    const time =
      odd < 0.02
        ? 0
        : odd < 0.03
          ? Math.floor(w.t / 1000)
          : odd < 0.06
            ? w.t + 60_000
            : odd < 0.1
              ? w.t - below(9000)
              : w.t
    let frame: Buffer
    try {
      frame = w.core.transmitFast(
        [...shape],
        `dev${w.shapes.indexOf(shape)}`,
        next() < 0.98 ? 'ONLINE' : 'WARN',
        time,
        aid,
        next() < 0.2 ? 'FULL' : 'DIFF',
      )
    } catch {
      continue
    }
    const fate = next()
    if (fate < 0.03) continue
    if (fate < 0.08 && w.recent.length > 0) frame = pick(w.recent)
    else if (fate < 0.12) {
      // another body with correct checksums: a byte, or a value that is the text for "no value" (X34)
      let body = Buffer.from(frame.subarray(13, frame.length - 3))
      if (frame[0] === 0x3f && next() < 0.4)
        body = Buffer.from(body.toString('latin1').replace(/:\w+\|/, ':00|'), 'latin1')
      else if (body.length > 0)
        body[below(body.length)] = next() < 0.5 ? pick([46, 48, 58, 59, 62, 124, 45, 64, 35, 38]) : below(256)
      frame = Buffer.concat([frame.subarray(0, 13), body, Buffer.alloc(3)])
      sealFrame(frame, 0, 13, frame.length - 3, null)
    } else if (fate < 0.14) {
      frame = Buffer.from(frame.subarray(0, next() < 0.5 ? frame.length : below(frame.length)))
      if (frame.length > 1) frame[1 + below(frame.length - 1)]! ^= 1 << below(8)
    }
    const slow = detour(frame)
    if (!slow) continue
    w.recent[below(8) % (w.recent.length + 1)] = frame
    const said = plainly(w.slow.receive(slow, epoch))
    assert.deepEqual(plainly(w.single.receive(frame, epoch)), said, frame.toString('hex'))
    const { kind, code, meta } = said as { kind: string; code?: string; meta: { base_cmd: number } }
    const name = `${code ?? kind} ${meta.base_cmd}`
    kinds.set(name, (kinds.get(name) ?? 0) + 1)
    w.waiting.push({ frame, slow, said })
    if (next() < 1 / 20 || w.keys.size > 0) w.settle(epoch ?? -1)
  }
  for (const [k, w] of worlds.entries()) {
    w.settle(k % 3 === 0 ? 7 : -1)
    for (const other of [w.single, w.batch]) {
      assert.deepEqual(other.counters, w.slow.counters)
      for (const aid of AIDS) assert.deepEqual(other.templates(aid), w.slow.templates(aid))
    }
  }
  const quick = worlds.reduce((sum, w) => sum + w.quick, 0)
  assert.ok(quick > FRAMES / 4, `${quick} of ${FRAMES} frames the quick way`)
  for (const name of ['fact 63', 'fact 127', 'fact 170', 'NEED_FULL 170', 'BAD_PACKET 63', 'LATE_DROPPED 170'])
    assert.ok((kinds.get(name) ?? 0) > 0, `${name} of ${JSON.stringify([...kinds])}`)
})

test('a batch, and a single frame, larger than the memory of the module are decoded', () => {
  const clock = new ManualClock(T0 + 100_000)
  const options = { units, clock, precision: 4, resolver: { resolve, resolveList }, registryDir: null }
  const core = createPureCore(options)
  const large: Reading[] = Array.from({ length: 9000 }, (_, i) => [`sensor-${i}`, 'OK', i, 'K'])
  const frames: Buffer[] = []
  for (let k = 0; k < 9000; k++)
    frames.push(
      core.transmitFast(
        k % 4000 === 100 ? large : [['a', 'OK', k, 'K']],
        `d${k % 4000 === 100}`,
        'ONLINE',
        T0 + k,
        7,
        'FULL',
      ),
    )
  const receiver = new Receiver({ units, clock, checks: createNativeChecks() })
  const ends = Int32Array.from(
    frames,
    (
      sum => frame =>
        (sum += frame.length)
    )(0),
  )
  const values: (number | null)[] = []
  const note = (k: number, value: number | null): void => {
    assert.equal(k, values.length)
    values.push(value)
  }
  receiver.receiveBatch(Buffer.concat(frames), ends, frames.length, {
    fact: (k, fact) => note(k, fact.sensors.at(-1)!.value),
    other: (k, got) => note(k, got.kind === 'fact' ? got.fact.sensors.at(-1)!.value : null),
  })
  assert.deepEqual(
    values,
    frames.map((_, k) => (k % 4000 === 100 ? 8999 : k)),
  )
})

test('packets of a delivery frame, each after its length, give what plainFrame gives for each', () => {
  const next = prng(9)
  const core = createPureCore({ units, precision: 4, resolver: { resolve, resolveList }, registryDir: null })
  const sums = createPacketSums()!
  let good = 0
  for (let round = 0; round < 200; round++) {
    const packets = Array.from({ length: 1 + Math.floor(next() * 255) }, (_, k) => {
      const packet = Buffer.from(
        core.transmitFast([['a', 'OK', next(), 'K']], 'd', 'ONLINE', T0 + round * 300 + k, 7, 'DIFF'),
      )
      const fate = next()
      if (fate < 0.1) packet[Math.floor(next() * packet.length)]! ^= 4
      return fate < 0.2 ? packet.subarray(0, 1 + Math.floor(next() * packet.length)) : packet
    })
    const frame = Buffer.concat([
      Buffer.alloc(14),
      ...packets.flatMap(packet => [Buffer.of(packet.length >> 8, packet.length), packet]),
      Buffer.alloc(2),
    ])
    const results = [...sums(frame, 14, packets.length)!]
    assert.deepEqual(
      results,
      packets.map(packet => Number(plainFrame(packet, 0, packet.length))),
    )
    good += results.filter(Boolean).length
  }
  assert.ok(good > 10_000, `${good}`)
  const first = sums(Buffer.from('0001ff', 'hex'), 0, 1)!
  assert.notEqual(sums(Buffer.from('0001ff', 'hex'), 0, 1), first, 'a result is of its call')
})

test('a packet that would end after its frame is not sound, and a frame too large for the module is not looked at', () => {
  const core = createPureCore({ units, precision: 4, resolver: { resolve, resolveList }, registryDir: null })
  const packet = core.transmitFast([['a', 'OK', 1, 'K']], 'd', 'ONLINE', T0, 7, 'DIFF')
  const sums = createPacketSums()!
  const frame = Buffer.concat([Buffer.of(0, packet.length), packet, Buffer.of(0, packet.length), packet])
  assert.deepEqual([...sums(frame, 0, 2)!], [1, 1])
  // the memory behind it has what the frame before left there
  assert.deepEqual([...sums(frame.subarray(0, -1), 0, 2)!], [1, 0])
  assert.deepEqual([...sums(frame.subarray(0, packet.length + 3), 0, 3)!], [1, 0, 0])
  assert.equal(sums(Buffer.alloc(98_305), 0, 1), null)
})

test('sums of a frame allocate their result and nothing for a packet', () => {
  const frame = Buffer.alloc(14 + 64 * 32)
  for (let at = 14; at < frame.length; at += 32) frame[at + 1] = 30
  const sums = createPacketSums()!
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const grown = (): number => {
    gc()
    const before = process.memoryUsage().heapUsed
    for (let k = 0; k < 1000; k++) sums(frame, 14, 64)
    return process.memoryUsage().heapUsed - before
  }
  grown()
  // the least: a collection in between makes it negative
  const perPacket = Math.min(...Array.from({ length: 9 }, grown).filter(bytes => bytes > 0)) / 64_000
  assert.ok(perPacket < 20, `${perPacket} bytes a packet`)
})
