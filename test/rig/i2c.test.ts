// I2C sensors through the kernel's i2c-dev, read by one gateway: chips on adapters that are programs (CUSE, full transfers)
// and on the kernel's own i2c-stub (SMBus only). A line held low affects that bus and no other (R20).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { I2cBus } from '../../src/native/i2c'
import { I2cChips, i2cStub, model } from '../lib/chips'
import { askControl } from '../lib/control'
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

model('i2c-chips')
inTheRig(() => {
  const [first, second] = [
    new I2cChips(5, 'sht3x=23.5,41', 'ads1115=1.25,0.25,-0.5,3.3', 'ina219=12,0.8'),
    new I2cChips(6, 'sht3x=-12,99'),
  ]
  const source = (name: string, type: string, bus: number | string, more: object = {}): object => ({
    name,
    type,
    bus,
    interval_ms: 200,
    ...more,
  })
  const machine = new Machine(join(tempDir(), 'gw'), 'run', {
    device_id: 'GW',
    gateway: {
      uplinks: [],
      sources: [
        source('air', 'bme280', 0),
        source('clock', 'ds3231', '0'),
        source('none', 'sht3x', '/dev/i2c-0'),
        source('nowhere', 'bme280', 7),
        source('room', 'sht3x', 5),
        source('tank', 'ads1115', 5, {
          inputs: [
            { id: 'level', input: 'A0', range: 2.048, scale: 20, unit: '%' },
            { id: 'bridge', input: 'A0-A1', range: 1.024 },
            { id: 'beyond', input: 'A3', range: 2.048 },
          ],
        }),
        source('battery', 'ina219', 5),
        source('outside', 'sht3x', 6),
      ],
    },
  })
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON the gateway gives
  const ask = (command: string, name?: string): Promise<any> =>
    askControl(machine.dataDir, command, name ? { name } : {})
  const states = async (): Promise<Record<string, { state: string; reason?: string; rx: number }>> =>
    (await ask('status')).links
  /** All states once they match, else null: a link that is down is retried. */
  const all = async (state: string, ...names: string[]): Promise<Awaited<ReturnType<typeof states>> | null> => {
    const links = await states()
    return names.every(name => links[name]?.state === state) ? links : null
  }

  before(async () => {
    await first.start()
    await second.start()
    const path = await i2cStub(0x68, 0x76)
    const bus = await I2cBus.open(path)
    await presetBme280(bus)
    await bus.transfer(0x68, Uint8Array.of(0x11, 0x19, 0x40), null, MS)
    bus.close()
    await machine.start([])
    await until('the sensors are up', () => all('up', 'air', 'clock', 'room', 'battery', 'outside'))
  })
  after(async () => {
    first.recover()
    await machine.stop('SIGKILL')
    await first.stop()
    await second.stop()
  })

  test('an SMBus adapter: sensors are read and tested; a missing one is reported and delays no other', async () => {
    const [temperature, , pressure] = (await ask('source test', 'air')).readings
    assert.equal(temperature.raw, '7e ed 00')
    assert.equal(temperature.value.toFixed(2), '25.08')
    assert.ok(Math.abs(pressure.value - 100653.27) < 0.5)
    assert.match(machine.run('source', 'test', 'clock').stdout, /clock +19 40 +OK +25\.25 +°C/)
    await assert.rejects(ask('source test', 'none'), /none is down: /)
    await assert.rejects(
      ask('source test', 'nowhere'),
      /nowhere is down: there is no I2C bus \/dev\/i2c-7.*dtparam=i2c_arm=on/,
    )
  })

  test('an adapter with full transfers: SHT3x, ADS1115 and INA219 give their values', async () => {
    const values = async (name: string): Promise<unknown[]> =>
      (await until('it answers', () => ask('source test', name))).readings.map(
        (r: { sensor_id: string; value: number | null; unit: string }) => [
          r.sensor_id,
          r.value === null ? null : Number(r.value.toPrecision(4)),
          r.unit,
        ],
      )
    assert.deepEqual(await values('room'), [
      ['room_temperature', 23.5, 'Cel'],
      ['room_humidity', 41, '%'],
    ])
    assert.deepEqual(await values('outside'), [
      ['outside_temperature', -12, 'Cel'],
      ['outside_humidity', 99, '%'],
    ])
    assert.deepEqual(await values('tank'), [
      ['level', 25, '%'],
      ['bridge', 1, 'V'],
      ['beyond', null, 'V'],
    ])
    assert.deepEqual(await values('battery'), [
      ['battery_voltage', 12, 'V'],
      ['battery_current', 0.8, 'A'],
      ['battery_power', 9.6, 'W'],
      ['battery_shunt_voltage', 0.08, 'V'],
    ])
    const { tank } = await until('degraded', () => all('degraded', 'tank'))
    assert.match(tank!.reason!, /^1 of 3 sensors: the voltage is beyond 2\.048 V/)
  })

  test('R20: a transfer that does not end is an error state of its bus, never a hang; the other bus continues', async () => {
    first.hang()
    const stuck = await until('the sources of the stuck bus are down', () => all('down', 'room', 'tank', 'battery'))
    for (const name of ['room', 'tank', 'battery'])
      assert.match(
        stuck[name]!.reason!,
        /^\/dev\/i2c-5( 0x..)?: (no end of transfer in 1000 ms|a call into the kernel has not come back)/,
      )
    const seen = stuck['outside']!.rx
    await until('the other bus is still read', async () => {
      const { outside } = await states()
      return outside!.state === 'up' && outside!.rx > seen + 6
    })
    await assert.rejects(
      ask('source test', 'battery'),
      /battery is down: \/dev\/i2c-5: a call into the kernel has not come back/,
    )
    first.recover()
    await until('they return without help', () => all('up', 'room', 'battery'))
  })

  test('a line held low, as the adapter itself reports it, is a lost link with what to check', async () => {
    second.fail(constants.errno.ETIMEDOUT)
    const { outside, room } = await until('down', () => all('down', 'outside'))
    assert.match(outside!.reason!, /^\/dev\/i2c-6 0x44: the transfer did not end \(ETIMEDOUT\)/)
    assert.equal(room!.state, 'up')
    second.recover()
    await until('up', () => all('up', 'outside'))
  })

  test('readings are in the log, and a gateway whose bus is stuck still stops on request', async () => {
    first.hang()
    await until('stuck', () => all('down', 'room'))
    const state = (pid: number): string => /^State:\s+(\S)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!
    const { pid } = machine
    const stopped = machine.stop()
    // only its thread in the kernel is left of it
    await until('the gateway has ended', () => state(pid!) === 'Z')
    first.recover()
    await stopped
    const facts = machine.logFacts()
    const of = (id: string): unknown[] => {
      const fact = facts.find(fact => fact.s1_id === id)
      return fact ? sensorsOf(fact).map(({ id, status, unit }) => [id, status, unit]) : []
    }
    assert.deepEqual(of('air_temperature'), [
      ['air_temperature', 'OK', 'K'],
      ['air_humidity', 'OK', '%'],
      ['air_pressure', 'OK', 'Pa'],
    ])
    assert.deepEqual(of('room_temperature'), [
      ['room_temperature', 'OK', 'K'],
      ['room_humidity', 'OK', '%'],
    ])
    assert.deepEqual(of('level').slice(2), [['beyond', 'ERROR', 'V']])
  })
})
