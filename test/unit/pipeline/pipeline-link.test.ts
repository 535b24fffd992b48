// R10: on a sticky link no decoded value ever differs from the one sent for that time, whatever the link does.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Fact } from '../../../src/pipeline/fact'
import { Receiver } from '../../../src/pipeline/receiver'
import { type EncodedFrame, maxFullSize, type UplinkEncoder } from '../../../src/pipeline/sender'
import { ManualClock } from '../../lib/manual'
import { decoded, encoder, fact, T0 } from './pipeline-link-world'
import { random, units } from './units'

interface Link {
  acks: boolean
  seed: number
  restartReceiver: boolean
  restartSender: boolean
}

/** Random facts over a link that drops, duplicates and reorders; returns how many were decoded. */
function run({ acks, seed, restartReceiver, restartSender }: Link): { decoded: number; refused: number } {
  const next = random(seed)
  const clock = new ManualClock()
  const dir = mkdtempSync(join(tmpdir(), 'os-node-link-'))
  const options = { clock, fullEvery: 20, fullIntervalS: 30, diffBase: 'sticky' as const }
  let sender = encoder(options)
  let receiver = new Receiver({ units, clock, registryDir: dir })
  const truth = new Map<string, Fact>()
  const flying: { frame: EncodedFrame; sender: UplinkEncoder; due: number }[] = []
  const unacked: Fact[] = []
  const shapes = [2, 1, 5].map((n, k) => ({ id: `D${k}`, values: new Array<number | null>(n).fill(20) }))
  let good = 0
  let refused = 0
  for (let k = 0; k < 1200; k++) {
    clock.advance(200)
    const shape = shapes[(next() * shapes.length) | 0]!
    for (let i = 0; i < shape.values.length; i++)
      if (next() < 0.4) shape.values[i] = next() < 0.05 ? null : Math.round(next() * 1e6) / 1e4
    const made = fact(T0 + k * 200, [...shape.values], shape.id)
    truth.set(`${made.id}@${made.tRaw}`, structuredClone(made))
    const send = (f: Fact, again: boolean): void => {
      const frame = again ? sender.encodeFull(f) : sender.encode(f)
      if (next() < 0.25) return
      const copies = next() < 0.2 ? 2 : 1
      for (let c = 0; c < copies; c++) flying.push({ frame, sender, due: k + (next() < 0.3 ? next() * 15 : next()) })
    }
    send(made, false)
    if (next() < 0.2) unacked.push(made)
    if (next() < 0.1 && unacked.length > 0) send(unacked.shift()!, true)
    flying.sort((a, b) => a.due - b.due)
    while (flying.length > 0 && flying[0]!.due <= k + 1) {
      const { frame, sender: by } = flying.shift()!
      const got = receiver.receive(frame.bytes)
      if (got.kind === 'error') {
        refused++
        assert.ok(got.needFull, got.message)
        if (next() < 0.3) sender.keyFrameNext(Number(got.meta.tid))
        continue
      }
      good++
      const sent = truth.get(`${got.fact.id}@${got.fact.tRaw}`)!
      // of a template from before an unclean stop: the values of the frame, with a state that may be older (X33)
      if (got.needFull) {
        assert.ok(got.fact.sensors.length > 0)
        for (const { id, unit, value } of got.fact.sensors) {
          const { status: _, ...whole } = sent.sensors.find(sensor => sensor.id === id)!
          assert.deepEqual({ id, unit, value }, whole)
        }
      } else assert.deepEqual(got.fact, sent)
      if (acks && next() < 0.6) by.acknowledged(frame.tid, frame.ordinal)
    }
    if (restartReceiver && next() < 0.01) {
      if (next() < 0.5) receiver.save()
      receiver = new Receiver({ units, clock, registryDir: dir })
    }
    if (restartSender && next() < 0.005) sender = encoder({ ...options, firstTid: sender.nextTid })
  }
  rmSync(dir, { recursive: true, force: true })
  return { decoded: good, refused }
}

