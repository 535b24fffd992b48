// Outputs of the source type gpio: on_start, on_stop and on_fault, after a crash, a reload and a stop.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settleOutputs } from '../../../../drivers/gpio/fault-outputs'
import { OsError } from '../../../../src/lib/errors'
import { events, FakeGpio, make } from './gpio-world'

test('outputs take on_start, keep the set value when the chip returns, and take on_stop at the end', async () => {
  const outputs = [
    { pin: 'a', name: 'pump', initial: 1 },
    { pin: 'b', name: 'lamp', on_stop: 1 },
  ]
  const { world, source } = make({ outputs })
  assert.deepEqual(source.outputs.list()[0], { name: 'pump', value: null })
  await source.open(events)
  await source.outputs.set('pump', 0)
  assert.deepEqual(
    [await source.read(), world.levels.get('b')],
    [
      [
        ['pump', 'OK', 0, '{1}'],
        ['lamp', 'OK', 0, '{1}'],
      ],
      0,
    ],
  )
  // the chip is unplugged: no value is switched on the way out, and the set value is restored
  world.gone = true
  await assert.rejects(source.read(), /ENODEV/)
  await source.close()
  assert.equal(world.levels.get('b'), 0)
  world.gone = false
  await source.open(events)
  assert.deepEqual(
    world.asked.map(({ name, initial }) => [name, initial?.[0]]),
    [
      ['a', 1],
      ['b', 0],
      ['a', 0],
      ['b', 0],
    ],
  )
  await source.close()
  assert.deepEqual([world.levels.get('a'), world.levels.get('b')], [0, 1])
  await assert.rejects(source.outputs.set('pump', 1), /not open/)
  await assert.rejects(source.outputs.set('pmup', 1), /no output is named/)
})

test('a reload keeps an unchanged line without a drop; a removed line takes its on_stop value', async () => {
  const world = new FakeGpio()
  const outputs = [
    { pin: 'a', name: 'pump', on_stop: 0, initial: 1 },
    { pin: 'b', name: 'fan', on_stop: 1 },
    { pin: 'c', name: 'lamp', on_stop: 0 },
  ]
  const first = make({ outputs }, world)
  await first.source.open(events)
  await first.source.outputs.set('lamp', 1)
  const sets: string[] = []
  world.onSet = (name, value) => sets.push(`${name}=${value}`)
  const asked = world.asked.length
  const leave = first.source.handOn()
  await first.source.close()
  // another name and other settings, the same line; the lamp changes only its polarity, the fan is removed
  const second = make(
    {
      interval_ms: 2000,
      outputs: [
        { pin: 'a', name: 'well', on_stop: 0 },
        { pin: 'c', name: 'lamp', active_low: true },
      ],
    },
    world,
  )
  await second.source.open(events)
  await leave()
  assert.deepEqual(sets, ['c=0', 'b=1'], 'the pump was never touched')
  assert.deepEqual([world.levels.get('a'), await second.value(0)], [1, 1])
  assert.deepEqual(
    world.asked.slice(asked).map(({ name }) => name),
    ['c'],
    'only a line of another form is requested anew',
  )
  await second.source.close()
  assert.deepEqual(sets, ['c=0', 'b=1', 'a=0'])
})

test('a start sets the outputs before anything else: on_fault after a crash, otherwise on_start; the source then takes them over', async () => {
  const outputs = [
    { pin: 'a', name: 'pump', on_fault: 0, on_start: 1, on_stop: 'keep' },
    { pin: 'b', name: 'fan', on_stop: 1 },
    { pin: 'c', name: 'lamp', initial: 1 },
  ]
  const entries = [
    { name: 'other', type: 'cpu' },
    { name: 'broken', type: 'gpio', outputs: [{ pin: 'a', nonsense: 1 }] },
    { name: 'shed', type: 'gpio', deadband: 1, outputs },
  ]
  const world = new FakeGpio()
  const after = (occasion: 'start' | 'fault', hold: boolean) =>
    settleOutputs(entries, occasion, hold, world).then(items => items.map(({ name, value }) => [name, value]))
  assert.deepEqual(await after('fault', false), [
    ['outputs', null],
    ['pump', 0],
    ['fan', 1],
    ['lamp', null],
  ])
  assert.deepEqual(
    [...world.levels],
    [
      ['a', 0],
      ['b', 1],
    ],
  )
  assert.equal(world.open, 0, 'a command lets go of what it set')
  assert.deepEqual(await after('start', true), [
    ['outputs', null],
    ['pump', 1],
    ['fan', 0],
    ['lamp', 1],
  ])
  assert.equal(world.open, 3, 'held until the source opens')
  const asked = world.asked.length
  const { source, value } = make({ outputs }, world)
  await source.open(events)
  assert.deepEqual([world.asked.length, world.open], [asked, 3])
  assert.deepEqual([await value(0), await value(1), await value(2)], [1, 0, 1])
  await source.close()
  assert.equal(world.open, 0)
})

test('after a crash hold-lines gets each line before it is closed; one that it has stays there; a start frees all of them', async () => {
  const entries = [{ name: 'shed', type: 'gpio', outputs: [{ pin: 'a', on_fault: 1 }, { pin: 'b' }] }]
  const world = new FakeGpio()
  const calls: string[] = []
  let [holding, answers] = [false, true]
  const called = async (what: string, result: boolean): Promise<boolean> => {
    calls.push(what)
    if (!answers) throw new OsError('TIMEOUT', 'hold-lines did not answer within 2 s')
    return result
  }
  const settle = (occasion: 'start' | 'fault') => {
    calls.length = 0
    const holder = {
      keep: async (chip: string) => void (await called(`keep ${chip}, ${world.open} open`, true)),
      holds: () => called('holds', holding),
      free: async () => void (await called('free', true)),
    }
    return settleOutputs(entries, occasion, occasion === 'start', Object.assign(world, { holder }))
  }
  const [a] = await settle('fault')
  assert.deepEqual([a!.value, a!.reason, calls, world.open], [1, undefined, ['holds', 'keep a, 1 open'], 0])
  holding = true
  world.refuse = () => 'EBUSY'
  assert.equal((await settle('fault'))[0]!.reason, 'held since the last crash')
  holding = false
  assert.deepEqual((await settle('fault'))[0]!.value, null)
  world.refuse = () => undefined
  answers = false
  assert.match((await settle('fault'))[0]!.reason!, /hold-lines did not answer/)
  assert.equal(world.open, 0)
  await settle('start')
  assert.deepEqual([calls, world.open], [['free'], 2])
})
