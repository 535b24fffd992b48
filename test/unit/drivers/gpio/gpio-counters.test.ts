// Counters of the source type gpio: dropped edges, and the value from which they continue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { events, make } from './gpio-world'

test('a counter also counts edges that the kernel had to drop', async () => {
  const { world, source, value } = make({ pins: [{ pin: 'a', mode: 'counter', scale: 0.01, unit: 'm3' }] })
  await source.open(events)
  world.edge('a', 1)
  world.edge('a', 1, 97)
  assert.equal(await value(), 0.99)
  assert.deepEqual([world.asked[0]?.edges, world.asked[0]?.consumer], ['rising', 'os-node a'])
  // the kernel numbers the edges of each request from 1
  await source.close()
  await source.open(events)
  world.edge('a', 1)
  assert.equal(await value(), 1)
})

test('a counter continues from its last logged value, whatever its scale; other modes do not', async () => {
  const pins = [
    { pin: 'a', name: 'gas', mode: 'counter', scale: 0.01, offset: 5, unit: 'm3' },
    { pin: 'b', name: 'door', mode: 'edge' },
    { pin: 'c', name: 'new', mode: 'counter' },
  ]
  const { world, source, value } = make({ pins })
  const asked: string[] = []
  source.resume({
    logged: (id, unit) => {
      asked.push(`${id} ${unit}`)
      return { gas: 17.34, door: 1 }[id]
    },
    kept: () => undefined,
    keep: () => undefined,
  })
  assert.deepEqual(asked, ['gas m3', 'new {pulses}'])
  await source.open(events)
  world.edge('a', 1)
  world.edge('c', 1)
  assert.deepEqual([await value(0), await value(1), await value(2)], [17.35, 0, 1])
  await source.close()
})

test('a counter reports every count to the log, including those during close, and continues from the larger one', async () => {
  const options = { pins: [{ pin: 'a', name: 'gas', mode: 'counter', scale: 0.01, unit: 'm3' }] }
  const log = new Map<string, number>()
  const run = async (logged: number | undefined, given: object = options) => {
    const made = make(given)
    made.source.resume({
      logged: () => logged,
      kept: name => log.get(name),
      keep: (name, count) => log.set(name, count),
    })
    await made.source.open(events)
    return made
  }
  const first = await run(undefined)
  first.world.edge('a', 1)
  first.world.edge('a', 1, 4)
  assert.deepEqual([...log], [['gas m3 1/100+0', 6]])
  first.world.late = () => first.world.edge('a', 1)
  await first.source.close()
  assert.equal(log.get('gas m3 1/100+0'), 7)
  // an older reading, a newer one, and one with another scale
  assert.equal(await (await run(0.03)).value(), 0.07)
  assert.equal(await (await run(0.09)).value(), 0.09)
  const scaled = await run(0.5, { pins: [{ ...options.pins[0], scale: 0.1 }] })
  assert.equal(await scaled.value(), 0.5)
})

test('a source rebuilt by a reload continues its count, and its outputs stay as set', async () => {
  const options = { pins: [{ pin: 'm', name: 'gas', mode: 'counter' }], outputs: [{ pin: 'a', name: 'pump' }] }
  const first = make(options)
  const { world } = first
  await first.source.open(events)
  for (const level of [1, 1, 1] as const) world.edge('m', level)
  await first.source.outputs.set('pump', 1)
  assert.deepEqual([await first.value(0), await first.value(1)], [3, 1])
  await first.source.close()
  const second = make({ ...options, interval_ms: 2000 }, world)
  await second.source.open(events)
  // a configuration check also creates a source, and changes nothing
  world.now += 61e9
  make(options, world)
  assert.deepEqual([await second.value(0), await second.value(1)], [3, 1])
  await second.source.close()
  const again = make(options, world)
  await again.source.open(events)
  assert.deepEqual([await again.value(0), await again.value(1)], [3, 1])
  await again.source.close()
  // removed from the configuration and added back later: the count starts at 0
  world.now += 61e9
  const third = make(options, world)
  await third.source.open(events)
  assert.deepEqual([await third.value(0), await third.value(1)], [0, 0])
  await third.source.close()
  // another line is another counter
  const other = make({ pins: [{ pin: 'n', name: 'gas', mode: 'counter' }] }, world)
  await other.source.open(events)
  assert.equal(await other.value(), 0)
  await other.source.close()
})
