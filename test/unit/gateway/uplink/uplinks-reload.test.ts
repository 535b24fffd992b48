// Hot reload of the list of uplinks: what stays connected, what is sent again, and the cursors of the new list.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMMAND } from '../../../../src/wire/commands'
import { world } from './uplinks-world'

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
