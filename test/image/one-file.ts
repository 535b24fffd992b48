// The one file in a folder of its own, as a gateway with a source or a medium on each bus of the machine of arm-machine.ts. Runs inside it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { CanFrames, CanRaw, IsotpSocket } from '../../src/native/can'
import { TtyPort } from '../../src/native/tty'
import { CountingSlave, firmware } from '../lib/field-devices'
import { type LoggedFact, type LoggedSensor, Machine, sensorsOf, until } from '../lib/gateway'
import { INSIDE, MEASURED } from './arm-machine'

const MS = 300_000
const interval_ms = 2000
const KELVIN = 273.15
const PULSES = 4
const BAUD = { baudrate: 115_200, data_bits: 8, parity: 'none', stop_bits: 1, flow: 'none' } as const
const dir = '/run/gateway'
const dbc = `${dir}/engine.dbc`
const spi = '/dev/spidev9.0'
const [control, air, sentByRadio] = ['/run/radio.control', '/run/air', '/run/radio.log']
const line = (n: number): object => ({ chip: 'cp2112_gpio', line: n })
const radio = {
  ...{ spi, dio0_pin: line(5) },
  ...{ region: 'none', frequency_hz: 869_525_000, bandwidth_khz: 125, spreading_factor: 7 },
}

/** Sets a line of the machine from outside. */
const drive = (n: number, level: 0 | 1): void =>
  writeFileSync(join(INSIDE.pins, `sim_gpio${n}/pull`), level ? 'pull-up' : 'pull-down')
const level = (n: number): number => Number(readFileSync(join(INSIDE.pins, `sim_gpio${n}/value`), 'utf8'))

/** A command to the radio (test/rig/sx127x/control.c); its answer. */
const toRadio = (command: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(control, () => socket.write(`${command}\n`))
    socket.on('data', chunk => (answer += chunk))
    socket.once('error', reject).once('close', () => resolve(answer))
  })

