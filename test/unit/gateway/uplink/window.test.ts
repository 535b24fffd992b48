import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerMs, exchangeOver } from '../../../../src/gateway/uplink/window'

test('the exchange over a slow medium waits for the longest frame and its answer, each after a wait for the channel', () => {
  const airtime = { of: (bytes: number) => bytes * 10, share: 0.01, waitMs: () => 0 }
  const lora = { medium: 'LORA', maxPacket: 255, airtime } as never
  assert.equal(answerMs(lora), 480)
  const { minRtoMs, backsOff, startPackets, maxPacket } = exchangeOver(lora, {})
  assert.deepEqual([minRtoMs, backsOff, startPackets, maxPacket], [2 * (2550 + 480), true, 32, 255])
  const udp = { medium: 'UDP', maxPacket: 1400 } as never
  assert.equal(answerMs(udp), 0)
  assert.deepEqual(exchangeOver(udp, {}), { maxPacket: 1400, maxPackets: 1024, startPackets: 32 })
  const batches = exchangeOver(udp, { batchItems: 3, batchBytes: 0 })
  assert.deepEqual([batches.batchItems, batches.batchBytes], [3, 0])
})
