import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '../../../../src/gateway/uplink/lane'
import { answerMs, DirectWindow, exchangeOver } from '../../../../src/gateway/uplink/window'
import { ManualClock } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

test('on a slow medium the exchange waits for the longest frame and its answer, each after a wait for the channel', () => {
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

const ITEM = { seq: 1 } as Item

test('a direct window accepts exactly its bytes, and one packet of any size when nothing is in flight', () => {
  const none = (): undefined => undefined
  const medium = { send: async () => true } as never
  const rest = { clock: new ManualClock(), acked: none, refused: none, batchItems: 1, batchBytes: 0 }
  const window = new DirectWindow({ delivery: 'medium', medium, maxBytes: 100, ...rest })
  assert.equal(window.room(4000), true)
  window.take(new Uint8Array(60), ITEM)
  assert.deepEqual([window.room(40), window.room(41)], [true, false])
})

test('direct windows over media that accept, refuse, throw and delay behave as window.txt says', async () => {
  const trace = new Trace('unit/gateway/uplink/window.txt')
  for (let round = 0; round < 8; round++) {
    const { below, chance, pick } = dice(round + 60)
    const clock = new ManualClock()
    const said: unknown[] = []
    const answers: (() => void)[] = []
    /** resolves that so many were accepted, or rejects, when the test says so */
    const later = <T>(good: T): Promise<T> =>
      new Promise((resolve, reject) => answers.push(() => (chance(0.04) ? reject(new Error('gone')) : resolve(good))))
    const medium = {
      send: (bytes: Uint8Array) => {
        said.push(['send', bytes.length])
        return later(chance(0.95))
      },
      ...(round % 2 === 1 && {
        sendBatch: (list: Uint8Array[]) => {
          said.push(['batch', ...list.map(({ length }) => length)])
          return later(chance(0.9) ? list.length : below(list.length))
        },
      }),
    }
    const window = new DirectWindow({
      ...{ delivery: round < 4 ? 'medium' : 'best_effort', medium: medium as never, clock },
      acked: ({ seq }) => said.push(`acked ${seq}`),
      refused: () => said.push('refused'),
      ...{ batchItems: pick([1, 3, 8]), batchBytes: pick([0, 200, 900]) },
      ...(round % 4 !== 3 && { maxPackets: pick([1, 4, 30]), maxBytes: pick([100, 900, 4000]) }),
    })
    for (let k = 0; k < 600; k++) {
      const bytes = pick([1, 60, 100, 300, 4000])
      const room = window.room(bytes)
      if (room) window.take(new Uint8Array(bytes), { seq: chance(0.9) ? k : 0 } as Item)
      if (chance(0.5)) void window.send().then(sent => said.push(`sent ${sent}`))
      if (chance(0.5)) answers.splice(below(answers.length), 1)[0]?.()
      if (chance(0.02)) window.drop()
      await Promise.resolve()
      await new Promise(setImmediate)
      clock.advance(pick([0, 1, 100, 999]))
      said.push(room, window.inFlight, String(window.due(clock.mono()) - clock.mono()))
      if (k % 60 === 59)
        trace.say(`${round} ${k}`, [window.inFlight, digest(0, Buffer.from(JSON.stringify(said.splice(0))))])
    }
  }
  // without configured limits it accepts 1024 packets, or 262,144 bytes
  for (const size of [1, 1000]) {
    const medium = { send: async () => true } as never
    const none = (): undefined => undefined
    const rest = { clock: new ManualClock(), acked: none, refused: none, batchItems: 1, batchBytes: 0 }
    const window = new DirectWindow({ delivery: 'medium', medium, ...rest })
    while (window.room(size)) window.take(new Uint8Array(size), ITEM)
    trace.say(`of ${size}`, window.inFlight)
  }
  trace.compare()
})
