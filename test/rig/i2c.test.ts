// I2C sensors through the kernel's i2c-dev (i2c-stub, an SMBus adapter): several chips on one bus read by one gateway.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { I2cBus } from '../../src/native/i2c'
import { i2cStub } from '../lib/chips'
import { Machine, sensorsOf, tempDir, until } from '../lib/gateway'
import { inTheRig } from '../lib/rig'

const MS = 5000

/** The example of the BMP280 data sheet as a BME280's registers: 25.08 °C, 100653 Pa. */
async function presetBme280(bus: I2cBus): Promise<void> {
  const calibration = new DataView(new ArrayBuffer(26))
  for (const [k, value] of [27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000].entries())
    calibration.setInt16(2 * k, value, true)
  calibration.setUint8(25, 75)
  const put = (...bytes: number[]) => bus.transfer(0x76, Uint8Array.from(bytes), null, MS)
  await put(0xd0, 0x60)
  await put(0x88, ...new Uint8Array(calibration.buffer))
  await put(0xe1, 0x72, 0x01, 0, 0x13, 0x24, 0x03, 0x1e)
  await put(0xf7, 0x65, 0x5a, 0xc0, 0x7e, 0xed, 0x00, 0x75, 0x30)
}

inTheRig(() => {
  test('sensors on one bus are read, logged and tested; one that is not there says so and holds up nobody', async () => {
    const path = await i2cStub(0x68, 0x76)
    const bus = await I2cBus.open(path)
    await presetBme280(bus)
    await bus.transfer(0x68, Uint8Array.of(0x11, 0x19, 0x40), null, MS)
    bus.close()
    const machine = new Machine(join(tempDir(), 'gw'), 'run', {
      device_id: 'GW',
      gateway: {
        sources: [
          { name: 'air', type: 'bme280', bus: 0, interval_ms: 200 },
          { name: 'clock', type: 'ds3231', bus: '0', interval_ms: 200 },
          { name: 'none', type: 'sht3x', bus: path, interval_ms: 200 },
          { name: 'nowhere', type: 'bme280', bus: 7 },
        ],
      },
    })
    await machine.start([])
    try {
      await until('the sensors are up', () => {
        const { links } = machine.json('status')
        return links.air?.state === 'up' && links.clock?.state === 'up' && links.nowhere?.state === 'down'
      })
      const [temperature, , pressure] = machine.json('source', 'test', 'air').readings
      assert.equal(temperature.raw, '7e ed 00')
      assert.equal(temperature.value.toFixed(2), '25.08')
      assert.ok(Math.abs(pressure.value - 100653.27) < 0.5)
      assert.match(machine.run('source', 'test', 'clock').stdout, /clock +19 40 +OK +25\.25 +Cel/)
      assert.match(machine.run('source', 'test', 'none').stderr, /none is down: /)
      assert.match(machine.run('source', 'test', 'nowhere').stderr, /nowhere is down: .*\/dev\/i2c-7/)
      const logged = await until('readings are logged', () =>
        machine.logFacts().find(fact => fact.s1_id === 'air_temperature'),
      )
      assert.deepEqual(
        sensorsOf(logged).map(({ id, status, unit }) => [id, status, unit]),
        [
          ['air_temperature', 'OK', 'K'],
          ['air_humidity', 'OK', '%'],
          ['air_pressure', 'OK', 'Pa'],
        ],
      )
    } finally {
      await machine.stop()
    }
  })
})
