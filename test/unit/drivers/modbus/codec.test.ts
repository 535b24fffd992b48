import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  answerData,
  crcRtu,
  findRtu,
  frameRtu,
  frameTcp,
  judge,
  MAX_BITS,
  MAX_REGISTERS,
  nextTcp,
  readRequest,
} from '../../../../drivers/modbus/codec'
import { plan, type RegisterPlace } from '../../../../drivers/modbus/plan'
import { coilAt, numberAt, TYPES, WORD_ORDERS, type WordOrder, widthOf } from '../../../../drivers/modbus/values'
import { prng } from '../../../lib/random'

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('requests and answers match the specification (V1.1b3, examples of 6.1 to 6.4)', () => {
  // 6.1: coils 20 to 38
  const coils = readRequest('coil', 19, 19)
  assert.deepEqual(coils, hex('01 0013 0013'))
  const coilAnswer = hex('01 03 cd 6b 05')
  assert.equal(judge(coils, coilAnswer), 'data')
  const bits = Array.from({ length: 19 }, (_, k) => coilAt(coilAnswer, 2, k)).join('')
  assert.equal(bits, '1011001111010110101')
  // 6.2: discrete inputs 197 to 218
  const inputs = readRequest('discrete', 196, 22)
  assert.deepEqual(inputs, hex('02 00c4 0016'))
  assert.equal(judge(inputs, hex('02 03 ac db 35')), 'data')
  // 6.3: holding registers 108 to 110 hold 555, 0, 100
  const holding = readRequest('holding', 107, 3)
  assert.deepEqual(holding, hex('03 006b 0003'))
  const answer = hex('03 06 02 2b 00 00 00 64')
  assert.equal(judge(holding, answer), 'data')
  assert.deepEqual(
    [0, 1, 2].map(k => numberAt(answer, 2 + 2 * k, 'u16', 'ABCD')),
    [555, 0, 100],
  )
  // 6.4: input register 9 holds 10
  assert.deepEqual(readRequest('input', 8, 1), hex('04 0008 0001'))
  // 7: exception 2 to a read of coils
  assert.equal(judge(readRequest('coil', 1185, 1), hex('81 02')), 'exception')
})

test('the CRC is that of the serial line (V1.02, 6.2.2), low byte first', () => {
  assert.equal(crcRtu(hex('02 07')), 0x1241)
  assert.equal(crcRtu(Buffer.from('123456789')), 0x4b37)
  assert.deepEqual(frameRtu(0x11, readRequest('holding', 0x6b, 3)), hex('11 03 006b 0003 76 87'))
})

test('a TCP frame begins with transaction, protocol 0, length and unit (V1.0b, 3.1.3)', () => {
  assert.deepEqual(frameTcp(0x1501, 0xff, readRequest('input', 0, 1)), hex('1501 0000 0006 ff 04 0000 0001'))
  const answer = hex('1501 0000 0005 ff 04 02 00 05')
  assert.deepEqual(nextTcp(answer, answer.length), { transaction: 0x1501, unit: 0xff, size: 11 })
  for (let length = 0; length < answer.length; length++) assert.equal(nextTcp(answer, length), undefined)
  assert.equal(nextTcp(hex('1501 0001 0005 ff'), 7), 'broken')
  assert.equal(nextTcp(hex('1501 0000 0001 ff'), 7), 'broken')
  assert.equal(nextTcp(hex('1501 0000 0200 ff'), 7), 'broken')
})

