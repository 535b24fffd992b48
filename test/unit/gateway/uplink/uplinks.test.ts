// The list of uplinks as one: failover and handback without loss (R12), an outage of an hour (R8), alarms first, pacing, and a kill in the
// middle of it.
// Long: an hour without upstream
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { HostResolver } from '../../../../src/links/resolve'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'
import { rounds } from '../../../lib/random'
import { UplinkWorld } from '../../../lib/uplinkworld'
import { world } from './uplinks-world'

const dataSent = (w: UplinkWorld, name: string): number => w.road(name).sent.filter(({ bytes }) => bytes > 20).length

test('the first uplink is active, the next takes over after 5 s and hands back after a stable minute; nothing is lost', async t => {
  const w = world(t)
  await w.apply({ name: 'one' }, { name: 'two', maxPacket: 120 })
  await w.run(1000)
  const ticks = async (s: number): Promise<void> => {
    for (let k = 0; k < s * 2; k++) {
      w.fact()
      await w.run(500, 50)
    }
  }
  await ticks(5)
  assert.equal(w.uplinks.active?.name, 'one')
  assert.equal(dataSent(w, 'two'), 0)

  w.road('one').unplug()
  await ticks(3)
  assert.equal(w.uplinks.active?.name, 'one', 'a short loss moves nothing')
  await ticks(4)
  assert.equal(w.uplinks.active?.name, 'two')
  assert.match(w.uplinks.forwarding().reason!, /^one is (down|opening)/)
  assert.equal(w.uplinks.status()['two']!.carrying, true)
  await ticks(10)
  assert.equal(w.uplinks.backlog, 0)

  w.road('one').dead = false
  await ticks(40)
  assert.equal(w.uplinks.active?.name, 'two', 'not before it was stable')
  await ticks(90)
  assert.equal(w.uplinks.active?.name, 'one')
  assert.equal(w.uplinks.forwarding().reason, undefined)
  const before = dataSent(w, 'two')
  await ticks(5)
  assert.equal(dataSent(w, 'two'), before)
  await w.run(3000)
  assert.deepEqual(w.arrived, w.logged)
  assert.ok(w.road('two').sent.every(({ bytes }) => bytes <= 120))
})

test('a peer that becomes silent is replaced too, and its unanswered packets are sent over the other uplink', async t => {
  const w = world(t)
  await w.apply({ name: 'one' }, { name: 'two', medium: 'MQTT', acknowledges: true })
  await w.run(500)
  for (let k = 0; k < 20; k++) w.fact()
  await w.run(1000)
  w.road('one').cut = true
  for (let k = 0; k < 900 && w.uplinks.active?.name !== 'two'; k++) {
    w.fact()
    await w.run(100, 50)
  }
  assert.equal(w.uplinks.active?.name, 'two')
  await w.run(2000)
  assert.deepEqual(w.arrived, w.logged)
  assert.equal(w.uplinks.status()['two']!.delivery, 'acked')
})

test('handback from an uplink that has just become silent: its packets in flight are sent again over the other', async t => {
  const w = world(t, { failover: { after_s: 1, back_s: 4 } })
  await w.apply({ name: 'one' }, { name: 'two' })
  await w.run(500)
  w.road('one').unplug()
  w.fact()
  await w.run(3000)
  assert.equal(w.uplinks.active?.name, 'two')
  w.road('one').dead = false
  while (!w.uplinks.list[0]!.usable) await w.run(100)
  await w.run(3000)
  w.road('two').cut = true
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(8000)
  assert.equal(w.uplinks.active?.name, 'one')
  assert.deepEqual(w.arrived, w.logged)
  assert.equal(w.uplinks.backlog, 0)
})

test('on a medium that acknowledges several packets are in flight, and a refusal rewinds to the cursor, in order', async t => {
  const w = world(t)
  await w.apply({ name: 'm', medium: 'MQTT', acknowledges: true, entry: { diff_base: 'sticky' } })
  await w.run(500)
  for (let k = 0; k < 50; k++) w.fact()
  await w.run(6000)
  assert.deepEqual(w.arrived, w.logged)
  let lost = 0
  w.road('m').lose = (packet, up) => up && packet.length > 20 && ++lost === 3
  for (let k = 0; k < 50; k++) w.fact()
  await w.run(30)
  assert.ok(w.uplinks.status()['m']!.in_flight > 1 || lost > 3)
  await w.run(6000)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
  assert.equal(w.uplinks.backlog, 0)
})

