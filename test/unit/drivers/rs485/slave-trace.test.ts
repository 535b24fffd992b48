// A slave on a bus of several, step by step compared with slave-trace.txt: what it sends in its turns, what it passes on, what it
// queues, and what it reports.
import { test } from 'node:test'
import { TurnQueue } from '../../../../drivers/rs485/bus'
import { SlaveMedium } from '../../../../drivers/rs485/slave'
import { buildPoll, buildTurnEnd } from '../../../../src/protocol/polling-turns'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { dice, Trace } from '../../../lib/trace'

const trace = new Trace('unit/drivers/rs485/slave-trace.txt')
const { say } = trace

function station(address: () => number | null) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const said: string[] = []
  let arrive: (packet: Uint8Array, origin: never) => void = () => undefined
  const line = { silent: true, takes: true }
  const inner = {
    name: 'line',
    medium: 'RS485',
    maxPacket: 40,
    counters: { rx: 1, tx: 2, errors: 3, detail: { echoes: 4 } },
    onPacket: (handler: typeof arrive) => {
      arrive = handler
    },
    open: async () => void said.push('open'),
    close: async () => void said.push('close'),
    onReturn: () => () => void said.push('no return'),
    send: async (packet: Uint8Array) => {
      said.push(`> ${Buffer.from(packet).toString('hex')}`)
      return line.takes
    },
  }
  const medium = new SlaveMedium(
    { name: 's', bus: 'ttyS1', address, turnTimeoutMs: 50, expectEnd: seq => said.push(`end of ${seq}`) },
    {
      inner: inner as never,
      silence: async () => {
        if (!line.silent) throw new Error('never silent')
      },
      clock,
      timers,
      logger: {} as never,
      random: () => 0.5,
      frameSize: packet => packet.length + 3,
      lineMs: bytes => bytes / 10,
    },
  )
  const events = {
    lost: (reason: string) => said.push(`lost ${reason}`),
    degraded: (reason: string) => said.push(`degraded ${reason}`),
  }
  medium.onPacket((packet, { address: from }) => said.push(`got ${packet.length} of ${from}`))
  const hear = (packet: Uint8Array): void => {
    medium.heard()
    arrive(packet, { medium: 'RS485', address: 'x', reply: async () => false } as never)
  }
  const sent: string[] = []
  let count = 0
  const send = (size: number): void => {
    const id = ++count
    void medium.send(new Uint8Array(size).fill(id)).then(ok => sent.push(`${id} ${ok}`))
  }
  const state = (what: string): void =>
    say(what, [said.splice(0), sent.splice(0), clock.mono(), medium.counters.detail])
  return { medium, timers, line, events, hear, send, state }
}

test('a slave behaves as slave-trace.txt has it', async () => {
  let address: number | null = 7
  const { medium, timers, line, events, hear, send, state } = station(() => address)
  say('medium', [medium.name, medium.medium, medium.maxPacket, medium.counters])
  send(5)
  await timers.advance(0)
  state('before it is open')
  await medium.open(events)
  for (const size of [0, 1, 40, 41]) send(size)
  await timers.advance(0)
  state('empty, the least, the largest, too large')
  hear(buildPoll(1, 7, 3 + 1))
  await timers.advance(0)
  state('a turn of the bytes of the first')
  hear(buildPoll(2, 7, 3))
  await timers.advance(0)
  state('a turn of less than the second has: it goes alone')
  for (const size of [10, 10, 10]) send(size)
  hear(buildPoll(3, 7, 26))
  await timers.advance(0)
  state('a turn of exactly two')
  hear(buildPoll(4, 9, 100))
  hear(new Uint8Array(6))
  state("another one's turn")
  hear(buildTurnEnd(4, 9, 0))
  hear(new Uint8Array(6))
  state('which has ended')
  for (const ms of [39, 40]) {
    hear(buildPoll(5, 9, 100))
    await timers.advance(ms)
    hear(new Uint8Array(6))
    state(`another one's turn, silent for ${ms} ms`)
  }
  line.silent = false
  hear(buildPoll(6, 7, 100))
  await timers.advance(0)
  state('a line that is never silent')
  line.silent = true
  line.takes = false
  send(4)
  hear(buildPoll(7, 7, 100))
  await timers.advance(0)
  state('a line that takes nothing')
  line.takes = true
  send(4)
  hear(buildPoll(8, 7, 100))
  hear(buildPoll(9, 7, 100))
  await timers.advance(0)
  state('polled again meanwhile')
  for (let k = 0; k < 66; k++) send(3)
  await timers.advance(9999)
  state('64 wait, two are refused')
  await timers.advance(1)
  state('after ten seconds they are given up')
  await timers.advance(79_999)
  state('no poll for almost 90 s')
  await timers.advance(1)
  state('for 90 s')
  hear(buildPoll(10, 7, 100))
  await timers.advance(0)
  state('and polled again')
  send(3)
  await medium.close()
  await timers.advance(0)
  state('closed')
  hear(buildPoll(11, 7, 100))
  await timers.advance(200_000)
  state('polled while it is closed')
  address = null
  await medium.open(events)
  await timers.advance(90_000)
  state('open again, without an address')
  medium.onReturn(() => undefined)()
  state('no return')

  say('# packets that wait')
  const { below, chance, pick } = dice(9)
  const clock = new ManualClock()
  const manual = new ManualTimers(clock)
  const queue = new TurnQueue(clock, manual)
  const done: string[] = []
  let id = 0
  await trace.steps('queue', 400, 40, async () => {
    for (let k = pick([0, 1, 1, 3, 20]); k > 0; k--) {
      const mine = ++id
      void queue.add(Uint8Array.of(mine & 255)).then(ok => done.push(`${mine} ${ok}`))
    }
    if (chance(0.5)) await queue.sendFirst(async packet => (packet[0]! & 3) !== 0)
    if (chance(0.02)) queue.clear()
    await manual.advance(pick([0, 1, 100, 4000, 5000]) + below(3))
    return [queue.length, queue.first?.[0], { ...queue.tally }, done.splice(0), manual.armed]
  })
  trace.compare()
})
