import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeBase62,
  decodeInteger,
  encodeBase62,
  encodeInteger,
  readBase62,
  roundDecimals,
  roundHalfEven,
  unscale,
  writeBase62Of,
} from '../../../src/wire/base62'
import { baseCommand, COMMAND, commandName, isData, isSecure, secureCommand } from '../../../src/wire/commands'
import { crc8, crc16, crc32c, crcBits } from '../../../src/wire/crc'
import { ByteReader, ByteWriter } from '../../../src/wire/cursor'
import { readHeader, rekeyFrame, sealFrame, tsHigh, writeHeader, writeTimeToken } from '../../../src/wire/frame'
import { pyFloat, pyText } from '../../../src/wire/number'
import { frameSerial, unframeSerial } from '../../../src/wire/serial'
import { STATE_TOKENS, UNIT_NAMES, UNIT_TOKENS } from '../../../src/wire/symbols'
import { random } from '../pipeline/units'

const ascii = (text: string): Buffer => Buffer.from(text, 'latin1')

function read(bytes: Uint8Array, start: number, end: number): number {
  const out = new Float64Array(1)
  assert.ok(readBase62(bytes, start, end, out, 0))
  return out[0]!
}

test('checksums of the check string are right, in one call and in pieces', () => {
  const check = ascii('123456789')
  assert.equal(crc8(check), 0xf4)
  assert.equal(crc16(check), 0x29b1)
  assert.equal(crc32c(check), 0xe3069283)
  assert.equal(crc32c(ascii('')), 0)
  assert.equal(crc8(check, 4, 9, crc8(check, 0, 4)), 0xf4)
  assert.equal(crc16(check, 4, 9, crc16(check, 0, 4)), 0x29b1)
})

