// The pure parts of the source type gpio, and its inputs on lines that the test drives.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gpioDriver } from '../../../../drivers/gpio'
import { Debounce } from '../../../../drivers/gpio/debounce'
import { Frequency } from '../../../../drivers/gpio/frequency'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { ManualClock } from '../../../lib/manual'
import { prng } from '../../../lib/random'
import { dice, digest, Trace } from '../../../lib/trace'
import { events, FakeGpio, make } from './gpio-world'

const S = 1e9

test('a frequency is computed exactly from the edges, whenever it is read', () => {
  const next = prng(7)
  for (const hz of [0.5, 3, 50, 2000]) {
    const meter = new Frequency({ windowNs: 0, timeoutNs: 10 * S })
    const start = 5e15
    let edges = 0
    let at = start
    for (let read = 0; read < 20; read++) {
      at += (0.2 + next()) * S
      while (start + (edges * S) / hz <= at) {
        const ns = start + (edges * S) / hz
        meter.edge(++edges, ns)
      }
      const value = meter.at(at)
      if (edges > 1) assert.ok(Math.abs(value - hz) < hz * 1e-3, `${value} Hz of ${hz}`)
      else assert.ok(value <= hz)
    }
  }
})

test('when a signal stops, the frequency falls with the silence and is 0 after the time-out; the next edge starts over', () => {
  const meter = new Frequency({ windowNs: 0, timeoutNs: 5 * S })
  for (let k = 1; k <= 10; k++) meter.edge(k, k * 0.1 * S)
  assert.ok(Math.abs(meter.at(1 * S) - 10) < 1e-9)
  assert.ok(Math.abs(meter.at(3 * S) - 0.5) < 1e-9)
  assert.equal(meter.at(6 * S), 0)
  assert.equal(meter.at(7 * S), 0)
  meter.edge(11, 8 * S)
  assert.equal(meter.at(8.1 * S), 0)
  meter.edge(12, 8.5 * S)
  assert.ok(Math.abs(meter.at(8.5 * S) - 2) < 1e-9)
})

test('a window averages all its edges, even over more readings than it stores', () => {
  const meter = new Frequency({ windowNs: 10 * S, timeoutNs: 100 * S })
  let edges = 0
  let value = 0
  // 1 Hz for a hundred seconds, then 3 Hz: after ten seconds only the latter counts
  for (let ns = 0; ns < 100; ns++) {
    meter.edge(++edges, ns * S)
    value = meter.at(ns * S)
  }
  assert.ok(Math.abs(value - 1) < 1e-9)
  for (let k = 1; k <= 45; k++) {
    meter.edge(++edges, (99 + k / 3) * S)
    value = meter.at((99 + k / 3) * S)
    if (k === 15) assert.ok(value > 1.8 && value < 2.2, `${value}`)
  }
  assert.ok(Math.abs(value - 3) < 1e-9, `${value}`)
})

test('a change counts once it is stable, bounces never do, in whatever order they arrive', () => {
  const next = prng(3)
  const debounce = new Debounce(20e6, 0)
  let ns = 1e15
  let level: 0 | 1 = 0
  let changes = 0
  const settle = (): void => {
    if (debounce.settle(ns)) changes++
  }
  for (let press = 0; press < 200; press++) {
    level = level === 1 ? 0 : 1
    // an odd number of flips, none stable for long enough
    const flips = 1 + 2 * Math.floor(next() * 6)
    for (let k = 0; k < flips; k++) {
      ns += next() * 19e6
      if (debounce.edge(k % 2 === 0 ? level : level === 1 ? 0 : 1, ns)) changes++
    }
    assert.equal(changes, press)
    ns += 20e6
    settle()
    assert.deepEqual([changes, debounce.level], [press + 1, level])
    ns += next() * 1e9
  }
})

