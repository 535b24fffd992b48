// Bluetooth on a virtual radio, for tests inside the rig: btvirt's adapters, a device that advertises bytes of the test, and one
// with a Nordic UART service, which is a Line here.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { HciSocket } from '../../drivers/bluetooth/hci-socket'
import type { Line, OpenableEvents } from '../../src/links/contracts'
import { root, until } from './gateway'

const execute = promisify(execFile)
let radio: ChildProcess | undefined

/** As in the build: the library uses the driver passed to it, instead of its own. */
function takeOurSocket(): void {
  const library = createRequire(join(root, 'package.json'))('@stoprocent/bluetooth-hci-socket') as {
    loadDriver(driver: unknown): unknown
  }
  const own = library.loadDriver
  library.loadDriver = driver => (typeof driver === 'string' ? own(driver) : driver)
}

const exists = (n: number): boolean => existsSync(`/sys/class/bluetooth/hci${n}`)

/** Creates adapters hci0 … on one radio channel. Their addresses are bleAddressOf(n). */
export async function plugInAdapters(count: number): Promise<void> {
  takeOurSocket()
  // the kernel reuses the name hci0 after the last socket of the old adapter is closed, which may be after its removal
  for (let tries = 0; tries < 10 && !exists(0); tries++) {
    radio?.kill('SIGKILL')
    radio = spawn('btvirt', [`-l${count}`], { stdio: 'ignore' })
    await until('an adapter', () => exists(0), 5000).catch(() => undefined)
  }
  for (let n = 0; n < count; n++) {
    await until(`hci${n} appears`, () => exists(n))
    await until(`hci${n} is up`, async () => (await execute('hciconfig', [`hci${n}`, 'up'])).stdout === '')
  }
}

/** Removes all adapters, like unplugging a USB adapter. */
export async function unplugAdapters(): Promise<void> {
  radio?.kill('SIGKILL')
  radio = undefined
  await until('hci0 is gone', () => !exists(0))
}

export const adapterAddress = (n: number): string => `00:aa:01:0${n}:00:0${n}`

const LE = 0x08
const ADVERTISE = 0x0a

/** A command socket of adapter `n`. */
function commandSocket(n: number): HciSocket {
  const socket = new HciSocket()
  socket.on('error', () => undefined) // the adapter is removed during a test
  socket.bindRaw(n)
  socket.start()
  return socket
}

function command(socket: HciSocket, code: number, parameters: number[]): void {
  const bytes = Buffer.from([1, 0, 0, parameters.length, ...parameters])
  bytes.writeUInt16LE((LE << 10) | code, 1)
  socket.write(bytes)
}

/** The virtual radio reports a device only once, when advertising starts: so restart it repeatedly. */
const againAndAgain = (socket: HciSocket): NodeJS.Timeout =>
  setInterval(() => {
    command(socket, ADVERTISE, [0])
    command(socket, ADVERTISE, [1])
  }, 200)

/** A device on adapter `n` that sends an advertisement ten times a second. */
export class Advertiser {
  readonly #socket: HciSocket
  #again: NodeJS.Timeout | undefined

  private constructor(socket: HciSocket) {
    this.#socket = socket
  }

  static async on(n: number): Promise<Advertiser> {
    const socket = commandSocket(n)
    const advertiser = new Advertiser(socket)
    // every 100 ms, not connectable, from the public address, on all channels
    command(socket, 0x06, [0xa0, 0, 0xa0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0])
    return advertiser
  }

