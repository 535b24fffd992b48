// How the radio recovers from faults of its chip (R18), and what is no fault: a busy machine, a quiet channel.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { prng } from '../../../lib/random'
import type { FakeChip } from './fake'
import { bytes, end, hex, pair, World } from './radio-world'

for (const [fault, make, counted, reset] of [
  ['a flag that does not clear', chip => (chip.stuck = 0x40), 'fault_flags', true],
  ['a wrong version', chip => (chip.version = 0x33), 'fault_version', true],
  ['a flipped bit of the spreading factor', chip => (chip.reg[0x1e]! ^= 0x10), 'fault_register', false],
  ['a flipped bit of the frequency', chip => (chip.reg[0x07]! ^= 8), 'fault_register', false],
  ['a flipped bit of the buffer base', chip => (chip.reg[0x0f]! ^= 0x80), 'fault_register', false],
  ['a flipped bit of the mode', chip => (chip.reg[0x01]! ^= 1), 'fault_mode', false],
  ['registers as after power-up', chip => chip.powerUp(), 'fault_mode', false],
  ['a deaf receiver', chip => (chip.deaf = true), 'fault_deaf', true],
  ['an error of the bus', chip => (chip.failing = 1), 'spi_errors', false],
] as readonly (readonly [string, (chip: FakeChip) => unknown, string, boolean])[])
  test(`R18: ${fault} recovers within 10 s`, async () => {
    const [a, b, world] = await pair({}, reset ? {} : { reset_pin: undefined })
    make(b.chip)
    await world.run(8000)
    assert.ok(b.detail[counted]! > 0, JSON.stringify(b.detail))
    assert.equal(await a.send(bytes(12)), true)
    await world.run(100)
    assert.deepEqual([b.heard.length, b.lost, b.detail.reinits! > 0], [1, undefined, true])
    await end(a, b)
  })

test('R18: a transmission that does not end is dropped, and the waiting packets are sent once the chip is set up again', async () => {
  const [a, b, world] = await pair()
  a.chip.jammed = true
  const second = a.medium.send(bytes(30))
  const third = a.medium.send(bytes(31))
  assert.equal(await a.within(second), false)
  assert.equal(await a.within(third), true)
  await world.run(20)
  assert.deepEqual([a.detail.fault_transmit, b.heard.at(-1)!.packet], [1, hex(bytes(31))])
  await end(a, b)
})

test('a machine too busy to check while it sends does not count as a fault of the chip', async () => {
  const world = new World()
  const a = world.station()
  const { chip } = a
  const openSpi = chip.openSpi.bind(chip)
  let [sending, away] = [false, true]
  chip.openSpi = async () => {
    const spi = await openSpi()
    return {
      ...spi,
      transfer: async (tx, rx, ms) => {
        if (tx[0] === 0x81 && (tx[1]! & 7) === 3) sending = true
        if (away && sending && tx[0] === 0x12) {
          // it is not sent yet, and seconds pass before that answer is read
          away = false
          rx?.fill(0)
          return new Promise(resolve => world.timers.after(2000, () => resolve(undefined)))
        }
        return spi.transfer(tx, rx, ms)
      },
    }
  }
  await a.open()
  assert.equal(await a.send(bytes(30)), true)
  assert.deepEqual([away, a.detail.fault_transmit, a.detail.reinits], [false, 0, 0])
  await end(a)
})

test('a chip that fails three recoveries loses the link with the reason', async () => {
  const world = new World()
  const a = await world.station({ reset_pin: undefined }).open()
  a.chip.version = 0
  await world.run(10_000)
  assert.match(a.lost!, /no chip answers on SPI \(version 0x00\): check power, wires and chip select/)
  assert.equal(a.detail.reinits, 3)
  await end(a)
})

test('a quiet channel with slowly varying noise is no deaf receiver, and a receiver that becomes deaf there is found', async () => {
  const world = new World()
  const a = await world.station({ deaf_after_s: 0, check_interval_ms: 1000 }).open()
  const random = prng(31)
  // σ = 1 dB, another value every 20 reads: longer than the samples of several checks
  let [reads, value] = [0, 40]
  a.chip.quiet = () => {
    if (reads++ % 20 === 0)
      value = Math.round(40 + Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()))
    return value
  }
  const before = a.chip.transfers
  await world.run(600_000, 500)
  assert.ok(a.chip.transfers - before > 600 * 7, 'it was looked at all the time')
  assert.deepEqual([a.detail.fault_deaf, a.detail.reinits, a.lost], [0, 0, undefined])
  // the gain is as before: automatic
  await world.run(50)
  assert.deepEqual([a.chip.reg[0x26]! & 4, a.chip.reg[0x0c]! >> 5], [4, 1])
  a.chip.deaf = true
  await world.run(10_000, 100)
  assert.deepEqual([a.detail.fault_deaf, a.chip.deaf], [1, false])
  await end(a)
})

test('silence of deaf_after_s sets the chip up again, and is no fault', async () => {
  const world = new World()
  const a = await world.station({ deaf_after_s: 60 }).open()
  const { resets } = a.chip
  await world.run(70_000, 20)
  assert.deepEqual([a.chip.resets - resets, a.detail.reinits, a.lost], [1, 0, undefined])
  await end(a)
})