test('crc32c by eight bytes equals bit by bit, for every length, offset and seed', () => {
  const next = random(1)
  const data = Uint8Array.from({ length: 80 }, () => next() * 256)
  const slow = (from: number, to: number): number => {
    let crc = 0xffffffff
    for (let i = from; i < to; i++) {
      crc ^= data[i]!
      for (let k = 0; k < 8; k++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
    }
    return ~crc >>> 0
  }
  for (let from = 0; from < 9; from++)
    for (let to = from; to <= data.length; to++) {
      assert.equal(crc32c(data, from, to), slow(from, to))
      const middle = (from + to) >> 1
      assert.equal(crc32c(data, middle, to, crc32c(data, from, middle)), slow(from, to))
    }
})

test('the table CRCs equal the bitwise ones', () => {
  const next = random(2)
  for (let k = 0; k < 200; k++) {
    const data = Uint8Array.from({ length: (next() * 60) | 0 }, () => next() * 256)
    assert.equal(crc8(data), crcBits(8, 7, 0, data))
    assert.equal(crc16(data), crcBits(16, 0x1021, 0xffff, data))
  }
})

test('every integer is written, read and decoded equally as text and as buffer', () => {
  const next = random(3)
  const out = new Uint8Array(16)
  const edges = [
    0,
    1,
    61,
    62,
    3843,
    3844,
    238327,
    238328,
    14776335,
    14776336,
    916132831,
    916132832,
    2 ** 32,
    2 ** 53,
    2 ** 62,
  ]
  for (let k = 0; k < 30000; k++) {
    let n = k < edges.length ? edges[k]! : Math.floor(next() * 2 ** (1 + next() * 62))
    if (next() < 0.5) n = -n
    const text = encodeInteger(n)
    const end = writeBase62Of(out, 2, Float64Array.of(n), 0)
    assert.equal(Buffer.from(out.subarray(2, end)).toString(), text)
    assert.equal(read(out, 2, end), n === 0 ? 0 : n)
    assert.equal(decodeBase62(text, false), n === 0 ? 0 : n)
  }
})

test('a buffer that is no Base62 is not read', () => {
  const out = Float64Array.of(7)
  for (const text of ['-', '--1', '1.5', ' 1', '1!', 'é1', '123456789!'])
    assert.equal(readBase62(ascii(text), 0, text.length, out, 0), false, text)
  assert.equal(out[0], 7)
  assert.equal(read(ascii(''), 0, 0), 0)
  assert.equal(read(ascii('ZZZZZZZZZZZZ'), 0, 12), decodeBase62('ZZZZZZZZZZZZ', false))
})

test('halves are rounded to even, on the double product', () => {
  assert.deepEqual(
    [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994].map(roundHalfEven).map(x => x + 0),
    [0, 2, 2, 0, -2, 0],
  )
  assert.equal(encodeBase62(0.00025), '2')
  assert.equal(encodeBase62(0.00035), '4')
})

test('a value with at most 8 decimals needs no second rounding', () => {
  const next = random(4)
  for (let k = 0; k < 20000; k++) {
    const precision = (next() * 9) | 0
    const n = Math.round((next() - 0.5) * 2 ** (next() * 53))
    assert.equal(unscale(n, precision), roundDecimals(n / 10 ** precision, 8) + 0)
  }
})

test('rounding to decimals sends exact ties to even', () => {
  assert.deepEqual(
    [
      [0.5, 0],
      [1.5, 0],
      [2.5, 0],
      [0.125, 2],
      [0.375, 2],
      [-0.125, 2],
      [2.675, 2],
      [19531250e-10, 8],
    ].map(([x, d]) => roundDecimals(x!, d!) + 0),
    [0, 2, 2, 0.12, 0.38, -0.12, 2.67, 0.00195312],
  )
})

test('numbers are parsed and printed as the reference does', () => {
  assert.deepEqual(['1_000', ' 12.5 ', '1e3', '.5', '-inf', 'abc', '1__0', '0x10', ''].map(pyFloat), [
    1000,
    12.5,
    1000,
    0.5,
    Number.NEGATIVE_INFINITY,
    undefined,
    undefined,
    undefined,
    undefined,
  ])
  assert.deepEqual([1000, 0.003, 2e-9, 1e-6, 1e22].map(pyText), ['1000', '0.003', '2e-09', '1e-06', '1e+22'])
})

test('all eighteen commands have names, data commands have secure forms', () => {
  assert.equal(Object.keys(COMMAND).length, 18)
  for (const [name, cmd] of Object.entries(COMMAND)) assert.equal(commandName(cmd), name)
  for (const cmd of [0x3f, 0xaa, 0x7f]) {
    assert.ok(isData(cmd) && !isSecure(cmd) && isSecure(secureCommand(cmd)))
    assert.equal(baseCommand(secureCommand(cmd)), cmd)
  }
  assert.ok(!isData(0x01) && secureCommand(0x09) === 0x09)
})

test('the cursor reads what it wrote and stops at the end', () => {
  const out = new Uint8Array(64)
  const w = new ByteWriter(out)
    .u8(7)
    .u16(0xfffe)
    .u32(0xfffffffd)
    .u16(0xffff)
    .u32(0xfffffffc)
    .u64(2 ** 53 - 1)
    .put(Uint8Array.of(110, 195))
  const r = new ByteReader(out, 0, w.at)
  assert.deepEqual(
    [r.u8(), r.u16(), r.u32(), r.u48(), r.u64(), r.u16()],
    [7, 0xfffe, 0xfffffffd, 0xfffffffffffc, 2 ** 53 - 1, 0x6ec3],
  )
  assert.throws(() => r.u8(), { code: 'BAD_PACKET' })
  assert.equal(r.left, 0)
  assert.throws(() => new ByteWriter(out, 62).u32(1), { code: 'BAD_PACKET' })
})

test('a sealed frame opens with its original content', () => {
  const out = new Uint8Array(64)
  const body = writeHeader(out, 3, 0xaa, 0xfffffffe, 199, 281474976710655)
  out.set([1, 2, 3], body)
  const end = sealFrame(out, 3, body, body + 3)
  const header = readHeader(out.subarray(3, end))
  assert.ok(typeof header === 'object')
  assert.deepEqual(
    [header.cmd, header.sourceAid, header.tid, header.ts, header.crc16Ok, header.end - header.body],
    [0xaa, 0xfffffffe, 199, 281474976710655, true, 3],
  )
  out[10]! ^= 1
  assert.equal((readHeader(out.subarray(3, end)) as { crc16Ok: boolean }).crc16Ok, false)
})

test('time tokens in a buffer are base64url of six bytes', () => {
  const next = random(5)
  const out = new Uint8Array(8)
  for (const ms of [
    0,
    1,
    1710000000000,
    2 ** 48 - 1,
    ...Array.from({ length: 500 }, () => Math.floor(next() * 2 ** 48)),
  ]) {
    writeTimeToken(out, 0, tsHigh(ms), ms | 0)
    const bytes = Buffer.alloc(6)
    bytes.writeUIntBE(ms, 0, 6)
    assert.equal(Buffer.from(out).toString(), bytes.toString('base64url'))
  }
})

test('serial frames of both framings are decoded, one with a wrong LRC is not', () => {
  const packet = Uint8Array.of(2, 3, 2, 255, 3)
  for (const framing of ['uart', 'rs485'] as const) {
    assert.deepEqual([...unframeSerial(frameSerial(packet, framing), framing)!], [...packet])
  }
  const bad = frameSerial(packet, 'rs485')
  bad[2]! ^= 1
  assert.equal(unframeSerial(bad, 'rs485'), null)
  assert.equal(unframeSerial(Uint8Array.of(2, 3), 'rs485'), null)
})

test('the symbol tables have the sizes of appendix A', () => {
  assert.deepEqual([UNIT_TOKENS.size, UNIT_NAMES.size, STATE_TOKENS.size], [136, 135, 5])
  assert.equal(UNIT_NAMES.get('900'), 'atm')
  assert.equal(UNIT_TOKENS.get('modez'), 'D46')
})

test('a frame under five bytes is short; a longer one without its whole header is incomplete', () => {
  for (let size = 0; size < 5; size++) assert.equal(readHeader(new Uint8Array(size)), 'short')
  for (const size of [5, 11]) assert.equal(readHeader(new Uint8Array(size)), 'incomplete')
  assert.equal((readHeader(new Uint8Array(12)) as { sourceAid: number }).sourceAid, 0)
})

test('a text that is no Base62 is refused, and so are an empty one and a sign alone', () => {
  for (const text of ['', '-', '--1', '1.5', 'é1', 'Ā', '1!'])
    assert.throws(() => decodeInteger(text), {
      code: 'BAD_TEXT',
      message: `not a Base62 number: ${JSON.stringify(text)}`,
    })
  assert.throws(() => decodeInteger('!'.repeat(50)), { message: `not a Base62 number: "${'!'.repeat(40)}"` })
  assert.deepEqual([decodeInteger('-1'), decodeInteger(`1${'0'.repeat(64)}`), decodeBase62('')], [-1n, 0n, 0])
})

test('a frame is encrypted and decrypted again, and only with its own key', () => {
  const body = Buffer.from('9;D.1.AAAAAAAA|a>K.K:1|')
  const plain = Buffer.alloc(16 + body.length)
  const start = writeHeader(plain, 0, COMMAND.DATA_FULL, 9, 1, 1_710_000_000_000)
  plain.set(body, start)
  sealFrame(plain, 0, start, start + body.length)
  const [key, other] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)]
  const secure = rekeyFrame(plain, null, key)!
  assert.equal(secure[0], COMMAND.DATA_FULL_SEC)
  assert.notDeepEqual(Buffer.from(secure.subarray(start, start + body.length)), body)
  assert.deepEqual(Buffer.from(rekeyFrame(secure, key, null)!), plain)
  assert.deepEqual(rekeyFrame(rekeyFrame(secure, key, other)!, other, key), secure)
  assert.equal(rekeyFrame(secure, other, null), null)
  assert.equal(rekeyFrame(secure, null, null), null, 'enciphered is not plain')
  assert.equal(rekeyFrame(plain.subarray(0, 8), null, key), null)
  plain[plain.length - 1]! ^= 1
  assert.equal(rekeyFrame(plain, null, key), null, 'a wrong CRC-16')
})