test('options that cannot work are refused with their key', () => {
  const refused = (options: object, text: RegExp): void =>
    assert.throws(
      () => gpioDriver.create('shed', options, { clock: new ManualClock(), logger: silentLogger }),
      (error: unknown) =>
        error instanceof OsError && /^(CONFIG_INVALID|UNKNOWN_KEY)$/.test(error.code) && text.test(error.message),
      JSON.stringify(options),
    )
  refused({}, /name at least one/)
  refused({ pins: [{}] }, /pins.*one of pin/)
  refused({ pins: [{ pin: 'GPIO1', header: 3 }] }, /one of pin/)
  refused({ pins: [{ pin: 'GPIO1', debounse_ms: 3 }] }, /pins.0.debounse_ms: no such option; did you mean debounce_ms/)
  refused({ pins: [{ pin: 'GPIO1', mode: 'frequency', edge: 'both' }] }, /frequency counts rising or falling/)
  refused({ pins: [{ pin: 'GPIO1', edge: 'both' }] }, /a level has none/)
  refused({ outputs: [{ pin: 'GPIO1', initial: 2 }] }, /initial/)
  refused(
    {
      pins: [
        { pin: 'GPIO1', name: 'a' },
        { pin: 'GPIO2', name: 'a' },
      ],
    },
    /two channels have the id a/,
  )
})

test('a frequency is averaged over window_s, to the nanosecond, and is 0 after timeout_s', async () => {
  const pins = [{ pin: 'a', mode: 'frequency', window_s: 10, timeout_s: 60 }]
  const { world, source, value } = make({ pins })
  await source.open(events)
  const seen: unknown[] = []
  for (const s of [0, 1, 10, 1]) {
    world.now += s * S
    world.edge('a', 1)
    seen.push(await value())
  }
  assert.deepEqual(seen, [0, 1, 0.1, 2 / 11], 'a mark of ten seconds ago is far enough back')
  world.now += 60 * S - 1
  assert.ok((await value())! > 0)
  world.now++
  assert.equal(await value(), 0)
  await source.close()
})

test('on a chip that cannot debounce, the source debounces', async () => {
  const world = new FakeGpio()
  world.refuse = ({ debounceUs }) => (debounceUs ? 'EOPNOTSUPP' : undefined)
  const { source, value } = make({ pins: [{ pin: 'a', mode: 'counter', debounce_ms: 5 }] }, world)
  await source.open(events)
  assert.equal(world.asked[0]?.edges, 'both')
  for (let press = 1; press <= 3; press++) {
    for (const level of [1, 0, 1] as const) {
      world.now += 1e6
      world.edge('a', level)
    }
    world.now += 6e6
    assert.equal(await value(), press)
    world.edge('a', 0)
    world.now += 6e6
    assert.equal(await value(), press)
  }
})

test('a change triggers a reading immediately, and at most one per interval', async () => {
  const { world, timers, source, value } = make({ min_gap_ms: 100, pins: [{ pin: 'a', mode: 'edge' }] })
  let asked = 0
  await source.open({ ...events, due: () => asked++ })
  assert.equal(await value(), 0)
  world.edge('a', 1)
  world.edge('a', 0)
  assert.equal(asked, 1)
  // came and went: the pulse is reported, then its end
  assert.equal(await value(), 1)
  await timers.advance(100)
  assert.equal(asked, 2)
  assert.equal(await value(), 0)
  await timers.advance(1000)
  assert.equal(asked, 2)
})

test('a reading has the level after the last edge: the line itself may be ahead or behind', async () => {
  const { world, source, value } = make({ pins: [{ pin: 'a', mode: 'edge' }] })
  await source.open(events)
  assert.equal(await value(), 0)
  world.levels.set('a', 1)
  assert.equal(await value(), 0)
  world.edge('a', 1)
  assert.equal(await value(), 1)
  world.levels.set('a', 0)
  assert.equal(await value(), 1)
  world.edge('a', 0)
  world.levels.set('a', 1)
  assert.equal(await value(), 0)
})

