// The drivers of the chips against models of them on a simulated bus; the rig tests what the kernel adds.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Bus, refuseHeld } from '../../../../drivers/i2c/device'
import { type I2cType, i2cSources } from '../../../../drivers/i2c/index'
import { crcSht } from '../../../../drivers/i2c/sht3x'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import type { OpenableEvents } from '../../../../src/links/contracts'
import { Supervisor } from '../../../../src/links/supervisor'
import { ManualClock, ManualTimers } from '../../../lib/manual'

type Model = (write: Uint8Array | null, read: Uint8Array | null) => void

/** Chips on one bus by address. */
class World {
  readonly chips = new Map<number, Model>()
  readonly asked: number[] = []
  problem: OsError | undefined
  open = 0
  readonly openBus = async (): Promise<Bus> => {
    this.open++
    return {
      transfer: async (address, write, read) => {
        this.asked.push(address)
        if (this.problem) throw this.problem
        const chip = this.chips.get(address)
        if (!chip) throw new OsError('NO_REPLY', `/dev/i2c-1 0x${address.toString(16)}: no device answers (EREMOTEIO)`)
        chip(write, read)
        return read?.length ?? 0
      },
      close: () => {
        this.open--
      },
    }
  }
  source(type: I2cType, options: object = {}, name: string = type, sysRoot?: string) {
    const timers = {
      after: (_: number, run: () => void) => {
        setImmediate(run)
        return () => undefined
      },
    }
    const context = {
      clock: new ManualClock(),
      logger: silentLogger,
      openBus: this.openBus,
      timers,
      ...(sysRoot && { sysRoot }),
    }
    return i2cSources[type].create(name, options, context)
  }
}

/** A chip with registers: the first byte written is the register, the following bytes go into it and the next ones. */
function registers(memory: Uint8Array): Model {
  let at = 0
  return (write, read) => {
    if (write) {
      at = write[0]!
      memory.set(write.subarray(1), at)
    }
    if (read) read.set(memory.subarray(at, at + read.length))
  }
}

/** The same with registers of two bytes. */
function words(
  memory: Map<number, number>,
  onWrite: (register: number, value: number) => void = () => undefined,
): Model {
  let at = 0
  return (write, read) => {
    if (write) {
      at = write[0]!
      if (write.length === 3) {
        memory.set(at, (write[1]! << 8) | write[2]!)
        onWrite(at, memory.get(at)!)
      }
    }
    if (read) read.set([memory.get(at)! >> 8, memory.get(at)! & 0xff])
  }
}

const events: OpenableEvents = { lost: () => undefined, degraded: () => undefined }

export function bme280Memory(id = 0x60): Uint8Array {
  const memory = new Uint8Array(256)
  const view = new DataView(memory.buffer)
  memory[0xd0] = id
  ;[27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000].forEach((value, k) => {
    view.setInt16(0x88 + 2 * k, value, true)
  })
  memory[0xa1] = 75
  memory.set([0x72, 0x01, 0, 0x13, 0x24, 0x03, 0x1e], 0xe1)
  // adc_P 415148, adc_T 519888, adc_H 30000
  memory.set([0x65, 0x5a, 0xc0, 0x7e, 0xed, 0x00, 0x75, 0x30], 0xf7)
  return memory
}

test('BME280: set up, measured on demand, raw bytes shown; a BMP280 has no humidity channel', async () => {
  const world = new World()
  const memory = bme280Memory()
  world.chips.set(0x76, registers(memory))
  const source = world.source('bme280', { bus: 1, oversampling: 4 })
  await source.open(events)
  const rows = await source.read()
  assert.deepEqual(
    rows.map(([id, status, value, unit]) => [id, status, value!.toFixed(2), unit]),
    [
      ['bme280_temperature', 'OK', '25.08', 'Cel'],
      ['bme280_humidity', 'OK', rows[1]![2]!.toFixed(2), '%'],
      ['bme280_pressure', 'OK', rows[2]![2]!.toFixed(2), 'Pa'],
    ],
  )
  assert.ok(Math.abs(rows[2]![2]! - 100653.27) < 0.5)
  assert.ok(rows[1]![2]! > 0 && rows[1]![2]! < 100)
  assert.deepEqual([memory[0xf2], memory[0xf4]], [3, 0b011_011_01])
  assert.equal((await source.readRaw!())[0]!.raw, '7e ed 00')
  await source.close()
  assert.equal(world.open, 0)
  world.chips.set(0x76, registers(bme280Memory(0x58)))
  const bmp = world.source('bme280')
  await bmp.open(events)
  assert.match((await bmp.readRaw!())[1]!.error!, /BMP280, which measures no humidity/)
  const without = world.source('bme280', { address: '0x76', channels: { humidity: { enabled: false } } }, 'b2')
  await assert.rejects(without.open(events), { code: 'CONFIG_INVALID', message: /is read by bme280 already/ })
  await bmp.close()
  await without.open(events)
  assert.deepEqual(
    (await without.read()).map(row => row[0]),
    ['b2_temperature', 'b2_pressure'],
  )
  await without.close()
})

