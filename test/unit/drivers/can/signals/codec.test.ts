// Signals from frames: values computed by hand, and compared with a reader that takes one bit after the other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { field, float32, float64, signed, unsigned } from '../../../../../drivers/can/signals/bits'
import { MessageDecoder, NOT_AVAILABLE, OUT_OF_RANGE, SAYS_ERROR } from '../../../../../drivers/can/signals/codec'
import { parseDbc } from '../../../../lib/dbc'
import { prng } from '../../../../lib/random'

/** The bits of a signal as the authors of the format draw them, each alone: value if bit k of the frame is 1 or 0. */
function oracle(data: Uint8Array, start: number, length: number, bigEndian: boolean, isSigned: boolean): bigint {
  let value = 0n
  let at = start
  for (let k = 0; k < length; k++) {
    const bit = BigInt((data[Math.floor(at / 8)]! >> (at % 8)) & 1)
    if (bigEndian) {
      value = value * 2n + bit
      // to the right in the byte, and from its lowest bit to the highest of the next
      at = at % 8 === 0 ? at + 15 : at - 1
    } else {
      value += bit * 2n ** BigInt(k)
      at++
    }
  }
  return isSigned && value >= 2n ** BigInt(length - 1) ? value - 2n ** BigInt(length) : value
}

test('any bits of any frame give what a bit-by-bit reader finds', () => {
  const random = prng(5)
  const pick = (n: number): number => Math.floor(random() * n)
  for (let k = 0; k < 50_000; k++) {
    const size = [1, 2, 8, 8, 8, 12, 64][pick(7)]!
    const data = Uint8Array.from({ length: size }, () => [0, 255, pick(256), pick(256)][pick(4)]!)
    const length = 1 + pick(Math.min(64, size * 8))
    const from = pick(size * 8 - length + 1)
    const bigEndian = random() < 0.5
    const start = bigEndian ? (from & ~7) + 7 - (from & 7) : from
    const place = field(start, length, bigEndian)
    const where = `${start}|${length}@${bigEndian ? 0 : 1} of ${Buffer.from(data).toString('hex')}`
    assert.equal(unsigned(data, place), Number(oracle(data, start, length, bigEndian, false)), where)
    assert.equal(signed(data, place), Number(oracle(data, start, length, bigEndian, true)), where)
  }
})

test('IEEE numbers are decoded as they were encoded, in both byte orders', () => {
  const data = new Uint8Array(16)
  const view = new DataView(data.buffer)
  for (const value of [0, -0, 1.5, -273.15, 1e-40, 3.4e38, Number.POSITIVE_INFINITY, Number.NaN]) {
    view.setFloat32(3, value, true)
    assert.ok(Object.is(float32(data, field(24, 32, false)), Math.fround(value)))
    view.setFloat32(3, value, false)
    assert.ok(Object.is(float32(data, field(31, 32, true)), Math.fround(value)))
    view.setFloat64(5, value, true)
    assert.ok(Object.is(float64(data, field(40, 64, false)), value))
    view.setFloat64(5, value, false)
    assert.ok(Object.is(float64(data, field(47, 64, true)), value))
  }
})

/** Raw values of a frame by signal; a text is the reason for a missing value. */
function decoded(dbc: string, hex: string, options = {}): Record<string, number | string> {
  const [message] = parseDbc(dbc).messages
  const names = message!.signals.map(({ name }) => name)
  const got: Record<string, number | string> = {}
  const decoder = new MessageDecoder(message!, new Map(names.map((name, k) => [name, k])), options)
  decoder.decode(Buffer.from(hex, 'hex'), (index, value, error) => {
    got[names[index]!] = value ?? error ?? 'nothing'
  })
  return got
}

test('a frame decoded by hand gives the same values', () => {
  const dbc = `BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,0) [0|0] "degC" X
 SG_ Speed : 16|12@1+ (0.0625,0) [0|250] "km/h" X
 SG_ Gear : 28|3@1+ (1,0) [0|7] "" X
 SG_ Pump : 31|1@1+ (1,0) [0|0] "" X
 SG_ Trim : 32|4@1- (1,0) [0|0] "" X
 SG_ Torque : 38|11@0- (1,0) [0|0] "Nm" X
`
  // ff9c: -100. 40 b6: the low nibble of b6 above 40 is 0x640 = 1600; b6 is 1011 0110: pump 1, gear 011.
  // 5f a9: the low nibble f is -1; bits 38 … 32, then 47 … 44 are 101 1111 1010 = 1530, less 2048 is -518.
  assert.deepEqual(decoded(dbc, 'ff9c40b65fa90000'), {
    Coolant: -100,
    Speed: 0x640,
    Gear: 3,
    Pump: 1,
    Trim: -1,
    Torque: -518,
  })
})

test('a frame too short for a signal omits only that signal', () => {
  const dbc = 'BO_ 1 M: 8 X\n SG_ A : 0|8@1+ (1,0) [0|0] "" X\n SG_ B : 12|8@1+ (1,0) [0|0] "" X'
  assert.deepEqual(decoded(dbc, '2a'), { A: 42 })
  assert.deepEqual(decoded(dbc, '2aff'), { A: 42 })
  assert.deepEqual(decoded(dbc, '2af00f'), { A: 42, B: 0xff })
  assert.deepEqual(decoded(dbc, ''), {})
})

