import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeliveryStream } from '../../../../src/protocol/delivery'
import { buildProbe } from '../../../../src/protocol/delivery/frame'

test('a stream reports its buffered bytes, and frees the buffer of a large packet once it is complete', () => {
  const got: number[] = []
  const stream = new DeliveryStream({ role: 'server', onPacket: packet => got.push(packet.length) })
  stream.push(buildProbe(1))
  assert.deepEqual([stream.held, stream.first], [0, undefined])
  stream.push(Buffer.of(0xea, 0x60))
  assert.deepEqual([stream.held, stream.first], [2, 0xea])
  stream.push(Buffer.alloc(59_999))
  assert.ok(stream.memory >= 60_001)
  assert.equal(stream.held, 60_001)
  stream.push(Buffer.alloc(1))
  assert.deepEqual(got, [8, 60_000])
  assert.deepEqual([stream.held, stream.memory], [0, 512])
  stream.push(Buffer.of(0, 3, 1, 2))
  stream.push(Buffer.of(3))
  assert.deepEqual(got, [8, 60_000, 3])
})
