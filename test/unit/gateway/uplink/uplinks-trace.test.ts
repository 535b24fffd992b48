// The list of uplinks step by step, compared with uplinks-trace.txt: what is created and removed, which one is active and why,
// every packet on every path with its time, what is logged, and what status says.
import { after, mock, test } from 'node:test'
import { alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { Trace } from '../../../lib/trace'
import { type RoadSpec, UplinkWorld } from '../../../lib/uplinkworld'

const trace = new Trace('unit/gateway/uplink/uplinks-trace.txt')
const { say } = trace
// requests have their own timers, which count real seconds
mock.timers.enable({ apis: ['setTimeout'] })
after(() => mock.timers.reset())

/** Everything visible from outside, and the packets since the last call as `road@ms command/bytes`. */
function watch(w: UplinkWorld) {
  const packets: string[] = []
  const begin = w.clock.mono()
  const every: string[] = []
  w.uplinks.watchers.every = (packet, medium) => every.push(`${medium} ${packet.length}`)
  const spy = (): void => {
    for (const road of w.roads.values()) {
      if (spied.has(road)) continue
      spied.add(road)
      const send = road.send.bind(road)
      road.send = packet => {
        packets.push(`${road.name}@${w.clock.mono() - begin} ${packet[0]}/${packet.length}`)
        return send(packet)
      }
    }
  }
  const spied = new Set<unknown>()
  const state = (what: string): void => {
    spy()
    say(`# ${what}`)
    if (packets.length > 0) trace.lines.push(`  ${packets.splice(0).join(', ')}`)
    if (every.length > 0) say('  out', every.splice(0))
    if (w.said.length > 0) say('  said', w.said.splice(0))
    const { uplinks } = w
    const { active, draining, backlog, maxPacket, names } = uplinks
    say('  ', [
      names,
      active?.name,
      active?.medium,
      draining,
      backlog,
      maxPacket,
      w.localUpstreams,
      w.log.cursors.size,
      w.timers.armed,
    ])
    say('  forwarding', { ...uplinks.forwarding(), since: uplinks.forwarding().since - w.clock.wall() })
    for (const [name, report] of Object.entries(uplinks.status())) say(`  ${name}`, report)
    for (const [name, link] of Object.entries(w.supervisor.links())) say(`  link ${name}`, link)
    say('  arrived', [
      w.got.lastSeq,
      w.log.lastSeq,
      uplinks.keys(5).length,
      uplinks.list.map(up => [up.usable, up.draining]),
    ])
  }
  return { state, spy }
}

/** Lets time pass until it settles: an uplink that is removed waits for packets in flight. */
async function settled<T>(w: UplinkWorld, work: Promise<T>): Promise<T> {
  let done = false
  void work.finally(() => {
    done = true
  })
  for (let k = 0; k < 2000 && !done; k++) await w.run(10)
  return work
}

const ONE: RoadSpec = { name: 'one', maxPacket: 300 }
const TWO: RoadSpec = { name: 'two', medium: 'TCP', maxPacket: 4000 }
const MQ: RoadSpec = { name: 'mq', medium: 'MQTT', maxPacket: 2000, acknowledges: true }
const LATE = { failover: { after_s: 1, back_s: 4 } }

test('a changing list, paths that fail and recover, and oversized packets behave as uplinks-trace.txt has it', async t => {
  const w = new UplinkWorld(LATE)
  t.after(() => w.end())
  w.log.isAlarm = alarmCheck(['ALARM'])
  const { state, spy } = watch(w)
  const granted: unknown[] = []
  w.wish = { wanted: () => 2, granted: async ids => void granted.push(ids) }
  const apply = async (what: string, ...specs: RoadSpec[]): Promise<void> => {
    const applied = await settled(w, w.apply(...specs))
    spy()
    say('applied', applied)
    state(what)
    await w.run(300)
    state('300 ms later')
  }
  await apply('none: the local upstream')
  await apply('none again')
  await apply(
    'two, and two that cannot be built',
    ONE,
    TWO,
    { name: 'no', medium: 'PIGEON' },
    { name: 'off', medium: 'QUIC' },
  )
  for (let k = 0; k < 3; k++) w.fact()
  await w.run(200)
  w.fact(9, 'ALARM')
  w.fact(78, 'OK', 20)
  await w.run(400)
  state('facts, an alarm, one too large for the first')
  say('granted', granted)
  const watched: unknown[] = []
  for (const seq of [w.log.lastSeq + 1, w.log.lastSeq + 2])
    w.uplinks.watchers.watch(seq, info => watched.push([seq, info.state]))
  w.fact()
  w.uplinks.watchers.unwatch(w.log.lastSeq + 1)
  w.fact()
  await w.run(300)
  say('watched', watched.splice(0))

  w.log.appendFact(w.log.facts[0]!, { medium: 'local' })
  for (let k = 0; k < 3; k++) w.uplinks.appended()
  await new Promise(setImmediate)
  await w.run(60)
  state('a fact that was only appended')
  w.log.appendFact(w.log.facts[1]!, { medium: 'local' })
  await w.uplinks.token()
  await w.run(60)
  state('the token')

  w.road('one').unplug()
  for (let k = 0; k < 6; k++) w.fact()
  await w.run(500)
  mock.timers.tick(20_000)
  state('the first is unplugged')
  await w.run(700)
  state('the second takes over')
  w.road('one').dead = false
  w.uplinks.heard('up')
  w.uplinks.heard('up')
  await w.run(1500)
  w.fact()
  state('the first is back')
  await w.run(6000)
  w.fact(78, 'OK', 20)
  w.fact()
  await w.run(300)
  state('and carries again')

  w.road('one').cut = true
  for (let k = 0; k < 5; k++) w.fact()
  await w.run(20_000, 50)
  state('the first is a black hole')
  await apply('the second goes while it carries, another comes', ONE, MQ, { name: 'no', medium: 'PIGEON' })
  for (let k = 0; k < 40; k++) w.fact(k % 9 === 8 ? 9 : undefined)
  await w.run(3000)
  state('over the broker')
  w.road('mq').delayMs = 300
  for (let k = 0; k < 90; k++) w.fact()
  for (let k = 0; k < 4; k++) {
    await w.run(400)
    state('over a slow broker')
  }
  w.road('mq').delayMs = 5
  await w.run(3000)
  w.road('mq').refuses = true
  for (let k = 0; k < 4; k++) w.fact()
  await w.run(200)
  state('the broker refuses')
  w.road('mq').refuses = false
  await w.run(20_000, 50)
  state('and takes them again')
  w.road('one').cut = false
  await apply(
    'other settings of both',
    { ...ONE, entry: { rate_packets_s: 5 } },
    { ...MQ, entry: { delivery: 'best_effort' } },
  )
  for (let k = 0; k < 12; k++) w.fact(undefined, k === 11 ? 'ALARM' : 'OK')
  await w.run(1000)
  state('paced, the alarm first')
  await w.run(5000)
  state('all of it')
  await apply('one, and one that cannot be built', ONE, { name: 'no', medium: 'PIGEON' })
  w.fact(78, 'OK', 20)
  await w.run(300)
  state('which may carry what is too large')
  await apply('none again: everything goes to the local upstream')
  await apply('the first again', ONE)
  for (let k = 0; k < 130; k++) {
    w.fact()
    await w.run(500, 50)
  }
  mock.timers.tick(20_000)
  await w.run(50)
  state('a key frame after a minute, and ids are requested once more')
  w.road('one').unplug()
  await w.run(65_000, 500)
  mock.timers.tick(20_000)
  await w.run(50)
  state('a link that is down requests nothing')
  w.road('one').dead = false
  await w.run(40_000, 500)
  state('and is up again')
  w.fact()
  w.uplinks.stop()
  await w.run(2000)
  state('stopped')
  say('kept', [[...w.log.cursors], [...w.log.counters]])
})

test('best effort, batches, a slow radio, and an unconfirmed clock behave as uplinks-trace.txt has it', async t => {
  const w = new UplinkWorld(LATE, false)
  t.after(() => w.end())
  const { state, spy } = watch(w)
  w.log.quality = 'unsynced'
  const plain: RoadSpec = {
    name: 'plain',
    entry: { delivery: 'best_effort', batch_window_ms: 200, batch_max_items: 4 },
  }
  await w.apply(plain, { name: 'radio', medium: 'LoRa', maxPacket: 140, entry: { frames: 'full', full_every: 3 } })
  spy()
  for (let k = 0; k < 9; k++) w.fact()
  state('held: the clock is not set')
  await w.run(700)
  state('700 ms later')
  w.log.quality = 'synced'
  for (let k = 0; k < 9; k++) w.fact()
  await w.run(150)
  state('nine in batches of four')
  await w.run(400)
  state('the rest of them')
  w.road('plain').refuses = true
  for (let k = 0; k < 3; k++) w.fact()
  await w.run(1000)
  state('refused')
  w.road('plain').refuses = false
  for (let k = 0; k < 3; k++) w.fact()
  await w.run(1000)
  state('taken again')
  w.road('plain').unplug()
  await w.run(3000)
  for (let k = 0; k < 3; k++) w.fact(undefined, 'OK', k)
  await w.run(3000)
  state('over the radio')
  w.road('radio').lose = () => true
  for (let k = 0; k < 4; k++) w.fact()
  await w.run(40_000, 50)
  state('which loses everything')
  w.road('radio').lose = () => false
  await w.run(40_000, 50)
  state('and is well again')
  await settled(w, w.apply())
  state('no uplink any more')
  trace.compare()
})