test('only the signals that the multiplexers select are present', () => {
  const dbc = `BO_ 100 Mux: 8 X
 SG_ B m5 : 16|8@1+ (1,0) [0|0] "" X
 SG_ Select M : 0|4@1+ (1,0) [0|0] "" X
 SG_ A m0 : 8|8@1+ (1,0) [0|0] "" X
 SG_ Inner m1M : 8|8@1- (1,0) [0|0] "" X
SG_MUL_VAL_ 100 B Inner 5-5, 200-255;
`
  assert.deepEqual(decoded(dbc, '000711'), { Select: 0, A: 7 })
  assert.deepEqual(decoded(dbc, '010511'), { Select: 1, Inner: 5, B: 17 })
  assert.deepEqual(decoded(dbc, '010611'), { Select: 1, Inner: 6 })
  assert.deepEqual(decoded(dbc, '01ff11'), { Select: 1, Inner: -1, B: 17 })
  assert.deepEqual(decoded(dbc, '020511'), { Select: 2 })
  // 5 selects B by its own multiplexer only
  assert.deepEqual(decoded(dbc, '050511'), { Select: 5 })
})

test('a multiplexer that is missing from this frame selects nothing, whatever an earlier frame had', () => {
  const [message] = parseDbc(`BO_ 100 Mux: 8 X
 SG_ Select M : 0|8@1+ (1,0) [0|0] "" X
 SG_ Inner m1M : 8|8@1+ (1,0) [0|0] "" X
 SG_ B m5 : 16|8@1+ (1,0) [0|0] "" X
SG_MUL_VAL_ 100 B Inner 5-5;
`).messages
  const decoder = new MessageDecoder(message!, new Map([['B', 7]]))
  const got: (number | null)[] = []
  // B is selected; Select selects no Inner; the frame ends before Inner, and before Select
  for (const hex of ['010511', '020522', '020533', '01', '', '010544'])
    decoder.decode(Buffer.from(hex, 'hex'), (_, value) => got.push(value))
  assert.deepEqual(got, [0x11, 0x44])
})

test('a multiplexer selects signals also when it is not a channel itself', () => {
  const [message] = parseDbc(
    'BO_ 1 M: 8 X\n SG_ S M : 0|8@1+ (1,0) [0|0] "" X\n SG_ A m1 : 8|8@1+ (1,0) [0|0] "" X',
  ).messages
  const decoder = new MessageDecoder(message!, new Map([['A', 7]]))
  const got: number[][] = []
  for (const hex of ['0111', '0222', '0133'])
    decoder.decode(Buffer.from(hex, 'hex'), (index, value) => got.push([index, value!]))
  assert.deepEqual(got, [[7, 0x11], [7, 0x33]]) // biome-ignore format: short
})

test('the J1939 codes for error and not available are no numbers', () => {
  const dbc = `BO_ 2364540158 M: 8 X
 SG_ Byte : 0|8@1+ (1,-40) [0|0] "degC" X
 SG_ Word : 8|16@1+ (0.125,0) [0|0] "rpm" X
 SG_ Bits : 24|2@1+ (1,0) [0|3] "" X
 SG_ Bit : 26|1@1+ (1,0) [0|1] "" X
 SG_ Ten : 32|10@1+ (1,0) [0|0] "" X
 SG_ Signed : 48|8@1- (1,0) [0|0] "" X
`
  const j1939 = { j1939: true }
  const none = { Byte: 255, Word: 0xffff, Bits: 3, Bit: 1, Ten: 1023, Signed: -1 }
  assert.deepEqual(decoded(dbc, 'ffffffffffffffff'), none)
  assert.deepEqual(decoded(dbc, 'ffffffffffffffff', j1939), {
    Byte: NOT_AVAILABLE,
    Word: NOT_AVAILABLE,
    Bits: NOT_AVAILABLE,
    Bit: 1,
    Ten: NOT_AVAILABLE,
    Signed: -1,
  })
  assert.deepEqual(decoded(dbc, 'fe00fefafe030000', j1939), {
    Byte: SAYS_ERROR,
    Word: SAYS_ERROR,
    Bits: SAYS_ERROR,
    Bit: 0,
    Ten: SAYS_ERROR,
    Signed: 0,
  })
  assert.deepEqual(decoded(dbc, 'fafffd01fd030000', j1939), {
    Byte: 250,
    Word: 0xfdff,
    Bits: 1,
    Bit: 0,
    Ten: 1021,
    Signed: 0,
  })
})

test('the limits in the file are applied only when requested', () => {
  const dbc = `BO_ 1 M: 8 X
 SG_ A : 0|8@1+ (0.5,-40) [-40|60] "degC" X
 SG_ B : 8|8@1+ (1,0) [0|0] "" X`
  assert.deepEqual(decoded(dbc, 'ffff'), { A: 255, B: 255 })
  assert.deepEqual(decoded(dbc, 'ffff', { checkRange: true }), { A: OUT_OF_RANGE, B: 255 })
  assert.deepEqual(decoded(dbc, 'c8ff', { checkRange: true }), { A: 200, B: 255 })
  assert.deepEqual(decoded(dbc, 'c9ff', { checkRange: true }), { A: OUT_OF_RANGE, B: 255 })
})
