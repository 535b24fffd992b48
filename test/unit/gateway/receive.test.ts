// The receiving wall alone: what is refused comes again, what is known is not kept twice, answers wait for the commit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Receive } from '../../../src/gateway/receive/receive'
import { silentLogger } from '../../../src/lib/logger'
import type { Fact } from '../../../src/pipeline/fact'
import { Receiver } from '../../../src/pipeline/receiver'
import { addToFrame, finishFrame, startFrame } from '../../../src/protocol/delivery-frame'
import { DuplicateFilter } from '../../../src/protocol/duplicates'
import { resolve } from '../../../src/units/canonical'
import { wireUnits } from '../../../src/units/wire'
import { ByteWriter } from '../../../src/wire/cursor'

// the reference's own bytes (test/vectors/receive.json, state/heart-ok)
const FULL = Buffer.from(
  '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1',
  'hex',
)
const HEART = Buffer.from('7f010000000901018e23f14c0000095d', 'hex')

const frame = (seq: number, packet: Uint8Array): Uint8Array => {
  const writer = new ByteWriter(new Uint8Array(400))
  startFrame(writer, 5, 1, seq)
  addToFrame(writer, packet)
  return finishFrame(writer, 1).slice()
}

test('a packet without its template is refused, asked for, taken as FULL, and acknowledged after the commit', async () => {
  const kept: Fact[] = []
  let commit = (): void => undefined
  let committedSeq = 0
  const log = {
    get lastSeq() {
      return kept.length
    },
    get committedSeq() {
      return committedSeq
    },
    appendFact: (fact: Fact) => kept.push(fact),
    committed: () =>
      new Promise<void>(done => {
        commit = () => {
          committedSeq = kept.length
          done()
        }
      }),
  }
  const receive = new Receive({
    log: log as never,
    receiver: new Receiver({ units: { ...wireUnits(), resolve } as never }),
    duplicates: new DuplicateFilter(),
    protocol: {} as never,
    time: { quality: 'system' } as never,
    logger: silentLogger,
    ackCommitMs: 100,
    onFact: () => undefined,
  })
  const replies: Buffer[] = []
  const origin = {
    medium: 'UDP',
    address: 'a:1',
    reply: async (bytes: Uint8Array) => replies.push(Buffer.from(bytes)) > 0,
  }
  receive.packet(frame(1, HEART), origin)
  assert.equal(kept.length, 0)
  assert.equal(receive.counters.refused, 1)
  assert.equal(replies[0]?.subarray(3).toString(), 'NEED_FULL;9;1;1710000000000;095d')

  receive.packet(frame(1, FULL), origin)
  assert.equal(kept.length, 1, 'the same number counts again')
  assert.equal(replies.length, 1, 'no answer before the commit')
  commit()
  await new Promise(setImmediate)
  assert.equal(replies[1]?.readUInt32BE(7), 1, 'everything up to 1 is committed')

  receive.packet(frame(2, HEART), origin)
  assert.equal(kept.length, 1, 'the same content at the same time is one record')
  assert.equal(receive.counters.duplicates, 1)
})
