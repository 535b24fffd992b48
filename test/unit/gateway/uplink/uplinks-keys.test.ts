// The uplinks and the keys of their sessions: an uplink without a key hands over, and another path continues with the same key (X37).
import assert from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { RoadSpec, UplinkWorld } from '../../../lib/uplinkworld'
import { world } from './uplinks-world'

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
