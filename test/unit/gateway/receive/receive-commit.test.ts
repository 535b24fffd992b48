// The receiver and the disk: answers name only what is on flash, whatever the disk does in between (X29).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receive } from '../../../../src/gateway/receive/receive'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { PacketOrigin } from '../../../../src/links/contracts'
import type { Fact } from '../../../../src/pipeline/fact'
import type { PacketMeta } from '../../../../src/pipeline/receive'
import { Receiver } from '../../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { addToFrame, finishFrame, parseAnswer, startFrame } from '../../../../src/protocol/delivery/frame'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ByteWriter } from '../../../../src/wire/cursor'

const units = { ...wireUnits(), resolve } as never
const encoder = new UplinkEncoder({ aid: 7, frames: 'full', units })
const packet = (k: number): Uint8Array =>
  encoder.encode({
    id: 'GW',
    state: 'ONLINE',
    tRaw: 1_710_000_000_000 + k,
    aid: 7,
    sensors: [{ id: 'T1', status: 'OK', unit: 'K', value: 280 + k }],
  }).bytes

/** Packets first … last of an epoch in one frame. */
function frame(epoch: number, first: number, last = first): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(2000))
  startFrame(writer, epoch, 1, first)
  for (let seq = first; seq <= last; seq++) addToFrame(writer, packet(seq))
  return finishFrame(writer, last - first + 1).slice()
}

/** `refusal`: why the log does not accept a fact */
function rig(refusal: (fact: Fact) => Error | null = () => null) {
  const kept: Fact[] = []
  const marks: string[] = []
  let waiting: { record: number; resolve: () => void; reject: (error: Error) => void }[] = []
  let committedSeq = 0
  const log = {
    degraded: false,
    get lastSeq() {
      return kept.length
    },
    get committedSeq() {
      return committedSeq
    },
    appendFact: (fact: Fact) => {
      const refused = refusal(fact)
      if (refused) throw refused
      return kept.push(fact)
    },
    appendCounter: (name: string) => void marks.push(name),
    appendPacket: (bytes: Uint8Array) => {
      if (marks.length > 1) throw new OsError('PACKET_TOO_LARGE', 'a packet')
      marks.push(`packet of ${bytes.length}`)
    },
    committed: (record: number) =>
      record <= committedSeq
        ? Promise.resolve()
        : new Promise<void>((done, reject) => waiting.push({ record, resolve: done, reject })),
  }
  const settle = async (how: (waiter: (typeof waiting)[number]) => void): Promise<void> => {
    const now = waiting
    waiting = []
    now.forEach(how)
    await new Promise(setImmediate)
  }
  const receive = new Receive({
    log: log as never,
    receiver: new Receiver({ units }),
    duplicates: new DuplicateFilter(),
    pickers: new WirePickers(units, 4),
    protocol: {} as never,
    time: { quality: 'system', mono: () => 0 } as never,
    logger: silentLogger,
    ackCommitMs: 100,
    onFact: () => undefined,
  })
  const answers: string[] = []
  const from = (address: string): PacketOrigin => ({
    medium: 'UDP',
    address,
    reply: async bytes => {
      const named = parseAnswer(bytes)
      return answers.push(`${address} ${named?.epoch} ${named?.cum} ${named?.bitmap}`) > 0
    },
  })
  return {
    log,
    receive,
    kept,
    marks,
    answers,
    from,
    commit: () => {
      committedSeq = kept.length
      return settle(waiter => waiter.resolve())
    },
    fail: () => settle(waiter => waiter.reject(new Error('no space left on device'))),
  }
}

test('one answer for each commit and sender; a frame retransmitted meanwhile is answered with what is committed', async () => {
  const { receive, kept, answers, from, commit } = rig()
  receive.packet(frame(5, 1, 3), from('a'))
  receive.packet(frame(6, 4, 5), from('b'))
  receive.packet(frame(5, 6, 7), from('a'))
  assert.deepEqual(answers, [])
  receive.packet(frame(5, 1, 3), from('a'))
  assert.deepEqual(answers, ['a 5 0 0'])
  await commit()
  // of the other sender's epoch 4 and 5 are present and 1 to 3 are not; bit i names cum + 2 + i
  assert.deepEqual(answers.slice(1), ['a 5 3 6', 'b 6 0 12'])
  assert.equal(kept.length, 7)
})

test('packets of one sender over two paths are answered on the path last heard', async () => {
  const { receive, answers, from, commit } = rig()
  const [old, now] = [from('a'), from('a')]
  receive.packet(frame(5, 1), { ...old, reply: async () => answers.push('the old road') > 0 })
  receive.packet(frame(5, 2), now)
  await commit()
  assert.deepEqual(answers, ['a 5 2 0'])
})

test('the bytes of a packet are remembered on media that acknowledge, not in the exchange, which has its own numbers', async () => {
  const { receive, from, commit } = rig()
  const known = (k: number): boolean =>
    receive.frames.has(packet(k), { source_aid: 7, timestamp_raw: 1_710_000_000_000 + k } as PacketMeta)
  receive.packet(frame(5, 1), from('a'))
  receive.packet(packet(2), from('b'))
  const settled: boolean[] = []
  receive.packet(packet(3), { ...from('c'), settle: good => void settled.push(good !== false) })
  assert.deepEqual([known(1), known(2), known(3)], [false, false, true])
  await commit()
  assert.deepEqual(settled, [true])
})

