// R19 in full: a million mutated inputs for every deframer of a serial line. streams.test.ts and slip.test.ts test few
// inputs in depth, this one tests many: damaged frames, one after the other through the same deframers, once complete
// and once split at random. Nothing throws, no packet exceeds its limit, nothing waits after silence, both give the
// same packets, and the work per byte is limited.
// Long: the million; `npm test` runs a part of it
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LineSplitter } from '../../drivers/lines/splitter'
import { encodeSlip, SlipDecoder, slipSize } from '../../drivers/slip/codec'
import { CobsDeframer, frameCobs } from '../../src/links/line/cobs'
import { type DeframerOptions, SerialDeframer } from '../../src/links/line/deframer'
import { buildPoll, buildTurnEnd } from '../../src/protocol/polling-turns'
import { frameSerial } from '../../src/wire/serial'
import { prng, rounds } from '../lib/random'
import { examples } from './harness'

const INPUTS = rounds(8_000, 1_000_000)
const MAX_PACKET = 128
/** a byte costs at most one step for each open candidate */
const STEPS = 130
const packets = [...examples(), buildPoll(9, 7, 512), buildTurnEnd(9, 7, 3)].filter(
  ({ length }) => length > 2 && length <= 64,
)

interface Taker {
  push(chunk: Uint8Array): void
  idle(): void
  readonly waiting: boolean
}
type Make = (onPacket: (packet: Uint8Array) => void) => Taker

const serial = (onPacket: DeframerOptions['onPacket']): DeframerOptions => ({
  maxPacket: MAX_PACKET,
  isOpen: (_answer, seq) => seq % 2 === 1,
  onPacket,
})

const KINDS: Record<string, { make: Make; frame: (packet: Uint8Array) => Uint8Array; marks: readonly number[] }> = {
  uart: {
    make: onPacket => new SerialDeframer('uart', serial(onPacket)),
    frame: packet => frameSerial(packet, 'uart'),
    marks: [2, 3, 0x3f, 9, 0x10],
  },
  rs485: {
    make: onPacket => new SerialDeframer('rs485', serial(onPacket)),
    frame: packet => frameSerial(packet, 'rs485'),
    marks: [2, 3, 0x3f, 9, 0x10],
  },
  cobs: { make: onPacket => new CobsDeframer(serial(onPacket)), frame: frameCobs, marks: [0, 1, 255] },
  slip: {
    make: onPacket => {
      const decoder = new SlipDecoder(MAX_PACKET, onPacket)
      // a frame of SLIP ends with its END; what is left of one is ended by the next
      return { push: chunk => decoder.push(chunk), idle: () => decoder.push(Uint8Array.of(0xc0)), waiting: false }
    },
    frame: packet => {
      const out = new Uint8Array(slipSize(packet.length))
      return out.subarray(0, encodeSlip(packet, out))
    },
    marks: [0xc0, 0xdb, 0xdc, 0xdd],
  },
  lines: {
    make: onPacket => {
      const splitter = new LineSplitter(Uint8Array.of(0x0a), MAX_PACKET, onPacket)
      return { push: chunk => splitter.push(chunk), idle: () => splitter.push(Uint8Array.of(0x0a)), waiting: false }
    },
    // text that is sometimes longer than a line may be
    frame: packet => Buffer.from(`$${Buffer.from(packet).toString('hex')}\r\n`),
    marks: [0x0a, 0x0d, 0x24],
  },
}

/** Accepts packets, keeping only their number and a checksum over their order and bytes. */
class Sink {
  count = 0
  sum = 0
  readonly taker: Taker

  constructor(make: Make) {
    this.taker = make(packet => {
      if (packet.length === 0 || packet.length > MAX_PACKET) throw new Error(`a packet of ${packet.length} bytes`)
      this.count++
      let { sum } = this
      for (let k = 0; k < packet.length; k++) sum = (Math.imul(sum, 31) + packet[k]!) | 0
      this.sum = Math.imul(sum, 31) ^ packet.length
    })
  }
}

for (const [name, { make, frame, marks }] of Object.entries(KINDS))
  test(`R19: ${name}: ${INPUTS} damaged inputs`, t => {
    const random = prng(19)
    const below = (n: number): number => Math.floor(random() * n)
    const frames = packets.map(frame)
    const input = new Uint8Array(1024)
    const whole = new Sink(make)
    const cut = new Sink(make)
    let bytes = 0
    for (let n = 0; n < INPUTS; n++) {
      let size = 0
      for (let k = 1 + below(2); k > 0; k--) {
        const one = frames[below(frames.length)]!
        input.set(one, size)
        size += one.length
      }
      for (let k = below(4); k > 0; k--) {
        const at = below(size)
        const kind = below(4)
        if (kind === 0) input[at]! ^= 1 << below(8)
        else if (kind === 1) input[at] = marks[below(marks.length)]!
        else if (kind === 2 && size > 1) input.copyWithin(at, at + 1, size--)
        else {
          input.copyWithin(at + 1, at, size++)
          input[at] = random() < 0.5 ? below(256) : marks[below(marks.length)]!
        }
      }
      bytes += size
      whole.taker.push(input.subarray(0, size))
      for (let at = 0; at < size; ) {
        const end = Math.min(size, at + 1 + below(40))
        cut.taker.push(input.subarray(at, end))
        at = end
      }
      whole.taker.idle()
      cut.taker.idle()
      if (whole.taker.waiting || cut.taker.waiting) throw new Error(`input ${n}: something waits after silence`)
      if (whole.count !== cut.count || whole.sum !== cut.sum)
        throw new Error(
          `input ${n}: other packets for other chunks: ${Buffer.from(input.subarray(0, size)).toString('hex')}`,
        )
    }
    if (whole.taker instanceof SerialDeframer || whole.taker instanceof CobsDeframer)
      assert.ok(whole.taker.counters.steps <= STEPS * bytes, 'more steps than candidates allow')
    // enough came through undamaged, and enough did not
    assert.ok(whole.count > INPUTS / 2 && whole.count < 2 * INPUTS, `${whole.count} packets`)
    t.diagnostic(`${bytes} bytes, ${whole.count} packets`)
  })