export function oneFile(): void {
  const program = join(dir, 'alone/os-node.js')
  const slave = new CountingSlave()
  mkdirSync(air, { recursive: true })
  const model = spawn(
    INSIDE.radio,
    [...['spidev9.0', '-a', air, '-c', control, '-l', sentByRadio], ...['-0', join(INSIDE.pins, 'sim_gpio5/pull')]],
    { stdio: 'inherit' },
  )
  let gateway: Machine
  let board: TtyPort
  let meter: TtyPort
  let facts: LoggedFact[] = []

  /** The newest sensor `id` that is as `wanted`, with its fact. */
  const sensor = (
    id: string,
    wanted: (value: number | null, fact: LoggedFact) => boolean = () => true,
  ): Promise<LoggedSensor> =>
    until(
      `a reading of ${id}`,
      async () => {
        facts = await gateway.facts()
        for (const fact of facts.toReversed())
          for (const one of sensorsOf(fact)) if (one.id === id && wanted(one.value, fact)) return one
        throw new Error(
          facts
            .slice(-8)
            .map(fact => JSON.stringify(sensorsOf(fact)))
            .join('\n'),
        )
      },
      MS,
    )
  const near = (value: number) => (seen: number | null) => seen !== null && Math.abs(seen - value) < 0.02
  const seconds = (): number => Math.floor(Date.now() / 1000)

  before(async () => {
    rmSync(dir, { recursive: true, force: true })
    mkdirSync(join(dir, 'alone'), { recursive: true })
    copyFileSync(INSIDE.bundle, program)
    writeFileSync(dbc, `VERSION ""\nBO_ 291 Basics: 8 Engine\n SG_ Count : 0|32@1+ (1,0) [0|0] "" X\n`)
    await until('the radio', () => existsSync(spi) && existsSync(control), MS)
    await until('the adapter', () => existsSync('/sys/class/bluetooth/hci0'), MS)
    await until('the thermometer', () => existsSync(`/sys/bus/w1/devices/${MEASURED.thermometer}`), MS)
    board = await TtyPort.open('/dev/ttyS1', BAUD, MS)
    meter = await TtyPort.open('/dev/ttyS2', BAUD, MS)
    const bytes = Buffer.alloc(64)
    meter.watch(() => {
      for (const answer of slave.answers(bytes.subarray(0, readSync(meter.fd, bytes)))) writeSync(meter.fd, answer)
    })
    gateway = new Machine(dir, 'run', {
      device_id: 'GW',
      assigned_id: 9,
      gateway: {
        log: { commit_interval_ms: 200 },
        sources: [
          {
            ...{ name: 'pins', type: 'gpio', interval_ms, min_gap_ms: 0 },
            pins: [
              { ...line(0), name: 'pulses', mode: 'counter', edge: 'both' },
              { ...line(1), name: 'door', mode: 'edge' },
            ],
            outputs: [{ ...line(2), name: 'pump' }],
          },
          { name: 'climate', type: 'sht3x', bus: '/dev/i2c-0', interval_ms },
          { name: 'cellar', type: 'w1', interval_ms: 5000 },
          { name: 'engine', type: 'can', interface: 'vcan0', dbc, interval_ms },
          {
            ...{
              name: 'meter',
              type: 'modbus_rtu',
              port: '/dev/ttyAMA0',
              baudrate: BAUD.baudrate,
              slave: 3,
              interval_ms,
            },
            ...{ direction: 'kernel', timeout_ms: 5000, registers: [{ id: 'energy', address: 0, type: 'u32' }] },
          },
          {
            ...{ name: 'beacon', type: 'bthome', address: '00:aa:01:01:00:01', interval_ms },
            channels: { count: {} },
          },
        ],
        receivers: [
          { name: 'wire', medium: 'UART', port: '/dev/ttyS0', baudrate: BAUD.baudrate },
          { name: 'bus', medium: 'CAN', interface: 'vcan0', peers: [{ aid: 78, tx_id: '0x178', rx_id: '0x278' }] },
          { name: 'radio', medium: 'LoRa', ...radio },
        ],
        uplinks: [],
      },
      RESOURCES: { physical_status: { lora: true, uart: true, can: true }, physical_config: { lora: radio } },
    })
    gateway.program = program
    delete process.env.OS_NODE_ADDON_DIR
    await gateway.start([], undefined, true)
  })
  after(async () => {
    await gateway?.stop('SIGKILL')
    await board?.close()
    await meter?.close()
    model.kill('SIGKILL')
    await until('the radio is gone', () => !existsSync(spi), MS)
  })

  test('the addon is the one that the file carries', () => {
    assert.match(readdirSync(join(gateway.dataDir, 'native')).join(), /^os_node-[0-9a-f]{16}\.node$/)
  })

  test('GPIO: pulses are counted, an edge is reported, an output is set', async () => {
    const edges = async (): Promise<number> => (await gateway.ask('status')).links.pins.detail.edges
    await until('the lines are requested', async () => (await gateway.ask('gpio')).outputs[0]?.value === 0, MS)
    const before = await edges()
    for (let k = 1; k <= PULSES; k++) {
      drive(0, k % 2 === 1 ? 1 : 0)
      await until(`edge ${k}`, async () => (await edges()) === before + k, MS)
    }
    assert.equal((await sensor('pulses', value => value === PULSES)).status, 'OK')
    drive(1, 1)
    await sensor('door', value => value === 1)
    drive(1, 0)
    await sensor('door', value => value === 0)
    assert.equal(level(2), 0)
    await gateway.ask('gpio set', { name: 'pump', value: 1 })
    assert.equal(level(2), 1)
  })

  test('I2C: temperature and humidity of an SHT3x', async () => {
    await sensor('climate_temperature', near(MEASURED.celsius + KELVIN))
    await sensor('climate_humidity', near(MEASURED.humidity))
  })

  test('1-Wire: the temperature of a DS18B20', async () => {
    await sensor(`w1_${MEASURED.thermometer}`, near(MEASURED.cellar + KELVIN))
  })

  test('CAN: a signal of a frame, and a packet by ISO-TP', async () => {
    const can = CanRaw.open('vcan0')
    const frames = new CanFrames()
    frames.set(0, 0x123, Buffer.from('67120000deadbeef', 'hex'))
    assert.equal(can.send(frames, 0, 1), 1)
    await sensor('Count', value => value === 0x1267)
    can.close()
    const isotp = IsotpSocket.open('vcan0', { txId: 0x278, rxId: 0x178 })
    const frame = firmware(78, 'C1', seconds(), 301)
    assert.equal(isotp.send(frame), frame.length)
    await sensor('C1', (value, { medium }) => value === 301 && medium === 'CAN')
    isotp.close()
  })

  test('UART: a packet of a board', async () => {
    writeSync(board.fd, Buffer.concat([Buffer.of(2), firmware(77, 'U1', seconds(), 302), Buffer.of(3)]))
    await sensor('U1', (value, { medium }) => value === 302 && medium === 'UART')
  })

  test('RS485: a Modbus slave is queried, with the direction switched by the kernel', async () => {
    const first = (await sensor('energy')).value!
    await sensor('energy', value => value! > first)
    assert.ok(slave.queries > first)
  })

  test('Bluetooth: advertisements are heard', async () => {
    const first = (await sensor('beacon_count')).value!
    await sensor('beacon_count', value => value! > first)
  })

  test('LoRa: a packet from the air, and one into it', async () => {
    // a chip that sends does not hear
    const frame = firmware(79, 'L1', seconds(), 303)
    const repeating = setInterval(() => void toRadio(`hear ${frame.toString('hex')}`), 3000)
    await sensor('L1', (value, { medium }) => value === 303 && medium === 'LoRa').finally(() =>
      clearInterval(repeating),
    )
    await gateway.ask('transmit', { medium: 'LoRa', sensors: '[["hand","OK",7,"1"]]' })
    await until(
      'it is in the air',
      () => readFileSync(sentByRadio, 'utf8').includes(Buffer.from('hand').toString('hex')),
      MS,
    )
  })
}