test('drops, duplicates and reordering never make a wrong value, with or without acknowledgements', () => {
  for (const acks of [false, true])
    for (let seed = 1; seed <= 8; seed++) {
      const { decoded } = run({ acks, seed, restartReceiver: false, restartSender: false })
      assert.ok(decoded > 700, `most frames are decoded: ${decoded}`)
    }
})

test('restarts of either end, clean or not, never make a wrong value', () => {
  for (const acks of [false, true])
    for (let seed = 21; seed <= 28; seed++) {
      const { decoded } = run({ acks, seed, restartReceiver: true, restartSender: true })
      assert.ok(decoded > 500, `it recovers by key frames: ${decoded}`)
    }
})

test('encode and decode are inverse for random facts in order', () => {
  const next = random(9)
  const sender = encoder()
  const receiver = new Receiver({ units })
  for (let k = 0; k < 3000; k++) {
    const values = Array.from({ length: 1 + (((k / 50) % 6) | 0) }, () =>
      next() < 0.05 ? null : Math.round((next() - 0.5) * 10 ** (next() * 14)) / 1e4,
    )
    const sent = fact(
      T0 + k,
      values.map(v => (v === 0 ? 0 : v)),
      `D${k % 7}`,
    )
    assert.deepEqual(decoded(receiver, sender.encode(sent).bytes), sent)
  }
})

test('sticky: a DIFF repeats every slot since the last acknowledgement, and HEART waits until no slot has to be repeated', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock })
  const size = (values: number[], t: number): EncodedFrame => sender.encode(fact(T0 + t, values))
  assert.equal(size([1, 1], 1).cmd, 0x3f)
  assert.equal(size([1, 1], 2).cmd, 0x7f)
  const a = size([2, 1], 3)
  assert.equal(a.bytes[13], 0b0010)
  sender.acknowledged(1, 1)
  clock.advance(10_000)
  const b = size([2, 2], 4)
  assert.equal(b.bytes[13], 0b1010)
  assert.equal(size([2, 2], 5).bytes[13], 0b1010, 'unchanged, but not acknowledged: no HEART')
  sender.acknowledged(a.tid, a.ordinal)
  assert.equal(size([2, 2], 6).bytes[13], 0b1000)
  sender.acknowledged(b.tid, b.ordinal)
  assert.equal(size([2, 2], 7).cmd, 0x7f)
  sender.keyFrameNext(b.tid)
  assert.equal(size([2, 3], 8).cmd, 0x3f)
  assert.equal(size([2, 3], 9).bytes[13], 0b1000, 'a key frame does not empty the set')
})

test('a FULL that may still be in flight stays the base, for a receiver that lost its templates', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock })
  sender.encode(fact(T0, [1]))
  const diff = sender.encode(fact(T0 + 1, [2]))
  sender.acknowledged(diff.tid, diff.ordinal)
  assert.equal(sender.encode(fact(T0 + 2, [2])).cmd, 0xaa)
  clock.advance(10_000)
  assert.equal(sender.encode(fact(T0 + 3, [2])).cmd, 0x7f)
})

test('last: each DIFF is relative to the packet before', () => {
  const sender = encoder({ diffBase: 'last' })
  const cmd = (values: number[], t: number): number[] => [...sender.encode(fact(T0 + t, values)).bytes.subarray(0, 1)]
  assert.deepEqual([cmd([1], 1), cmd([1], 2), cmd([2], 3), cmd([2], 4)], [[0x3f], [0x7f], [0xaa], [0x7f]])
})

test('key frames are sent by count and by time; with frames: full nothing else is sent', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock, fullEvery: 4, fullIntervalS: 10 })
  const cmds = Array.from({ length: 9 }, (_, k) => sender.encode(fact(T0 + k, [k])).cmd === 0x3f)
  assert.deepEqual(cmds, [true, false, false, false, true, false, false, false, true])
  clock.advance(10_000)
  assert.equal(sender.encode(fact(T0 + 100, [1])).cmd, 0x3f)
  const full = encoder({ frames: 'full' })
  for (let k = 0; k < 5; k++) assert.equal(full.encode(fact(T0 + k, [1])).cmd, 0x3f)
})

