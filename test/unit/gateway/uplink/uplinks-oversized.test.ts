// Facts and groups of several sizes: each is sent over an uplink that can carry it, waits for one, or is refused and counted.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { world } from './uplinks-world'

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
