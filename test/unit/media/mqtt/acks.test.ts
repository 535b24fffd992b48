// The order of acknowledgements of MQTT: packets that wait for their commit or their answer, and when reading stops.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { yieldToLoop } from '../../../../src/lib/yield'
import { HeldAcks } from '../../../../src/media/mqtt/acks'
import { prng } from '../../../lib/random'

test('acknowledgements are sent in the order of the packets, each once, whatever the order of settling', () => {
  const next = prng(5)
  const sent: number[] = []
  const acks = new HeldAcks(answer => sent.push((answer as { messageId: number }).messageId), 10_000)
  const open: (() => void)[] = []
  let read = 0
  for (let k = 1; k <= 2000; k++) {
    const settle = acks.hold()
    open.push(settle)
    // some are settled before mqtt.js answers
    if (next() < 0.3) settle()
    acks.catch({ cmd: 'puback', messageId: k }, () => read++)
    while (open.length > 0 && next() < 0.5) open.splice(Math.floor(next() * open.length), 1)[0]!()
  }
  for (const settle of open) {
    settle()
    settle()
  }
  assert.deepEqual(
    sent,
    Array.from({ length: 2000 }, (_, k) => k + 1),
  )
  assert.equal(read, 2000)
})

test('at the limit of unsettled packets nothing is read until one is settled, and that is reported', () => {
  const told: boolean[] = []
  const acks = new HeldAcks(
    () => undefined,
    3,
    paused => told.push(paused),
  )
  const settle: (() => void)[] = []
  let read = 0
  for (let k = 0; k < 3; k++) {
    settle.push(acks.hold())
    acks.catch({ cmd: 'puback', messageId: k }, () => read++)
  }
  assert.equal(read, 2)
  assert.deepEqual(told, [true])
  settle[1]!()
  assert.equal(read, 2, 'the first is still there, and keeps the second')
  settle[0]!()
  assert.equal(read, 3)
  assert.deepEqual(told, [true, false])
})

test('a packet whose answer the broker does not have yet is not acknowledged, and does not stop reading', async () => {
  const sent: number[] = []
  const acks = new HeldAcks(answer => sent.push((answer as { messageId: number }).messageId), 2)
  let read = 0
  const settles = [1, 2].map(messageId => {
    const settle = acks.hold()
    acks.catch({ cmd: 'puback', messageId }, () => read++)
    return settle
  })
  assert.equal(read, 1)
  let answered: () => void = assert.fail
  settles[0]!(new Promise<void>(resolve => (answered = resolve)))
  assert.equal(read, 2, 'the answer to our answer can be read')
  settles[1]!()
  await yieldToLoop()
  assert.deepEqual(sent, [])
  answered()
  await yieldToLoop()
  assert.deepEqual(sent, [1, 2])
  const more = [3, 4].map(messageId => {
    const settle = acks.hold()
    acks.catch({ cmd: 'puback', messageId }, () => read++)
    return settle
  })
  assert.equal(read, 3, 'the limit is what it was')
  for (const settle of more) settle()
  assert.equal(read, 4)
})

test('packets behind one that waits for its answer do not stop reading: the acknowledgement of the answer comes behind them', async () => {
  const sent: number[] = []
  const acks = new HeldAcks(answer => sent.push((answer as { messageId: number }).messageId), 2)
  let read = 0
  let answered: () => void = assert.fail
  for (let messageId = 1; messageId <= 5; messageId++) {
    const settle = acks.hold()
    acks.catch({ cmd: 'puback', messageId }, () => read++)
    settle(messageId === 1 ? new Promise<void>(resolve => (answered = resolve)) : undefined)
  }
  assert.deepEqual([read, sent], [5, []])
  answered()
  await yieldToLoop()
  assert.deepEqual(sent, [1, 2, 3, 4, 5])
})
