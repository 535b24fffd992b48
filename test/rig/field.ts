// The environment of a gateway with devices on every bus: devices of the test that change and send at fixed rates, and
// record what they did. Each can be unplugged and replugged. All inside the rig.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CanFrames, CanRaw, IsotpSocket } from '../../src/native/can'
import { I2cBus } from '../../src/native/i2c'
import { Advertiser, plugInAdapters, serviceDataOf, unplugAdapters } from '../lib/ble'
import { i2cStub } from '../lib/chips'
import { CountingSlave, firmware } from '../lib/field-devices'
import { root, sleep, until } from '../lib/gateway'
import { GpioSim } from '../lib/gpiosim'
import { type Plug, Ptys } from '../lib/ptys'
import { tool } from '../lib/rig'

export const DIR = '/run/everything'
export const CAN = 'vcan0'
export const DBC = join(DIR, 'engine.dbc')
const TICK_MS = 50
/** CAN ids of the board with the C firmware */
export const BOARD_IDS = { tx_id: '0x178', rx_id: '0x278' }
export const AIDS = { uart: 77, can: 78 }

export type Bus = 'can' | 'serial' | 'pins' | 'beacon'

/** The actions of the devices: values in the expected order. */
export class Sent {
  pulses = 0
  readonly door: number[] = [0]
  /** of the I2C chip, in kelvin */
  readonly degrees: number[] = []
  /** CAN frames; the n-th contains n */
  frames = 0
  /** of the Modbus slave; the n-th contains n */
  answers = 0
  readonly advertised: number[] = []
  readonly uart: number[] = []
  readonly isotp: number[] = []
}

export class Field {
  readonly sent = new Sent()
  readonly pins = new GpioSim('shed', 'shed-pins', ['pulses', 'door'])
  readonly #ptys = new Ptys()
  readonly #frames = new CanFrames(1)
  readonly #frame = new Uint8Array(8)
  #meter!: Plug
  #board!: Plug
  #i2c!: I2cBus
  #can!: CanRaw
  #isotp!: IsotpSocket
  #beacon!: Advertiser
  /** unplugged, or about to be */
  readonly #out = new Set<Bus>()
  #tick = 0
  #timer: NodeJS.Timeout | undefined
  #lastSecond = 0
  #busy: Promise<unknown> = Promise.resolve()

  /** resolves when everything that bus's devices sent was read; set by the test */
  settled: (bus: Bus) => Promise<unknown> = async () => undefined

  readonly meterPort = join(DIR, 'meter')
  readonly boardPort = join(DIR, 'board')
  i2cPath = ''

  /** Everything is plugged in; nothing changes yet. */
  async open(): Promise<void> {
    mkdirSync(DIR, { recursive: true })
    writeFileSync(DBC, `VERSION ""\nBO_ 291 Basics: 8 Engine\n SG_ Count : 0|32@1+ (1,0) [0|0] "" X\n`)
    tool('ip', 'link', 'add', CAN, 'type', 'vcan')
    this.plugCan()
    this.#meter = await this.#ptys.port(this.meterPort)
    this.#board = await this.#ptys.port(this.boardPort)
    this.#listenAsSlave()
    this.i2cPath = await i2cStub(0x68)
    this.#i2c = await I2cBus.open(this.i2cPath)
    await this.#warm(20)
    await this.plugBeacon()
  }

  /** Starts to change and to send. */
  run(): void {
    this.#timer = setInterval(() => this.#step(), TICK_MS)
  }