test('an error names the pin, who uses it, and what to do', async () => {
  const fails = async (errno: string, options: object, text: RegExp, hint: RegExp): Promise<void> => {
    const world = new FakeGpio()
    world.refuse = () => errno
    const { source } = make({ pins: [{ pin: 'GPIO8', name: 'door', ...options }] }, world)
    await assert.rejects(source.open(events), (error: unknown) => {
      assert.ok(error instanceof OsError)
      assert.match(error.message, text)
      assert.match(error.hint, hint)
      return true
    })
  }
  await fails('EBUSY', {}, /door: GPIO8 is in use by spi0 CS0/, /one owner/)
  await fails('EBUSY', { name: 'GPIO8' }, /^GPIO8 is in use by spi0 CS0/, /one owner/)
  await fails(
    'EBUSY',
    { pin: undefined, header: 11, name: undefined },
    /^(GPIO17: )?pin 11 of the header is in use/,
    /one owner/,
  )
  await fails('ENOTTY', {}, /door: GPIO8: GPIO8 is no GPIO chip/, /os-node gpio/)
  await fails('EACCES', {}, /door: GPIO8: .*no right/, /usermod -aG gpio/)
  await fails('EOPNOTSUPP', { bias: 'pull_up' }, /door: GPIO8: the chip cannot do this/, /leave out bias/)
})

test('inputs and outputs that are switched, unplugged, reloaded and handed over behave as gpio.txt has it', async () => {
  const trace = new Trace('unit/drivers/gpio/gpio.txt')
  const { below, chance, pick } = dice(19)
  for (let round = 0; round < 6; round++) {
    const world = new FakeGpio()
    const said: unknown[] = []
    world.onSet = (name, value) => said.push(`${name}=${value}`)
    const names = ['a', 'b', 'c', 'd', 'e']
    const pins = names.map((pin, k) => ({
      ...{ pin, mode: ['level', 'edge', 'counter', 'frequency', 'edge'][k], debounce_ms: pick([0, 0, 5]) },
      ...(k > 0 && k !== 3 && { edge: pick(['rising', 'falling', 'both']) }),
      ...(k === 3 && { window_s: pick([0, 2]), timeout_s: pick([1, 10]) }),
      ...(chance(0.3) && { bias: 'pull_up', active_low: true }),
    }))
    const outputs = ['x', 'y', 'z'].map(pin => ({
      pin,
      initial: pick([0, 1]),
      on_stop: pick(['keep', 0, 1]),
      ...(chance(0.3) && { on_start: 1 }),
    }))
    const events = {
      lost: (reason: string) => said.push(`lost ${reason}`),
      degraded: () => undefined,
      due: () => said.push('due'),
    }
    const open = () => make({ pins, outputs, min_gap_ms: pick([0, 50]) }, world)
    let { source, timers } = open()
    for (let k = 0; k < 200; k++) {
      world.missed = k % 3
      if (chance(0.05)) world.gone = !world.gone && chance(0.3)
      if (chance(0.05)) {
        const errno = pick([undefined, undefined, 'EOPNOTSUPP', 'EBUSY', 'ENOTTY', 'EINVAL'])
        world.refuse = options => (errno !== 'EOPNOTSUPP' || options.debounceUs ? errno : undefined)
      }
      const call = async (name: string, run: () => unknown): Promise<void> => {
        try {
          said.push([name, await run()])
        } catch (error) {
          said.push([name, (error as OsError).code, (error as OsError).message, (error as OsError).hint])
        }
      }
      const act = below(20)
      if (act < 2) await call('open', () => source.open(events))
      else if (act === 2) await call('close', () => source.close())
      else if (act === 3 && chance(0.5)) {
        const leave = source.handOn()
        await source.close()
        if (chance(0.2)) world.now += 60e9
        ;({ source, timers } = open())
        if (chance(0.3)) await leave()
        const kept = below(500)
        source.resume({
          logged: () => pick([undefined, kept]),
          kept: () => pick([undefined, kept]),
          keep: (...got) => said.push(got),
        })
        if (chance(0.8)) await call('open', () => source.open(events))
        await leave()
      } else if (act < 6) await call('set', () => source.outputs.set(pick(['x', 'y', 'z', 'none']), pick([0, 1])))
      else if (act < 9) {
        await call('read', () => source.read())
        await call('raw', () => source.readRaw())
      } else if (act === 9) await timers.advance(50)
      else world.edge(pick(names), pick([0, 1]), chance(0.1) ? below(5) : 0)
      world.now += pick([1e6, 4e6, 6e6, 3e8])
      if (k % 10 === 9)
        trace.say(`${round} ${k}`, [
          digest(0, Buffer.from(JSON.stringify([said.splice(0), world.asked.splice(0)]))),
          world.open,
          source.outputs.list(),
          source.counters.detail,
        ])
    }
    await source.close()
  }
  trace.compare()
})
