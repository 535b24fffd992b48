// What a gateway requests from its upstream, when, and which answers count, compared with requests.txt.
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { UpstreamRequests } from '../../../../src/gateway/uplink/requests'
import {
  buildIdAssign,
  buildIdPoolResponse,
  buildNack,
  buildTimeResponse,
  SequenceCounter,
} from '../../../../src/protocol/control'
import { ManualClock } from '../../../lib/manual'
import { dice, digest, Trace } from '../../../lib/trace'

test('ids, time and pools are requested, repeated, accepted and refused as requests.txt says', async t => {
  const trace = new Trace('unit/gateway/uplink/requests.txt')
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  for (let round = 0; round < 6; round++) {
    const { below, chance, pick } = dice(round + 3)
    const clock = new ManualClock()
    const said: unknown[] = []
    const sequence = new SequenceCounter(round === 0 ? 0 : 65_520)
    let last = 0
    let wanted = pick([0, 3])
    const identity = {
      assigned: round % 2 === 1,
      deviceId: 'GW',
      refuse: (reason: string) => said.push(`refused ${reason}`),
      assign(id: number) {
        this.assigned = true
        said.push(`assigned ${id}`)
      },
    }
    const logs = (level: string) => (text: string) => said.push(`${level}: ${text}`)
    const requests = new UpstreamRequests({
      send: async packet => {
        said.push(Buffer.from(packet).toString('latin1'))
        return true
      },
      nextSeq: () => (last = sequence.next()),
      clock,
      time: {
        now: () => 1_700_000_000_500,
        noteServerTime: (...got: unknown[]) => said.push(['time', ...got]),
      } as never,
      identity: identity as never,
      logger: { warn: logs('warn'), info: logs('info'), error: logs('error') } as never,
      changed: () => said.push('changed'),
      pool: () => {
        said.push('pool?')
        if (round < 2) return null
        return {
          wanted: () => wanted,
          granted: async ids => {
            said.push(ids)
            if (ids.length > 3) throw new Error('no space')
          },
        }
      },
    })
    for (let k = 0; k < 120; k++) {
      const seq = pick([last, last, last - 1, last - 2, 0, 1])
      const act = below(14)
      if (act === 0) requests.start()
      else if (act === 1) requests.requestTime()
      else if (act === 2 && chance(0.3)) requests.stop()
      else if (act === 3) said.push(requests.received(buildIdAssign(seq, pick([9, 0, 4_294_967_295]))))
      else if (act === 4) said.push(requests.received(buildTimeResponse(seq, 1_700_000_000 + k)))
      else if (act === 5) said.push(requests.received(buildNack(seq, 'no more')))
      else if (act === 6) said.push(requests.received(buildIdPoolResponse(seq, pick([[], [4, 5], [1, 2, 3, 4]]))))
      else if (act === 7 && chance(0.1)) identity.assigned = false
      else if (act === 8) wanted = pick([0, 2])
      const ms = pick([10, 99, 100, 4999, 5000, 60_000, 300_000])
      for (let left = ms; left > 0; left -= 2500) {
        clock.advance(Math.min(left, 2500))
        mock.timers.tick(Math.min(left, 2500))
      }
      await new Promise(setImmediate)
      if (k % 6 === 5)
        trace.say(`${round} ${k} ${clock.mono()}`, [
          said.length,
          digest(0, Buffer.from(JSON.stringify(said.splice(0)))),
        ])
    }
    requests.stop()
  }
  trace.compare()
})

test('a time that moves that of this node counts when a second answer agrees: a bit of the first may have changed on a serial line', () => {
  const clock = new ManualClock()
  const sequence = new SequenceCounter(0)
  const [asked, set]: [number[], number[]] = [[], []]
  const requests = new UpstreamRequests({
    send: async packet => asked.push(packet[0]!) > 0,
    nextSeq: () => sequence.next(),
    clock,
    time: { now: () => 1_700_000_000_000 + clock.mono(), noteServerTime: (time: number) => set.push(time) } as never,
    identity: { assigned: true } as never,
    logger: {} as never,
    changed: () => undefined,
    pool: () => null,
  })
  const answer = (time: number): void => {
    clock.advance(100)
    requests.received(buildTimeResponse(asked.length, time))
  }
  try {
    requests.start()
    answer(1_700_000_000)
    assert.deepEqual([asked.length, set], [1, [1_700_000_000]], 'it is the time of this node')
    requests.requestTime()
    answer(1_700_000_000 + 2 ** 30)
    assert.deepEqual([asked.length, set.length], [3, 1], 'it asks again')
    answer(1_700_000_000)
    assert.deepEqual([asked.length, set.length], [3, 2], 'the first one was wrong')
    requests.requestTime()
    answer(1_600_000_000)
    answer(1_600_000_000)
    assert.deepEqual([asked.length, set.at(-1)], [5, 1_600_000_000])
    requests.requestTime()
    for (let k = 1; k <= 50; k++) answer(1_500_000_000 + 1000 * k)
    assert.deepEqual([asked.length, set.length], [7, 3], 'answers that never agree do not make it ask without a pause')
  } finally {
    requests.stop()
  }
})