test('after a long time without upstream at 10 readings a second all data arrives: the backlog in order, live data next to it', async t => {
  const w = world(t)
  await w.apply({ name: 'up', entry: { rate_packets_s: 100 } })
  await w.run(500)
  for (let k = 0; k < 20; k++) w.fact()
  await w.run(3000)
  w.road('up').unplug()
  const minutes = rounds(20, 60)
  for (let k = 0; k < minutes * 600; k++) w.fact(k % 3 === 0 ? 9 : undefined)
  await w.run(minutes * 60_000, 60_000)
  w.road('up').dead = false
  await w.run(62_000, 1000)
  const seen = (): Set<string> => new Set(w.got.facts.map(fact => `${fact.id} ${fact.tRaw}`))
  let worst = 0
  const from = w.got.records.length
  for (let k = 0; k < 60; k++) {
    const fact = w.fact()
    const at = w.clock.mono()
    for (let n = 0; n < 200 && !seen().has(`${fact.id} ${fact.tRaw}`); n++) await w.run(50, 50)
    worst = Math.max(worst, w.clock.mono() - at)
    await w.run(500, 50)
  }
  assert.ok(w.uplinks.backlog > 1000, `${w.uplinks.backlog} are left`)
  assert.ok(worst < 2000, `live data took ${worst} ms beside the backlog`)
  const spent = w.got.records.slice(from).length
  assert.ok(spent > 1500, `${spent} arrived meanwhile`)
  await w.run(600_000, 100)
  assert.equal(w.uplinks.backlog, 0)
  assert.deepEqual(w.arrived, w.logged)
  // in order for each device, except for what was logged after the outage
  const backlog = new Set(w.log.facts.slice(0, minutes * 600 + 20).map(fact => fact.tRaw))
  for (const id of ['GW', 'NODE9']) {
    const times = w.got.facts.filter(fact => fact.id === id && backlog.has(fact.tRaw)).map(fact => fact.tRaw)
    assert.deepEqual(
      times,
      [...times].sort((a, b) => a - b),
    )
  }
})

test('alarms are sent before a backlog and over the budget, once', async t => {
  const w = world(t)
  w.log.isAlarm = alarmCheck(['ALARM'])
  await w.apply({ name: 'up', entry: { rate_packets_s: 5 } })
  for (let k = 0; k < 3000; k++) w.fact(undefined, k === 2500 ? 'alarm' : 'OK')
  await w.run(4000)
  const alarm = w.log.facts[2500]!.tRaw
  const arrived = w.got.facts.map(fact => fact.tRaw)
  assert.ok(arrived.includes(alarm), 'one in the middle of the backlog')
  assert.ok(arrived.length < 100, `${arrived.length}`)
  const live = w.fact(undefined, 'ALARM')
  await w.run(200)
  assert.ok(w.got.facts.some(fact => fact.tRaw === live.tRaw))
  assert.equal(w.got.facts.filter(fact => fact.tRaw === alarm).length, 1)
})

test('a record with an unsynced time waits for a sync, but not forever, and status says so', async t => {
  const w = new UplinkWorld({ time: { hold_unsynced_s: 120 } }, false)
  t.after(() => w.end())
  w.log.quality = 'unsynced'
  await w.apply({ name: 'one' })
  w.road('one').lose = packet => packet[0] === COMMAND.TIME_RESPONSE
  w.fact()
  await w.run(20_000, 100)
  assert.deepEqual(w.arrived, [])
  const { held_s, backlog } = w.uplinks.forwarding()
  assert.ok(held_s! > 95 && held_s! <= 101, `${held_s} s`)
  assert.equal(backlog, 1)
  await w.run(105_000, 500)
  assert.deepEqual(w.arrived, w.logged)
  assert.equal(w.uplinks.forwarding().held_s, undefined)
})

test('the local upstream has the clock of this machine, so its time confirms nothing, and it gets facts without one', async t => {
  const w = new UplinkWorld({}, false)
  t.after(() => w.end())
  w.log.quality = 'unsynced'
  w.fact()
  await w.apply()
  await w.run(20_000, 100)
  assert.deepEqual([w.time.quality, w.arrived], ['unsynced', w.logged])
  await w.apply({ name: 'real' })
  await w.run(20_000, 100)
  assert.equal(w.time.quality, 'server')
})

test('the budget of packets and bytes a second is kept', async t => {
  for (const entry of [{ rate_packets_s: 20 }, { rate_bytes_s: 2000 }]) {
    const w = world(t)
    await w.apply({ name: 'up', entry })
    for (let k = 0; k < 2000; k++) w.fact()
    await w.run(30_000)
    const bytes = w.road('up').sent.reduce((sum, sent) => sum + sent.bytes, 0)
    if (entry.rate_packets_s) assert.ok(w.got.records.length <= 20 * 31 && w.got.records.length > 20 * 25)
    else assert.ok(bytes <= 2000 * 31 + 1500 && bytes > 2000 * 25, `${bytes} bytes`)
  }
})