  /** At most 31 bytes. */
  send(...structures: Buffer[]): void {
    const data = Buffer.concat([Buffer.of(2, 1, 6), ...structures])
    if (data.length > 31) throw new Error('an advertisement has 31 bytes')
    this.silence()
    command(this.#socket, 0x08, [data.length, ...data, ...Buffer.alloc(31 - data.length)])
    this.#again = againAndAgain(this.#socket)
  }

  silence(): void {
    clearInterval(this.#again)
    command(this.#socket, ADVERTISE, [0])
  }

  close(): void {
    clearInterval(this.#again)
    this.#socket.stop()
  }
}

const structure = (type: number, id: number, data: Buffer): Buffer =>
  Buffer.concat([Buffer.of(data.length + 3, type, id & 0xff, id >> 8), data])

export const serviceDataOf = (uuid: number, hex: string): Buffer => structure(0x16, uuid, Buffer.from(hex, 'hex'))
export const manufacturerDataOf = (company: number, hex: string): Buffer =>
  structure(0xff, company, Buffer.from(hex, 'hex'))

const NUS = ['6e400001b5a3f393e0a9e50e24dcca9e', '6e400002b5a3f393e0a9e50e24dcca9e', '6e400003b5a3f393e0a9e50e24dcca9e']

/** The used part of bleno. */
interface Bleno {
  on(event: string, listener: (...args: never[]) => void): void
  startAdvertising(name: string, services: string[], done: (error?: Error) => void): void
  stopAdvertising(done: () => void): void
  setServices(services: unknown[], done: (error?: Error) => void): void
  disconnect(handle?: unknown): void
  stop(): void
  mtu: number
}

/** A device on adapter `n` with a Nordic UART service. */
export class UartDevice implements Line {
  readonly name: string
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  /** sizes of the received writes */
  readonly pieces: number[] = []
  /** number of connections */
  connections = 0
  #handler: (chunk: Uint8Array) => void = () => undefined
  #update: ((data: Buffer) => void) | undefined
  #size = 20
  #bleno: Bleno | undefined
  #commands: HciSocket | undefined
  #again: NodeJS.Timeout | undefined
  readonly #n: number

  constructor(name: string, n: number) {
    this.name = name
    this.#n = n
  }

  get connected(): boolean {
    return this.#update !== undefined
  }

  onData(handler: (chunk: Uint8Array) => void): void {
    this.#handler = handler
  }

  async open(_events?: OpenableEvents): Promise<void> {
    // biome-ignore lint/suspicious/noExplicitAny: the package's types do not know its second form
    const package_ = (await import('@stoprocent/bleno' as string)) as any
    const { withBindings, PrimaryService, Characteristic } = package_.default
    const bleno: Bleno = withBindings('hci', { deviceId: this.#n, extended: false })
    this.#bleno = bleno
    const write = new Characteristic({
      uuid: NUS[1],
      properties: ['write', 'writeWithoutResponse'],
      onWriteRequest: (_of: unknown, data: Buffer, _at: number, _silent: boolean, done: (result: number) => void) => {
        this.pieces.push(data.length)
        this.counters.rx += data.length
        done(Characteristic.RESULT_SUCCESS)
        this.#handler(data)
      },
    })
    const notify = new Characteristic({
      uuid: NUS[2],
      properties: ['notify'],
      onSubscribe: (_of: unknown, size: number, update: (data: Buffer) => void) => {
        this.connections++
        this.#size = size
        this.#update = update
      },
      onUnsubscribe: () => {
        this.#update = undefined
      },
    })
    bleno.on('disconnect', () => {
      this.#update = undefined
    })
    await new Promise<void>(resolve => {
      bleno.on('stateChange', ((state: string) => {
        if (state === 'poweredOn') resolve()
      }) as never)
    })
    await new Promise<void>((resolve, reject) =>
      bleno.setServices([new PrimaryService({ uuid: NUS[0], characteristics: [write, notify] })], error =>
        error ? reject(error) : resolve(),
      ),
    )
    await this.advertise()
  }

  async advertise(): Promise<void> {
    await new Promise<void>((resolve, reject) =>
      this.#bleno!.startAdvertising(this.name, [NUS[0]!], error => (error ? reject(error) : resolve())),
    )
    this.#commands ??= commandSocket(this.#n)
    this.#again = againAndAgain(this.#commands)
  }

  /** Closes the connection; continues advertising. */
  disconnect(): void {
    this.#bleno?.disconnect()
  }

  async close(): Promise<void> {
    clearInterval(this.#again)
    this.#commands?.stop()
    this.#bleno?.stop()
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#update) throw new Error('nobody is connected')
    for (let at = 0; at < bytes.length; at += this.#size) this.#update(Buffer.from(bytes.subarray(at, at + this.#size)))
    this.counters.tx += bytes.length
  }
}