test('another chip at the address is refused with the id that was found', async () => {
  const world = new World()
  world.chips.set(0x76, registers(bme280Memory(0x61)))
  await assert.rejects(world.source('bme280').open(events), { code: 'NOT_FOUND', message: /no BME280: .* id 0x61/ })
  world.chips.set(0x48, words(new Map([[2, 0x1234]])))
  const inputs = [{ id: 'a', input: 'A0' }]
  await assert.rejects(world.source('ads1115', { inputs }).open(events), /register 2 holds 12 34/)
  assert.equal(world.open, 0)
})

test('a chip that vanishes is an ERROR with the reason, the others continue, and it is set up again when it returns', async () => {
  const world = new World()
  const memory = bme280Memory()
  world.chips.set(0x76, registers(memory))
  world.chips.set(
    0x68,
    registers(Uint8Array.from({ length: 32 }, (_, k) => (k === 0x11 ? 0x19 : k === 0x12 ? 0x40 : 0))),
  )
  const bme = world.source('bme280')
  const clock = world.source('ds3231', {}, 'cabinet')
  await bme.open(events)
  await clock.open(events)
  world.chips.delete(0x76)
  assert.deepEqual(
    (await bme.readRaw!()).map(row => row.error),
    Array(3).fill('/dev/i2c-1 0x76: no device answers (EREMOTEIO)'),
  )
  assert.deepEqual(await clock.read(), [['cabinet', 'OK', 25.25, 'Cel']])
  world.chips.set(0x76, registers(bme280Memory()))
  assert.equal((await bme.read())[0]![1], 'OK')
  await bme.close()
  await clock.close()
})

test('SHT3x: command, delay, two words with a CRC each', async () => {
  const world = new World()
  const word = (value: number): number[] => [value >> 8, value & 0xff, crcSht(Uint8Array.of(value >> 8, value & 0xff))]
  let command = 0
  let damage = 0
  world.chips.set(0x45, (write, read) => {
    if (write) command = (write[0]! << 8) | write[1]!
    if (!read) return
    read.set(command === 0xf32d ? word(0x8010) : [...word(0x6666), ...word(0x8000)])
    if (read.length === 6) read[5]! ^= damage
  })
  const source = world.source('sht3x', {
    address: 0x45,
    channels: { humidity: { enabled: true, status: [{ above: 50, status: 'WET' }] } },
  })
  await source.open(events)
  const rows = await source.read()
  assert.equal(command, 0x2400)
  assert.ok(Math.abs(rows[0]![2]! - 25) < 0.01)
  assert.equal(rows[1]![1], 'WET')
  damage = 1
  assert.deepEqual(
    (await source.readRaw!()).map(row => row.error),
    [undefined, 'wrong CRC'],
  )
  await source.close()
})

test('ADS1115: each input with its own range; a voltage outside it is no value; lost settings are reported', async () => {
  const world = new World()
  const memory = new Map([
    [0, 0],
    [1, 0x8583],
    [2, 0x8000],
  ])
  let dead = false
  world.chips.set(
    0x48,
    words(memory, (register, config) => {
      // A0: 1.5 V; A2-A3: -0.1 V; everything else out of range
      const input = (config >> 12) & 7
      const range = [6.144, 4.096, 2.048, 1.024, 0.512, 0.256][(config >> 9) & 7]!
      const v = input === 4 ? 1.5 : input === 3 ? -0.1 : 99
      if (register === 1) memory.set(0, Math.max(-32768, Math.min(32767, Math.round((v / range) * 32768))) & 0xffff)
      if (dead) memory.set(1, 0x8583)
    }),
  )
  const source = world.source('ads1115', {
    inputs: [
      { id: 'level', input: 'A0', range: 2.048, unit: '%', scale: 20 },
      { id: 'bridge', input: 'A2-A3', range: 0.256 },
      { id: 'over', input: 'A1' },
    ],
  })
  await source.open(events)
  const [level, bridge, over] = await source.readRaw!()
  assert.equal(level!.value!.toFixed(3), '30.000')
  assert.ok(Math.abs(bridge!.value! + 0.1) < 1e-5)
  assert.deepEqual([over!.raw, over!.error], ['7f ff', 'the voltage is beyond 4.096 V'])
  dead = true
  assert.match((await source.readRaw!())[0]!.error!, /lost its settings/)
  await source.close()
})

