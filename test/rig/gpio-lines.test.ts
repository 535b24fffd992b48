// The addon's GPIO against the kernel's simulated chips, compared with the tools of libgpiod.
// Needs: gpiod
import assert from 'node:assert/strict'
import { closeSync, openSync, readdirSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import { OsError } from '../../src/lib/errors'
import { GpioChip, GpioLines } from '../../src/native/gpio'
import { until } from '../lib/gateway'
import { GpioSim } from '../lib/gpiosim'
import { inTheRig, tool } from '../lib/rig'

const errnoIs = (name: string) => (error: unknown) => error instanceof OsError && error.details.errno === name

const LINES = ['GPIO17', 'GPIO27', 'GPIO22', '']

inTheRig(() => {
  const sim = new GpioSim('lines', 'pinctrl-test', LINES)

  test('a chip reports its label, and its lines their names, as gpioinfo does', () => {
    const chip = GpioChip.open(sim.path)
    assert.deepEqual(chip.info(), { name: sim.path.slice(5), label: 'pinctrl-test', lines: 4 })
    assert.deepEqual(
      [0, 1, 2, 3].map(k => chip.line(k).name),
      LINES,
    )
    assert.throws(() => chip.line(4), errnoIs('EINVAL'))
    assert.match(tool('gpioinfo', sim.path.slice(5)), /line {3}0: +"GPIO17" +unused +input +active-high/)
    chip.close()
    assert.throws(() => chip.info(), errnoIs('EBADF'))
  })

  test('inputs follow the pins, with bias and active low, and the request shows its consumer', async () => {
    const held = await GpioLines.request(sim.path, {
      lines: [2, 0],
      direction: 'input',
      bias: 'pull_up',
      consumer: 'door',
    })
    assert.equal(await held.values(), 0b11)
    sim.drive(0, 0)
    assert.equal(await held.values(), 0b01)
    const low = await GpioLines.request(sim.path, {
      lines: [3],
      direction: 'input',
      active_low: true,
      consumer: 'x'.repeat(99),
    })
    assert.equal(await low.values(), 1)
    const chip = GpioChip.open(sim.path)
    assert.deepEqual(chip.line(2), {
      line: 2,
      name: 'GPIO22',
      consumer: 'door',
      used: true,
      direction: 'input',
      active_low: false,
      bias: 'pull_up',
      drive: 'push_pull',
      edges: null,
    })
    assert.equal(chip.line(3).consumer, 'x'.repeat(31))
    chip.close()
    await assert.rejects(
      GpioLines.request(sim.path, { lines: [0], direction: 'input', consumer: 'x' }),
      errnoIs('EBUSY'),
    )
    await held.close()
    await held.close()
    await low.close()
    await assert.rejects(held.values(), errnoIs('EBADF'))
  })

  test('outputs start with their value, are set and measured at the pin', async () => {
    const held = await GpioLines.request(sim.path, {
      lines: [1, 3],
      direction: 'output',
      initial: [1, 0],
      consumer: 'relay',
    })
    assert.deepEqual([sim.level(1), sim.level(3)], [1, 0])
    await held.set(1, 1)
    await held.set(0, 0)
    assert.deepEqual([sim.level(1), sim.level(3), await held.values()], [0, 1, 0b10])
    await held.close()
    const inverted = await GpioLines.request(sim.path, {
      lines: [1],
      direction: 'output',
      active_low: true,
      initial: [1],
      consumer: 'r',
    })
    assert.equal(sim.level(1), 0)
    await inverted.set(0, 0)
    assert.equal(sim.level(1), 1)
    await inverted.close()
  })

  // gpio-sim reports an edge with the next tick of the clock, so a line has a hundred a second at most: many lines are
  // fast
  test('four thousand edges on 32 lines arrive one by one, with rising times, none missed', async () => {
    const wide = new GpioSim('wide', 'wide', Array(32).fill(''))
    const lines = wide.lines.map((_, k) => k)
    const held = await GpioLines.request(wide.path, { lines, direction: 'input', edges: 'both', consumer: 'pulses' })
    const seen = new Array<number>(32).fill(0)
    let [total, wrong, last] = [0, 0, 0]
    held.onEdges(edges => {
      for (let k = 0; k < edges.count; k++) {
        const line = edges.line(k)
        if (edges.rising(k) !== (seen[line]! % 2 === 0) || edges.ns(k) < last) wrong++
        last = edges.ns(k)
        seen[line]!++
        total++
      }
    })
    const pins = lines.map(k => openSync(wide.pullFile(k), 'w'))
    const toggle = (round: number): void => {
      for (const pin of pins) writeSync(pin, round % 2 === 0 ? 'pull-up' : 'pull-down', 0)
    }
    for (let round = 0; round < 125; round++) {
      toggle(round)
      while (total < (round + 1) * 32) await new Promise(resolve => setTimeout(resolve, 1))
    }
    assert.deepEqual([seen, wrong, held.missed], [Array(32).fill(125), 0, 0])
    // more than the kernel queues while nothing is read: the others are counted as missed
    const still = new Int32Array(new SharedArrayBuffer(4))
    for (let round = 0; round < 60; round++) {
      toggle(round + 1)
      Atomics.wait(still, 0, 0, 21)
    }
    await until('kept records arrived', () => total >= 4000 + 1024)
    toggle(1)
    await until('the next edges came', () => total + held.missed >= 4000 + 61 * 32)
    assert.deepEqual([total + held.missed, total], [4000 + 61 * 32, 4000 + 1024 + 32])
    for (const pin of pins) closeSync(pin)
    await held.close()
    wide.remove()
  })

  test('the kernel debounces: bounces shorter than the time are no edges', async () => {
    sim.drive(2, 0)
    const held = await GpioLines.request(sim.path, {
      lines: [2],
      direction: 'input',
      edges: 'both',
      debounceUs: 500_000, // far longer than making the bounces takes
      consumer: 'button',
    })
    const seen: boolean[] = []
    held.onEdges(edges => {
      for (let k = 0; k < edges.count; k++) seen.push(edges.rising(k))
    })
    for (const level of [1, 0, 1, 0, 1] as const) sim.drive(2, level)
    await until('the press came', () => seen.length > 0)
    for (const level of [0, 1, 0] as const) sim.drive(2, level)
    await until('the release came', () => seen.length > 1)
    assert.deepEqual(seen, [true, false])
    await held.close()
  })

  test('a removed chip is reported to edge listeners, and refuses every call', async () => {
    const before = readdirSync('/proc/self/fd').length
    const edges = await GpioLines.request(sim.path, { lines: [0], direction: 'input', edges: 'both', consumer: 'a' })
    const output = await GpioLines.request(sim.path, { lines: [1], direction: 'output', consumer: 'b' })
    const told: unknown[] = []
    edges.onEdges(
      () => undefined,
      error => told.push(error),
    )
    sim.pull()
    await until('it is reported', () => told.length > 0)
    assert.ok(errnoIs('ENODEV')(told[0]))
    await assert.rejects(output.values(), errnoIs('ENODEV'))
    await assert.rejects(output.set(0, 1), errnoIs('ENODEV'))
    await output.close()
    sim.plug()
    const again = await GpioLines.request(sim.path, { lines: [0, 1], direction: 'input', consumer: 'c' })
    await again.close()
    await until('no descriptor is left', () => readdirSync('/proc/self/fd').length <= before)
    assert.equal(told.length, 1)
  })

  test('a path that is no chip is reported', () => {
    assert.throws(() => GpioChip.open('/dev/null'), errnoIs('ENOTTY'))
    assert.throws(() => GpioChip.open('/dev/gpiochip99'), errnoIs('ENOENT'))
  })
})
