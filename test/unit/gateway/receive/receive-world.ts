// A receiver with a log in memory, and packets of a device for it.
import { Receive, type ReceiveOptions } from '../../../../src/gateway/receive/receive'
import { silentLogger } from '../../../../src/lib/logger'
import type { Fact, LinkMetadata } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { WirePickers } from '../../../../src/pipeline/wireunit'
import { addToFrame, finishFrame, startFrame } from '../../../../src/protocol/delivery/frame'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { NodeClock } from '../../../../src/protocol/time'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ByteWriter } from '../../../../src/wire/cursor'
import { FRAME_OVERHEAD, sealFrame, writeHeader } from '../../../../src/wire/frame'
import { ManualClock } from '../../../lib/manual'

export const units = { ...wireUnits(), resolve }
export const T0 = 1_710_000_000_000

// the reference's own bytes (test/vectors/receive.json, state/heart-ok)
export const FULL = Buffer.from(
  '3f010000000901018e23f14c00393b442e312e4159346a385577417c613e4b2e393a317c623e4b2e413a327cbc74b1',
  'hex',
)
export const HEART = Buffer.from('7f010000000901018e23f14c0000095d', 'hex')

export const frame = (seq: number, packet: Uint8Array, epoch = 5): Uint8Array => {
  const writer = new ByteWriter(new Uint8Array(400))
  startFrame(writer, epoch, 1, seq)
  addToFrame(writer, packet)
  return finishFrame(writer, 1).slice()
}

/** A data frame of AID 9 and TID 1. */
export function data(cmd: number, ts: number, body: string | Uint8Array = ''): Buffer {
  const bytes = Buffer.from(body as string)
  const out = Buffer.alloc(FRAME_OVERHEAD + bytes.length)
  const start = writeHeader(out, 0, cmd, 9, 1, ts)
  out.set(bytes, start)
  sealFrame(out, 0, start, start + bytes.length)
  return out
}

export const fact = (k: number, value: number, aid = 9): Fact => ({
  id: 'D',
  state: 'ONLINE',
  tRaw: T0 + k,
  aid,
  sensors: [
    { id: 'a', status: 'OK', unit: 'K', value },
    { id: 'b', status: 'OK', unit: 'K', value: 1 },
  ],
})

/** The receiver over a log that commits on request, and its replies. */
export function wall(options: Partial<ReceiveOptions> = {}) {
  const kept: Fact[] = []
  const links: LinkMetadata[] = []
  const counters: unknown[] = []
  const clock = new ManualClock(T0 + 5000)
  const time = new NodeClock(clock)
  let committedSeq = 0
  let waiting: (() => void)[] = []
  const log = {
    get lastSeq() {
      return kept.length
    },
    get committedSeq() {
      return committedSeq
    },
    appendFact: (one: Fact, link: LinkMetadata) => {
      links.push(link)
      return kept.push(one)
    },
    appendPacket: (bytes: Uint8Array) => {
      counters.push(['packet', Buffer.from(bytes).toString('hex')])
      return kept.length
    },
    committed: () => new Promise<void>(done => waiting.push(done)),
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
  const replies: Buffer[] = []
  const from = (address: string) => ({
    medium: 'UDP',
    address,
    reply: async (bytes: Uint8Array) => replies.push(Buffer.from(bytes)) > 0,
  })
  const commit = async (): Promise<void> => {
    committedSeq = kept.length
    for (const done of waiting) done()
    waiting = []
    await new Promise(setImmediate)
  }
  return { receive, kept, links, counters, replies, from, commit, clock, time }
}
