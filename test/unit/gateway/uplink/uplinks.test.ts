// The list of uplinks as one: failover and handback without loss (R12), an outage of an hour (R8), alarms first, pacing,
// hot reload, and a kill in the middle of it.
// Long: an hour without upstream
import assert from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { alarmCheck } from '../../../../src/gateway/uplink/alarms'
import { HostResolver } from '../../../../src/links/resolve'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'
import { rounds } from '../../../lib/random'
import { type RoadSpec, UplinkWorld } from '../../../lib/uplinkworld'

function world(t: TestContext, settings: Record<string, unknown> = {}): UplinkWorld {
  const w = new UplinkWorld(settings)
  t.after(() => w.end())
  return w
}

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

/** The session keys are lost. */
async function newCard(w: UplinkWorld): Promise<void> {
  await w.kill()
  rmSync(join(w.dir, 'data'), { recursive: true })
}

test('an uplink that gets no key hands over to the one the upstream has the session with, and continues with its key', async t => {
  const w = world(t)
  await w.apply({ name: 'other' })
  const ticks = async (s: number): Promise<void> => {
    for (let k = 0; k < s; k++) {
      w.fact()
      await w.run(1000, 50)
    }
  }
  await ticks(15)
  assert.equal(w.uplinks.status()['other']!.secure, 'secure')
  await newCard(w)
  await w.apply({ name: 'one' }, { name: 'other' })
  await ticks(8)
  assert.equal(w.uplinks.active?.name, 'one')
  assert.ok(w.uplinks.backlog > 0, 'the upstream has the session with the address of the other one')
  await ticks(15)
  assert.equal(w.uplinks.active?.name, 'other')
  assert.match(w.uplinks.forwarding().reason!, /^one is degraded: no secure session/)
  assert.ok(w.uplinks.backlog <= 1)
  await ticks(200)
  assert.equal(w.uplinks.active?.name, 'one')
  assert.equal(w.uplinks.forwarding().reason, undefined)
  assert.equal(w.uplinks.status()['one']!.secure, 'secure')
  assert.ok(
    w.said.some(text => text.endsWith('one: AID 5 uses the session of another uplink')),
    w.said.join('\n'),
  )
  await w.run(3000)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
})

