// What an uplink packs: own facts as DIFF, relayed ones as FULL of their source, older ones on backlog TIDs; and which
// NACKs are obeyed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GatewayCores } from '../../../../src/cores'
import { Encoders, type PackSettings } from '../../../../src/gateway/uplink/encoders'
import { silentLogger } from '../../../../src/lib/logger'
import type { Airtime } from '../../../../src/links/contracts'
import type { Fact } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import type { EncodedFrame } from '../../../../src/pipeline/sender'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import { nackReason, parseRefusedFrame, type RefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ManualClock } from '../../../lib/manual'

const T0 = 1_710_000_000_000
const fact = (k: number, value: number, aid = 7, id = 'D'): Fact => ({
  id,
  state: 'ONLINE',
  tRaw: T0 + k,
  aid,
  sensors: [{ id: 'a', status: 'OK', unit: 'K', value }],
})
const refused = ({ bytes }: EncodedFrame): RefusedFrame => parseRefusedFrame(nackReason('NEED_FULL', bytes)!)!

function encoders(
  settings: Partial<PackSettings> = {},
  {
    cleanStop = true,
    lastSeq = 0,
    ...parts
  }: { cleanStop?: boolean; lastSeq?: number; cores?: GatewayCores; airtime?: Airtime } = {},
) {
  const clock = new ManualClock()
  const made = new Encoders(
    { name: 'up', diffBase: 'sticky', frames: 'auto', fullEvery: 100, fullIntervalS: 600, precision: 4, ...settings },
    {
      log: {
        counter: () => undefined,
        appendCounter: () => 1,
        committed: async () => undefined,
        cleanStop,
        lastSeq,
      } as never,
      clock,
      logger: silentLogger,
      units: { ...wireUnits(), resolve } as never,
      client: new SecureClient({ clock }),
      recent: new SentFrames(),
      changed: () => undefined,
      ...parts,
    },
  )
  const send = (one: Fact, full = false, seq = 1): EncodedFrame => {
    const frame = made.encode(one, full, 1400, seq)
    made.sent(one, frame, 0)
    return frame
  }
  return { encoders: made, clock, send }
}

test('a power cut that took the TID counters, without acknowledgements: no DIFF of the next run builds on the last one, whatever waited', () => {
  const receiver = new Receiver({
    precision: 4,
    units: wireUnits(),
    clock: new ManualClock(T0 + 1_000_000),
  })
  const two = (k: number, value: number, slow: number): Fact => {
    const one = fact(k, value)
    return { ...one, sensors: [...one.sensors, { id: 'slow', status: 'OK', unit: 'K', value: slow }] }
  }
  const values = ({ bytes }: EncodedFrame): unknown[] => {
    const received = receiver.receive(bytes)
    return received.kind === 'fact' ? received.fact.sensors.map(({ value }) => value) : [received.code]
  }
  const before = encoders()
  for (const [k, slow] of [1, 1, 2].entries())
    assert.deepEqual(values(before.send(two(1000 * k, k, slow), false, k + 1)), [k, slow])
  // the log has the first record, which was not acknowledged, and no counter
  const after = encoders({}, { cleanStop: false, lastSeq: 1 })
  assert.deepEqual(values(after.send(two(0, 0, 3), false, 1)), [0, 3])
  assert.deepEqual(values(after.send(two(9000, 9, 3), false, 2)), [9, 3])
  assert.deepEqual(values(after.send(two(9500, 10, 3), false, 3)), [10, 3])
  after.encoders.opened(true)
  assert.ok(after.send(two(9600, 1, 3), false, 1).tid < 200, 'with acknowledgements each run has templates of its own')
})

test('X9: a key frame is sent only for a NACK that names a frame of the last minute with its checksum', () => {
  const { encoders: up, clock, send } = encoders()
  send(fact(0, 1))
  const sent = send(fact(1, 2))
  const next = (k: number): number => send(fact(k, k)).cmd
  const named = refused(sent)
  let k = 10
  for (const wrong of [{ crc16: named.crc16 ^ 1 }, { ts: 0 }, { tid: 99 }, { aid: 8 }]) {
    up.needFull({ ...named, ...wrong })
    assert.equal(next(++k), 0xaa)
  }
  up.needFull(named)
  assert.equal(next(100), 0x3f)
  up.needFull(refused(send(fact(101, 1))))
  assert.equal(next(102), 0xaa, 'at most once in ten seconds')
  clock.advance(10_000)
  up.needFull(refused(send(fact(103, 1))))
  assert.equal(next(104), 0x3f)
  const old = send(fact(105, 1))
  clock.advance(60_001)
  up.needFull(refused(old))
  assert.equal(next(106), 0xaa, 'older than a minute')
})

test('X15: relayed facts are sent as FULL under their source, older and retransmitted ones on a backlog TID', () => {
  const { encoders: up, send } = encoders()
  const frames = [send(fact(0, 1, 50), true), send(fact(1, 1, 50), true), send(fact(0, 2, 50, 'E'), true)]
  for (const frame of frames) {
    assert.equal(frame.cmd, 0x3f)
    assert.equal(frame.bytes.readUInt32BE(2), 50)
    assert.ok(frame.tid < 200)
  }
  assert.equal(frames[0]!.tid, frames[1]!.tid)
  const late = send(fact(-5, 3, 50), true)
  const again = up.encodeAgain(fact(1, 1, 50))
  for (const frame of [late, again]) assert.deepEqual([frame.cmd, frame.tid >= 200, frame.ordinal], [0x3f, true, 0])
  assert.equal(again.bytes.readUIntBE(7, 6), T0 + 1, 'with its own time')
})