test('a new run starts on fresh TIDs; a reused one sends only FULL for the interval, or until acknowledged', () => {
  const clock = new ManualClock()
  const first = encoder({ clock })
  for (let k = 0; k < 3; k++) first.encode(fact(T0, [1], `D${k}`))
  assert.equal(first.nextTid, 4)
  const second = encoder({ clock, firstTid: first.nextTid })
  assert.equal(second.encode(fact(T0, [1])).tid, 4)
  const wrapped = encoder({ clock, firstTid: 200, fullIntervalS: 60, fullEvery: 0 })
  const frame = wrapped.encode(fact(T0, [1]))
  assert.deepEqual([frame.tid, wrapped.nextTid], [1, 201])
  assert.equal(wrapped.encode(fact(T0 + 1, [2])).cmd, 0x3f)
  wrapped.acknowledged(frame.tid, frame.ordinal)
  assert.equal(wrapped.encode(fact(T0 + 2, [3])).cmd, 0xaa)
})

test('where packets are acknowledged, a reused TID sends FULL until one is acknowledged, however long that takes', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock, firstTid: 200, acknowledged: true })
  const first = sender.encode(fact(T0, [1]))
  clock.advance(3_600_000)
  assert.equal(sender.encode(fact(T0 + 1, [2])).cmd, 0x3f)
  sender.acknowledged(first.tid, first.ordinal)
  assert.equal(sender.encode(fact(T0 + 2, [3])).cmd, 0xaa)
  // the link opens again, to a peer that does not answer
  const other = encoder({ clock, firstTid: 200, acknowledged: true })
  other.encode(fact(T0, [1]))
  other.policy.acknowledged = false
  other.keyFrameNext()
  clock.advance(59_999)
  assert.equal(other.encode(fact(T0 + 1, [1])).cmd, 0x3f)
  clock.advance(1)
  assert.equal(other.encode(fact(T0 + 2, [1])).cmd, 0x7f)
})

test('a packet without sensors, or with a slot no DIFF can carry, is a FULL each time (X13, X14)', () => {
  const sender = encoder()
  for (let k = 0; k < 3; k++) assert.equal(sender.encode(fact(T0 + k, [])).cmd, 0x3f)
  const long = (t: number, status: string): number => {
    const made = fact(T0 + t, [1], 'long')
    made.sensors[0]!.status = status
    return sender.encode(made).cmd
  }
  assert.deepEqual(
    [long(0, 'OK'), long(1, 'X'.repeat(254)), long(2, 'X'.repeat(254)), long(3, 'OK'), long(4, 'OK')],
    [0x3f, 0x3f, 0x3f, 0xaa, 0xaa],
  )
})

test('an acknowledgement of a TID that changed its meaning is ignored', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock, fullEvery: 0, fullIntervalS: 0 })
  const old = Array.from({ length: 30 }, (_, k) => sender.encode(fact(T0 + k, [k], 'old'))).at(-1)!
  for (let k = 0; k < 198; k++) sender.encode(fact(T0, [1], `D${k}`))
  const fresh = sender.encode(fact(T0 + 30, [1], 'new'))
  assert.equal(fresh.tid, old.tid, 'least recently used')
  for (let k = 1; k < 40; k++) sender.encode(fact(T0 + 30 + k, [2], 'new'))
  clock.advance(10_000)
  sender.acknowledged(old.tid, old.ordinal)
  assert.equal(sender.encode(fact(T0 + 80, [2], 'new')).cmd, 0xaa, 'the change is still carried')
})

test('a late or resent fact is sent as FULL under a backlog TID and changes no template', () => {
  const sender = encoder()
  const a = sender.encode(fact(T0 + 10, [1]))
  sender.encode(fact(T0 + 11, [2]))
  for (const late of [
    sender.encode(fact(T0 + 5, [9])),
    sender.encodeFull(fact(T0 + 10, [1]), 254),
    sender.encode(fact(T0 + 20, [7]), { late: true }),
  ]) {
    assert.ok(late.tid >= 200 && late.ordinal === 0 && late.cmd === 0x3f)
    sender.acknowledged(late.tid, late.ordinal)
  }
  assert.equal(sender.encode(fact(T0 + 12, [2])).bytes[13], 0b10, 'nothing was acknowledged by them')
  assert.ok(a.tid < 200)
  assert.throws(() => sender.encodeFull(fact(T0, [1]), 5), { code: 'BAD_REQUEST' })
})

