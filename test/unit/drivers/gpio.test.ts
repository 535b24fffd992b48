// The pure parts of the source type gpio, and its inputs and outputs on lines that the test drives.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gpioDriver } from '../../../drivers/gpio'
import { Debounce } from '../../../drivers/gpio/debounce'
import { Frequency } from '../../../drivers/gpio/frequency'
import { gpioOptions } from '../../../drivers/gpio/gpio-options'
import { GpioSource } from '../../../drivers/gpio/gpio-source'
import type { GpioWorld } from '../../../drivers/gpio/lines'
import { settleOutputs } from '../../../drivers/gpio/safe'
import { OsError } from '../../../src/lib/errors'
import { silentLogger } from '../../../src/lib/logger'
import { checkOptions } from '../../../src/links/driver-options'
import type { EdgeHandler, GpioLines, LinesOptions } from '../../../src/native/gpio'
import { ManualClock, ManualTimers } from '../../lib/manual'
import { prng } from '../../lib/random'
import { dice, digest, Trace } from '../../lib/trace'

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

/** Lines that a test drives, as the kernel would: each request by the line's name. */
class FakeGpio implements GpioWorld {
  now = 1e15
  readonly asked: (LinesOptions & { name: string })[] = []
  readonly levels = new Map<string, 0 | 1>()
  /** throws for a matching request */
  refuse: (options: LinesOptions) => string | undefined = () => undefined
  gone = false
  /** open requests */
  open = 0
  /** edges that the kernel dropped, on lines requested from now on */
  missed = 0
  onSet: (name: string, value: 0 | 1) => void = () => undefined
  /** edges queued in the kernel and not read yet */
  late: () => void = () => undefined
  readonly #heard = new Map<string, EdgeHandler>()
  readonly #seqno = new Map<string, number>()

  resolve(spec: unknown) {
    return { chip: String((spec as { pin: string }).pin), line: 0, name: 'x' }
  }
  consumer(): string {
    return 'spi0 CS0'
  }
  nowNs(): number {
    return this.now
  }
  async request(name: string, options: LinesOptions): Promise<GpioLines> {
    const errno = this.refuse(options)
    if (errno) throw new OsError('LINK_DOWN', `request ${errno}`, { details: { errno } })
    this.asked.push({ ...options, name })
    this.#seqno.delete(name)
    if (options.direction === 'output') this.levels.set(name, options.initial?.[0] ?? 0)
    this.open++
    let open = true
    const values = async (): Promise<number> => {
      if (this.gone) throw new OsError('NOT_FOUND', 'ENODEV')
      return this.levels.get(name) ?? 0
    }
    const lines = {
      missed: this.missed,
      values,
      set: async (_: number, value: 0 | 1) => {
        this.levels.set(name, value)
        this.onSet(name, value)
      },
      onEdges: (handler: EdgeHandler) => this.#heard.set(name, handler),
      drain: () => this.late(),
      close: async () => {
        if (open) this.open--
        open = false
        this.#heard.delete(name)
      },
    }
    return lines as unknown as GpioLines
  }
  /** `dropped` edges before it were lost by the kernel */
  edge(name: string, level: 0 | 1, dropped = 0): void {
    this.levels.set(name, level)
    const seqno = (this.#seqno.get(name) ?? 0) + 1 + dropped
    this.#seqno.set(name, seqno)
    const [ns, edge] = [this.now, level === 1]
    const edges = { count: 1, ns: () => ns, rising: () => edge, line: () => 0, seqno: () => seqno }
    this.#heard.get(name)?.(edges as never)
  }
}

const events = { lost: () => undefined, degraded: () => undefined }

function make(options: object, world = new FakeGpio()) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const source = new GpioSource('shed', checkOptions(gpioOptions, options, 'shed'), { world, timers })
  const value = async (k = 0): Promise<number | null | undefined> => (await source.read())[k]?.[2]
  return { world, timers, source, value }
}

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
  const trace = new Trace('unit/drivers/gpio.txt')
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
