// Data frames from any sender: the gateway's receiver in both dialects, fusion, and the use of a decoded fact: its log
// record, and the frame in which it is forwarded.
import assert from 'node:assert/strict'
import { OsError } from '../../src/lib/errors'
import { checkRecord, decodeRecord } from '../../src/log/decode'
import { RecordEncoder } from '../../src/log/encode'
import { MAX_RECORD } from '../../src/log/format'
import { type Fact, factToDict } from '../../src/pipeline/fact'
import { Fusion } from '../../src/pipeline/fuse'
import { openFrame } from '../../src/pipeline/receive'
import { Receiver } from '../../src/pipeline/receiver'
import { maxFullSize, UplinkEncoder } from '../../src/pipeline/sender'
import { nackReason } from '../../src/protocol/nack'
import { wireUnits } from '../../src/units/wire'
import { deriveSessionKey } from '../../src/wire/cipher'
import { isSecure } from '../../src/wire/commands'
import { FRAME_OVERHEAD, readHeader, sealFrame, writeHeader } from '../../src/wire/frame'
import { ManualClock } from '../lib/manual'
import { examples, fuzz, vectors } from './harness'
import { type Random, repeated } from './mutate'

const T0 = 1_710_000_000_000
const KEY = deriveSessionKey(42, T0)
const keyOf = (aid: number): Uint8Array | null => (aid % 4 === 3 ? null : KEY)
const clock = new ManualClock(T0)
const units = wireUnits()

function frame(cmd: number, tid: number, ts: number, body: string | Uint8Array, aid = 42): Buffer {
  const bytes = Buffer.from(body as string)
  const out = Buffer.alloc(FRAME_OVERHEAD + bytes.length)
  const start = writeHeader(out, 0, cmd, aid, tid, ts)
  out.set(bytes, start)
  sealFrame(out, 0, start, start + bytes.length, isSecure(cmd) ? keyOf(aid) : null)
  return out
}

/** Correct checksums, a correct cipher, and often a header that matches the templates of earlier frames. */
function shape(input: Buffer, random: Random): Buffer {
  if (input.length < FRAME_OVERHEAD) return input
  const out = Buffer.from(input)
  if (random.chance(0.6)) {
    const cmd = random.pick([0x3f, 0x3f, 0xaa, 0xaa, 0x7f, 0x40, 0xab, 0x80])
    writeHeader(out, 0, cmd, random.below(6) + 40, random.below(4), T0 + random.below(64))
  }
  const header = readHeader(out)
  if (typeof header === 'string') return out
  const body = Math.min(header.body, out.length - 3)
  sealFrame(out, 0, body, out.length - 3, isSecure(out[0]!) ? keyOf(header.sourceAid) : null)
  return out
}

const MAX_SOURCES = 64
const receivers = (['ucum', 'attribute'] as const).map(
  dialect => new Receiver({ dialect, units, clock, inboundKey: keyOf, maxSources: MAX_SOURCES }),
)
const fusions = (['ucum', 'attribute'] as const).map(
  unitDialect =>
    new Fusion(null, { unitDialect, units, clock, localId: 1, keys: { inbound: keyOf, outbound: () => null } }),
)
const encoder = new UplinkEncoder({ aid: 7, units, clock })
const records = new RecordEncoder(1)
const space = Buffer.alloc(MAX_RECORD + 64)

/** A decoded fact can be logged and forwarded, or is refused by name. */
function follow(fact: Fact): string {
  for (const { value } of fact.sensors) assert.ok(value === null || Number.isFinite(value), 'a value that is none')
  assert.ok(fact.tRaw > 0 && fact.tRaw < 2 ** 48)
  JSON.stringify(factToDict(fact))
  const size = records.at(space, 0, 1, 1, 1, 'synced').fact(fact, { medium: 'UDP', address: '192.0.2.1:1' })
  if (size > 0) {
    assert.equal(checkRecord(space, 0), size)
    assert.deepEqual(decodeRecord(space, 0).fact, fact)
  }
  const { bytes } = encoder.encode(fact, { full: true })
  assert.ok(bytes.length <= maxFullSize(encoder.engine, 7, fact))
  return 'forwarded'
}