  /** Stops; packets already sent are in flight then. */
  async rest(): Promise<void> {
    clearInterval(this.#timer)
    await this.#busy
  }

  async close(): Promise<void> {
    await this.rest()
    this.#beacon?.close()
    await unplugAdapters()
    this.#can?.close()
    this.#isotp?.close()
    this.#i2c?.close()
    this.#ptys.close()
  }

  /** The devices of that bus continue: their receivers are listening again. */
  resume(bus: Bus): void {
    this.#out.delete(bus)
  }

  readonly plugCan = (): void => {
    tool('ip', 'link', 'set', CAN, 'up')
    this.#can = CanRaw.open(CAN)
    this.#isotp = IsotpSocket.open(CAN, { txId: 0x278, rxId: 0x178 })
  }

  readonly unplugCan = async (): Promise<void> => {
    await this.#silence('can')
    this.#can?.close()
    this.#isotp?.close()
    tool('ip', 'link', 'set', CAN, 'down')
  }

  readonly plugSerial = async (): Promise<void> => {
    await this.#meter.plug()
    await this.#board.plug()
  }

  readonly unplugSerial = async (): Promise<void> => {
    await this.#silence('serial')
    await this.#meter.unplug()
    await this.#board.unplug()
  }

  readonly plugPins = (): void => this.pins.plug()

  readonly unplugPins = async (): Promise<void> => {
    // a new chip's lines are low
    await until('the door is shut', () => this.sent.door.at(-1) === 0 && this.#tick % 2 === 0)
    await this.#silence('pins')
    this.pins.pull()
  }

  readonly plugBeacon = async (): Promise<void> => {
    await plugInAdapters(2)
    this.#beacon = await Advertiser.on(1)
  }

  readonly unplugBeacon = async (): Promise<void> => {
    await this.#silence('beacon')
    this.#beacon?.close()
    await unplugAdapters()
  }

  /** The last data sent is read before the plug is pulled. */
  async #silence(bus: Bus): Promise<void> {
    this.#out.add(bus)
    await sleep(500)
    await this.settled(bus)
  }

  #step(): void {
    const n = this.#tick++
    if (!this.#out.has('can')) this.#sendFrame()
    if (!this.#out.has('pins')) {
      this.pins.drive(0, n % 2 === 0 ? 1 : 0)
      if (n % 2 === 0) this.sent.pulses++
      if (n % 10 === 0) {
        const level = this.sent.door.at(-1) === 0 ? 1 : 0
        this.pins.drive(1, level)
        this.sent.door.push(level)
      }
    }
    if (n % 10 === 5) this.#busy = this.#warm(20 + (this.sent.degrees.length % 400) / 4)
    const second = Math.floor(Date.now() / 1000)
    if (second <= this.#lastSecond) return
    this.#lastSecond = second
    this.#advertise()
    this.#report(second)
  }

  #sendFrame(): void {
    const value = this.sent.frames + 1
    new DataView(this.#frame.buffer).setUint32(0, value, true)
    this.#frames.set(0, 0x123, this.#frame)
    if (this.#can.send(this.#frames, 0, 1) === 1) this.sent.frames = value
  }

  async #warm(celsius: number): Promise<void> {
    await this.#i2c.transfer(0x68, Uint8Array.of(0x11, Math.floor(celsius), (celsius % 1) * 256), null, 5000)
    this.sent.degrees.push(celsius + 273.15)
  }

  #advertise(): void {
    if (this.#out.has('beacon')) return
    const count = this.sent.advertised.length + 1
    const data = Buffer.alloc(6)
    data.writeUInt8(0x40)
    data.writeUInt8(0x3e, 1)
    data.writeUInt32LE(count, 2)
    this.#beacon.send(serviceDataOf(0xfcd2, data.toString('hex')))
    this.sent.advertised.push(count)
  }

  /** Boards with the C firmware report once a second, because their time is in seconds. */
  #report(second: number): void {
    if (!this.#out.has('serial')) {
      const value = this.sent.uart.length + 1
      this.#board.write(Buffer.concat([Buffer.of(2), firmware(AIDS.uart, 'U1', second, value), Buffer.of(3)]))
      this.sent.uart.push(value)
    }
    if (this.#out.has('can')) return
    const value = this.sent.isotp.length + 1
    const frame = firmware(AIDS.can, 'C1', second, value)
    if (this.#isotp.send(frame) === frame.length) this.sent.isotp.push(value)
  }

  #listenAsSlave(): void {
    const slave = new CountingSlave()
    this.#meter.onBytes = bytes => {
      for (const answer of slave.answers(bytes)) {
        this.sent.answers = slave.queries
        this.#meter.write(answer)
      }
    }
  }
}

/** Compiles the slave of libmodbus. Call it on this machine too: files written in the rig are lost. */
export function buildSlave(): string {
  const source = join(root, 'test/net/drivers/modbus-server.c')
  const stamp = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12)
  const path = join(root, '.build/tools', `modbus-server-${stamp}`)
  if (existsSync(path)) return path
  mkdirSync(join(root, '.build/tools'), { recursive: true })
  const fresh = `${path}.${process.pid}`
  execFileSync('cc', ['-O1', '-o', fresh, source, '-I/usr/include/modbus', '-lmodbus', '-lutil'])
  renameSync(fresh, path)
  return path
}

/** libmodbus as a slave over TCP: holding register n contains 3n. Returns a function that ends it. */
export async function startSlave(port: number): Promise<() => void> {
  const child = spawn(buildSlave(), ['tcp', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise(resolve => child.stdout.once('data', resolve))
  return () => child.kill('SIGKILL')
}
