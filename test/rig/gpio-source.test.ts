// The source type gpio against the kernel's simulated chips, under the supervisor that runs it in a gateway. gpio-sim reports
// an edge with the next tick of the clock, so one line has a hundred edges a second at most, and many lines are fast.
// Needs: gpiod
import assert from 'node:assert/strict'
import { closeSync, openSync, readdirSync, readlinkSync, watch, writeSync } from 'node:fs'
import { after, test } from 'node:test'
import { gpioDriver } from '../../drivers/gpio'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import type { Source, SourceReading } from '../../src/links/contracts'
import { Supervisor } from '../../src/links/supervisor'
import { sleep, until } from '../lib/gateway'
import { GpioSim } from '../lib/gpiosim'
import { inTheRig, tool } from '../lib/rig'

inTheRig(() => {
  const LINES = Array.from({ length: 26 }, (_, k) => `GPIO${k}`)
  const sim = new GpioSim('header', 'pinctrl-test', LINES)
  const readings = new Map<string, SourceReading[]>()
  const supervisor = new Supervisor({
    onReadings: (_, rows) => {
      for (const row of rows) readings.set(row[0], [...(readings.get(row[0]) ?? []), row])
    },
  })
  after(() => supervisor.stop())
  const make = (name: string, options: object): Source =>
    gpioDriver.create(name, options, { clock: systemClock, logger: silentLogger })

  const run = async (name: string, options: object): Promise<Source> => {
    readings.clear()
    const source = make(name, options)
    await supervisor.add(source).tried
    assert.equal(supervisor.get(name)?.state.state, 'up', JSON.stringify(supervisor.get(name)?.state))
    return source
  }
  const values = (id: string): (number | null)[] => (readings.get(id) ?? []).map(row => row[2])
  const last = (id: string): number | null | undefined => values(id).at(-1)

  test('levels follow the pins, with the status of the matching rule', async () => {
    const status = [{ equals: 1, status: 'ALARM' }]
    await run('levels', {
      interval_ms: 20,
      pins: [
        { pin: 'GPIO1', name: 'door', status },
        { pin: 'GPIO2', active_low: true },
      ],
    })
    await until('both are low', () => last('door') === 0 && last('GPIO2') === 1)
    sim.drive(1, 1)
    await until('the door is open', () => readings.get('door')?.at(-1)?.[1] === 'ALARM')
    assert.deepEqual(readings.get('door')?.at(-1), ['door', 'ALARM', 1, '{1}'])
    await supervisor.remove('levels')
  })

  test('25 counters count thousands of edges, every one', async () => {
    const pins = LINES.slice(0, 25).map(pin => ({ pin, mode: 'counter', edge: 'both', name: `c_${pin}` }))
    const source = await run('counters', { interval_ms: 100, pins })
    // line 1 is high from the test before
    const files = pins.map((_, k) => openSync(sim.pullFile(k), 'w'))
    const began = performance.now()
    const seen = (): number => source.counters.detail?.edges ?? 0
    for (let round = 1; round <= 200; round++) {
      for (const [k, file] of files.entries())
        writeSync(file, (round + (k === 1 ? 1 : 0)) % 2 ? 'pull-up' : 'pull-down', 0)
      await sleep(11)
    }
    for (const file of files) closeSync(file)
    const rate = 5000 / ((performance.now() - began) / 1000)
    console.error(`# ${Math.round(rate)} edges/s`)
    await until('all are counted', () => LINES.slice(0, 25).every(pin => last(`c_${pin}`) === 200))
    await until('the detail says so', () => seen() === 5000)
    assert.equal(source.counters.detail?.missed_edges, 0)
    await supervisor.remove('counters')
  })

  test("pulses are converted to quantities, and a frequency is computed from the kernel's times", async () => {
    sim.drive(3, 0)
    const water = { pin: 'GPIO3', name: 'water', mode: 'counter', scale: 0.01, unit: 'm3' }
    const raw = make('raw', {
      pins: [{ pin: 'GPIO4', mode: 'frequency', name: 'wind', window_s: 10, timeout_s: 5 }, water],
    })
    await raw.open({ lost: () => undefined, degraded: () => undefined })
    assert.equal((await raw.read())[0]?.[2], 0)
    sim.drive(4, 0)
    // when each edge was driven, and when the kernel had reported it
    const driven: number[] = []
    const told: number[] = []
    for (let k = 0; k < 20; k++) {
      driven.push(performance.now())
      sim.drive(4, 1)
      sim.drive(3, 1)
      await sleep(25)
      told.push(performance.now())
      sim.drive(4, 0)
      sim.drive(3, 0)
      await sleep(25)
    }
    const [hz, m3] = (await raw.readRaw?.()) ?? []
    const [least, most] = [19e3 / (told[19]! - driven[0]!), 19e3 / (driven[19]! - told[0]!)]
    assert.ok(hz!.value! >= least && hz!.value! <= most, `${hz?.value} Hz, driven with ${least} to ${most}`)
    assert.deepEqual([m3?.value, m3?.unit, m3?.raw], [0.2, 'm3', '20 edges'])
    const read = async (): Promise<number | null | undefined> => (await raw.read())[0]?.[2]
    await until('no wind', async () => (await read()) === 0)
    assert.ok(performance.now() - driven[19]! > 5000)
    await raw.close()
  })

  test('a change is read immediately, a bounce is ignored, and a pulse between two readings is not lost', async () => {
    sim.drive(5, 0)
    const pins = [
      { pin: 'GPIO5', name: 'button', mode: 'edge', debounce_ms: 500 },
      { pin: 'GPIO6', name: 'rain', mode: 'edge' },
    ]
    await run('events', { interval_ms: 600_000, min_gap_ms: 0, pins })
    await until('the first reading came', () => values('button').length === 1)
    for (const level of [1, 0, 1] as const) sim.drive(5, level)
    await until('the press is read', () => last('button') === 1)
    sim.drive(5, 0)
    await until('the release is read', () => last('button') === 0)
    assert.deepEqual(values('button'), [0, 1, 0])
    sim.drive(6, 1)
    await sleep(15)
    sim.drive(6, 0)
    await until('the pulse is read', () => values('rain').includes(1) && last('rain') === 0)
    await supervisor.remove('events')
  })

  test('a line in use is reported with its user, and taken over when it is free', async () => {
    const chip = sim.path.slice(5)
    const taken = tool('sh', '-c', `gpioset --mode=signal --background ${chip} 7=1; sleep 0.2; pidof gpioset`).trim()
    const link = supervisor.add(make('busy', { interval_ms: 50, pins: [{ pin: 'GPIO7' }] }))
    await link.tried
    assert.match(JSON.stringify(link.state), /"GPIO7 is in use by gpioset/)
    process.kill(Number(taken))
    await until('it is taken', () => link.usable)
    await supervisor.remove('busy')
  })

  test('a chip unplugged and back within two seconds continues to count, and outputs keep their set values', async t => {
    watch('/dev').close() // the first one opens what this process keeps open for all others
    const descriptors = (): string[] =>
      readdirSync('/proc/self/fd').map(fd => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`)
        } catch {
          return 'closed meanwhile'
        }
      })
    const before = descriptors()
    const chips = new Set([sim.path])
    sim.drive(8, 0)
    const source = await run('usb', {
      interval_ms: 50,
      pins: [{ pin: 'GPIO8', mode: 'counter', name: 'pulses' }],
      outputs: [
        { pin: 'GPIO9', name: 'relay', initial: 0 },
        { pin: 'GPIO10', name: 'lamp', active_low: true },
      ],
    })
    assert.deepEqual(source.outputs?.list(), [
      { name: 'relay', value: 0 },
      { name: 'lamp', value: 0 },
    ])
    assert.equal(sim.level(10), 1)
    await source.outputs?.set('relay', 1)
    await source.outputs?.set('lamp', 1)
    assert.deepEqual([sim.level(9), sim.level(10)], [1, 0])
    sim.drive(8, 1)
    await until('one pulse', () => last('pulses') === 1)
    const times: number[] = []
    for (let round = 0; round < 10; round++) {
      sim.pull()
      await until('it is down', () => supervisor.get('usb')?.state.state === 'down')
      assert.throws(() => sim.level(9), { code: 'ENOENT' })
      await assert.rejects(async () => source.outputs?.set('relay', 0), /is not open/)
      sim.plug()
      chips.add(sim.path)
      const back = performance.now()
      await until('it is up', () => supervisor.get('usb')?.usable)
      times.push(performance.now() - back)
      assert.deepEqual([sim.level(9), sim.level(10)], [1, 0])
      sim.drive(8, 1)
      await until('the next pulse', () => last('pulses') === round + 2)
    }
    t.diagnostic(`back within ${times.map(Math.round).join(', ')} ms`)
    // the slowest ones depend on the machine
    assert.ok(times.sort((a, b) => a - b)[5]! < 2000)
    await supervisor.remove('usb')
    await until('no descriptor is left', () => {
      const now = descriptors()
      // the thread of a chip stays, with two descriptors, for when its number returns; the kernel assigns the lowest free
      // one
      assert.ok(
        now.length <= before.length + 2 * (chips.size - 1) && chips.size <= 3,
        `${now.join(' ')} instead of ${before.join(' ')}`,
      )
      return true
    })
  })
})
