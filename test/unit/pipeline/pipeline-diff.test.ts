// R10 as a property: whatever a link drops, duplicates or reorders, no value is decoded that was not sent for that device
// and time; and as soon as the link is good, everything is decoded again. A failure names scenario and seed.
// Long: all packets; `npm test` runs a quarter of them
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONG, rounds } from '../../lib/random'
import { Trace } from '../../lib/trace'
import { FULL_EVERY, type Scenario } from './diffsender'
import { World } from './diffworld'

const SCENARIOS: Scenario[] = [
  {
    name: 'plain, restarts',
    packets: 30_000,
    senders: 3,
    delay: 15,
    restartSender: 0.002,
    restartReceiver: 0.003,
    late: 0.05,
  },
  {
    name: 'plain, never answered',
    packets: 20_000,
    senders: 2,
    delay: 15,
    nacks: false,
    restartSender: 0.001,
    late: 0.05,
  },
  {
    name: 'plain, more devices than TIDs',
    packets: 40_000,
    devices: 260,
    delay: 15,
    registry: false,
    late: 0.03,
    restartSender: 0.0005,
    restartReceiver: 0.001,
  },
  {
    name: 'plain, any delay',
    packets: 25_000,
    devices: 60,
    delay: 15,
    unbounded: true,
    late: 0.02,
    restartSender: 0.001,
  },
  { name: 'plain, any delay, receiver anew', packets: 15_000, delay: 15, unbounded: true, restartReceiver: 0.005 },
  {
    name: 'acknowledged, restarts',
    packets: 30_000,
    senders: 2,
    exchange: true,
    delay: 15,
    restartSender: 0.002,
    restartReceiver: 0.004,
    late: 0.05,
  },
  {
    name: 'acknowledged, more devices than TIDs',
    packets: 25_000,
    devices: 260,
    exchange: true,
    delay: 15,
    restartSender: 0.0005,
  },
  {
    name: 'acknowledged, any delay, receiver anew',
    packets: 20_000,
    exchange: true,
    delay: 40,
    unbounded: true,
    restartReceiver: 0.01,
  },
  {
    name: 'acknowledged, one AID for three',
    packets: 20_000,
    senders: 3,
    sharedAid: true,
    exchange: true,
    delay: 15,
    restartSender: 0.001,
    restartReceiver: 0.002,
  },
  {
    name: 'acknowledged, keys come and go',
    packets: 25_000,
    senders: 2,
    exchange: true,
    delay: 15,
    rekey: 0.01,
    restartSender: 0.001,
    restartReceiver: 0.002,
    late: 0.05,
  },
  {
    name: 'plain, keys come and go',
    packets: 20_000,
    senders: 2,
    delay: 15,
    rekey: 0.01,
    restartSender: 0.001,
    restartReceiver: 0.002,
    late: 0.03,
  },
  {
    name: 'acknowledged, a receiver that forgets',
    packets: 25_000,
    senders: 3,
    exchange: true,
    delay: 40,
    unbounded: true,
    maxBytes: 12_000,
    maxSources: 2,
    restartReceiver: 0.001,
    late: 0.03,
  },
  {
    name: 'acknowledged, a receiver whose templates wait in files',
    packets: 15_000,
    senders: 3,
    exchange: true,
    delay: 40,
    unbounded: true,
    maxBytes: 12_000,
    maxSources: 1,
    spill: true,
    restartReceiver: 0.002,
    late: 0.03,
  },
  {
    name: 'plain, a receiver that forgets',
    packets: 20_000,
    senders: 3,
    delay: 15,
    maxBytes: 12_000,
    maxSources: 2,
    registry: false,
    late: 0.03,
  },
  {
    name: 'plain receiver in order',
    packets: 25_000,
    senders: 2,
    receiver: 'fusion',
    double: 0,
    restartSender: 0.001,
    late: 0.05,
  },
  {
    name: 'plain receiver in order, more devices than TIDs',
    packets: 25_000,
    devices: 230,
    receiver: 'fusion',
    double: 0,
    nacks: false,
  },
]

const trace = new Trace('unit/pipeline/pipeline-diff.txt')

for (const [k, base] of SCENARIOS.entries())
  test(`no wrong value, and it recovers: ${base.name}`, () => {
    const precisions = [4, 2, 7, 0]
    for (const [round, precision] of precisions.entries()) {
      const seed = 1000 * (k + 1) + round
      const scenario = { ...base, precision, packets: base.packets / precisions.length / rounds(8, 1) }
      const world = new World(scenario, seed)
      const devices = (base.devices ?? 5) * (base.senders ?? 1)
      try {
        world.run()
        assert.ok(world.decoded > scenario.packets / 3, `${world.decoded} of ${world.sent} decoded`)
        if (!LONG) trace.say(`${base.name}, ${precision}`, world.course)
        world.becomeGood(Math.min(3000, devices * FULL_EVERY * 4))
      } catch (error) {
        throw new Error(`scenario "${base.name}", seed ${seed}: ${(error as Error).message}`, { cause: error })
      }
    }
  })

test('diff_base last on an ordered, lossless, acknowledged link: every packet is decoded', () => {
  const world = new World(
    {
      name: 'last',
      packets: 20_000,
      senders: 2,
      diffBase: 'last',
      exchange: true,
      drop: 0,
      double: 0,
      restartSender: 0.002,
      late: 0.05,
    },
    7,
  )
  world.run()
  assert.equal(world.refused, 0)
  assert.ok(world.decoded >= 19_990)
})

// test:long sends more packets
if (!LONG)
  test('every world behaves as recorded', () => {
    trace.compare()
  })