test('packets lost by a failed commit are not acknowledged, and count as new when they are sent again', async () => {
  const { receive, kept, answers, from, commit, fail } = rig()
  receive.packet(frame(5, 1, 2), from('a'))
  await fail()
  assert.deepEqual(answers, [])
  kept.length = 0
  receive.packet(frame(5, 1, 2), from('a'))
  assert.equal(kept.length, 2)
  await commit()
  assert.deepEqual(answers, ['a 5 2 0'])
  assert.equal(receive.counters.duplicates, 0)
})

test('the same packets under a new epoch and address are recognized, and acknowledged only when the first ones are on flash', async () => {
  const { receive, kept, answers, from, commit, fail } = rig()
  receive.packet(frame(5, 1, 2), from('a'))
  receive.packet(frame(8, 1, 2), from('c'))
  assert.equal(kept.length, 2)
  assert.equal(receive.counters.duplicates, 2)
  assert.deepEqual(answers, [])
  await fail()
  assert.deepEqual(answers, [], 'lost with those they repeat')
  kept.length = 0
  receive.packet(frame(8, 1, 2), from('c'))
  assert.equal(kept.length, 2)
  await commit()
  receive.packet(frame(9, 1, 2), from('d'))
  await new Promise(setImmediate)
  assert.deepEqual(answers, ['c 8 2 0', 'd 9 2 0'])
})

test('a duplicate whose commit is lost leaves the record it repeats, which is not lost, known', async () => {
  const { receive, kept, from, commit, fail } = rig()
  receive.packet(frame(5, 1), from('a'))
  await commit()
  receive.packet(frame(6, 2), from('a'))
  receive.packet(frame(7, 1), from('a'))
  await fail()
  receive.packet(frame(7, 1), from('a'))
  assert.deepEqual([kept.length, receive.counters.duplicates], [2, 2])
})

test('a packet first received bare is acknowledged with the commit of that one, and is new if that commit was lost', async () => {
  const { log, receive, kept, answers, from, commit, fail } = rig()
  log.degraded = true
  receive.packet(packet(1), from('a'))
  receive.packet(frame(5, 1), from('b'))
  await new Promise(setImmediate)
  assert.equal(kept.length, 1)
  assert.deepEqual(answers, [], 'not on flash yet')
  await fail()
  kept.length = 0
  receive.packet(frame(5, 1), from('b'))
  assert.equal(kept.length, 1)
  await commit()
  assert.deepEqual(answers, ['b 5 1 0'])
})

test('a fact that no record can hold is counted and acknowledged, so that it is not resent forever; a full disk is retried', async () => {
  let full = true
  const { receive, kept, answers, from, commit } = rig(({ tRaw }) =>
    tRaw % 10 === 2 ? new OsError('PACKET_TOO_LARGE', 'a text') : full ? new OsError('DISK_FULL', 'full') : null,
  )
  receive.packet(frame(5, 1, 3), from('a'))
  await new Promise(setImmediate)
  assert.deepEqual([receive.counters.too_large, receive.counters.refused, kept.length], [1, 2, 0])
  assert.deepEqual(answers, ['a 5 0 1'], '2 is done, 1 and 3 are to be resent')
  full = false
  receive.packet(frame(5, 1, 3), from('a'))
  await commit()
  assert.equal(answers.at(-1), 'a 5 3 0')
  assert.deepEqual([receive.counters.too_large, kept.length], [1, 2])
})

test('a packet that changed a template and gave no record is kept, only where the medium acknowledges', async () => {
  const { receive, kept, marks, from, commit } = rig(({ tRaw }) =>
    tRaw % 10 === 2 ? new OsError('PACKET_TOO_LARGE', 'a text') : null,
  )
  const settled: boolean[] = []
  const broker = { ...from('broker'), settle: (taken: boolean) => void settled.push(taken) }
  receive.packet(packet(1), broker)
  await commit()
  assert.deepEqual([kept.length, marks], [1, []], 'its record tells of it')
  receive.packet(packet(2), from('a'))
  assert.deepEqual(marks, [], 'a bare packet is never built on')
  receive.packet(packet(12), broker)
  await new Promise(setImmediate)
  assert.deepEqual([receive.counters.too_large, marks.length, settled], [2, 1, [true, true]])
  receive.packet(packet(13), from('a'))
  receive.packet(packet(13), broker)
  assert.deepEqual([receive.counters.duplicates, marks], [1, ['packet of 44', 'packet of 44']])
  receive.packet(packet(13), from('b'))
  assert.deepEqual([receive.counters.duplicates, marks.length], [2, 2])
  receive.packet(packet(22), broker)
  assert.deepEqual(marks.slice(2), ['receive:templates'], 'what the log cannot hold leaves a mark')
})