test('a batch waits for its window, and no longer', async t => {
  const w = world(t)
  await w.apply({ name: 'up', entry: { batch_window_ms: 400 } })
  await w.run(500)
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(3000)
  const before = dataSent(w, 'up')
  for (let k = 0; k < 30; k++) {
    w.fact()
    await w.run(100)
  }
  await w.run(1000)
  assert.deepEqual(w.arrived, w.logged)
  assert.ok(dataSent(w, 'up') - before <= 9, `${dataSent(w, 'up') - before} frames for 3 s`)
})

test('a kill in the middle of a backlog with live data loses nothing, and little is sent twice', async t => {
  const w = world(t)
  const entry = { rate_packets_s: 200 }
  await w.apply({ name: 'up', entry }, { name: 'spare' })
  for (let k = 0; k < 4000; k++) w.fact()
  for (let round = 0; round < 3; round++) {
    for (let k = 0; k < 100; k++) {
      w.fact()
      await w.run(30)
    }
    await w.kill()
    await w.apply({ name: 'up', entry }, { name: 'spare' })
  }
  await w.run(60_000, 50)
  assert.equal(w.uplinks.backlog, 0)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
  assert.equal(w.arrived.length, w.logged.length, 'the upstream knows what it has')
  assert.ok(w.receive.counters.duplicates < 1500, `${w.receive.counters.duplicates} went twice`)
})

test('the progress token returns with every uplink dead, and without any uplink', async t => {
  const w = world(t)
  await w.uplinks.token()
  await w.apply({ name: 'a' }, { name: 'b' })
  w.road('a').unplug()
  w.road('b').unplug()
  await w.uplinks.token()
})

test('when more is logged than the uplink carries, without any loss: live data is not starved, all of it arrives', async t => {
  const w = world(t)
  await w.apply({ name: 'up', entry: { rate_packets_s: 10, batch_max_items: 1 } })
  await w.run(500)
  const seen = new Set<number>()
  const late: number[] = []
  let read = 0
  for (let s = 0; s < 1200; s++) {
    const { tRaw } = w.fact()
    for (let k = 0; k < 19; k++) w.fact()
    await w.run(1000, 100)
    for (; read < w.got.records.length; read++) seen.add(w.got.records[read]!.fact.tRaw)
    // the age of the newest fact that arrived
    const newest = Math.max(...seen)
    late.push((tRaw + 19 - newest) / 20)
  }
  assert.ok(w.uplinks.backlog > 10_000, `${w.uplinks.backlog}`)
  assert.ok(Math.max(...late) < 150, `live data was ${Math.max(...late)} s behind`)
  await w.run(3_600_000, 500)
  assert.equal(w.uplinks.backlog, 0)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
  assert.ok(w.receive.counters.duplicates < 0.3 * w.logged.length, `${w.receive.counters.duplicates} went twice`)
})

test('a packet from the peer ends the backoff of its uplink: a name means its last resolved address', async t => {
  const answers = ['10.9.8.7', '10.9.8.9']
  const query = async (_name: string, family: 4 | 6) =>
    family === 4 ? [{ address: answers.shift()!, ttl: 0 }] : Promise.reject(new Error('none'))
  const clock = new ManualClock()
  const resolver = new HostResolver({ clock, query, readText: () => '' })
  const host = 'upstream.example'
  const w = world(t)
  await w.apply({ name: 'named', entry: { host } }, { name: 'literal', entry: { host: '2001:db8::5' } })
  await w.run(500)
  /** Whether a packet from that address has the uplink retried immediately. */
  const ends = async (name: string, address: string): Promise<boolean> => {
    w.road(name).unplug()
    await w.run(1500)
    w.road(name).dead = false
    const { opens } = w.road(name)
    w.uplinks.heard(address)
    await new Promise(setImmediate)
    const tried = w.road(name).opens > opens
    await w.run(30_000, 500)
    return tried
  }
  assert.equal(await ends('named', '10.9.8.7:4000'), false, 'never resolved')
  await resolver.resolve(host)
  assert.equal(await ends('named', '10.9.8.7:4000'), true)
  assert.equal(await ends('named', '10.9.8.70:4000'), false)
  clock.advance(60_000)
  await resolver.resolve(host)
  assert.equal(await ends('named', '10.9.8.7:4000'), false, 'the address of before')
  assert.equal(await ends('named', '10.9.8.9:4000'), true)
  assert.equal(await ends('literal', '[2001:db8::5]:4000'), true)
  assert.equal(await ends('literal', '[2001:db8::51]:4000'), false)
})