test('every number type is read in every word order', () => {
  // 0x11223344 in the four orders
  const orders: Record<WordOrder, string> = { ABCD: '11223344', CDAB: '33441122', BADC: '22114433', DCBA: '44332211' }
  for (const order of WORD_ORDERS) assert.equal(numberAt(hex(orders[order]), 0, 'u32', order), 0x11223344)
  assert.equal(numberAt(hex('0708050603040102'), 0, 'u64', 'CDAB'), Number(0x0102030405060708n))
  assert.equal(numberAt(hex('3412'), 0, 'u16', 'DCBA'), 0x1234)
  assert.equal(numberAt(hex('1234'), 0, 'u16', 'CDAB'), 0x1234)
  assert.equal(numberAt(hex('ffff'), 0, 'i16', 'ABCD'), -1)
  assert.equal(numberAt(hex('fffffffe'), 0, 'i32', 'ABCD'), -2)
  assert.equal(numberAt(hex('ffffffffffffff85'), 0, 'i64', 'ABCD'), -123)
  assert.equal(numberAt(hex('42f6e979'), 0, 'f32', 'ABCD'), Math.fround(123.456))
  assert.equal(numberAt(hex('405edd2f1a9fbe77'), 0, 'f64', 'ABCD'), 123.456)
  assert.equal(numberAt(hex('9876'), 0, 'bcd16', 'ABCD'), 9876)
  assert.equal(numberAt(hex('56781234'), 0, 'bcd32', 'CDAB'), 12345678)
  assert.equal(numberAt(hex('98a6'), 0, 'bcd16', 'ABCD'), null)
  assert.deepEqual(
    [0, 1, 8, 15].map(bit => numberAt(hex('8102'), 0, 'bit', 'ABCD', bit)),
    [0, 1, 1, 1],
  )
})

test('a number written in any type and order is read back', () => {
  const random = prng(7)
  for (let k = 0; k < 5000; k++) {
    const type = TYPES[Math.floor(random() * TYPES.length)]!
    if (type === 'bit' || type.startsWith('bcd')) continue
    const order = WORD_ORDERS[Math.floor(random() * 4)]!
    const size = widthOf(type) * 2
    const plain = new DataView(new ArrayBuffer(8))
    for (let b = 0; b < size; b++) plain.setUint8(b, random() * 256)
    const wanted = {
      u16: () => plain.getUint16(0),
      i16: () => plain.getInt16(0),
      u32: () => plain.getUint32(0),
      i32: () => plain.getInt32(0),
      u64: () => Number(plain.getBigUint64(0)),
      i64: () => Number(plain.getBigInt64(0)),
      f32: () => plain.getFloat32(0),
      f64: () => plain.getFloat64(0),
    }[type as 'u16']()
    const words: number[][] = []
    for (let b = 0; b < size; b += 2) words.push([plain.getUint8(b), plain.getUint8(b + 1)])
    if (order === 'CDAB' || order === 'DCBA') words.reverse()
    if (order === 'BADC' || order === 'DCBA') for (const word of words) word.reverse()
    assert.deepEqual(numberAt(Uint8Array.from([9, ...words.flat()]), 1, type, order), wanted, `${type} ${order}`)
  }
})

test('the plan requests every register once, in requests of the allowed size, and reads no others', () => {
  const random = prng(3)
  for (let round = 0; round < 300; round++) {
    const gap = Math.floor(random() * 4)
    const most = 4 + Math.floor(random() * 122)
    const places: RegisterPlace[] = Array.from({ length: 1 + Math.floor(random() * 60) }, () => ({
      table: (['holding', 'input', 'coil', 'discrete'] as const)[Math.floor(random() * 4)]!,
      address: Math.floor(random() * (random() < 0.5 ? 120 : 3000)),
      type: TYPES[Math.floor(random() * TYPES.length)]!,
    }))
    const blocks = plan(places, { gap, most })
    const asked = blocks.flatMap(({ members }) => members).sort((a, b) => a - b)
    assert.deepEqual(
      asked,
      places.map((_, k) => k),
    )
    for (const { table, address, count, members, request } of blocks) {
      const bits = table === 'coil' || table === 'discrete'
      assert.ok(count >= 1 && count <= (bits ? MAX_BITS : most))
      assert.deepEqual(request, readRequest(table, address, count))
      const covered = new Set<number>()
      for (const member of members) {
        const place = places[member]!
        assert.equal(place.table, table)
        for (let n = 0; n < (bits ? 1 : widthOf(place.type)); n++) covered.add(place.address + n)
      }
      let blank = 0
      for (let at = address; at < address + count; at++) {
        blank = covered.has(at) ? 0 : blank + 1
        assert.ok(blank <= gap)
      }
      assert.ok(covered.has(address) && covered.has(address + count - 1))
    }
  }
})