test('a fact that cannot be sent throws and leaves the template as it was', () => {
  const sender = encoder()
  sender.encode(fact(T0, [1, 1]))
  assert.throws(() => sender.encode(fact(T0 + 1, [2, 1e300])), { code: 'E_PRECISION' })
  assert.throws(() => sender.encode(fact(T0 + 1, [2, Number.NaN])), { code: 'BAD_READING' })
  assert.throws(() => sender.encode(fact(-1, [2, 1])), { code: 'BAD_TIME' })
  assert.throws(() => sender.encode(fact(T0, [1], 'a.b')), { code: 'BAD_ID' })
  assert.equal(sender.encode(fact(T0 + 2, [2, 1])).bytes[13], 0b0010)
})

test('encodeInto gives the same frames as encode', () => {
  const a = encoder()
  const b = encoder()
  const out = Buffer.alloc(512)
  for (let k = 0; k < 200; k++) {
    const f = fact(T0 + k, [k % 5, k % 7, null], `D${k % 3}`)
    const frame = a.encode(f)
    const end = b.encodeInto(f, out, 7)
    assert.equal(out.toString('hex', 7, end), frame.bytes.toString('hex'))
    assert.deepEqual([b.lastTid, b.lastOrdinal], [frame.tid, frame.ordinal])
  }
})

test('no frame exceeds maxFullSize', () => {
  const next = random(31)
  const sender = encoder({ aid: 4294967294 })
  for (let k = 0; k < 500; k++) {
    const f = fact(
      T0 + k,
      Array.from({ length: 1 + (k % 9) }, () => (next() - 0.5) * 10 ** (next() * 14)),
      'Gerät',
      k % 2 ? 'A' : 'K',
    )
    if (k % 5 === 0) f.extras = { geohash: 'u33', url: 'https://x', msg: 'hallo' }
    const bound = maxFullSize(sender.engine, sender.aid, f)
    const full = sender.encodeFull(f).size
    assert.ok(full <= bound && bound - full < 24 * f.sensors.length + 24, `${full} of ${bound}`)
    assert.ok(sender.encode(f).size <= bound)
  }
})

test('a TID reassigned to another device accepts no facts older than those it carried', () => {
  const sender = encoder()
  const receiver = new Receiver({ units, clock: new ManualClock() })
  for (let k = 0; k < 199; k++) decoded(receiver, sender.encode(fact(T0 + 1000 + k, [k], `D${k}`)).bytes)
  const made = fact(T0, [5], 'older')
  const first = sender.encode(made)
  assert.ok(first.tid >= 200, `TID ${first.tid}`)
  assert.deepEqual(decoded(receiver, first.bytes), made)
  const newer = fact(T0 + 5000, [6], 'older')
  const second = sender.encode(newer)
  assert.ok(second.tid < 200)
  sender.acknowledged(second.tid, second.ordinal)
  assert.deepEqual(decoded(receiver, second.bytes), newer)
})

test('a peer that stopped answering may know only older bare packets: every slot changed since is sent with the next DIFF', () => {
  const clock = new ManualClock()
  const sender = encoder({ clock, fullIntervalS: 60 })
  const receiver = new Receiver({ units })
  decoded(receiver, sender.encode(fact(T0, [1, 2])).bytes)
  sender.opened(true)
  for (let k = 1; k < 4; k++) {
    const frame = sender.encode(fact(T0 + k, [10 * k, 2]))
    assert.equal(receiver.receive(frame.bytes, 7).kind, 'fact')
    sender.acknowledged(frame.tid, frame.ordinal)
    clock.advance(20_000)
  }
  sender.opened(false)
  // the first ones are lost
  for (let k = 4; k < 70; k++) {
    const { bytes } = sender.encode(fact(T0 + k, [30, k]))
    clock.advance(1000)
    if (k > 60) assert.deepEqual(decoded(receiver, bytes), fact(T0 + k, [30, k]))
  }
})