test('own and relayed facts of different sources share no template', () => {
  const { send } = encoders()
  assert.deepEqual(
    [send(fact(0, 1, 7)), send(fact(1, 1, 8)), send(fact(2, 1, 7)), send(fact(3, 1, 8))].map(({ cmd }) => cmd),
    [0x3f, 0x3f, 0x7f, 0x7f],
  )
})

test("a packet that exceeds the link's limit is refused, and no later packet depends on it", () => {
  for (const diffBase of ['last', 'sticky'] as const) {
    const { encoders: up, send } = encoders({ diffBase })
    send(fact(0, 1))
    assert.throws(() => up.encode(fact(1, 123456), false, 16, 1), { code: 'PACKET_TOO_LARGE' })
    const next = send(fact(2, 123456))
    assert.equal(next.cmd, 0x3f, 'the change is in it')
  }
})

test('when relayed sources exceed the limit the one heard longest ago is evicted, and never reuses a TID it has sent under', () => {
  const { encoders: up, send } = encoders()
  const first = send(fact(0, 1, 100), true)
  const other = send(fact(0, 1, 100, 'OTHER'), true)
  for (let aid = 101; aid < 100 + 1024; aid++) send(fact(0, 1, aid), true)
  assert.equal([...up.aids()].length, 1024)
  send(fact(1, 1, 100), true) // now the latest
  send(fact(0, 1, 5000), true)
  const known = new Set(up.aids())
  assert.deepEqual([known.size, known.has(100), known.has(101), known.has(5000)], [1024, true, false, true])
  for (let aid = 6000; aid < 6000 + 1024; aid++) send(fact(0, 1, aid), true)
  assert.ok(![...up.aids()].includes(100))
  const back = send(fact(2, 2, 100, 'THIRD'), true)
  assert.equal(back.cmd, 0x3f)
  assert.ok(back.tid > Math.max(first.tid, other.tid), `${back.tid} after ${first.tid} and ${other.tid}`)
  const before = [...up.aids()]
  assert.ok(up.sizeOf(fact(3, 1, 9999)) > 20)
  assert.deepEqual([...up.aids()], before, 'measuring pushes nobody out')
})

test('frames are staged where the native core is chosen and four records wait, except with limited airtime', () => {
  const native = () => new GatewayCores(silentLogger, { uplinks: 'rscore', receivers: 'pycore' })
  const stages = (waiting: number, parts: Parameters<typeof encoders>[1]): boolean => {
    const { encoders: made, send } = encoders({}, parts)
    made.begin(() => waiting)
    const frame = send(fact(1, 280))
    const staged = frame.size === 0
    made.finish()
    assert.ok(frame.size > 20 && frame.bytes.length === frame.size)
    assert.equal(made.wasSent(refused(frame)), true)
    return staged
  }
  assert.deepEqual([stages(3, { cores: native() }), stages(4, { cores: native() })], [false, true])
  assert.equal(stages(100, {}), false)
  assert.equal(stages(100, { cores: new GatewayCores(silentLogger) }), false)
  const airtime = { share: 1, of: () => 1, waitMs: () => 0 } as unknown as Airtime
  assert.equal(stages(100, { cores: native(), airtime }), false)
})

test('staged and single frames are complete in order, and one that may be too large is never staged', () => {
  const cores = new GatewayCores(silentLogger, { uplinks: 'rscore', receivers: 'pycore' })
  const single = encoders()
  const { encoders: made } = encoders({}, { cores })
  made.begin(() => 9)
  const sizes: number[] = []
  const frames = [1, 2, 3, 4].map(k => {
    // the third has no room for the largest frame of its plan, but for its own
    const one = fact(k, 280 + k)
    const frame = made.encode(one, false, k === 3 ? 24 : 1400, k)
    made.sent(one, frame, k)
    sizes.push(frame.size)
    return frame
  })
  made.finish()
  assert.deepEqual(
    sizes.map(size => size > 0),
    [false, false, true, false],
  )
  const expected = [1, 2, 3, 4].map(k => single.send(fact(k, 280 + k), false, k).bytes.toString('hex'))
  assert.deepEqual(
    frames.map(({ bytes }) => bytes.toString('hex')),
    expected,
  )
  assert.throws(() => made.encode(fact(5, 285.1234), false, 20, 5), { code: 'PACKET_TOO_LARGE' })
})

test('a frame staged before its AID got a key is none of that key', () => {
  const cores = new GatewayCores(silentLogger, { uplinks: 'rscore', receivers: 'pycore' })
  const { encoders: made, send, clock } = encoders({}, { cores })
  // time goes on between two readings of the clock
  clock.mono = () => ++clock.monoMs
  made.begin(() => 9)
  const before = send(fact(1, 280))
  made.keyed(7)
  const after = send(fact(2, 281))
  made.finish()
  assert.deepEqual([made.wasSent(refused(before)), made.wasSent(refused(after))], [false, true])
})
