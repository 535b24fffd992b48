// The queue before an ISO-TP socket, on a kernel that the test plays: order, full queues, silence, time-outs, loss.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { test } from 'node:test'
import { CanPeer } from '../../../../drivers/can/peer'
import { silentLogger } from '../../../../src/lib/logger'
import { AGAIN, NO_BUFFERS, READABLE, WRITABLE } from '../../../../src/native'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { Kernel } from './kernel'

const ECOMM = 70
const { ENETDOWN, EILSEQ } = constants.errno

async function world() {
  const clock = new ManualClock(1_000_000)
  const timers = new ManualTimers(clock)
  const kernels: Kernel[] = []
  const lost: string[] = []
  const degraded: string[] = []
  const peer = new CanPeer(
    'peer',
    { interface: `can${worlds++}`, isotp: { txId: 1, rxId: 0x7e8 }, maxPacket: 100, sendTimeoutMs: 1000 },
    {
      clock,
      timers,
      logger: silentLogger,
      loss: error => (error === -ENETDOWN ? 'can0 is down' : undefined),
      openSocket: () => {
        kernels.push(new Kernel())
        return kernels.at(-1)!
      },
    },
  )
  await peer.open({ lost: reason => lost.push(reason), degraded: reason => degraded.push(reason) })
  const results: string[] = []
  const send = (text: string): void => {
    void peer.send(Buffer.from(text)).then(taken => results.push(`${text} ${taken}`))
  }
  return {
    peer,
    timers,
    kernels,
    kernel: kernels[0]!,
    lost,
    degraded,
    send,
    results,
    detail: () => peer.counters.detail!,
  }
}
let worlds = 0

test('one packet is sent at a time, the others follow in order', async () => {
  const { kernel, send, results, timers, peer } = await world()
  for (const text of ['a', 'b', 'c']) send(text)
  assert.deepEqual(kernel.sent, ['a'])
  kernel.done()
  assert.deepEqual(kernel.sent, ['a', 'b'])
  kernel.done()
  kernel.done()
  await timers.advance(0)
  assert.deepEqual(results, ['a true', 'b true', 'c true'])
  assert.equal(kernel.events, READABLE)
  assert.equal(timers.pending, 0)
  assert.deepEqual([peer.counters.tx, peer.counters.errors], [3, 0])
})

test('when the queue of the device is full, the send is retried by a timer, not by polling the socket', async () => {
  const { kernel, send, results, timers, detail } = await world()
  kernel.answers.push(NO_BUFFERS, NO_BUFFERS)
  send('a')
  send('b')
  assert.equal(kernel.events, READABLE)
  await timers.advance(4)
  assert.deepEqual(kernel.sent, [])
  await timers.advance(6)
  assert.deepEqual(kernel.sent, ['a'])
  kernel.done()
  kernel.done()
  await timers.advance(0)
  assert.deepEqual(results, ['a true', 'b true'])
  assert.equal(detail().queue_full, 2)
})

test('a kernel that is still sending the last packet gets the next one when it is done', async () => {
  const { kernel, send, timers, results } = await world()
  kernel.answers.push(AGAIN)
  send('a')
  assert.deepEqual(kernel.sent, [])
  kernel.wake(WRITABLE)
  assert.deepEqual(kernel.sent, ['a'])
  kernel.done()
  await timers.advance(0)
  assert.deepEqual(results, ['a true'])
})

test('a silent peer makes the send false and the link degraded; it recovers when the peer is heard', async () => {
  const { kernel, send, results, timers, degraded, detail } = await world()
  send('a')
  kernel.incoming.push(-ECOMM)
  kernel.wake(READABLE)
  send('b')
  await timers.advance(0)
  assert.deepEqual(results, ['a false'])
  assert.match(degraded[0]!, /^the peer at can\d+:0x7e8 does not take packets$/)
  kernel.incoming.push('hello')
  kernel.wake(READABLE)
  assert.equal(degraded.at(-1), '')
  assert.equal(detail().not_taken, 1)
})

