// Packets from serial bytes (decision 0029, R19): compared with a slow reference decoder that sees the complete stream, in any
// chunking, mutated.
// Long: more damaged frames
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CobsDeframer, frameCobs } from '../../../../src/links/line/cobs'
import { SerialDeframer } from '../../../../src/links/line/deframer'
import { fitsLayout, largest, layoutOf } from '../../../../src/links/line/layouts'
import * as control from '../../../../src/protocol/control'
import {
  addToFrame,
  buildAnswer,
  buildProbe,
  buildProbeReply,
  finishFrame,
  startFrame,
} from '../../../../src/protocol/delivery/frame'
import { isData } from '../../../../src/wire/commands'
import { crc16 } from '../../../../src/wire/crc'
import { ByteWriter } from '../../../../src/wire/cursor'
import { sealFrame, writeHeader } from '../../../../src/wire/frame'
import { frameSerial, lrc, type SerialFraming } from '../../../../src/wire/serial'
import { rounds } from '../../../lib/random'

const MAX = 256

function prng(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

function data(cmd: number, body: Uint8Array, aid = 5, ts = 1_710_000_000_000): Uint8Array {
  const out = new Uint8Array(16 + body.length)
  const at = writeHeader(out, 0, cmd, aid, 1, ts)
  out.set(body, at)
  sealFrame(out, 0, at, at + body.length)
  return out
}

function delivery(packets: Uint8Array[], epoch = 9, first = 1): Uint8Array {
  const writer = new ByteWriter(new Uint8Array(MAX))
  startFrame(writer, epoch, 1, first)
  for (const packet of packets) addToFrame(writer, packet)
  return finishFrame(writer, packets.length).slice()
}

/** open requests: every one with an even seq, and 1 */
const isOpen = (_: number, seq: number): boolean => seq === 1 || (seq > 0 && seq % 2 === 0)

function deframe(framing: SerialFraming, chunks: Uint8Array[], idle = true): string[] {
  const got: string[] = []
  const deframer = new SerialDeframer(framing, { maxPacket: MAX, isOpen, onPacket: p => got.push(hex(p)) })
  for (const chunk of chunks) deframer.push(chunk)
  if (idle) deframer.idle()
  return got
}

/** The rule of decision 0029 implemented again, slowly: every start with its longest end, then the earliest first. */
function judge(framing: SerialFraming, bytes: Uint8Array): string[] {
  const extra = framing === 'rs485' ? 1 : 0
  const holds = (packet: Uint8Array, end: number): boolean => !extra || bytes[end] === lrc(packet)
  const found: { start: number; end: number; packet: Uint8Array; sure: boolean }[] = []
  for (let s = 0; s + 1 < bytes.length; s++) {
    if (bytes[s] !== 2) continue
    const cmd = bytes[s + 1]!
    let sure: (typeof found)[0] | undefined
    let loose: (typeof found)[0] | undefined
    for (let e = s + 4 + extra; e < bytes.length && e - extra - s - 1 <= MAX; e++) {
      const packet = bytes.subarray(s + 1, e - extra)
      if (bytes[e] !== 3 || !holds(packet, e - extra)) continue
      const crcHolds = crc16(packet) === 0
      const whole =
        (isData(cmd) && packet.length >= 12 + 4 * packet[1]!) ||
        (cmd === 0x10 && packet.length === delivered(packet)) ||
        (cmd === 5 && packet.length === 17 && packet[1] === 0 && packet[2] === 0)
      if (whole && crcHolds) sure = { start: s, end: e + 1, packet, sure: true }
      const layout = layoutOf(cmd)
      if (!loose && layout && packet.length <= largest(cmd, layout, MAX) && fitsLayout(packet, isOpen))
        loose = { start: s, end: e + 1, packet, sure: false }
    }
    if (sure) found.push(sure)
    if (loose) found.push(loose)
  }
  const got: string[] = []
  let taken: typeof found = []
  for (const one of found) {
    if (taken.some(t => one.start < t.end && (t.sure || !one.sure))) continue
    got.push(hex(one.packet))
    taken = taken.filter(t => t.end > one.start)
    taken.push(one)
  }
  return got
}

/** the length in a delivery frame's own header; NaN when it is truncated */
function delivered(packet: Uint8Array): number {
  let at = 14
  for (let n = packet[13] ?? 0; n > 0; n--) {
    const length = (packet[at]! << 8) | packet[at + 1]!
    if (length === 0) return Number.NaN
    at += 2 + length
  }
  return at + 2
}

const text = (value: string): Uint8Array => Buffer.from(value)
const PACKETS: Uint8Array[] = [
  data(0x3f, text('5;HUB.1.AAAAAAAA|T1>K.A:9|')),
  data(0xaa, Uint8Array.of(0x02, 0x03, 0x61, 0x62, 0x63)),
  data(0x7f, new Uint8Array()),
  data(0x40, Uint8Array.of(2, 3, 2, 3, 0x3f, 2, 0x10, 3)),
  delivery([data(0x7f, new Uint8Array()), data(0xaa, Uint8Array.of(2, 2, 3, 3))]),
  delivery([]),
  buildAnswer(0x03030303, 3, 2),
  buildProbe(2),
  buildProbeReply(2, 100),
  control.buildPing(0x0203),
  control.buildPong(4),
  control.buildIdRequest(0x0302, { device_id: 'HUB' }),
  control.buildIdRequest(3),
  control.buildIdPoolRequest(3, 2, {}),
  control.buildIdAssign(2, 77),
  control.buildIdAssign(2, 0x03020302, 1_710_000_000),
  control.buildIdPoolResponse(4, [1, 2, 3]),
  control.buildAck(6),
  control.buildNack(0, 'NEED_FULL;9;1;1710000000000;095d'),
  control.buildNack(2, 'NO_ALLOCATOR'),
  control.buildTimeRequest(515),
  control.buildTimeResponse(2, 1_710_000_003),
  control.buildSecureDictReady(5, 1_710_000_000_000),
  control.buildSecureChannelAck(0x02030203),
]

for (const framing of ['uart', 'rs485'] as const) {
  describe(`${framing} framing`, () => {
    const framed = PACKETS.map(packet => frameSerial(packet, framing))

    test('every packet of the protocol is received, alone and in a row, with noise and zeros between', () => {
      for (const [k, bytes] of framed.entries()) assert.deepEqual(deframe(framing, [bytes]), [hex(PACKETS[k]!)])
      assert.deepEqual(deframe(framing, [Buffer.concat(framed)]), PACKETS.map(hex))
      const noisy = framed.flatMap(bytes => [Uint8Array.of(0, 0xff, 2, 3, 0x3f), bytes])
      assert.deepEqual(deframe(framing, [Buffer.concat(noisy)]), PACKETS.map(hex))
    })

    test('frames with a length field, and control packets, need no silence after them', () => {
      PACKETS.forEach((packet, k) => {
        assert.deepEqual(deframe(framing, [framed[k]!], false), isData(packet[0]!) ? [] : [hex(packet)])
      })
    })

    test('the outermost valid frame wins: frames inside it, and a frame that is its own beginning, are not delivered', () => {
      const inner = [framed[0]!, frameSerial(control.buildPing(1), framing), frameSerial(buildAnswer(1, 1, 0), framing)]
      const outer = data(0x3f, Buffer.concat(inner))
      assert.deepEqual(deframe(framing, [frameSerial(outer, framing)]), [hex(outer)])
      // a complete frame with its end, and more after it, as the front of a longer one
      const front = frameSerial(data(0xaa, text('abc')), framing)
      const rest = Buffer.concat([front.subarray(1), text('more.')])
      const longer = Buffer.alloc(rest.length + 2)
      rest.copy(longer)
      longer.writeUInt16BE(crc16(rest), rest.length)
      assert.deepEqual(deframe(framing, [frameSerial(longer, framing)]), [hex(longer)])
    })

    test('answers count only for an open request, and control packets only with the exact length', () => {
      const none = [
        control.buildIdAssign(3, 77),
        control.buildPong(0),
        control.buildAck(0),
        control.buildTimeResponse(0, 1_710_000_000),
        control.buildNack(3, 'NO_ALLOCATOR'),
        Buffer.concat([control.buildPing(1), text('x')]),
        Buffer.concat([control.buildSecureChannelAck(5), text('x')]),
        control.buildSecureDictReady(5, 2 ** 50),
        Buffer.concat([Uint8Array.of(1, 0, 1), text('{"a":')]),
        control.buildNack(0, 'two\nlines'),
        Uint8Array.of(0x42, 0, 1),
      ]
      for (const packet of none) assert.deepEqual(deframe(framing, [frameSerial(packet, framing)]), [], hex(packet))
    })

    test('a lost byte, or a wrong checksum, loses only that packet', () => {
      const [a, b] = [framed[0]!, framed[4]!]
      for (let k = 0; k < a.length; k++) {
        const cut = Buffer.concat([a.subarray(0, k), a.subarray(k + 1), b, a])
        const got = deframe(framing, [cut])
        assert.deepEqual(got.slice(-2), [hex(PACKETS[4]!), hex(PACKETS[0]!)], `byte ${k}`)
      }
      if (framing === 'rs485') {
        const wrong = Buffer.from(a)
        wrong[wrong.length - 2]! ^= 1
        assert.deepEqual(deframe(framing, [wrong]), [])
      }
    })

    test('any chunking and any damage give the same packets as the slow reference decoder on the complete stream', () => {
      const random = prng(framing === 'uart' ? 11 : 12)
      let packets = 0
      for (let round = 0; round < 3000; round++) {
        const parts: Uint8Array[] = []
        for (let k = random(5) + 1; k > 0; k--) {
          if (random(3) === 0)
            parts.push(Uint8Array.from({ length: random(12) }, () => [0, 2, 3, 5, 16, 63, 9][random(7)]!))
          else parts.push(framed[random(framed.length)]!)
        }
        const bytes = Buffer.concat(parts)
        for (let k = random(4); k > 0 && bytes.length > 0; k--)
          bytes[random(bytes.length)] = random(2) ? random(256) : 2 + random(2)
        const chunks: Uint8Array[] = []
        for (let at = 0; at < bytes.length; ) {
          const size = 1 + random(9)
          chunks.push(bytes.subarray(at, at + size))
          at += size
        }
        const whole = deframe(framing, [bytes])
        assert.deepEqual(deframe(framing, chunks), whole)
        assert.deepEqual(whole, judge(framing, bytes), hex(bytes))
        packets += whole.length
      }
      assert.ok(packets > 3000)
    })

    test('mutated inputs: nothing throws, no memory grows, and a byte costs a limited number of steps', () => {
      const random = prng(5)
      let longest = 0
      const deframer = new SerialDeframer(framing, {
        maxPacket: MAX,
        isOpen,
        onPacket: packet => {
          longest = Math.max(longest, packet.length)
        },
      })
      const inputs = rounds(20_000, 1_000_000)
      for (let k = 0; k < inputs; k++) {
        const bytes = framed[k % framed.length]!
        const at = random(bytes.length)
        const was = bytes[at]!
        if (random(3) > 0) bytes[at] = random(256)
        deframer.push(bytes)
        if (random(50) === 0) deframer.idle()
        bytes[at] = was
      }
      assert.ok(longest <= MAX)
      const { steps, bytes, packets } = deframer.counters
      assert.ok(packets > inputs / 10)
      assert.ok(steps < 40 * bytes, `${(steps / bytes).toFixed(1)} steps a byte`)
    })

    test('the worst inputs stay linear: twice the bytes, twice the steps', () => {
      const worst = [[2, 0x3f], [2], [2, 3], [2, 1, 2, 6], [2, 0x10, 0, 0], [2, 0x3f, 0, 3]]
      for (const pattern of worst) {
        const steps = [20_000, 40_000].map(size => {
          const deframer = new SerialDeframer(framing, { maxPacket: MAX, isOpen, onPacket: () => undefined })
          deframer.push(Uint8Array.from({ length: size }, (_, k) => pattern[k % pattern.length]!))
          return deframer.counters.steps
        })
        assert.ok(steps[1]! <= 2.1 * steps[0]! + 1000 && steps[1]! <= 128 * 40_000, `${pattern}: ${steps}`)
      }
    })
  })
}

describe('cobs framing', () => {
  const collect = (): { got: string[]; deframer: CobsDeframer } => {
    const got: string[] = []
    return { got, deframer: new CobsDeframer({ maxPacket: 600, onPacket: p => got.push(hex(p)) }) }
  }

  test('packets of any size and content are received, in any chunks', () => {
    const random = prng(3)
    const { got, deframer } = collect()
    const sent: string[] = []
    for (let k = 0; k < 2000; k++) {
      const zeros = random(3)
      const packet = Uint8Array.from({ length: 1 + random(600) }, () =>
        zeros === 0 ? 0 : zeros === 1 ? 1 + random(255) : random(4),
      )
      sent.push(hex(packet))
      const frame = frameCobs(packet)
      assert.ok(!frame.subarray(1, -1).includes(0) && frame[0] === 0 && frame.at(-1) === 0)
      const cut = random(frame.length)
      deframer.push(frame.subarray(0, cut))
      deframer.push(frame.subarray(cut))
    }
    assert.deepEqual(got, sent)
  })

  test('damage loses only the packets it touches; an oversized one is dropped; mutations throw nothing', () => {
    const random = prng(4)
    const { got, deframer }: { got: string[]; deframer: CobsDeframer } = collect()
    const frame = frameCobs(PACKETS[0]!)
    for (let k = 1; k < frame.length - 1; k++) {
      const bad = frame.slice()
      bad[k]! ^= 1 + random(255)
      deframer.push(bad)
    }
    assert.equal(got.length, 0, 'each byte is covered')
    deframer.push(frameCobs(new Uint8Array(601).fill(7)))
    deframer.push(frame)
    assert.deepEqual(got, [hex(PACKETS[0]!)])
    for (let k = 0; k < rounds(20_000, 1_000_000); k++) {
      const at = random(frame.length)
      const was = frame[at]!
      frame[at] = random(256)
      deframer.push(frame)
      frame[at] = was
    }
    assert.ok(got.every(packet => packet.length <= 1200))
  })
})
