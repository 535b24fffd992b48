// Media that acknowledge on their own (MQTT): every packet is settled exactly once, in every case. An unsettled packet
// occupies its slot forever, and once all slots are occupied no packet is acknowledged any more.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receive, type ReceiveOptions } from '../../../../src/gateway/receive/receive'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { PacketOrigin } from '../../../../src/links/contracts'
import type { Fact } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { buildAck, buildIdRequest, buildNack, buildPing, buildTimeRequest } from '../../../../src/protocol/control'
import { addToFrame, buildProbe, finishFrame, startFrame } from '../../../../src/protocol/delivery/frame'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { NodeClock } from '../../../../src/protocol/time'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ByteWriter } from '../../../../src/wire/cursor'
import { ManualClock } from '../../../lib/manual'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000

const fact = (k: number, aid = 9): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw: k === 0 ? 0 : T0 + k,
  aid,
  sensors: [{ id: 'a', status: 'OK', unit: 'K', value: 280 + k }],
})

function frame(packet: Uint8Array): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(400))
  startFrame(writer, 5, 1, 1)
  addToFrame(writer, packet)
  return finishFrame(writer, 1).slice()
}

/** The receiver, its log, and the outcome of every packet it got. */
function world(options: Partial<ReceiveOptions> = {}) {
  const clock = new ManualClock(T0 + 5000)
  const time = new NodeClock(clock)
  const state = { refusal: null as Error | null, kept: 0, committed: 0, marks: 0, flushes: 0 }
  let waiting: { done: () => void; fail: (error: Error) => void }[] = []
  const log = {
    get lastSeq() {
      return state.kept
    },
    get committedSeq() {
      return state.committed
    },
    appendFact: () => {
      if (state.refusal) throw state.refusal
      return ++state.kept
    },
    appendCounter: () => state.marks++,
    appendPacket: () => {
      throw new OsError('PACKET_TOO_LARGE', 'a packet')
    },
    flush: async () => void state.flushes++,
    committed: () => new Promise<void>((done, fail) => waiting.push({ done, fail })),
  }
  const receive = new Receive({
    log: log as never,
    receiver: new Receiver({ units, clock: time, stamp: aid => time.stamp(aid) }),
    duplicates: new DuplicateFilter(),
    pickers: new WirePickers(units, 4),
    protocol: new HandshakeManager({}, { clock: time, requireOpenRequest: true }),
    time,
    logger: silentLogger,
    ackCommitMs: 100,
    onFact: () => undefined,
    ...options,
  })
  const fates: boolean[][] = []
  const give = (packet: Uint8Array, address = 'mqtt://b/os/9'): boolean[] => {
    const fate: boolean[] = []
    fates.push(fate)
    const origin: PacketOrigin = {
      medium: 'MQTT',
      address,
      reply: async () => true,
      settle: kept => void fate.push(kept),
    }
    receive.packet(packet, origin)
    return fate
  }
  const settle = async (how: (waiter: (typeof waiting)[number]) => void): Promise<void> => {
    const now = waiting
    waiting = []
    now.forEach(how)
    await new Promise(setImmediate)
  }
  return {
    receive,
    state,
    fates,
    give,
    commit: () => {
      state.committed = state.kept
      return settle(({ done }) => done())
    },
    fail: () => settle(({ fail }) => fail(new Error('no space left on device'))),
  }
}

const encoder = () => new UplinkEncoder({ aid: 9, units, diffBase: 'last', clock: new ManualClock() })

test('a packet that needs no record is settled immediately, or when its answer may be sent: never held back, never twice', async () => {
  const { give, commit, fates, receive } = world({ allowed: address => !address.includes('stranger') })
  const diffs = encoder()
  diffs.encode(fact(1))
  const broken = Buffer.from(diffs.encode(fact(2)).bytes)
  broken[broken.length - 1]! ^= 1
  const cases: Record<string, Uint8Array> = {
    empty: new Uint8Array(0),
    'unknown command': Buffer.from([0xee, 1, 2]),
    'a cut control packet': Buffer.from([1]),
    'a ping': buildPing(1),
    'a time request': buildTimeRequest(2),
    'an id request': buildIdRequest(3, { device_id: 'X' }),
    'an answer nobody asked for': buildAck(4),
    'a NACK': buildNack(5, 'NEED_FULL:9:1:1:1'),
    'a probe': buildProbe(7),
    'a delivery frame': frame(encoder().encode(fact(7)).bytes),
    'a broken delivery frame': frame(encoder().encode(fact(8)).bytes).subarray(0, 20),
    'a DIFF without its template': diffs.encode(fact(3)).bytes,
    'a broken packet': broken,
  }
  for (const [what, packet] of Object.entries(cases)) {
    const fate = give(packet)
    await new Promise(setImmediate)
    await commit()
    assert.deepEqual(fate, [true], what)
  }
  assert.deepEqual(give(buildPing(1), 'stranger'), [true])
  assert.ok(receive.counters.control >= 6)
  assert.ok(fates.every(fate => fate.length === 1))
})