test('a packet that failed while the queue was full is retried a few times', async () => {
  const { kernel, send, results, timers } = await world()
  kernel.answers.push(NO_BUFFERS)
  send('a')
  await timers.advance(5)
  for (let n = 0; n < 4; n++) kernel.done(-ECOMM)
  assert.deepEqual(kernel.sent, ['a', 'a', 'a', 'a', 'a'])
  kernel.done(-ECOMM)
  await timers.advance(0)
  assert.deepEqual(results, ['a false'])
})

test('a reception that breaks off is counted and does not disturb other packets', async () => {
  const { kernel, send, results, timers, detail, lost } = await world()
  send('a')
  kernel.incoming.push(-EILSEQ)
  kernel.wake(READABLE)
  kernel.done()
  await timers.advance(0)
  assert.deepEqual([results, detail().rx_broken, lost], [['a true'], 1, []])
})

test('a packet that takes too long is false, and the socket is reopened', async () => {
  const { kernels, kernel, send, results, timers, degraded, detail } = await world()
  send('a')
  send('b')
  await timers.advance(999)
  assert.deepEqual([kernels.length, degraded], [1, []])
  await timers.advance(1)
  assert.deepEqual([kernels.length, kernel.closed, results], [2, true, ['a false']])
  assert.match(degraded.join('|'), /^the peer at can\d+:0x7e8 does not take packets$/)
  assert.equal(detail().not_taken, 1)
  assert.deepEqual(kernels[1]!.sent, ['b'])
  kernel.wake(READABLE) // from the old socket: nothing
  kernels[1]!.done()
  await timers.advance(0)
  assert.deepEqual(results, ['a false', 'b true'])
})

test('a lost interface is reported once; all waiting packets are false, and later packets too', async () => {
  const { kernel, send, results, timers, lost, peer } = await world()
  send('a')
  send('b')
  kernel.incoming.push(-ENETDOWN, -ENETDOWN)
  kernel.wake(READABLE)
  kernel.wake(READABLE)
  send('c')
  await timers.advance(0)
  assert.deepEqual(results.sort(), ['a false', 'b false', 'c false'])
  assert.deepEqual([lost, kernel.closed, timers.pending], [['can0 is down'], true, 0])
  await peer.close()
  await peer.close()
})

test('packets of impossible size are refused, and so are more than the queue allows', async () => {
  const { peer, timers, results, send } = await world()
  assert.equal(await peer.send(new Uint8Array(0)), false)
  assert.equal(await peer.send(new Uint8Array(101)), false)
  for (let n = 0; n < 1030; n++) send('x')
  await timers.advance(0)
  assert.equal(results.length, 6)
  assert.equal(peer.counters.errors, 8)
  await peer.close()
  await timers.advance(0)
  assert.ok(results.every(text => text === 'x false'))
  assert.equal(results.length, 1030)
})

test('a handler that throws loses one packet; a packet is a view that is valid only until the next', async () => {
  const { peer, kernel } = await world()
  const got: string[] = []
  peer.onPacket((packet, origin) => {
    got.push(`${Buffer.from(packet)} ${origin.medium} ${origin.address.replace(/\d+:/, 'N:')}`)
    if (got.length === 1) throw new Error('no')
  })
  kernel.incoming.push('one', 'two')
  kernel.wake(READABLE)
  kernel.wake(READABLE)
  assert.deepEqual(got, ['one CAN canN:0x7e8', 'two CAN canN:0x7e8'])
  assert.deepEqual([peer.counters.rx, peer.counters.errors], [2, 1])
})

test('one wake reads eight complete packets, so that other links get their turn; the others wait in the kernel', async () => {
  const { peer, kernel } = await world()
  const got: string[] = []
  peer.onPacket(packet => got.push(Buffer.from(packet).toString()))
  const all = Array.from({ length: 20 }, (_, k) => `${k} ${'x'.repeat(k === 7 ? 98 : k)}`)
  kernel.incoming.push(...all)
  for (const n of [8, 16, 20, 20]) {
    kernel.wake(READABLE)
    assert.deepEqual(got, all.slice(0, n))
  }
  assert.equal(peer.counters.rx, 20)
})
