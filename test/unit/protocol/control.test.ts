import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as control from '../../../src/protocol/control'
import { parseRefusedFrame, refusedFrameText } from '../../../src/protocol/nack'
import { pythonJson, tolerantObject } from '../../../src/protocol/pythonjson'

const hex = (b: Uint8Array): string => Buffer.from(b).toString('hex')
const bytes = (h: string): Uint8Array => new Uint8Array(Buffer.from(h, 'hex'))

test('requests have the bytes of the protocol', () => {
  assert.equal(hex(control.buildIdRequest(1)), '0100017b7d')
  assert.equal(
    hex(control.buildIdRequest(2, { device_id: 'D1', hw: 'ESP32' })),
    '0100027b226465766963655f6964223a20224431222c20226877223a20224553503332227d',
  )
  assert.equal(hex(control.buildIdPoolRequest(3)), '030003000a7b7d')
  assert.equal(hex(control.buildIdPoolRequest(4, 300, { a: 1 })), '030004012c7b2261223a20317d')
  assert.throws(() => control.buildIdPoolRequest(4, 65_536), { code: 'BAD_REQUEST' })
  assert.equal(hex(control.buildPing(5)), '090005')
  assert.equal(hex(control.buildTimeRequest(6)), '0b0006')
})

test('replies have the bytes of the protocol', () => {
  assert.equal(hex(control.buildAck(7)), '050007')
  assert.equal(hex(control.buildNack(8, 'NO')), '0600084e4f')
  assert.equal(hex(control.buildPong(65_535)), '0affff')
  assert.equal(hex(control.buildTimeResponse(1, 1_710_000_000)), '0c00010000000065ec8780')
  assert.equal(hex(control.buildIdAssign(2, 77)), '0200020000004d')
  assert.equal(hex(control.buildIdAssign(2, 77, 1_710_000_000)), '0200020000004d0000000065ec8780')
  assert.equal(hex(control.buildIdPoolResponse(3, [1, 2, 4294967295])), '04000300030000000100000002ffffffff')
  assert.equal(hex(control.buildSecureDictReady(5, 1_710_000_000_000)), '0d000000050000018e23f14c00')
  assert.equal(hex(control.buildSecureChannelAck(5)), '0e00000005')
})

test('what is built is parsed again, and missing bytes read as 0', () => {
  assert.deepEqual(control.parseIdAssign(control.buildIdAssign(2, 77, 5)), { seq: 2, assignedId: 77, serverTime: 5 })
  assert.deepEqual(control.parseIdAssign(bytes('02544a00')), { seq: 0x544a, assignedId: 0, serverTime: null })
  assert.deepEqual(control.parseIdPool(bytes('04544a000500000001ffff')), [1])
  assert.equal(control.parsePoolCount(bytes('03544a')), 1)
  assert.equal(control.parsePoolCount(bytes('03544a012c')), 300)
  assert.equal(control.parseServerTime(bytes('0c544a00')), 0)
  assert.equal(control.parseNackReason(bytes('06544a4e4f')), 'NO')
  assert.deepEqual(control.parseSecureDictReady(bytes('0d00000005')), { assignedId: 5, timestampRaw: null })
  assert.equal(control.parseSecureChannelAck(bytes('0e544a')), 0)
  assert.equal(control.controlSeq(bytes('09')), 0)
})

test('request numbers wrap around and skip 0', () => {
  const counter = new control.SequenceCounter()
  assert.equal(counter.next(), 1)
  const late = new control.SequenceCounter(65_534)
  assert.deepEqual([late.next(), late.next(), late.next()], [65_535, 1, 2])
})

test('JSON is spaced as in Python, and unreadable JSON is an empty object', () => {
  assert.equal(
    pythonJson({ a: 1, b: [1, 'ä"'], c: { d: null }, e: undefined }),
    '{"a": 1, "b": [1, "ä\\""], "c": {"d": null}}',
  )
  assert.equal(pythonJson({ b: 1, a: { d: true, c: 2 } }, { sortKeys: true }), '{"a": {"c": 2, "d": true}, "b": 1}')
  for (const text of ['', '{{', '[1]', '1', 'null', '\xff'])
    assert.deepEqual(tolerantObject(Buffer.from(text, 'latin1')), {})
  assert.deepEqual(tolerantObject(Buffer.from('{"a":1}')), { a: 1 })
})

test('NEED_FULL and BAD_KEY name the refused frame', () => {
  const frame = { reason: 'NEED_FULL', aid: 4294967294, tid: 7, ts: 1_710_000_000_000, crc16: 0xa } as const
  assert.equal(refusedFrameText(frame), 'NEED_FULL;4294967294;7;1710000000000;000a')
  assert.deepEqual(parseRefusedFrame(refusedFrameText(frame)), frame)
  assert.equal(parseRefusedFrame('BAD_KEY;1;255;281474976710655;beef')?.reason, 'BAD_KEY')
  for (const text of [
    '',
    'INVALID_ID',
    'NEED_FULL;1;1;1',
    'NEED_FULL;01;1;1;beef',
    'NEED_FULL;1;256;1;beef',
    'NEED_FULL;4294967296;1;1;beef',
    'NEED_FULL;1;1;281474976710656;beef',
    'NEED_FULL;1;1;1;BEEF',
    'NEED_FULL;1;1;1;beef;',
    ' NEED_FULL;1;1;1;beef',
    'NEED_FULL;1;1;1;beef\n',
  ])
    assert.equal(parseRefusedFrame(text), null, JSON.stringify(text))
})