test('an id request is settled with its answer, which waits for the flash, and also when that fails', async () => {
  for (const good of [true, false]) {
    let finish: (how: boolean) => void = () => undefined
    const durable = new Promise<void>((resolve, reject) => {
      finish = how => (how ? resolve() : reject(new Error('EIO')))
    })
    const { give } = world({
      protocol: { classifyAndDispatch: () => ({ type: 'ID_REQUEST', response: buildPing(1), durable }) } as never,
    })
    const fate = give(buildIdRequest(3, null))
    await new Promise(setImmediate)
    assert.deepEqual(fate, [])
    finish(good)
    await new Promise(setImmediate)
    assert.deepEqual(fate, [true])
  }
})

test('a fact and its duplicate are settled by the commit, also without a time', async () => {
  const { give, commit } = world()
  const { bytes } = encoder().encode(fact(1))
  const fates = [give(bytes), give(bytes), give(encoder().encode(fact(0, 8)).bytes)]
  await new Promise(setImmediate)
  assert.deepEqual(fates, [[], [], []])
  await commit()
  assert.deepEqual(fates, [[true], [true], [true]])
})

test('a fact the log can never accept is settled; one it cannot accept now, or lost, is to be resent', async () => {
  const { give, commit, fail, state, receive } = world()
  const send = encoder()
  state.refusal = new OsError('PACKET_TOO_LARGE', 'larger than any record')
  const large = give(send.encode(fact(1)).bytes)
  await commit()
  assert.deepEqual(large, [true])
  state.refusal = new Error('no space left on device')
  assert.deepEqual(give(send.encode(fact(2)).bytes), [false])
  state.refusal = null
  const lost = [give(send.encode(fact(3)).bytes), give(send.encode(fact(3)).bytes)]
  await fail()
  assert.deepEqual(lost, [[false], [false]])
  assert.equal(receive.counters.facts, 1)
})

test('with secure sessions a key request, refused plaintext and a frame that no key decrypts are settled', async () => {
  for (const verdict of ['key_request', 'refused'] as const) {
    const { give, commit } = world({ session: { judge: () => verdict } as never })
    const fate = give(encoder().encode(fact(1)).bytes)
    await commit()
    assert.deepEqual(fate, [true], verdict)
  }
  const { give, commit } = world({ session: { judge: () => 'data', undecryptable: () => undefined } as never })
  const fate = give(encoder().encode(fact(1), {}, Buffer.alloc(32, 7)).bytes)
  await commit()
  assert.deepEqual(fate, [true], 'undecryptable')
})

test('waiting packets are counted until they are settled, by a commit or by its failure', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { give, state, commit, fail } = world()
  const sender = encoder()
  let k = 0
  const several = (count: number): boolean[][] => {
    const fates = Array.from({ length: count }, () => give(sender.encode(fact(++k)).bytes))
    t.mock.timers.tick(10)
    return fates
  }
  const lost = several(8)
  assert.equal(state.flushes, 1)
  await fail()
  assert.deepEqual(lost, Array(8).fill([false]))
  several(7)
  assert.equal(state.flushes, 1, 'those that were lost do not wait any more')
  await commit()
  several(7)
  assert.equal(state.flushes, 1, 'nor do those that are kept')
  several(1)
  assert.equal(state.flushes, 2)
})

test('a packet already in the log is recognized even without its template, until the log loses it', async () => {
  const receiver = new Receiver({ units })
  const { give, receive, commit, fail } = world({ receiver })
  const sender = encoder()
  give(sender.encode(fact(1)).bytes)
  await commit()
  const diff = sender.encode(fact(2)).bytes
  give(diff)
  receiver.forget(9)
  const again = give(diff)
  assert.deepEqual([receive.counters.duplicates, receive.counters.refused], [1, 0])
  await fail()
  assert.deepEqual(again, [false])
  give(diff)
  assert.deepEqual([receive.counters.duplicates, receive.counters.refused], [1, 1], 'it counts as new')
})