const named = (run: () => string, codes: readonly string[]): string => {
  try {
    return run()
  } catch (thrown) {
    if (thrown instanceof OsError && codes.includes(thrown.code)) return thrown.code
    throw thrown
  }
}

const full = (n: number, piece: string, head = '42;D.1.AY4j8UwA|', tail = ''): Uint8Array =>
  frame(0x3f, 1, T0 + 99, Buffer.concat([Buffer.from(head), repeated(piece, n), Buffer.from(tail)]))

fuzz({
  name: 'frames',
  inputs: 10_000,
  seeds: [
    ...examples(),
    ...vectors().flatMap(({ op, in: { packets } }) =>
      op === 'receive' ? (packets as string[]).map(hex => Buffer.from(hex, 'hex')) : [],
    ),
    frame(0x3f, 1, T0, '42;D.1.AY4j8UwA|a>K.K:1|b>E.100:00|&u33|#YQ|@aGk'),
    frame(0xaa, 1, T0 + 1, Buffer.from('020131', 'hex')),
    frame(0x7f, 1, T0 + 2, ''),
    frame(0x40, 2, T0, '42;D.1.AY4j8UwA|a>K.m/s:1|b>K.600/B00:-zZ|c>U.5O,datime:1a|'),
    frame(0x3f, 3, T0 / 1000, 'TEMP|K|2Bi'),
    frame(0x3f, 0, T0 / 1000, '42.U.AAAAAGXs0IA|TEMP>U.K:2Bi|'),
    frame(0x3f, 2, T0 / 1000, `NODE.ONLINE.${T0 / 1000}|a>OK.NA:1!hi|b>OK.K:2|c>OK.K:3|d>OK.K:4|e>OK.K:5|`),
  ],
  words: [
    '|a>K.K:1|',
    '>',
    ':',
    '.',
    ';',
    '!x:y',
    '@',
    '#',
    '&',
    'E.K:0',
    'U.902',
    'Z',
    'a,6',
    '/B00',
    '1,k600',
    '{u}',
  ],
  shape,
  run(input) {
    const before = Buffer.from(input)
    openFrame(input, T0, null)
    nackReason('NEED_FULL', input)
    let outcome = ''
    for (const receiver of receivers) {
      const got = receiver.receive(input)
      if (got.kind === 'error') outcome += got.code + got.message.replace(/\d+|".*/gs, '')
      else
        outcome += named(
          () => follow(got.fact),
          ['BAD_ID', 'BAD_TIME', 'BAD_READING', 'E_PRECISION', 'PACKET_TOO_LARGE'],
        )
    }
    for (const fusion of fusions) {
      const { error } = fusion.decompress(input)
      outcome += error === undefined ? 'fact' : String(error).replace(/\d+|".*/gs, '')
      named(() => fusion.relay(input).toString('latin1', 0, 1), ['RELAY_UNDECODABLE'])
    }
    assert.deepEqual(input, before, 'the packet was changed')
    return outcome
  },
  kept: () => ({ sources: [Math.max(...receivers.map(r => r.sources)), MAX_SOURCES] }),
  growing: {
    'of one unit of digits': n => full(n, '1', '42;D.1.AY4j8UwA|a>K.', 'x:1|'),
    'of one unit with a coefficient': n => full(n, '1', '42;D.1.AY4j8UwA|a>K.1,k', 'x:1|'),
    'of many sensors': n => full(n, 'a>K.K:1|'),
    'of firmware sensors': n => full(n, 'a>K.K:1!x|', 'N.ONLINE.1710000000|'),
    'of bars': n => full(n, '|'),
    'of colons': n => full(n, ':>'),
    'of an endless value': n => full(n, 'Z', '42;D.1.AY4j8UwA|a>K.K:'),
    'of parts of a unit': n => full(n, 'm/', '42;D.1.AY4j8UwA|a>K.'),
    'of an endless head': n => full(n, 'x.', ''),
    'of a message': n => full(n, 'a-', '42;D.1.AY4j8UwA|a>K.K:1|@'),
    'of a DIFF': n => frame(0xaa, 1, T0 + 99, repeated('\xff', n)),
  },
})