test('where every uplink gets no key, each is tried in turn', async t => {
  const w = world(t, { failover: { after_s: 1, back_s: 5 } })
  await w.apply({ name: 'third' })
  for (let k = 0; k < 15; k++) {
    w.fact()
    await w.run(1000, 50)
  }
  await newCard(w)
  await w.apply({ name: 'one' }, { name: 'other' })
  const active: string[] = []
  for (let k = 0; k < 540; k++) {
    w.fact()
    await w.run(1000, 100)
    const { name = '' } = w.uplinks.active ?? {}
    if (active.at(-1) !== name) active.push(name)
  }
  assert.ok(active.length >= 4 && active.length <= 12, active.join())
  assert.ok(w.uplinks.backlog > 500)
  // the address of the session is silent for rekey_after_s
  await w.run(200_000, 100)
  assert.equal(w.uplinks.backlog, 0)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
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

test('hot reload: an unchanged uplink keeps its connection; the active one is replaced without loss', async t => {
  const w = world(t)
  await w.apply({ name: 'a' }, { name: 'b' })
  await w.run(500)
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(2000)
  const applied = await w.apply({ name: 'c' }, { name: 'b', entry: { full_every: 50 } }, { name: 'a' })
  assert.deepEqual(applied, { added: ['c'], removed: [], changed: ['b'], kept: ['a'] })
  assert.equal(w.road('a').opens, 1)
  assert.equal(w.uplinks.active?.name, 'a', 'until the new first one was stable')
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(70_000, 100)
  assert.equal(w.uplinks.active?.name, 'c')
  const pending = w.apply({ name: 'b', entry: { full_every: 50 } })
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(20_000, 100)
  assert.deepEqual(await pending, { added: [], removed: ['c', 'a'], changed: [], kept: ['b'] })
  assert.deepEqual(Object.keys(w.supervisor.links()), ['b'])
  assert.deepEqual([...new Set(w.arrived)], w.logged)
})

test('hot reload: a record whose frame is refused after its uplink was replaced, or just before, is sent again', async t => {
  for (const early of [true, false]) {
    const w = world(t)
    const apply = (full_every: number): ReturnType<typeof w.apply> =>
      w.apply({ name: 'm', medium: 'MQTT', acknowledges: true, entry: { full_every } })
    await apply(100)
    await w.run(500)
    for (let k = 0; k < 5; k++) w.fact()
    await w.run(2000)
    // the upstream has lost its templates, and its answers are late
    w.startServer()
    const answers: Uint8Array[] = []
    w.road('m').lose = (packet, up) => !up && packet[0] === COMMAND.HANDSHAKE_NACK && answers.push(packet) > 0
    w.fact()
    await w.run(1000)
    assert.equal(answers.length, 1)
    assert.equal(w.uplinks.backlog, 0, 'the broker has it')
    w.road('m').lose = () => false
    const old = w.road('m')
    if (early) {
      old.refuses = true
      old.answer(answers[0]!)
    }
    await apply(50)
    await w.run(500)
    if (!early) w.road('m').answer(answers[0]!)
    // the new uplink learns by a second refusal that its key is lost, and waits 1 s
    await w.run(5000)
    assert.equal(w.got.facts.length, 6, early ? 'before' : 'after')
  }
})

test('without uplinks the local upstream is active with its own cursor; the first real uplink gets the complete log', async t => {
  const w = world(t)
  await w.apply()
  assert.equal(w.localUpstreams, 1)
  for (let k = 0; k < 10; k++) w.fact()
  await w.run(3000)
  assert.equal(w.arrived.length, 10)
  assert.equal(w.uplinks.active?.name, 'loopback')
  await w.apply({ name: 'real' })
  assert.equal(w.localUpstreams, 0)
  w.startServer()
  w.got.records.length = 0
  await w.run(3000)
  assert.equal(w.arrived.length, 10)
})

test('with old cursors, one for each uplink, the lowest of the configured ones counts, once', async t => {
  const w = world(t)
  for (let k = 0; k < 30; k++) w.fact()
  w.log.appendCursor('uplink:a', 20)
  w.log.appendCursor('uplink:b', 10)
  w.log.appendCursor('uplink:gone', 3)
  await w.apply({ name: 'a' }, { name: 'b' }, { name: 'new' })
  await w.run(5000)
  assert.equal(w.arrived.length, 20)
  assert.deepEqual(w.log.cursorNames(), ['uplinks'])
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

test('groups are split for the smallest uplink of the list, whichever is active', async t => {
  const w = world(t)
  await w.apply({ name: 'udp' }, { name: 'tiny', medium: 'LoRa', maxPacket: 60 })
  assert.equal(w.uplinks.maxPacket, 60 - 18)
  await w.apply({ name: 'udp' }, { name: 'tiny', medium: 'LoRa', maxPacket: 60, entry: { delivery: 'best_effort' } })
  assert.equal(w.uplinks.maxPacket, 60)
  await w.apply({ name: 'udp' })
  assert.equal(w.uplinks.maxPacket, 1200)
})

test('a fact too large for the active uplink waits for a larger one, over a restart too, and blocks nothing', async t => {
  const w = world(t, { failover: { after_s: 1, back_s: 4 } })
  const specs = [{ name: 'wide' }, { name: 'tiny', medium: 'LoRa', maxPacket: 140 }]
  await w.apply(...specs)
  await w.run(500)
  w.road('wide').unplug()
  await w.run(3000)
  assert.equal(w.uplinks.active?.name, 'tiny')
  const large: number[] = []
  for (let k = 0; k < 40; k++) {
    if (k % 4 === 0) large.push(w.fact(9, 'OK', 8).tRaw)
    w.fact()
    if (k % 10 === 0) w.fact(9)
    await w.run(200)
  }
  await w.run(3000)
  const status = (): ReturnType<typeof w.uplinks.forwarding> => w.uplinks.forwarding()
  assert.equal(w.got.facts.length, w.log.facts.length - large.length)
  assert.deepEqual([status().backlog, status().aside], [10, 10])
  assert.equal(w.uplinks.status()['tiny']!.refused, 0)
  assert.equal(w.uplinks.draining, false, 'a stop need not wait for what cannot go')

  await w.kill()
  w.road('wide').dead = true
  await w.apply(...specs)
  w.road('wide').unplug()
  for (let k = 0; k < 20; k++) {
    w.fact()
    await w.run(500)
  }
  assert.equal(w.uplinks.active?.name, 'tiny')
  assert.equal(status().aside, 10)
  w.road('wide').dead = false
  for (let k = 0; k < 200; k++) {
    w.fact()
    await w.run(500, 50)
  }
  assert.equal(w.uplinks.active?.name, 'wide')
  assert.deepEqual([status().backlog, status().aside], [0, undefined])
  assert.deepEqual([...new Set(w.arrived)], w.logged)
  assert.ok(w.receive.counters.duplicates < 20, `${w.receive.counters.duplicates} went twice`)
  assert.deepEqual(
    [...w.log.counters].filter(([key, value]) => key.includes('aside') && value > 0),
    [],
  )
})

test('a fact too large for the active uplink is sent over a larger one in parallel, immediately', async t => {
  const w = world(t)
  await w.apply({ name: 'tiny', medium: 'LoRa', maxPacket: 140 }, { name: 'wide' }, { name: 'wider', maxPacket: 4000 })
  await w.run(500)
  for (let k = 0; k < 30; k++) {
    w.fact()
    w.fact(9, 'OK', 8)
    w.fact(10, 'OK', 90)
    await w.run(100)
  }
  await w.run(3000)
  assert.equal(w.uplinks.active?.name, 'tiny')
  assert.deepEqual(w.arrived, w.logged)
  assert.equal(w.uplinks.backlog, 0)
  const { wide, wider } = w.uplinks.status() as Record<string, { acked: number }>
  assert.deepEqual([wide!.acked, wider!.acked], [30, 30])
  // the larger one loses its packets in flight
  w.road('wide').cut = true
  for (let k = 0; k < 5; k++) w.fact(9, 'OK', 8)
  await w.run(200)
  assert.ok(w.uplinks.backlog > 0)
  w.road('wide').unplug()
  await w.run(10_000)
  assert.deepEqual([...new Set(w.arrived)], w.logged)
  assert.equal(w.uplinks.backlog, 0)
})

test('a fact too large for every uplink of the list is refused and counted, and does not wait', async t => {
  const w = world(t)
  await w.apply({ name: 'one', maxPacket: 200 }, { name: 'tiny', medium: 'LoRa', maxPacket: 140 })
  await w.run(500)
  w.fact(9, 'OK', 30)
  w.fact()
  await w.run(3000)
  assert.equal(w.uplinks.status()['one']!.refused, 1)
  assert.equal(w.uplinks.backlog, 0)
  assert.equal(w.got.facts.length, 1)
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

for (const delivery of ['auto', 'best_effort'] as const)
  test(`another path with the same key continues immediately, also after a kill of the gateway (X37, ${delivery})`, async t => {
    const w = world(t, { failover: { after_s: 1, back_s: 4 } })
    const roads: RoadSpec[] = [{ name: 'one' }, { name: 'two', medium: 'TCP', entry: { delivery } }]
    await w.apply(...roads)
    await w.run(500)
    // until the key is used, before any save interval of the session file has passed
    for (let k = 0; k < 50 && w.receive.session!.status().confirmed === 0; k++) {
      w.fact()
      await w.run(10)
    }
    await w.kill()
    w.road('one').dead = true
    await w.apply(...roads)
    await w.run(2000)
    assert.equal(w.uplinks.active?.name, 'two')
    for (let k = 0; k < 30; k++) {
      w.fact()
      await w.run(20, 5)
    }
    await w.run(5000)
    assert.deepEqual([...new Set(w.arrived)], w.logged)
    const { moved, keys_replaced } = w.receive.session!.status()
    assert.deepEqual([moved, keys_replaced], [1, 0])
    // refused packets are resent in the exchange only: without it nothing is sent in plaintext
    assert.equal(w.receive.report()['refused_elsewhere']! > 0, delivery === 'auto')
  })

for (const spec of [
  { name: 'other' },
  { name: 'other', medium: 'MQTT', acknowledges: true },
  { name: 'other', entry: { delivery: 'best_effort' } },
] satisfies RoadSpec[])
  test(`a gateway that moved and lost its keys keeps its data until it has a new key (X37, ${JSON.stringify(spec)})`, async t => {
    const w = world(t)
    await w.apply({ name: 'one' })
    await w.run(500)
    for (let k = 0; k < 3; k++) {
      w.fact()
      await w.run(1000)
    }
    assert.equal(w.receive.session!.status().confirmed, 1)
    await w.kill()
    for (const name of readdirSync(w.dir)) if (name.startsWith('secure_sessions')) rmSync(join(w.dir, name))
    await w.apply(spec)
    await w.run(1000)
    const inLog = w.arrived.length
    for (let k = 0; k < 120; k++) {
      w.fact()
      await w.run(4000, 100)
    }
    assert.equal(w.arrived.length, inLog, 'no plaintext of it is taken')
    assert.ok(w.receive.report()['refused_elsewhere']! <= 20, 'nor sent any more')
    const { openers } = w.receive.session!.counters
    assert.ok(openers >= 8 && openers < 30, `${openers} openers in eight minutes`)
    assert.match(JSON.stringify(w.supervisor.links()['other']), /no secure session/)
    assert.equal(w.uplinks.status()['other']!.secure, 'pending')
    await w.run(200_000, 100)
    assert.deepEqual([...new Set(w.arrived)], w.logged)
    assert.deepEqual(w.receive.session!.status().keys_replaced, 1)
    assert.equal(w.uplinks.status()['other']!.secure, 'secure')
  })

test('a packet from the peer ends the backoff of its uplink: a name stands for its last resolved address', async t => {
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
