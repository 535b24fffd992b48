// The buses of the addon against a real kernel: spidev as played by a CUSE chip, i2c-dev on the kernel's i2c-stub (an SMBus
// adapter), and chips that stop answering in the middle of a call.
// Needs: i2c
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { OsError } from '../../src/lib/errors'
import { I2cBus } from '../../src/native/i2c'
import { SpiBus } from '../../src/native/spi'
import { i2cStub, SpiChip } from '../lib/chips'
import { until } from '../lib/gateway'
import { inTheRig, tool } from '../lib/rig'

const MS = 5000
const code = (expected: string) => (error: OsError) => error.code === expected
const descriptors = (): number => readdirSync('/proc/self/fd').length
const threads = (): number => readdirSync('/proc/self/task').length

inTheRig(() => {
  const chip = new SpiChip('spidev7.0')
  before(() => chip.start())
  after(() => chip.stop())

  test('registers are written and read back over SPI', async () => {
    const spi = await SpiBus.open(chip.path, { mode: 1, speedHz: 8_000_000 })
    const rx = new Uint8Array(4)
    assert.equal(await spi.transfer(Uint8Array.of(0x80 | 0x10, 1, 2, 3), null, MS), 4)
    assert.equal(await spi.transfer(Uint8Array.of(0x10, 0, 0, 0), rx, MS), 4)
    assert.deepEqual([...rx], [0, 1, 2, 3])
    spi.close()
    await assert.rejects(spi.transfer(rx, null, MS), code('LINK_DOWN'))
  })

  test('a message of several segments is one selection of the chip, or several where the segments deselect it', async () => {
    const spi = await SpiBus.open(chip.path)
    const [a, b, version] = [new Uint8Array(2), new Uint8Array(1), new Uint8Array(2)]
    await spi.transferAll([{ tx: Uint8Array.of(0x80 | 0x20) }, { tx: Uint8Array.of(7, 8, 9) }], MS)
    const segments = [
      { tx: Uint8Array.of(0x20) },
      { rx: a, speedHz: 1_000_000, delayUs: 5 },
      { rx: b, csChange: true },
      { tx: Uint8Array.of(0x42, 0), rx: version },
    ]
    assert.equal(await spi.transferAll(segments, MS), 6)
    assert.deepEqual([...a, ...b, ...version], [7, 8, 9, 0, 0x12])
    spi.close()
  })

  test('transfers started together are done in order', async () => {
    const spi = await SpiBus.open(chip.path)
    const seen = Array.from({ length: 20 }, () => new Uint8Array(2))
    const calls = seen.flatMap((rx, k) => [
      spi.transfer(Uint8Array.of(0x85, k), null, MS),
      spi.transfer(Uint8Array.of(0x05, 0), rx, MS),
    ])
    await Promise.all(calls)
    assert.deepEqual(
      seen.map(rx => rx[1]),
      seen.map((_, k) => k),
    )
    spi.close()
  })

  test('a chip that stops answering is an error state, and recovers when it answers again', async () => {
    const [fds, running] = [descriptors(), threads()]
    const spi = await SpiBus.open(chip.path)
    const rx = new Uint8Array(2)
    chip.hang()
    await assert.rejects(spi.transfer(Uint8Array.of(0x42, 0), rx, 30), code('TIMEOUT'))
    assert.equal(spi.stuck, true)
    await assert.rejects(spi.transfer(Uint8Array.of(0x42, 0), rx, 30), code('BUS_STUCK'))
    chip.recover()
    await until('the call returns', () => !spi.stuck)
    assert.deepEqual([...rx], [0, 0], 'nothing is written into the buffer of a call that timed out')
    assert.equal(await spi.transfer(Uint8Array.of(0x42, 0), rx, MS), 2)
    assert.equal(rx[1], 0x12)
    chip.hang()
    await assert.rejects(spi.transfer(Uint8Array.of(0x42, 0), rx, 30), code('TIMEOUT'))
    spi.close()
    await assert.rejects(SpiBus.open(chip.path), code('BUS_STUCK'))
    chip.recover()
    await until('the thread ends', () => threads() <= running && descriptors() <= fds)
    // the thread may have ended a moment before the path is reported free
    await until('it opens again', async () => {
      ;(await SpiBus.open(chip.path)).close()
      return true
    })
  })

  test('an SMBus adapter: bytes, words and blocks are written and read back, and unsupported transfers are reported', async () => {
    const path = await i2cStub(0x48, 0x76)
    const bus = await I2cBus.open(path)
    const other = await I2cBus.open(path)
    assert.equal(bus.functions & 1, 0, 'I2C_FUNC_I2C')
    assert.equal(await bus.transfer(0x48, Uint8Array.of(0x01, 0xab, 0xcd), null, MS), 0)
    // the word as i2c-tools read it, low byte first
    assert.equal(tool('i2cget', '-y', '0', '0x48', '0x01', 'w').trim(), '0xcdab')
    const word = new Uint8Array(2)
    assert.equal(await other.transfer(0x48, Uint8Array.of(0x01), word, MS), 2)
    assert.deepEqual([...word], [0xab, 0xcd])
    const byte = new Uint8Array(1)
    await bus.transfer(0x76, Uint8Array.of(0xf4, 0x27), null, MS)
    await bus.transfer(0x76, Uint8Array.of(0xf4), byte, MS)
    assert.equal(byte[0], 0x27)
    await bus.transfer(0x76, Uint8Array.of(0xf4), null, MS)
    await bus.transfer(0x76, null, byte, MS)
    assert.equal(byte[0], 0x27)
    const block = Uint8Array.from({ length: 32 }, (_, k) => 255 - k)
    const back = new Uint8Array(32)
    await bus.transfer(0x76, Uint8Array.of(0x20, ...block), null, MS)
    assert.equal(await bus.transfer(0x76, Uint8Array.of(0x20), back, MS), 32)
    assert.deepEqual(back, block)
    await assert.rejects(bus.transfer(0x76, Uint8Array.of(0), new Uint8Array(33), MS), code('UNSUPPORTED'))
    await assert.rejects(bus.transfer(0x76, Uint8Array.of(1, 2), word, MS), code('UNSUPPORTED'))
    await assert.rejects(bus.transfer(0x10, Uint8Array.of(0), word, MS), (error: OsError) => {
      return error.code === 'NO_REPLY' || error.details['errno'] === 'ENODEV'
    })
    bus.close()
    assert.equal(await other.transfer(0x76, Uint8Array.of(0x20), back, MS), 32, 'one user gone, the other goes on')
    await assert.rejects(bus.transfer(0x76, null, byte, MS), code('LINK_DOWN'))
    other.close()
  })
})