test('INA219: calibrated, read, and set up again after it lost power', async () => {
  const world = new World()
  const memory = new Map<number, number>()
  const reset = (): void => {
    for (const [k, value] of [0x399f, 2000, 0x5d98, 5990, 10_000, 0].entries()) memory.set(k, value)
  }
  reset()
  world.chips.set(0x40, words(memory))
  const source = world.source('ina219')
  await source.open(events)
  assert.equal(memory.get(5), 4096)
  assert.deepEqual(
    (await source.read()).map(([id, , value]) => [id, Number(value!.toPrecision(6))]),
    [
      ['ina219_voltage', 11.98],
      ['ina219_current', 1],
      ['ina219_power', 11.98],
      ['ina219_shunt_voltage', 0.02],
    ],
  )
  // a current above the configured range is no value: the registers saturate there
  for (const end of [32_000, -32_000]) {
    memory.set(1, end)
    const [voltage, ...others] = await source.readRaw!()
    assert.equal(voltage!.value, 11.98)
    for (const { value, error } of others) assert.deepEqual([value, /end of its range/.test(error!)], [null, true])
  }
  memory.set(1, 31_999)
  assert.equal((await source.read())[3]![2], 0.31999)
  reset()
  assert.match((await source.readRaw!())[0]!.error!, /lost its settings: calibration 00 00/)
  assert.equal((await source.read())[0]![2], 11.98)
  assert.throws(() => world.source('ina219', { max_current_a: 5 }), /more than 0\.32 V/)
  await source.close()
})

test('closed while it opens, and opened again: one bus handle is open, and it is released at the end', async () => {
  const world = new World()
  world.chips.set(0x68, registers(new Uint8Array(32)))
  const source = world.source('ds3231')
  const first = assert.rejects(source.open(events), { code: 'LINK_DOWN' })
  await source.close()
  await source.open(events)
  await first
  assert.equal((await source.read())[0]![2], 0)
  assert.equal(world.open, 1)
  await source.close()
  assert.equal(world.open, 0)
})

test('R20: a stuck transfer takes the link down with its reason, and the link returns with the bus; nothing hangs', async () => {
  const world = new World()
  world.chips.set(0x68, registers(new Uint8Array(32)))
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const supervisor = new Supervisor({ clock, timers })
  supervisor.add(world.source('ds3231', { interval_ms: 1000 }))
  await timers.advance(100)
  assert.equal(supervisor.get('ds3231')!.state.state, 'up')
  world.problem = new OsError('TIMEOUT', '/dev/i2c-1: no end of transfer in 1000 ms')
  await timers.advance(1000)
  const state = supervisor.get('ds3231')!.state
  assert.ok(state.state === 'down' && /no end of transfer/.test(state.reason))
  assert.equal(world.open, 0)
  world.problem = new OsError('BUS_STUCK', '/dev/i2c-1: a call into the kernel has not come back')
  await timers.advance(5000)
  assert.ok(['down', 'opening'].includes(supervisor.get('ds3231')!.state.state))
  world.problem = undefined
  for (let k = 0; k < 60 && supervisor.get('ds3231')!.state.state !== 'up'; k++) await timers.advance(1000)
  assert.equal(supervisor.get('ds3231')!.state.state, 'up')
  await supervisor.stop()
})

test('an address used by a kernel driver is refused before any transfer, with what to do', async t => {
  const root = mkdtempSync(join(tmpdir(), 'i2c-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const device = join(root, 'bus/i2c/devices/1-0068')
  mkdirSync(device, { recursive: true })
  // a device without a driver is not in use
  refuseHeld(join(root, 'i2c-1'), 0x68, root)
  writeFileSync(join(root, 'i2c-1'), '')
  refuseHeld(join(root, 'i2c-1'), 0x68, root)
  symlinkSync('../../drivers/rtc-ds1307', join(device, 'driver'))
  symlinkSync('i2c-1', join(root, 'clock-bus'))
  const world = new World()
  world.chips.set(0x68, registers(new Uint8Array(32)))
  const source = world.source('ds3231', { bus: join(root, 'clock-bus') }, 'clock', root)
  await assert.rejects(source.open(events), (error: OsError) => {
    assert.equal(error.code, 'PORT_BUSY')
    assert.match(error.message, /0x68: the driver rtc-ds1307 of the kernel uses this address/)
    assert.match(error.hint, /hwmon.*config\.txt.*echo 1-0068 > \/sys\/bus\/i2c\/drivers\/rtc-ds1307\/unbind/)
    return true
  })
  assert.deepEqual([world.asked, world.open], [[], 0])
  // another address of that bus, and the same address on another
  refuseHeld(join(root, 'i2c-1'), 0x69, root)
  refuseHeld(join(root, 'i2c-2'), 0x68, root)
})
