// The addon's GPIO against the kernel's simulated chips, and beside the tools of libgpiod.
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

  test('a chip tells its label, and its lines their names, as gpioinfo does', () => {
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

  test('inputs follow the pins, with bias and active low, and the request shows its consumer', () => {
    const held = GpioLines.request(sim.path, { lines: [2, 0], direction: 'input', bias: 'pull_up', consumer: 'door' })
    assert.equal(held.values(), 0b11)
    sim.drive(0, 0)
    assert.equal(held.values(), 0b01)
    const low = GpioLines.request(sim.path, {
      lines: [3],
      direction: 'input',
      active_low: true,
      consumer: 'x'.repeat(99),
    })
    assert.equal(low.values(), 1)
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
    assert.throws(
      () => GpioLines.request(sim.path, { lines: [0], direction: 'input', consumer: 'x' }),
      errnoIs('EBUSY'),
    )
    held.close()
    held.close()
    low.close()
    assert.throws(() => held.values(), errnoIs('EBADF'))
  })

  test('outputs begin with their value, are set and seen at the pin', () => {
    const held = GpioLines.request(sim.path, { lines: [1, 3], direction: 'output', initial: [1, 0], consumer: 'relay' })
    assert.deepEqual([sim.level(1), sim.level(3)], [1, 0])
    held.set(1, 1)
    held.set(0, 0)
    assert.deepEqual([sim.level(1), sim.level(3), held.values()], [0, 1, 0b10])
    held.close()
    const inverted = GpioLines.request(sim.path, {
      lines: [1],
      direction: 'output',
      active_low: true,
      initial: [1],
      consumer: 'r',
    })
    assert.equal(sim.level(1), 0)
    inverted.set(0, 0)
    assert.equal(sim.level(1), 1)
    inverted.close()
  })

  test('ten thousand edges come one by one, in order and with rising times, none missed', async () => {
    sim.drive(0, 0)
    const held = GpioLines.request(sim.path, { lines: [0], direction: 'input', edges: 'both', consumer: 'pulses' })
    let [seen, wrong, last] = [0, 0, 0]
    held.onEdges(edges => {
      for (let k = 0; k < edges.count; k++) {
        if (edges.rising(k) !== (seen % 2 === 0) || edges.ns(k) < last || edges.line(k) !== 0) wrong++
        last = edges.ns(k)
        seen++
      }
    })
    const fd = openSync(sim.pullFile(0), 'w')
    for (let k = 0; k < 10_000; k++) {
      writeSync(fd, k % 2 === 0 ? 'pull-up' : 'pull-down', 0)
      if (k % 200 === 199) await new Promise(resolve => setImmediate(resolve))
    }
    await until('all came', () => seen === 10_000)
    assert.deepEqual([wrong, held.missed], [0, 0])
    // more than the kernel keeps, while nobody reads: the rest is counted as missed
    for (let k = 0; k < 3000; k++) writeSync(fd, k % 2 === 0 ? 'pull-up' : 'pull-down', 0)
    await until('what was kept came', () => seen + held.missed >= 13_000)
    assert.ok(held.missed > 1000, `${held.missed} missed`)
    closeSync(fd)
    held.close()
  })

  test('the kernel debounces: bounces shorter than the time are no edges', async () => {
    sim.drive(2, 0)
    const held = GpioLines.request(sim.path, {
      lines: [2],
      direction: 'input',
      edges: 'both',
      debounceUs: 20_000,
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
    held.close()
  })

  test('a pulled chip is told to who hears edges, and refuses every call', async () => {
    const before = readdirSync('/proc/self/fd').length
    const edges = GpioLines.request(sim.path, { lines: [0], direction: 'input', edges: 'both', consumer: 'a' })
    const output = GpioLines.request(sim.path, { lines: [1], direction: 'output', consumer: 'b' })
    const told: unknown[] = []
    edges.onEdges(
      () => undefined,
      error => told.push(error),
    )
    sim.pull()
    await until('it is told', () => told.length > 0)
    assert.ok(errnoIs('ENODEV')(told[0]))
    assert.throws(() => output.values(), errnoIs('ENODEV'))
    assert.throws(() => output.set(0, 1), errnoIs('ENODEV'))
    output.close()
    sim.plug()
    GpioLines.request(sim.path, { lines: [0, 1], direction: 'input', consumer: 'c' }).close()
    await until('no descriptor is left', () => readdirSync('/proc/self/fd').length <= before)
    assert.equal(told.length, 1)
  })

  test('what is no chip is told', () => {
    assert.throws(() => GpioChip.open('/dev/null'), errnoIs('ENOTTY'))
    assert.throws(() => GpioChip.open('/dev/gpiochip99'), errnoIs('ENOENT'))
  })
})