test('as few requests as possible: adjacent registers share one', () => {
  const at = (address: number, type: RegisterPlace['type'] = 'u16'): RegisterPlace => ({
    table: 'holding',
    address,
    type,
  })
  const shape = (places: RegisterPlace[], options = {}) =>
    plan(places, options).map(({ address, count }) => [address, count])
  assert.deepEqual(shape([at(0, 'f32'), at(2), at(3)]), [[0, 4]])
  assert.deepEqual(shape([at(3), at(0), at(0, 'bit')]), [
    [0, 1],
    [3, 1],
  ])
  assert.deepEqual(shape([at(3), at(0)], { gap: 2 }), [[0, 4]])
  const many = Array.from({ length: 250 }, (_, k) => at(k))
  assert.deepEqual(shape(many), [
    [0, MAX_REGISTERS],
    [125, MAX_REGISTERS],
  ])
})

test('the answer is found among noise, an echo and frames of others; a wrong CRC is reported', () => {
  const request = readRequest('holding', 0x6b, 3)
  const echo = frameRtu(0x11, request)
  const good = frameRtu(0x11, hex('03 06 ae41 5652 4340'))
  const other = frameRtu(0x12, hex('03 06 0001 0002 0003'))
  for (const before of [hex(''), hex('00'), echo, other, hex('11 03 06'), hex('ff 11')]) {
    const all = Buffer.concat([before, good])
    const found = findRtu(all, all.length, 0x11, request)
    assert.ok(typeof found === 'object', text(before))
    assert.equal(text(all.subarray(found.start, found.end)), '0306ae4156524340')
    for (let length = 0; length < all.length; length++) {
      const early = findRtu(all, length, 0x11, request)
      assert.ok(early === undefined || early === 'damaged')
    }
  }
  const bad = Uint8Array.from(good)
  bad[5]! ^= 1
  assert.equal(findRtu(bad, bad.length, 0x11, request), 'damaged')
  assert.equal(findRtu(other, other.length, 0x11, request), undefined)
  const refused = frameRtu(0x11, hex('83 02'))
  assert.deepEqual(findRtu(refused, refused.length, 0x11, request), { start: 1, end: 3 })
})

test('an echo whose address looks like the length of an answer is not a damaged answer', () => {
  // two registers from 0x0400 on: the answer has 4 bytes, and the echo seems to have them too
  const request = readRequest('holding', 0x0400, 2)
  const all = Buffer.concat([frameRtu(0x11, request), frameRtu(0x11, hex('03 04 4148 0000'))])
  for (let length = 0; length < all.length; length++) assert.equal(findRtu(all, length, 0x11, request), undefined)
  assert.deepEqual(findRtu(all, all.length, 0x11, request), { start: 9, end: 15 })
})

test('for any bytes as an answer, nothing throws, nothing after the answer is read and no wrong value is taken', () => {
  const random = prng(11)
  const buffer = new Uint8Array(512)
  let good = 0
  for (let round = 0; round < 100_000; round++) {
    const table = (['holding', 'input', 'coil', 'discrete'] as const)[round & 3]!
    const request = readRequest(table, Math.floor(random() * 65_529), 1 + Math.floor(random() * 8))
    const data = answerData(request)
    const pdu = Uint8Array.from([request[0]!, data, ...Array.from({ length: data }, () => Math.floor(random() * 256))])
    const frame = round & 4 ? frameRtu(7, pdu) : frameTcp(round & 0xffff, 7, pdu)
    buffer.set(frame)
    const length = Math.floor(random() * 3) === 0 ? Math.floor(random() * frame.length) : frame.length
    for (let n = Math.floor(random() * 3); n > 0; n--) buffer[Math.floor(random() * frame.length)] = random() * 256
    if (round & 4) {
      const found = findRtu(buffer, length, 7, request)
      if (typeof found !== 'object') continue
      assert.ok(found.end <= length)
      assert.notEqual(judge(request, buffer.slice(found.start, found.end)), 'wrong')
      good++
    } else {
      const found = nextTcp(buffer, length)
      if (typeof found === 'object') assert.ok(found.size <= length)
      judge(request, buffer.slice(7, length))
    }
  }
  assert.ok(good > 1000)
})
